"""Bounds are what the definitions say; the worst partition is the worst of all."""

import time
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitree import Topology, hypercube, mesh, parse_topology, ring, torus
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.networks.bounds import bound_cycles, bound_steps, worst_partition
from tests.topology.graphs import (
    both_ways,
    copy_of,
    one_way_ring,
    over,
    random_topology,
    topologies,
)

MIB_FLITS = 65_536


def cliques(number, size):
    """Pairs of ranks of so many groups, in each of which all are joined."""
    groups = (range(first, first + size) for first in range(0, number * size, size))
    return [pair for group in groups for pair in combinations(group, 2)]


STEPS = {"torus:4x4": 4, "torus:6x6": 9, "torus:8x8": 16, "mesh:4x4": 8, "mesh:5x5": 12}
STEPS |= {"mesh:8x8": 32, "mesh:5": 4, "hypercube:6": 11, "full:8": 1, "ring:9": 4}


@pytest.mark.parametrize(("spec", "steps"), STEPS.items())
def test_bound_steps_is_the_larger_of_degree_and_distance(spec, steps):
    assert bound_steps(parse_topology(spec)) == steps


def test_a_long_way_or_a_narrow_entrance_counts_more_than_many_links():
    assert bound_steps(both_ways("lollipop", 8, 0, [*cliques(1, 6), (5, 6), (6, 7)])) == 7
    narrow = [(a, b) for a in range(4) for b in range(4) if a != b and (b != 0 or a == 3)]
    # One link enters rank 0, so an all-gather takes 3 steps; a reduce-scatter may take 2.
    assert bound_steps(Topology("narrow", 4, 0, narrow, 16.0, 150.0)) == 2
    pairs = [*((rank, rank + 1) for rank in range(5)), *((rank, 6) for rank in range(6))]
    assert bound_steps(both_ways("switched", 6, 1, pairs)) == 3


STEPS_OVER_SWITCHES = {"fat_tree:4x4": 15, "fat_tree:8x8": 63, "fat_tree:2x1": 1}
STEPS_OVER_SWITCHES |= {"bigraph:4x8": 31, "kary_tree:4x2x4": 15, "dgx2": 3}


@pytest.mark.parametrize(("spec", "steps"), STEPS_OVER_SWITCHES.items())
def test_bounds_of_networks_with_switches_are_what_their_ranks_links_carry(spec, steps):
    topology = parse_topology(spec)
    ranks, links = topology.num_ranks, topology.num_ranks * topology.least_degree
    for same in (topology, copy_of(topology)):
        assert bound_steps(same) == steps
        expected = max(2 * (ranks - 1) / links, 1 / topology.least_degree) * MIB_FLITS
        assert bound_cycles(same, MIB_FLITS) == pytest.approx(expected)
        assert bound_cycles(same, 0, latency_cycles=100) == 100 * topology.diameter


@given(topologies(switches=None))
@settings(deadline=None, print_blob=True, max_examples=60)
def test_multitree_never_takes_fewer_steps_than_the_bound(topology):
    schedule = build_multitree(topology)
    bound = bound_steps(topology)
    assert min(schedule.steps_reduce_scatter, schedule.steps_all_gather) >= bound


@pytest.mark.parametrize(
    ("spec", "cycles"),
    [
        ("torus:4x4", 2 * 15 / 64 * MIB_FLITS),
        ("mesh:8x8", 36_864),
        ("mesh:4x4", 40_960),
        ("torus:8x8", 2 * 63 / 256 * MIB_FLITS),
        ("mesh:2", MIB_FLITS),
    ],
)
def test_bound_cycles_of_1_mib_is_what_all_links_together_carry(spec, cycles):
    assert bound_cycles(parse_topology(spec), MIB_FLITS) == cycles


def test_bound_cycles_is_the_largest_of_its_four_parts():
    # Two squares joined by one link: all of the buffer must cross it, each way.
    assert bound_cycles(both_ways("dumbbell", 8, 0, [*cliques(2, 4), (0, 4)]), 1000) == 1000
    # Three cliques in a circle: the sums of two of them and what is spread cross three links.
    in_circle = both_ways("circle", 18, 0, [*cliques(3, 6), (0, 6), (7, 12), (13, 1)])
    assert bound_cycles(in_circle, 3000) == 2000
    assert bound_cycles(in_circle, 3000, flits_per_cycle=0.5) == 4000
    assert bound_cycles(torus(8, 8), 10) == 8 * 150
    assert bound_cycles(torus(8, 8), 10, latency_cycles=7) == 8 * 7
    assert bound_cycles(ring(4), 0, latency_cycles=np.array([9, 5] * 4)) == 2 * 5
    assert bound_cycles(ring(4), 4000, flits_per_cycle=0.5) == 2 * bound_cycles(ring(4), 4000)


def test_of_links_of_different_speed_each_counts_with_its_own():
    speeds = np.ones(8)
    speeds[[0, 1]] = 0.01
    # Rank 0 sends its sum over two slow links.
    assert bound_cycles(ring(4), 100, flits_per_cycle=speeds) == pytest.approx(100 / 0.02)
    speeds = np.linspace(1.0, 1.7, 8)
    expected = 2 * 3 * 1e6 / speeds.sum()
    assert bound_cycles(ring(4), 10**6, flits_per_cycle=speeds) == pytest.approx(expected)


