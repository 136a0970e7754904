"""The worst partition of a graph is the worst of all its partitions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitree import parse_topology, ring
from multitree.topology.networks.bounds import worst_partition
from tests.topology.graphs import random_topology


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


SHARES = {
    "mesh:4x4": (15, 24),
    "mesh:8x8": (63, 112),
    "mesh:16x16": (255, 480),
    "torus:4x4": (15, 32),
    "torus:8x8": (63, 128),
    "hypercube:6": (63, 192),
    "full:16": (15, 120),
    "mesh:3x4x5": (59, 133),
}


@pytest.mark.parametrize("spec", SHARES)
def test_on_families_every_rank_is_a_part(spec):
    topology = parse_topology(spec)
    found = worst_partition(topology.links, np.full(topology.num_links, 0.5), topology.num_ranks)
    steps, pairs = SHARES[spec]
    assert found.num_parts == topology.num_ranks == steps + 1
    assert found.share == steps / pairs and found.capacity == pairs


def worst_of(topology):
    halves = np.full(topology.num_links, 0.5)
    return worst_partition(topology.links, halves, topology.num_ranks)


def test_a_corner_with_one_link_left_is_a_part_and_all_else_another():
    found = worst_of(parse_topology("mesh:8x8").without(links=[0]))
    assert found.share == 1 and found.num_parts == 2
    assert np.flatnonzero(found.parts != found.parts[-1]).tolist() == [0]


def test_clusters_with_few_links_between_them_are_parts():
    cluster = [(a, b) for a in range(5) for b in range(a)]
    ends = [(a + 5 * at, b + 5 * at) for at in range(3) for a, b in cluster]
    ends += [(0, 5), (6, 10), (11, 1)]
    found = worst_partition(np.array(ends), np.ones(len(ends)), 15)
    assert found.share == 2 / 3
    assert [len(set(found.parts[5 * at : 5 * at + 5].tolist())) for at in range(3)] == [1] * 3


def test_a_slow_edge_is_between_two_parts_of_a_ring():
    speeds = np.array([1.0, 1.0, 8.0, 8.0, 8.0, 8.0])
    ends = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]])
    found = worst_partition(ends, speeds, 6)
    assert found.share == 2 / (1 + 1 + 8) or found.share == 1 / 2
    assert found.share == 1 / 2 and found.num_parts == 2


def test_two_ranks_are_two_parts():
    assert worst_of(ring(2)).share == 1
