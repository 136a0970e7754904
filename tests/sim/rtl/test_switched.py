"""Networks with switches in RTL, between ranks or attached to them: every bit."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from multitree import DeviceError, Topology, among, build, dragonfly, parse_topology, verify
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.driver.table import compile_table
from multitree.nic.layouts import head_layout
from multitree.sim.emulator.accesses import await_links
from multitree.sim.faults.injection import FlipBit, FlitField
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.timing.sizing import config_for, least_sizes
from multitree.topology.lowering import lowered, with_header_only_phase
from tests.sim.emulated import SWITCHED, checked, checked_each, normals, switched_session

CASES = [
    *(("fat_tree:2x2", "multitree"), ("bigraph:2x4", "multitree"), ("bigraph:2x4", "hdrm")),
    *(("bigraph:2x4", "ring"), ("ring:8", "swing"), ("ring:5", "double_tree")),
    *(("mesh:6", "halving_doubling"), ("mesh:5", "ring"), ("torus:2x2", "double_tree")),
    *(("mixed", "halving_doubling"), ("dragonfly:2x1x2", "multitree")),
    *(("some of ring:8", "double_tree"), ("what is left of ring:5", "double_tree")),
]
# Ranks 0-1 and 3-4 are linked with each other, ranks 1, 2 and 3 with a switch.
MIXED = [(0, 1), (1, 5), (2, 5), (3, 5), (3, 4)]
ROOTED = [("broadcast", 1), ("reduce", 2)]


@cache
def schedule_of(spec, algorithm):
    if spec == "mixed":
        links = MIXED + [(there, here) for here, there in MIXED]
        topology = Topology("mixed", 5, 1, links, 16.0, 150.0)
    elif spec == "some of ring:8":
        topology = among(parse_topology("ring:8"), [0, 1, 4, 6, 7], forwarding=True)
    elif spec == "what is left of ring:5":
        topology = parse_topology("ring:5").without(links=[3])
    else:
        topology = parse_topology(spec)
    return build(replace(topology, latency_ns=np.full(topology.num_links, 20.0)), algorithm)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(("spec", "algorithm"), CASES)
def test_collectives_back_to_back_are_exact_however_far_apart_ranks_start(spec, algorithm):
    schedule, rng = schedule_of(spec, algorithm), np.random.default_rng(7)
    with switched_session(lowered(schedule).topology) as session:
        for most in (0, 3000):
            skews = rng.integers(most + 1, size=schedule.topology.num_ranks).tolist()
            buffers = normals(schedule, 330, 4)
            for trace in checked(session, schedule, buffers, start_skew_cycles=skews):
                assert (trace.arrived > trace.sent).all()
                assert trace.schedule is schedule


@pytest.mark.slow
def test_flows_without_a_flit_travel_as_heads():
    schedule = schedule_of("fat_tree:2x2", "multitree")
    buffer = np.arange(12, dtype=np.float32).reshape(4, 3)
    with switched_session(schedule.topology) as session:
        (trace,) = checked(session, schedule, [buffer])
    assert (trace.arrived > trace.sent).all()


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "algorithm"), [CASES[2], CASES[4]])
def test_every_link_of_every_route_carries_its_payload(spec, algorithm):
    schedule = schedule_of(spec, algorithm)
    topology = schedule.topology
    buffer = np.ones((topology.num_ranks, schedule.num_flows * 4 * 3), np.float32)
    with switched_session(lowered(schedule).topology) as session:
        (trace,) = checked(session, schedule, [buffer])
    wanted = np.bincount(schedule.route_links, minlength=topology.num_links) * 3
    assert trace.link_flits.tolist() == wanted.tolist()


@pytest.mark.parametrize("spec", ["fat_tree:4x4", "bigraph:4x8"])
def test_interfaces_of_the_least_sizes_hold_every_table(spec):
    schedule = build(parse_topology(spec), "multitree")
    sizes = least_sizes(schedule, 1000)
    config = config_for(schedule.topology, SWITCHED, **sizes)
    ranks = range(schedule.topology.num_ranks)
    tables = [compile_table(schedule, rank, 1000, config) for rank in ranks]
    children = [(table.children != NO_PORT).sum(axis=1).max() for table in tables]
    assert sizes["max_children"] == max(children) <= config.max_children
    assert sizes["num_rows"] == max(table.num_rows for table in tables)
    assert sizes["num_classes"] == 1 + schedule.route_classes.max()
    assert max(table.end_flits for table in tables) <= sizes["memory_flits"]
    gather = build(parse_topology(spec), "multitree", "all_gather")
    assert least_sizes(gather, 1000)["max_children"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "algorithm"), [*CASES[:2], CASES[5], CASES[8]])
def test_a_broadcast_and_a_reduce_end_only_when_everybody_takes_part(spec, algorithm):
    all_reduce = schedule_of(spec, algorithm)
    topology = all_reduce.topology
    buffers = normals(all_reduce, 330, 3)
    late = int(np.random.default_rng(8).integers(topology.num_ranks))
    skews = [4000 * (rank == late) for rank in range(topology.num_ranks)]
    with switched_session(lowered(all_reduce).topology) as session:
        for collective in ("broadcast", "reduce"):
            schedule = build(topology, algorithm, collective, root=1)
            for trace in checked(session, schedule, buffers, start_skew_cycles=skews):
                assert trace.sent.shape == (1, schedule.num_transfers)
                assert trace.done.min() >= trace.start.max()
                flits = np.diff(schedule.chunks(trace.num_flits))[schedule.flow]
                hops = np.diff(schedule.route_offsets)
                assert trace.link_flits.sum() == (flits * hops).sum()


@pytest.mark.slow
def test_all_reduces_broadcasts_and_reduces_follow_each_other_without_a_barrier():
    topology = schedule_of("bigraph:2x4", "multitree").topology
    rng = np.random.default_rng(9)
    queue, buffers = [], []
    for collective, root in [*ROOTED, ("all_reduce", None), ("all_reduce", None), *ROOTED[::-1]]:
        schedule, n = build(topology, "multitree", collective, root), int(rng.integers(1, 500))
        queue.append(Upcoming(schedule, n, "float32", str(rng.choice(["sum", "max"]))))
        buffers.append(rng.standard_normal((topology.num_ranks, n)).astype(np.float32))
    queue[4], buffers[4] = queue[3], buffers[3] + 1
    skews = rng.integers(5000, size=topology.num_ranks).tolist()
    with switched_session(topology) as session:
        checked_each(session, queue, buffers, start_skew_cycles=skews)
        with pytest.raises(ValueError, match="must be one per collective, 6, not 2"):
            session.run_each(queue, buffers[:2])
        with pytest.raises(ValueError, match=r"must be of length and type \(3, 'float32'\), not"):
            session.run_each([Upcoming(schedule, 3, "float32")], buffers[:1])


@pytest.mark.slow
def test_a_fault_that_a_switch_finds_names_it_and_a_reset_makes_all_as_new():
    schedule = schedule_of("fat_tree:2x2", "multitree")
    buffer = np.arange(160, dtype=np.float32).reshape(4, 40)
    with switched_session(schedule.topology) as session:
        # The highest bit of the first hop's port: there is none of that number.
        bit = head_layout(session.config)["route"].offset + 4
        nowhere = FlipBit(node=1, cycle=0, port=0, field=FlitField.PAYLOAD, bit=bit)
        with pytest.raises(DeviceError, match=r"\(PEER_FAULT\); origin switch 4 \(ROUTE\)"):
            session.run(schedule, [buffer], faults=[nowhere])
        assert not session.network.num_faults_pending()
        session.reset()
        checked(session, schedule, [buffer])


@pytest.mark.slow
def test_links_between_switches_are_awaited():
    topology = schedule_of("bigraph:2x4", "multitree").topology
    with switched_session(topology) as session:
        network = session.network
        await_links(network)
        assert not any(network.switches_down())
        network.hold_switches(True)
        network.run(20)
        degrees = topology.degree[topology.num_ranks :].tolist()
        assert network.switches_down() == [(1 << degree) - 1 for degree in degrees]
        network.link_up_cycles = 300
        text = r"^Switch 8, port 0: link is not up after \d+ cycles"
        with pytest.raises(DeviceError, match=text):
            await_links(network)


def half_slow(seed):
    """An all-reduce on a dragonfly of which a random half of the links takes two cycles a flit."""
    topology = dragonfly(2, 1, 1)
    slow = np.random.default_rng(seed).permutation(topology.num_links) < topology.num_links // 2
    near = np.full(topology.num_links, 20.0)
    speeds = np.where(slow, 8.0, 16.0)
    return build(replace(topology, bandwidth_gbytes_per_s=speeds, latency_ns=near), "multitree")


@cache
def reduce_in_class_1():
    """Contributions in class 1; the heads of the header-only phase behind them are in class 0."""
    topology = parse_topology("fat_tree:2x2")
    near = replace(topology, latency_ns=np.full(topology.num_links, 20.0))
    schedule = build(near, "multitree", "reduce", root=2)
    return replace(schedule, route_classes=np.ones_like(schedule.route_classes))


def first_classes(schedule):
    """The class of the first hop of each row, with the rows that shared links add."""
    rows = with_header_only_phase(schedule)
    return rows.src, rows.route_classes[rows.route_offsets[:-1]]


MIXED_CLASSES = {f"seed {seed}": (half_slow, seed) for seed in range(5)} | {
    "reduce": (reduce_in_class_1,)
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MIXED_CLASSES)
@pytest.mark.parametrize("count", [6, 200])
def test_classes_that_mix_at_an_interface_give_exact_results(case, count):
    make, *seed = MIXED_CLASSES[case]
    schedule = make(*seed)
    verify(schedule)
    sources, classes = first_classes(schedule)
    assert any(len(set(classes[sources == rank])) == 2 for rank in set(sources))
    with switched_session(schedule.topology) as session:
        checked(session, schedule, normals(schedule, count, 2, seed=3))
