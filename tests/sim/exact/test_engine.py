"""The exact engine: rows that the RTL gave, and what it refuses."""

import json
from dataclasses import replace

import numpy as np
import pytest

from multitree import DeviceError, LinkModel, Topology, build, exact, implicit_symmetric
from multitree.sim.exact import library
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError, TopologyError
from multitree.topology.families.direct import fully_connected, mesh, torus
from tests.benches import bench_module
from tests.emulation import needs_rtl
from tests.refusals import refuses
from tests.sim.exact.record import RECORDED
from tests.topology.graphs import by_hand, star

bench = bench_module("exact_vs_rtl")
# What RTL gave, by kind; the seeds of one are as many apart as there are kinds.
RECORDS = json.loads(RECORDED.read_text())
SLOW = LinkModel(memory_read_cycles=2000)
KINDS, RARE = ([kind.name for kind in kinds] for kinds in (bench.KINDS, bench.RARE))
GIVEN = {
    first + place + len(kinds) * number: digest
    for first, kinds in ((0, KINDS), (bench.RARE_SEED, RARE))
    for place, kind in enumerate(kinds)
    for number, digest in enumerate(RECORDS.get(kind, ()))
}


def found(case, **options):
    modes = {"lockstep": case.lockstep, "start": case.skews} | options
    return exact(case.schedule, case.num_flits, case.model, **modes)


def seeds_of(kind):
    return [seed for seed in GIVEN if bench.kind_of(seed).name == kind]


def check(seeds):
    for seed in seeds:
        assert bench.digest_of(found(bench.draw(seed))) == GIVEN[seed], f"--only {seed}"


@pytest.mark.every_set
@pytest.mark.parametrize("kind", [*KINDS, *RARE])
def test_all_cycles_are_those_that_the_rtl_gave(kind):
    assert seeds_of(kind)
    check(seeds_of(kind)[:2])


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("kind", KINDS)
def test_all_cycles_of_more_cases_are_those_that_the_rtl_gave(kind):
    assert len(seeds_of(kind)) >= 6
    check(seeds_of(kind)[2:])


@needs_rtl
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "forwarding",
        *(pytest.param(kind, marks=pytest.mark.long) for kind in ("private", "switches")),
    ],
)
def test_all_cycles_are_those_of_the_rtl(kind):
    rtl, mine, is_right = bench.compare(bench.draw(seeds_of(kind)[-1]))
    assert is_right and not any(bench.differences(rtl, mine).values())


@needs_rtl
@pytest.mark.long
@pytest.mark.every_set
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_recorded_is_what_the_rtl_gives(kind):
    # A sixth of them: `python -m tests.sim.exact.record` runs all.
    for seed in seeds_of(kind)[::6]:
        outcome = bench.run_once(seed)
        assert outcome.exact, outcome.text
        assert outcome.digest == GIVEN[seed]


def test_another_trace_is_not_taken_for_the_same():
    case = bench.draw(0)
    trace = found(case)
    later = replace(trace, arrived=trace.arrived + (trace.arrived == trace.arrived.max()))
    assert bench.digest_of(later) != bench.digest_of(trace)
    assert bench.differences(later, trace)["arrived"] == 1


@pytest.mark.slow
def test_blocks_that_sleep_do_what_those_do_that_never_sleep(monkeypatch):
    cases = [bench.draw(seed) for seed in range(len(KINDS))]
    slept = [bench.digest_of(found(case)) for case in cases]
    monkeypatch.setattr(library, "_FLAGS", [*library._FLAGS, "-DMT_AWAKE"])
    library._library.cache_clear()
    try:
        assert [bench.digest_of(found(case)) for case in cases] == slept
    finally:
        library._library.cache_clear()


def test_cycle_0_is_the_first_start():
    schedule = build(mesh(2, 3), "multitree")
    starts = [7, 0, 90, 3, 3, 12]
    one, later = (exact(schedule, 50, start=[s + by for s in starts]) for by in (0, 1000))
    assert one.start.tolist() == starts
    assert bench.differences(one, later) == dict.fromkeys(bench.differences(one, one), 0)


