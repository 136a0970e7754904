"""Packed trees span, load links within their share, and have a modulo schedule."""

from itertools import pairwise

import networkx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multitree import ScheduleError, mesh, parse_topology, ring, torus
from multitree.topology.networks.bounds import worst_partition
from multitree.topology.packing.link_pairs import _speeds, link_pairs, neighbours_of, tree_count
from multitree.topology.packing.modulo_schedule import modulo_schedule
from multitree.topology.packing.negotiation import negotiated_trees
from multitree.topology.packing.tree_packing import completed_trees, pack_trees
from tests.topology.graphs import both_ways, copy_of, one_way_ring, random_topology, topologies
from tests.topology.oracles import check_packing


def random_speeds(seed):
    """A random graph both ways, whose links are as fast as 24, 16, 12 or 4 GB/s."""
    plain = random_topology(seed, most_ranks=8)
    speeds = np.random.default_rng(seed).choice([24.0, 16.0, 12.0, 4.0], plain.num_links)
    return copy_of(plain, speeds)


def networks():
    return topologies(both_directions=True) | st.builds(random_speeds, st.integers(0, 10**6))


def check_timetable(found):
    """No link twice at a slot of the period, and nothing before what it depends on."""
    packing = found.packing
    topology, period = packing.topology, packing.period
    held = np.zeros((topology.num_links, period), int)

    def held_until(link, start):
        slots = packing.slots[link]
        np.add.at(held[link], (start + np.arange(slots)) % period, 1)
        return start + slots - 1

    last = 0
    for tree, root in enumerate(packing.roots):
        parents = packing.parents[tree]
        for rank in np.delete(np.arange(topology.num_ranks), root):
            link, parent = packing.links[tree, rank], parents[rank]
            back = topology.reverse[link]
            summed = held_until(link, found.reduce_slots[tree, rank]) + found.hop_slots[link]
            spread = held_until(back, found.gather_slots[tree, rank])
            last = max(last, spread)
            if parent != root:
                assert found.reduce_slots[tree, parent] >= summed
            else:
                assert (found.gather_slots[tree, parents == root] >= summed).all()
            later = found.gather_slots[tree, parents == rank]
            assert (later >= spread + found.hop_slots[back]).all()
    assert held.max() == 1
    used = found.reduce_slots[packing.parents >= 0]
    assert used.min() == 0 and found.num_slots == last + 1


@pytest.mark.slow
@given(networks(), st.integers(1, 5), st.integers(0, 3))
@settings(deadline=None, print_blob=True, max_examples=60)
def test_random_graphs(topology, hop_slots, seed):
    packing = pack_trees(topology, num_trees=1 + seed * 3, seed=seed)
    check_packing(packing)
    check_timetable(modulo_schedule(packing, hop_slots, seed=seed))


@pytest.mark.parametrize("slots", [(1, 3, 4), (2**31 - 1, 2**31 - 19, 253)])
def test_speeds_are_in_proportion_whole_where_64_bits_hold_them(slots):
    speeds = _speeds(link_pairs(ring(3))._replace(slots=np.array(slots)))
    assert speeds.dtype == (np.int64 if slots[0] == 1 else np.float64)
    assert np.allclose(speeds * slots, speeds[0] * slots[0], rtol=1e-15, atol=0)


