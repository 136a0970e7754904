"""A trace is checked and frozen; models of time report alike in traces."""

import numpy as np
import pytest

from multitree import LinkModel, ScheduleError, Trace, build, exact, fat_tree, mesh, ring, torus
from multitree.sim.analytic.engine import analytic
from multitree.topology.algorithms.multitree import build_multitree
from tests.refusals import refuses

SCHEDULE = build_multitree(ring(2))


def trace(**changes):
    fields = {
        "schedule": SCHEDULE,
        "engine": "rtl",
        "num_flits": 8,
        "sent": [[0, 1, 20, 22]],
        "arrived": [[10, 12, 30, 34]],
        "start": [0, 3],
        "done": [36, 40],
        "link_flits": [8, 8],
    }
    return Trace(
        **{k: np.array(v) if isinstance(v, list) else v for k, v in (fields | changes).items()}
    )


def test_cycles_run_from_the_first_start_to_the_last_done():
    assert trace().cycles == 40
    assert trace(start=[5, 3]).cycles == 37


def test_utilization_is_payload_flits_over_links_times_cycles():
    assert trace().link_utilization == 16 / (2 * 40)
    assert trace(link_flits=[8, 20]).busiest_link_utilization == 20 / 40
    idle = trace(done=[0, 3], start=[0, 3], sent=[[0] * 4], arrived=[[0] * 4])
    assert idle.cycles == 3


def test_a_step_spans_from_its_first_message_sent_to_its_last_arrived():
    assert SCHEDULE.step.tolist() == [0, 0, 1, 1]
    assert trace().step_spans().tolist() == [[0, 12], [20, 34]]


def test_the_arrays_are_copies_that_nobody_can_change():
    sent = np.array([[0, 1, 20, 22]])
    frozen = trace(sent=sent)
    sent[0, 0] = 5
    assert frozen.sent[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        frozen.sent[0, 0] = 5


def test_an_array_that_is_read_only_is_copied_only_where_another_one_could_change_it():
    sent = np.array([[0, 1, 20, 22]])
    view = sent.view()
    view.setflags(write=False)
    taken = trace(sent=view)
    sent[0, 0] = 5
    assert taken.sent[0, 0] == 0
    sent.setflags(write=False)
    assert trace(sent=sent).sent is sent


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"sent": [[0, 1, 2]]}, r"sent must be of shape \(1, 4\), not \(1, 3\)"),
        ({"arrived": [0, 1, 2, 3]}, r"arrived must be of shape \(1, 4\)"),
        ({"done": [1]}, r"done must be of shape \(2,\)"),
        ({"link_flits": [1, 2, 3]}, r"link_flits must be of shape \(2,\)"),
        ({"sent": [[0, 13, 20, 22]]}, "arrived must be after sent, not before it at transfer 1"),
        ({"done": [36, 2]}, "done must be after start, not before it at rank 1"),
    ],
)
def test_what_does_not_fit_the_schedule_is_refused(changes, text):
    refuses(ValueError, text, trace, **changes)


MODELS = [analytic, exact]
NETWORKS = [(torus(2, 2), "multitree"), (fat_tree(2, 2), "ring"), (mesh(2, 3), "forest")]
REFUSED = [
    ((1.5,), {}, TypeError, "Number of flits must be an integer, not 1.5"),
    ((-1,), {}, ValueError, "Number of flits must be at least 0, not -1"),
    ((8,), {"start": [0, 1]}, ValueError, "Start skews must be 6 whole numbers"),
    ((8,), {"lockstep": True}, ScheduleError, "Waves must be one in lockstep, not 32"),
]


@pytest.mark.every_set
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("given", "modes", "error", "says"), REFUSED)
def test_what_no_model_times_is_refused_by_all_in_the_same_words(model, given, modes, error, says):
    schedule = build(mesh(2, 3), "forest")
    refuses(error, says, model, schedule, *given, **modes)


@pytest.mark.every_set
@pytest.mark.parametrize(("topology", "algorithm"), NETWORKS)
def test_reports_differ_in_cycles_only(topology, algorithm):
    schedule, called = build(topology, algorithm), []
    start = [5 + rank for rank in range(topology.num_ranks)]
    found = [
        model(schedule, 100, LinkModel(), start=start, progress=called.append) for model in MODELS
    ]
    assert [trace.engine for trace in found] == ["analytic", "exact"]
    for trace in found:
        assert trace.schedule is schedule
        assert trace.num_flits == 100
        assert trace.sent.shape == (schedule.num_waves, schedule.num_transfers)
        assert trace.start.tolist() == list(range(topology.num_ranks))
    np.testing.assert_array_equal(*(trace.link_flits for trace in found))
    assert found[0].cycles == pytest.approx(found[1].cycles, rel=0.25)