def test_a_rank_that_starts_late_holds_up_who_waits_for_it():
    schedule = build(mesh(2, 3), "multitree")
    together = exact(schedule, 50)
    late = exact(schedule, 50, start=[0, 5000, 0, 0, 0, 0])
    assert late.cycles > together.cycles + 4000
    assert (late.sent[0][schedule.src == 1] >= 5000).all()


def test_links_carry_each_chunk_once_per_wave():
    schedule = build(mesh(3, 3), "forest")
    assert schedule.num_waves > 1
    trace = exact(schedule, schedule.num_waves * 24)
    chunks = np.diff(schedule.chunks(trace.num_flits))[schedule.flow] * schedule.num_waves
    links = np.bincount(schedule.route_links, chunks, schedule.topology.num_links)
    assert trace.link_flits.tolist() == links.astype(int).tolist()


def test_an_empty_buffer_takes_time_too():
    trace = exact(build(torus(2, 2), "multitree"), 0)
    assert trace.cycles > 0
    assert not trace.link_flits.any()


def test_switches_refuse_what_interfaces_on_shared_links_lack():
    schedule = build(torus(3, 3), "double_tree")
    for model, message in (
        (LinkModel(dependency="submessage"), "dependency must be chunk"),
        (LinkModel(flow_control="packet"), "flow_control must be message"),
        (LinkModel(forward_flits=32), "forward_flits must be 0"),
    ):
        refuses(ScheduleError, message, exact, schedule, 50, model)


def test_what_no_interface_holds_is_refused():
    refuses(TopologyError, "a rank has 9 links", exact, build(fully_connected(10), "multitree"), 50)
    waves = build(mesh(3, 3), "forest")
    refuses(ScheduleError, "lockstep", exact, waves, 50 * waves.num_waves, lockstep=True)
    one_way = Topology("one way", 3, 0, [(0, 1), (1, 2), (2, 0)], 16.0, 8.0)
    schedule = by_hand(one_way, [(0, 1, 0, 0, 1), (1, 1, 0, 1, 2)], "broadcast", 0)
    refuses(TopologyError, "link 0 has no reverse link", exact, schedule, 50)


def test_heads_on_shared_links_have_room_for_no_more():
    spread = by_hand(star(3), [(0, Op.GATHER, 0, 0, rank) for rank in (1, 2)], "broadcast", 0)
    refuses(ScheduleError, "flits of a chunk must be at most 16777215, not", exact, spread, 1 << 24)


def test_one_tree_is_no_schedule():
    with pytest.raises(TypeError, match="Schedule must be of class Schedule, not ImplicitSchedule"):
        exact(implicit_symmetric(torus(4, 4)), 16)


def test_part_of_a_flit_is_no_number_of_flits():
    with pytest.raises(TypeError, match=r"Number of flits must be an integer, not 4\.5"):
        exact(build(torus(2, 2), "multitree"), 4.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_flits": -1}, "Number of flits must be at least 0, not -1"),
        ({"start": [0, 1]}, "Start skews must be 4 whole numbers"),
        ({"start": [0, 1, 2, -3]}, "Start skews must be 4 whole numbers"),
        ({"start": [0, 1, 2, 1.5]}, "Start skews must be 4 whole numbers"),
        ({"start": "0123"}, "Start skews must be 4 whole numbers"),
        ({"start": [0, 1, 2, 2**32]}, r"in 0..4294967295, not \[0, 1, 2, 4294967296\]"),
        ({"link_model": SLOW}, "within the 1024 cycles that .* queues for, .* not 2000 and 4"),
    ],
)
def test_figures_out_of_range_are_refused(options, message):
    given = {"schedule": build(torus(2, 2), "multitree"), "num_flits": 16} | options
    refuses(ValueError, message, exact, **given)


def test_without_a_compiler_it_says_so(monkeypatch):
    library._library.cache_clear()
    monkeypatch.setenv("PATH", "")
    try:
        with pytest.raises(DeviceError, match=r"'exact' cannot run here: .*g\+\+.*'analytic'"):
            exact(build(torus(2, 2), "multitree"), 16)
    finally:
        library._library.cache_clear()