@given(networks(), st.integers(1, 9), st.booleans())
@example(random_speeds(1251), 1, False)
@settings(deadline=None, print_blob=True, max_examples=150)
def test_in_the_period_there_are_trees_and_in_a_shorter_one_none(topology, num_trees, negotiate):
    pairs, num_ranks = link_pairs(topology), topology.num_ranks
    count = tree_count(pairs, num_ranks, num_trees=num_trees)
    assert count.num_trees == num_trees

    def completed(period):
        may, begun = (period // pairs.slots).tolist(), [[] for _ in range(num_trees)]
        if negotiate:
            begun = negotiated_trees(neighbours_of(pairs.ends, num_ranks), may, num_trees, 0)
        return completed_trees(pairs.ends, num_ranks, may, begun)

    trees = completed(count.period)
    used = np.bincount(np.concatenate(trees), minlength=len(pairs.ends))
    assert (used * pairs.slots <= count.period).all()
    for tree in trees:
        graph = networkx.MultiGraph(pairs.ends[tree].tolist())
        assert networkx.is_tree(graph) and len(graph) == num_ranks
    with pytest.raises(ScheduleError, match=f"must be enough for {num_trees} spanning trees"):
        completed(count.period - 1)


@pytest.mark.slow
@given(networks())
@settings(deadline=None, print_blob=True, max_examples=40)
def test_the_fewest_trees_are_chosen_whose_period_is_near_that_of_fractions(topology):
    pairs = link_pairs(topology)
    worst = worst_partition(pairs.ends, 1 / pairs.slots, topology.num_ranks)
    ratios = {}
    for number in range(1, 65):
        count = tree_count(pairs, topology.num_ranks, num_trees=number)
        ratios[number] = count.period / number / worst.share
    assert min(ratios.values()) >= 1 - 1e-9
    for tolerance in (0.01, 0.1):
        chosen = tree_count(pairs, topology.num_ranks, tolerance=tolerance).num_trees
        enough = max(1 + tolerance, min(ratios.values())) + 1e-9
        assert ratios[chosen] <= enough
        assert all(ratios[number] > enough - 2e-9 for number in range(1, chosen))


@given(networks())
@settings(deadline=None, print_blob=True, max_examples=15)
def test_the_number_of_trees_is_chosen(topology):
    check_packing(pack_trees(topology))


FAMILIES = {
    "mesh:4x4": (8, 5, 5),
    "mesh:8x8": (16, 9, 10),
    "torus:4x4": (17, 8, 4),
    "torus:8x8": (2, 1, 8),
    "ring:16": (16, 15, 8),
    "full:8": (8, 2, 1),
    "hypercube:4": (17, 8, 4),
    "mesh:2x3": (7, 5, 3),
    "mesh:5": (1, 1, 2),
    "mesh:2": (1, 1, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("spec", FAMILIES)
def test_families_have_the_fewest_trees_with_the_least_load_that_are_flat(spec):
    packing = pack_trees(parse_topology(spec))
    num_trees, period, height = FAMILIES[spec]
    check_packing(packing)
    assert (packing.num_trees, packing.period) == (num_trees, period)
    assert packing.link_loads.max() == period and packing.heights.max() <= height
    for hop_slots in (1, 3):
        check_timetable(modulo_schedule(packing, hop_slots))


@pytest.mark.parametrize("seed", range(5))
def test_of_some_attempts_the_flattest_counts(seed):
    assert pack_trees(mesh(4, 4), seed=seed).heights.max() == 4


def test_a_timetable_is_near_the_longest_way_through_its_highest_tree():
    packing = pack_trees(mesh(8, 8))
    way = 2 * int(packing.heights.max())
    assert modulo_schedule(packing, 3).num_slots <= 1.35 * (3 * way + 1)
    assert modulo_schedule(packing, 6).num_slots <= 1.15 * (6 * way + 1)
    small = pack_trees(mesh(4, 4))
    for hop_slots, most in ((1, 16), (2, 23), (3, 30), (4, 37)):
        assert modulo_schedule(small, hop_slots).num_slots <= most
    disjoint = pack_trees(torus(8, 8), num_trees=2)
    assert modulo_schedule(disjoint, 5).num_slots <= 2 * disjoint.heights.max() * 5 + 1


def test_a_pair_twice_as_fast_carries_twice_the_trees():
    triangle = [(0, 1), (1, 2), (2, 0)]
    packing = pack_trees(both_ways("x", 3, 0, triangle, [16, 16, 16, 16, 8, 8]))
    check_packing(packing)
    assert packing.period * 5 == 4 * packing.num_trees
    assert packing.ratio_to_optimum == pytest.approx(1)
    assert pack_trees(packing.topology, num_trees=2).ratio_to_optimum == pytest.approx(2 / 2 / 0.8)
    assert (packing.link_loads * packing.slots).tolist() == [packing.period] * 6
    check_timetable(modulo_schedule(packing, 2))


def test_of_a_pair_the_slower_link_counts():
    packing = pack_trees(both_ways("line", 3, 0, [(0, 1), (1, 2)], [16, 8, 16, 16]))
    assert packing.slots.tolist() == [2, 2, 1, 1] and packing.period == 2 * packing.num_trees
    assert packing.ratio_to_optimum == pytest.approx(1)


def test_a_period_somewhat_longer_takes_fewer_trees():
    packing = pack_trees(mesh(8, 8), tolerance=0.02)
    assert (packing.num_trees, packing.period) == (7, 4)
    assert packing.ratio_to_optimum == pytest.approx(4 / 7 / (63 / 112))


def test_a_hop_takes_its_link_s_slots():
    topology = mesh(2, 3)
    packing = pack_trees(topology)
    hops = np.arange(topology.num_links) % 5 + 1
    check_timetable(modulo_schedule(packing, hops))


def test_the_same_seed_gives_the_same_trees_and_slots():
    first, again, other = (pack_trees(mesh(3, 4), seed=seed) for seed in (1, 1, 2))
    assert (first.links == again.links).all() and (first.links != other.links).any()
    one, two = modulo_schedule(first, 2), modulo_schedule(again, 2)
    assert (one.reduce_slots == two.reduce_slots).all()
    assert (one.gather_slots == two.gather_slots).all()


def test_what_cannot_be_packed_is_refused():
    with pytest.raises(ScheduleError, match="must have no switches for trees of link pairs"):
        pack_trees(parse_topology("fat_tree:2x2"))
    with pytest.raises(ScheduleError, match="'one way' must be joined by links with a reverse"):
        pack_trees(one_way_ring(3))
    with pytest.raises(ScheduleError, match="Number of trees must be at least 1, not 0"):
        pack_trees(mesh(2, 2), num_trees=0)
    with pytest.raises(ValueError, match="Slots of a hop must be at least 1, not 0"):
        modulo_schedule(pack_trees(mesh(2, 2)), 0)


def test_speeds_whose_common_multiple_is_beyond_64_bits_keep_their_proportions():
    """The first 25 primes: as many slots as that makes 2.3e36."""
    primes = [n for n in range(2, 98) if all(n % k for k in range(2, n))]
    speeds = np.repeat([960.0 / prime for prime in primes], 2)
    pairs = link_pairs(both_ways("line", 26, 0, pairwise(range(26)), speeds))
    # A line has one spanning tree, which takes its slowest link in every period.
    assert tree_count(pairs, 26, num_trees=1) == (1, int(pairs.slots.max()))
