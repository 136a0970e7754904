"""Times of many waves from few, and of all trees from one."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import LinkModel, ScheduleError, estimate, parse_topology, torus
from multitree.sim.analytic import engine
from multitree.sim.analytic.engine import analytic, timed_in_waves
from multitree.sim.timing.model import Times
from multitree.topology.algorithms.build import build_compact
from multitree.topology.packing.forest import build_forest
from tests.refusals import refuses

MODEL = LinkModel(dependency="submessage")


@pytest.mark.slow
@pytest.mark.parametrize(("long_rows", "tolerance"), [(engine.LONG_ROWS, 1e-3), (0, 2e-3)])
@pytest.mark.parametrize("spec", ["mesh:4x4", "torus:4x4", "ring:6"])
def test_times_are_those_of_all_waves_timed(spec, long_rows, tolerance, monkeypatch):
    """As waves of few rows are timed, and as those of many are."""
    topology, num_flits = parse_topology(spec), 1 << 21
    schedule = build_forest(topology, cost_model=MODEL.cost_model(topology, num_flits))
    assert schedule.num_waves > 100
    monkeypatch.setattr(engine, "LONG_ROWS", long_rows)
    few = analytic(schedule, num_flits, MODEL)
    monkeypatch.setattr(engine, "LEAST_WAVES", 10_000)
    full = analytic(schedule, num_flits, MODEL)
    assert abs(few.cycles / full.cycles - 1) < tolerance
    for times in ("sent", "arrived"):
        off = np.abs(getattr(few, times) - getattr(full, times))
        assert off.max() < 2 * tolerance * full.cycles
    assert (few.link_flits == full.link_flits).all()


@pytest.mark.parametrize("slow_gbytes_per_s", [1.6, 6.4])
def test_waves_are_not_steady_before_the_buffer_of_a_slow_link_is_full(slow_gbytes_per_s):
    speeds = np.array([16.0, slow_gbytes_per_s])
    topology = replace(parse_topology("ring:2"), bandwidth_gbytes_per_s=speeds)
    schedule, num_flits = build_forest(topology), 1200
    chunk_flits = schedule.padded(num_flits) / schedule.num_waves / schedule.num_flows
    cycles = analytic(schedule, num_flits, LinkModel()).cycles
    assert cycles > schedule.num_waves * chunk_flits * 16 / slow_gbytes_per_s


@pytest.mark.parametrize(("later_interval", "is_steady"), [(1001, True), (1003, False)])
def test_waves_are_steady_where_intervals_differ_by_two_in_a_thousand(later_interval, is_steady):
    schedule = replace(build_forest(parse_topology("ring:2")), num_waves=1000)
    tried = []

    def engine(written_out, num_flits, idle):
        """Waves at one interval, up to the sixth before the middle of those timed first."""
        wave = written_out.flow // schedule.num_flows
        tried.append(wave.max() + 1)
        change = tried[0] // 2 - tried[0] // 6
        sent = 1000 * wave + (later_interval - 1000) * np.maximum(wave - change, 0)
        return Times(sent, sent + 1, sent[-1:])

    timed_in_waves(schedule, 0, MODEL, engine)
    assert tried == [tried[0], 2 * tried[0]][: 2 - is_steady]


def test_a_trace_has_every_wave_after_the_one_before():
    topology, num_flits = parse_topology("mesh:3x3"), 1 << 24
    schedule = build_forest(topology, cost_model=MODEL.cost_model(topology, num_flits))
    trace = analytic(schedule, num_flits, MODEL)
    assert trace.sent.shape == (schedule.num_waves, schedule.num_transfers)
    assert (np.diff(trace.sent, axis=0) > 0).all() and (trace.arrived > trace.sent).all()
    assert trace.done.max() > trace.arrived.max()


def test_all_flits_of_all_waves_go_over_the_links():
    topology, num_flits = parse_topology("mesh:3x3"), 1 << 20
    schedule = build_forest(topology, cost_model=MODEL.cost_model(topology, num_flits))
    flits = analytic(schedule, num_flits, MODEL).link_flits.sum()
    assert flits == 2 * (topology.num_ranks - 1) * schedule.padded(num_flits)


MODELS = [
    LinkModel(),
    LinkModel(dependency="submessage"),
    LinkModel(dependency="submessage", flow_control="packet", forward_flits=512),
]


@pytest.mark.parametrize("spec", ["ring:8", "torus:4x4", "torus:8x8", "hypercube:4"])
@pytest.mark.parametrize("model", MODELS)
def test_a_tree_takes_what_all_of_them_take_but_for_the_order_of_rows(spec, model):
    implicit = build_compact(parse_topology(spec), "symmetric")
    full, num_ranks = implicit.schedule(), implicit.topology.num_ranks
    for chunk in (1, 300):
        found, wanted = (analytic(each, chunk * num_ranks, model) for each in (implicit, full))
        assert (found.engine, wanted.engine) == ("translated", "analytic")
        # Ranks read rows of a step in different orders, of some cycles each.
        assert abs(found.cycles / wanted.cycles - 1) <= 0.003
        assert found.link_flits.tolist() == wanted.link_flits.tolist()
        assert set(found.done.tolist()) == {found.cycles}


def test_trees_are_timed_where_no_schedule_is_written_out():
    implicit = build_compact(torus(32, 32), "symmetric")
    found = analytic(implicit, 1024)
    assert found.sent.shape == (1, implicit.tree.num_transfers)
    # A step is at least a link's latency and a hop through memory.
    assert found.cycles > 2 * implicit.tree.steps_all_gather * 10
    assert (np.diff(found.sent[0][np.argsort(implicit.tree.step, kind="stable")]) < 2000).all()


@pytest.mark.parametrize(
    ("num_flits", "modes", "said"),
    [
        (100, {}, "must be a multiple of 16, so that chunks are equal, not 100"),
        (160, {"start": [0] * 15 + [1]}, "must start at once"),
        (160, {"lockstep": True}, "lockstep must be off in a translated schedule"),
    ],
)
def test_what_is_not_the_same_for_all_ranks_is_refused(num_flits, modes, said):
    implicit = build_compact(torus(4, 4), "symmetric")
    refuses(ScheduleError, said, analytic, implicit, num_flits, **modes)


def test_a_common_start_is_no_skew():
    implicit = build_compact(torus(4, 4), "symmetric")
    assert analytic(implicit, 160, start=[7] * 16).cycles == analytic(implicit, 160).cycles


def test_an_estimate_says_that_one_tree_was_timed():
    implicit = build_compact(torus(4, 4), "symmetric")
    found, full = (estimate(each, 4096) for each in (implicit, implicit.schedule()))
    assert found.translated and not full.translated
    assert found.cycles == pytest.approx(full.cycles, rel=0.003)
    refuses(ScheduleError, "chunks are equal", estimate, implicit, 4097)