def test_a_mesh_without_a_corner_s_link_or_with_a_slow_rank_is_bound_by_parts():
    corner = mesh(8, 8).without(links=[0])
    assert bound_cycles(corner, 64_000) == 64_000
    slow = np.where((mesh(4, 4).links < 4).any(axis=1), 0.25, 1.0)
    # Twelve ranks behind fast links are one part, the others are four.
    assert bound_cycles(mesh(4, 4), 7000, flits_per_cycle=slow) == 4 / (7 * 0.25) * 7000


def test_on_large_networks_the_bound_is_quick_and_what_all_links_carry():
    for spec, links in (("torus:64x64", 16_384), ("mesh:24x24", 2_208), ("mesh:90x90", 32_040)):
        topology = parse_topology(spec)
        start = time.process_time()
        bound = bound_cycles(topology, 10**6)
        assert bound == pytest.approx(2 * (topology.num_ranks - 1) / links * 10**6)
        assert time.process_time() - start < 1


def test_links_one_way_count_with_half_their_speed_each_way():
    # Around a circle each link carries all but a third of the buffer twice.
    assert bound_cycles(one_way_ring(3), 3000) == pytest.approx(2 * 2 / 3 * 3000)


@pytest.mark.parametrize("more", ["up", "down"])
def test_where_ranks_have_more_links_one_way_the_other_way_counts(more):
    up, down = ([(rank, 3) for rank in range(3)], [(3, rank) for rank in range(3)])
    links = up + down + (up if more == "up" else down)
    uneven = Topology("uneven", 3, 1, links, 16.0, 150.0)
    # Three links carry 2 x 2 buffers; a cut of one link carries a single one.
    assert bound_cycles(uneven, 3000) == pytest.approx(2 * 2 / 3 * 3000)


def test_a_negative_number_of_flits_is_refused():
    assert bound_cycles(hypercube(2), 0) == 300
    assert bound_cycles(mesh(3, 3), 0) == 600
    with pytest.raises(ValueError, match="Number of flits must be at least 0, not -1"):
        bound_cycles(ring(4), -1)


def all_partitions(num_ranks, parts=()):
    """Every partition as the part of each rank, a part's number being that of its first rank."""
    if len(parts) == num_ranks:
        yield parts
        return
    for part in range(max(parts, default=-1) + 2):
        yield from all_partitions(num_ranks, (*parts, part))


def share_of(parts, ends, capacity):
    between = sum(
        Fraction(size)
        for (first, second), size in zip(ends.tolist(), capacity.tolist(), strict=True)
        if parts[first] != parts[second]
    )
    return max(parts) / between if between else Fraction(0)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.booleans())
@settings(deadline=None, print_blob=True, max_examples=150)
def test_it_is_the_worst_of_all_partitions_of_random_graphs(seed, equal):
    topology = random_topology(seed, most_ranks=7)
    draw = np.random.default_rng(seed)
    capacity = np.ones(topology.num_links)
    if not equal:
        capacity = draw.choice([0.1, 0.5, 1.0, 3.7, 16.0], topology.num_links)
    ends, num_ranks = topology.links, topology.num_ranks
    worst = max(share_of(parts, ends, capacity) for parts in all_partitions(num_ranks))
    found = worst_partition(ends, capacity, num_ranks)
    assert share_of(found.parts.tolist(), ends, capacity) == worst
    assert found.share == pytest.approx(float(worst), rel=1e-12)
    assert sorted(set(found.parts.tolist())) == list(range(found.num_parts))


def worst_of(topology):
    halves = np.full(topology.num_links, 0.5)
    return worst_partition(topology.links, halves, topology.num_ranks)


@over("ring:2 mesh:4x4 mesh:8x8 mesh:16x16 mesh:3x4x5 torus:4x4 torus:8x8 hypercube:6 full:16")
def test_on_families_every_rank_is_a_part(topology):
    found = worst_of(topology)
    assert found.num_parts == topology.num_ranks
    assert found.capacity == topology.num_links / 2
    assert found.share == (topology.num_ranks - 1) / found.capacity


def test_a_corner_with_one_link_left_is_a_part_and_all_else_another():
    found = worst_of(parse_topology("mesh:8x8").without(links=[0]))
    assert found.share == 1 and found.num_parts == 2
    assert np.flatnonzero(found.parts != found.parts[-1]).tolist() == [0]


def test_clusters_with_few_links_between_them_are_parts():
    ends = [*cliques(3, 5), (0, 5), (6, 10), (11, 1)]
    found = worst_partition(np.array(ends), np.ones(len(ends)), 15)
    assert found.share == 2 / 3
    assert [len(set(found.parts[5 * at : 5 * at + 5].tolist())) for at in range(3)] == [1] * 3


def test_a_slow_edge_is_between_two_parts_of_a_ring():
    speeds = np.array([1.0, 1.0, 8.0, 8.0, 8.0, 8.0])
    ends = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]])
    found = worst_partition(ends, speeds, 6)
    assert found.share == 1 / 2 and found.num_parts == 2
