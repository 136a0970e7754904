"""Times of many waves from few: as if all had been timed."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import LinkModel, parse_topology
from multitree.sim.analytic import engine
from multitree.sim.analytic.engine import analytic
from multitree.topology.packing.forest import build_forest

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
