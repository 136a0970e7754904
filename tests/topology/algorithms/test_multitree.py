"""MultiTree is Algorithm 1 word for word, quick, and takes few enough steps."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitree import ScheduleError, Topology, build, parse_topology, verify
from multitree.topology.algorithms import multitree
from multitree.topology.algorithms.multitree import NEIGHBOUR_ORDERS, build_multitree, grow_trees
from multitree.topology.collectives import Op
from multitree.topology.families.direct import ring, torus
from multitree.topology.networks.bounds import link_occupancy
from multitree.topology.schedules.trees import SMALL_CHUNKS
from tests.benches import bench_module
from tests.topology.graphs import copy_of, one_way_ring, over, random_topology, rows_of, topologies
from tests.topology.oracles import does_its_collective, grow_naively, rooted


def grown(links, roots, num_ranks, neighbour_order="ascending", *, turns=None, **options):
    turns = turns or sorted(range(len(roots)), key=lambda tree: roots[tree])
    edges = grow_trees(links, roots, turns, num_ranks, neighbour_order=neighbour_order, **options)
    return list(zip(*(column.tolist() for column in edges), strict=True))


@pytest.mark.slow
@given(topologies(), st.data())
@settings(deadline=None, print_blob=True, max_examples=150)
def test_trees_are_those_of_the_naive_definition(topology, data):
    ranks = st.integers(0, topology.num_ranks - 1)
    roots = data.draw(
        st.one_of(st.just(list(range(topology.num_ranks))), st.lists(ranks, min_size=1, max_size=5))
    )
    order = data.draw(st.sampled_from(NEIGHBOUR_ORDERS))
    slots = [data.draw(st.integers(1, 5)) for _ in range(topology.num_links)]
    for haste in multitree.HASTES:
        options = {"neighbour_order": order, "slots": slots, "haste": haste}
        naive = grow_naively(topology.links.tolist(), roots, topology.num_ranks, **options)
        options["slots"] = np.array(slots)
        assert naive == grown(topology.links, roots, topology.num_ranks, **options)


@over("torus:4x4 mesh:4x4 torus:3x5 hypercube:4 full:7")
@pytest.mark.parametrize("order", NEIGHBOUR_ORDERS)
def test_trees_of_families_are_those_of_the_naive_definition(topology, order):
    roots = list(range(topology.num_ranks))
    options = {"neighbour_order": order}
    naive = grow_naively(topology.links.tolist(), roots, topology.num_ranks, **options)
    assert grown(topology.links, roots, topology.num_ranks, order) == naive


MOST_STEPS = {"torus:4x4": 4, "torus:6x6": 10, "torus:8x8": 16, "torus:16x16": 64}
MOST_STEPS |= {"mesh:4x4": 8, "mesh:8x8": 32, "hypercube:6": 11, "full:8": 1}


@pytest.mark.parametrize(("spec", "most_steps"), MOST_STEPS.items())
def test_steps_per_phase_are_at_most_what_they_may_be(spec, most_steps):
    schedule = build_multitree(parse_topology(spec))
    report = verify(schedule)
    assert report.contention_free
    assert schedule.steps_reduce_scatter <= most_steps
    assert schedule.steps_all_gather <= most_steps
    assert schedule.steps_all_gather >= report.bound_steps


@pytest.mark.slow
def test_large_tori_get_every_edge_of_every_tree_without_contention():
    for topology in (torus(16, 16), torus(32, 32)):
        schedule = build_multitree(topology)
        assert schedule.num_transfers == 2 * topology.num_ranks * (topology.num_ranks - 1)
        assert schedule.max_link_load == 1


@pytest.mark.slow
@given(topologies())
@settings(deadline=None, print_blob=True, max_examples=60)
def test_every_random_graph_gets_a_right_schedule_without_contention(topology):
    schedule = build_multitree(topology)
    assert verify(schedule).contention_free
    assert does_its_collective(schedule)
    assert schedule.flow_roots.tolist() == list(range(topology.num_ranks))


@given(topologies(both_directions=True, alike=True))
@settings(deadline=None, print_blob=True, max_examples=30)
def test_reduce_scatter_is_the_all_gather_in_reverse_over_reverse_links(topology):
    schedule = build_multitree(topology)
    num_steps = schedule.num_steps // 2
    rows = {op: [] for op in Op}
    links = schedule.route_links[schedule.route_offsets[:-1]]
    for (step, op, flow, src, dst), link in zip(rows_of(schedule).tolist(), links, strict=True):
        if op == Op.REDUCE:
            rows[op].append((2 * num_steps - 1 - step, flow, dst, src, topology.reverse[link]))
        else:
            rows[op].append((step, flow, src, dst, link))
    assert sorted(rows[Op.REDUCE]) == sorted(rows[Op.GATHER])


def test_without_reverse_links_sums_run_along_the_trees_of_the_transposed_graph():
    schedule = build_multitree(one_way_ring(4))
    assert (schedule.steps_reduce_scatter, schedule.steps_all_gather) == (3, 3)
    assert verify(schedule).contention_free
    assert does_its_collective(schedule)


def test_parallel_links_are_all_used_and_the_route_says_which():
    links = [[0, 1], [1, 0]] * 3
    thick = Topology("thick", 2, 0, links, 16.0, 150.0)
    schedule = build_multitree(thick, roots=[0, 0, 0])
    assert schedule.num_steps == 2
    assert sorted(schedule.route_links.tolist()) == list(range(6))


@over("torus:4x4 mesh:3x3 hypercube:3 ring:2 ring:5")
def test_trees_that_share_a_root_number_as_many_as_its_ports(topology):
    for root in (0, topology.num_ranks - 1, topology.num_ranks // 2):
        for schedule in rooted(topology, "multitree", root):
            assert schedule.num_flows == len(topology.ports(root))


def test_broadcast_goes_by_the_links_that_leave_a_root_and_reduce_by_those_that_enter():
    links = [[0, 1], [1, 0], [1, 0], [1, 2], [2, 1], [2, 0]]
    lopsided = Topology("lopsided", 3, 0, links, 16.0, 150.0)
    assert build(lopsided, "multitree", "broadcast", 0).num_flows == 1
    assert build(lopsided, "multitree", "reduce", 0).num_flows == 3


def test_orders_are_options_and_descending_is_ascending_seen_from_the_other_end():
    first = build_multitree(ring(4))
    other = build_multitree(ring(4), root_order="descending", neighbour_order="descending")
    assert other.hash != first.hash
    turns = [3, 2, 1, 0]
    naive = grow_naively(ring(4).links.tolist(), [0, 1, 2, 3], 4, root_order=turns)
    assert grown(ring(4).links, [0, 1, 2, 3], 4, turns=turns) == naive
    step, tree, link = grown(ring(4).links, [0, 1, 2, 3], 4, "descending")[0]
    assert (step, tree, ring(4).links[link].tolist()) == (0, 0, [0, 3])
    for seed in range(10):
        topology = random_topology(seed)
        schedule = build_multitree(topology, root_order="descending", neighbour_order="descending")
        assert verify(schedule).contention_free, f"seed {seed}"


@over("torus:5x3 torus:4x4x4 hypercube:6 mesh:3x4 full:5")
def test_the_best_order_has_the_fewest_steps_and_then_the_earliest_end_of_small_chunks(topology):
    schedules = [
        build_multitree(topology, root_order=first, neighbour_order=order)
        for first in multitree.ROOT_ORDERS
        for order in NEIGHBOUR_ORDERS
    ]
    best = min(schedules, key=lambda each: (each.num_steps, each.expected_end(SMALL_CHUNKS)))
    assert build_multitree(topology).hash == best.hash


@pytest.mark.slow
@given(topologies(), st.data())
@settings(deadline=None, print_blob=True, max_examples=60)
def test_slow_links_hold_a_chunk_longer_and_nothing_leaves_before_it_has_come(topology, data):
    speeds = [data.draw(st.sampled_from([4.0, 8.0, 16.0])) for _ in range(topology.num_links)]
    report = verify(build_multitree(copy_of(topology, speeds)))
    assert report.causal and report.contention_free


@pytest.mark.parametrize("haste", multitree.HASTES)
def test_of_equal_links_all_hastes_are_one(haste):
    links = torus(3, 4).links
    for slots in (None, np.full(len(links), 3)):
        trees = grown(links, range(12), 12, "mirrored", slots=slots, haste=haste)
        assert trees == grown(links, range(12), 12, "mirrored", slots=slots)


@over("torus:4x4 torus:4x8 mesh:4x4 hypercube:4")
@pytest.mark.parametrize("ratio", [2, 4])
def test_the_haste_is_the_one_whose_last_chunk_is_through_first(topology, ratio, monkeypatch):
    slow = np.ptp(topology.links, axis=1) < 4
    uneven = replace(topology, bandwidth_gbytes_per_s=16 / np.where(slow, ratio, 1))
    slots, ends = link_occupancy(uneven), {}

    def end_of(schedule):
        return int((schedule.step + slots[schedule.route_links]).max())

    for haste in multitree.HASTES:
        monkeypatch.setattr(multitree, "HASTES", (haste,))
        ends[haste] = end_of(build_multitree(uneven))
    monkeypatch.undo()
    assert end_of(build_multitree(uneven)) == min(ends.values())
    assert min(ends["fast"], ends["patient"]) < ends["eager"]


@pytest.mark.parametrize(
    ("spec", "ratio", "most"), [("4x4", 2, 12), ("4x4", 4, 20), ("8x8", 2, 44), ("8x8", 4, 64)]
)
def test_a_torus_with_slow_links_along_one_dimension_takes_few_steps(spec, ratio, most):
    topology = bench_module("unequal").slower_along_y(f"torus:{spec}", ratio)
    schedule = build_multitree(topology)
    assert int((schedule.step + link_occupancy(topology)[schedule.route_links]).max()) <= most


def test_what_multitree_cannot_build_is_refused():
    with pytest.raises(ScheduleError, match="Root order must be best, ascending, descending, not"):
        build_multitree(ring(3), root_order="random")
    with pytest.raises(ScheduleError, match="Neighbour order must be best, mirrored, link"):
        build_multitree(ring(3), neighbour_order="")
    for roots in ([3], [-1], [0.5], [True], [None]):
        with pytest.raises(ScheduleError, match=r"Root must be a rank 0..2, not"):
            build_multitree(ring(3), roots=roots)
    with pytest.raises(ScheduleError, match="Roots must be at least one rank, not none"):
        build_multitree(ring(3), roots=[])
    assert build_multitree(ring(3), roots=np.array([1])).flow_roots.tolist() == [1]


def test_few_trees_that_share_a_root_are_not_held_to_the_bound_of_all():
    topology = parse_topology("fat_tree:4x4")
    chosen = build_multitree(topology, roots=[0, 0], neighbour_order="link")
    assert build_multitree(topology, roots=[0, 0]).hash == chosen.hash
