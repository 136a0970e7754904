"""Moves make trees flatter: none makes the sum over depths larger, loads are kept."""

import random
from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest

from multitree.topology.packing.link_pairs import neighbours_of
from multitree.topology.packing.tree_depth import STEEPNESS, _Swaps, shallow_trees

NUM_RANKS = 7
JOINED = [list(pair) for pair in combinations(range(NUM_RANKS), 2)]
NEIGHBOURS = neighbours_of(np.array(JOINED, np.int32), NUM_RANKS)
PATH = [JOINED.index([rank, rank + 1]) for rank in range(NUM_RANKS - 1)]


def steepness(trees):
    """What no move may raise."""
    return sum(STEEPNESS**depth for tree in trees for depth in tree.depth)


def loads(trees):
    """How many trees use each pair."""
    return Counter(pair for tree in trees for pair in tree.pair_up if pair >= 0)


@pytest.mark.parametrize("most", [1, 3])
def test_where_all_ranks_are_joined_a_path_becomes_a_star(most):
    for seed in range(5):
        (tree,) = shallow_trees(JOINED, NEIGHBOURS, [most] * len(JOINED), [PATH], seed)
        assert tree.height == 1, seed


@pytest.mark.parametrize("seed", range(4))
def test_no_move_makes_trees_deeper_in_all_and_no_pair_carries_more_than_it_may(seed):
    rng = random.Random(f"{seed}")
    # Every tree is a path through the ranks in an order of its own.
    orders = [rng.sample(range(NUM_RANKS), NUM_RANKS) for _ in range(4)]
    trees = [[JOINED.index(sorted(ends)) for ends in pairwise(order)] for order in orders]
    carried = Counter(pair for pairs in trees for pair in pairs)
    most = [max(carried[pair], rng.randrange(2)) for pair in range(len(JOINED))]
    swaps = _Swaps(JOINED, NEIGHBOURS, most, trees, seed)
    first = was = steepness(swaps.trees)
    for _ in range(400):
        swaps.try_one()
        now = steepness(swaps.trees)
        assert now <= was, f"seed {seed}"
        assert all(load <= most[pair] for pair, load in loads(swaps.trees).items())
        was = now
    assert was < first
