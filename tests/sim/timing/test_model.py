"""Models of time take the same arguments, refuse the same and report alike."""

import numpy as np
import pytest

from multitree import LinkModel, ScheduleError, build, exact, fat_tree, mesh, torus
from multitree.sim.analytic.engine import analytic

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
    with pytest.raises(error, match=says):
        model(schedule, *given, **modes)


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
