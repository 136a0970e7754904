"""How far the analytic engine is off the exact one, and so off the RTL."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import LinkModel, build, exact, parse_topology
from multitree.sim.analytic.engine import analytic
from multitree.sim.native_build import why_no_compiler
from tests.benches import bench_module

bench = bench_module("analytic_vs_exact")
needs_exact = pytest.mark.skipif(why_no_compiler() is not None, reason=str(why_no_compiler()))
# Seeds of random cases, by what they are, and the percent of the cycles that these may be off.
SAMPLES = [
    ("private links", 1.0, [9, 18, 27, 36, 45, 54, 90, 261]),
    ("small buffers", 1.5, [1, 10, 19, 37, 46, 64]),
    ("waves", 2.0, [11, 29, 101]),
    ("forwarding", 1.0, [3, 12, 21, 30]),
    ("forwarding, small buffers", 1.0, [4, 13, 22, 49]),
    ("forwarding, waves", 2.0, [41]),
    ("switches", 2.0, [15, 51, 69, 87, 141, 285]),
    ("attached routers", 2.0, [8, 17, 62]),
]
# Where waves meet forwarding, or two classes a link.
LOOSE_PERCENT = {"rings below, waves": 40.0, "some ranks, two classes": 25.0}
POINTS = [
    (1.0, bench.Point("torus:4x4", "multitree", "4")),
    (1.0, bench.Point("torus:4x4", "multitree", "64KiB", 100, "submessage")),
    (1.0, bench.Point("mesh:4x4", "multitree", "4KiB", 12, "submessage", "packet", lockstep=True)),
    (1.0, bench.Point("torus:4x4", "multitree", "64KiB", 500, "submessage", "message", 512)),
    (1.0, bench.Point("full:8", "multitree", "4KiB", 12, link_gbytes_per_s=1.0)),
    (1.0, bench.Point("full:8", "multitree", "64KiB", 12, "submessage", link_gbytes_per_s=4.0)),
    (
        1.0,
        bench.Point(
            "torus:3x3", "multitree", "64KiB", 12, "submessage", "message", 512, False, 4.0
        ),
    ),
    (2.0, bench.Point("fat_tree:4x4", "multitree", "64KiB", 100, lockstep=True)),
    (2.0, bench.Point("dgx2", "halving_doubling", "4KiB")),
]


@needs_exact
@pytest.mark.parametrize(("percent", "seed"), [(p, s) for _, p, seeds in SAMPLES for s in seeds])
def test_random_cases_are_off_by_no_more_than_is_documented(percent, seed):
    found = bench.of_seed(seed)
    assert 100 * found.share <= percent, found


RARELY = {
    *("rings below memory", "tto", "flits of 8 bytes", "flits of 32 bytes", "flits of 64 bytes"),
    *("another clock", "no flits", "unequal links", "parallel links", "gaps of ports"),
    *("relabelled", "without links", "among ranks", "others forwarding", "two classes on a link"),
}


def features_of(case):
    """What of `RARELY` a case has."""
    schedule, model, topology = case.schedule, case.model, case.schedule.topology
    both_ends = np.unique(topology.links, axis=0, return_counts=True)[1]
    classes = np.unique(np.stack([schedule.route_links, schedule.route_classes]), axis=1)[0]
    memory_cycles = model.memory_read_cycles + model.memory_write_cycles
    holds = {
        "rings below memory": 0 < model.forward_flits < memory_cycles,
        "another clock": model.clock_ghz != 1,
        "no flits": case.num_flits == 0,
        "unequal links": min(map(np.ptp, (topology.bandwidth_gbytes_per_s, topology.latency_ns))),
        "parallel links": both_ends.max() > 1,
        "gaps of ports": (topology.num_ports > topology.degree).any(),
        "two classes on a link": len(set(classes.tolist())) < len(classes),
    }
    named = {feature for feature in RARELY if feature in topology.name}
    said = {schedule.algorithm, f"flits of {model.flit_bytes} bytes", *named}
    return said | {feature for feature, there in holds.items() if there}


def test_rare_cases_have_all_that_others_seldom_have():
    found = [features_of(bench.draw(bench.RARE_SEED + number)) for number in range(60)]
    assert set().union(*found) >= RARELY
    # Each one in company of others.
    assert all(max(len(RARELY & each) for each in found if one in each) > 3 for one in RARELY)


@needs_exact
@pytest.mark.parametrize("number", range(24))
def test_rare_cases_are_timed_by_both_engines_over_the_same_links(number):
    case = bench.draw(bench.RARE_SEED + number)
    modes = {"lockstep": case.lockstep, "start": case.skews}
    one, other = (
        engine(case.schedule, case.num_flits, case.model, **modes) for engine in (analytic, exact)
    )
    assert (one.link_flits == other.link_flits).all()
    hops = np.diff(case.schedule.route_offsets)
    for trace in (one, other):
        assert (trace.arrived - trace.sent >= hops).all()
        assert (trace.done >= trace.start).all()
    assert 100 * abs(one.cycles / other.cycles - 1) <= LOOSE_PERCENT.get(case.kind, 2.0), case.kind


@needs_exact
@pytest.mark.parametrize(("percent", "point"), POINTS, ids=str)
def test_ordinary_cases_are_off_by_no_more_than_is_documented(percent, point):
    found = bench.of_point(point)
    assert 100 * found.share <= percent, found


PARTS = LinkModel(dependency="submessage")
CLOSE = [
    ("ring:2", LinkModel(), (0, 1, 40, 333), 0),
    ("ring:2", PARTS, (0, 1, 40), 0),
    ("ring:2", replace(PARTS, forward_flits=64), (0, 1, 40, 333), 1),
    ("ring:4", LinkModel(), (0, 1, 40, 333), 0),
    ("ring:4", replace(PARTS, flow_control="packet"), (0, 1), 0),
    ("ring:4", replace(PARTS, forward_flits=64), (0, 1, 40, 333), 2),
]


@needs_exact
@pytest.mark.every_set
@pytest.mark.parametrize(("spec", "model", "chunks", "most_cycles"), CLOSE)
def test_where_no_messages_meet_each_arrives_in_the_very_cycle_or_nearly(
    spec, model, chunks, most_cycles
):
    schedule = build(parse_topology(spec), "ring")
    for num_flits in (chunk * schedule.num_flows for chunk in chunks):
        found, right = (engine(schedule, num_flits, model) for engine in (analytic, exact))
        assert np.abs(found.arrived - right.arrived).max() <= most_cycles


@needs_exact
def test_classes_are_summed_up_and_all_with_them():
    found = [bench.Difference("random/a", "x", 100, -3), bench.Difference("random/b", "y", 50, 1)]
    rows = {row["class"]: row for row in bench.summary(found)}
    assert set(rows) == {"random/all", "random/a", "random/b"}
    assert rows["random/all"]["most_share"] == 0.03 and rows["random/all"]["mean_share"] == 0.025
    assert rows["random/all"]["most_cycles"] == 3 and rows["random/b"]["mean_cycles"] == 1


def test_the_grid_has_every_mode_and_no_case_twice():
    points = list(bench.grid())
    assert len(set(points)) == len(points)
    assert {(each.dependency, each.flow_control) for each in points} == {
        ("chunk", "message"),
        ("submessage", "message"),
        ("submessage", "packet"),
    }
    assert {each.memory_cycles for each in points} == {12, 100, 500}
    assert {each.size for each in points} >= {"4", "16MiB"}
    assert any(each.lockstep for each in points) and any(each.forward_flits for each in points)


@needs_exact
@pytest.mark.parametrize(
    ("spec", "collective", "root"),
    [
        ("full:4", "all_gather", None),
        ("fat_tree:2x2", "all_reduce", None),
        ("ring:5", "broadcast", 0),
    ],
)
def test_in_lockstep_only_ranks_that_send_nothing_in_the_last_step_wait_for_its_end(
    spec, collective, root
):
    # One long link, which makes steps long, but over which little goes.
    topology = parse_topology(spec)
    latency = np.where(np.arange(topology.num_links) == 0, 700.0, 20.0)
    schedule = build(replace(topology, latency_ns=latency), "multitree", collective, root)
    one, other = (
        engine(schedule, 30, LinkModel(), lockstep=True).done for engine in (analytic, exact)
    )
    assert np.abs(one - other).max() <= 4, (one, other)


def test_ranks_that_start_late_are_timed_from_the_first_start():
    case = bench.draw(72)
    one, later = (
        analytic(case.schedule, case.num_flits, case.model, start=[s + by for s in case.skews])
        for by in (0, 1000)
    )
    assert one.start.tolist() == later.start.tolist() and one.start.min() == 0
    assert one.cycles == later.cycles and (one.sent == later.sent).all()
