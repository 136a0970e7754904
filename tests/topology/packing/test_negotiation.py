"""Negotiated trees settle on their own, and moves make trees flatter."""

import random
from collections import Counter
from itertools import combinations, pairwise

import networkx
import numpy as np
import pytest

from multitree import mesh, parse_topology, torus
from multitree.topology.packing.link_pairs import link_pairs, neighbours_of
from multitree.topology.packing.negotiation import central_ranks, negotiated_trees
from multitree.topology.packing.tree_depth import STEEPNESS, RootedTree, _Swaps, shallow_trees


def pairs_of(topology):
    pairs = link_pairs(topology)
    return pairs.ends.tolist(), neighbours_of(pairs.ends, topology.num_ranks)


@pytest.mark.parametrize(
    ("spec", "num_trees", "load", "height"),
    [("mesh:8x8", 16, 9, 13), ("mesh:4x4", 8, 5, 6), ("torus:8x8", 16, 8, 11)],
)
def test_trees_settle_within_the_least_load_and_not_far_from_the_middle(
    spec, num_trees, load, height
):
    topology = parse_topology(spec)
    joined, others = pairs_of(topology)
    trees = negotiated_trees(others, [load] * len(joined), num_trees, 0)
    assert np.bincount(np.concatenate(trees), minlength=len(joined)).max() <= load
    heights = [RootedTree(joined, topology.num_ranks, tree).height for tree in trees]
    assert np.mean(heights) <= height
    flat = shallow_trees(joined, others, [load] * len(joined), trees, 0)
    assert np.mean([tree.height for tree in flat]) < np.mean(heights)


def test_central_ranks_are_nearest_to_the_farthest():
    assert central_ranks(pairs_of(mesh(5, 5))[1]) == ([12, 7, 11], 4)
    assert central_ranks(pairs_of(mesh(9))[1]) == ([4], 4)
    assert central_ranks(pairs_of(torus(6, 6))[1])[1] == 6


def check_tree(tree, joined):
    """Parents, pairs, depths and children tell of the same spanning tree."""
    ranks = range(len(tree.parent))
    assert tree.parent[tree.root] == tree.pair_up[tree.root] == -1
    for rank in set(ranks) - {tree.root}:
        assert sorted(joined[tree.pair_up[rank]]) == sorted([rank, tree.parent[rank]])
        assert tree.depth[rank] == tree.depth[tree.parent[rank]] + 1
    assert [sorted(below) for below in tree.children] == [
        [rank for rank in ranks if tree.parent[rank] == above] for above in ranks
    ]


@pytest.mark.parametrize("seed", range(20))
def test_parts_hung_elsewhere_keep_a_tree_and_cost_what_was_said(seed):
    draw = np.random.default_rng(seed)
    graph = networkx.gnm_random_graph(12, 30, seed=seed)
    joined = [list(edge) for edge in graph.edges]
    numbers = {edge: number for number, edge in enumerate(graph.edges)}
    spanning = [numbers[edge] for edge in networkx.minimum_spanning_edges(graph, data=False)]
    tree = RootedTree(joined, 12, spanning)
    spanned = graph.edge_subgraph([tuple(joined[pair]) for pair in spanning])
    assert tree.height == networkx.radius(spanned)
    cost = [3.0**depth for depth in range(13)]
    for _ in range(40):
        pair = int(draw.integers(len(joined)))
        joint, onto = draw.permutation(joined[pair]).tolist()
        above = [joint]
        while tree.parent[above[-1]] >= 0:
            above.append(tree.parent[above[-1]])
        top = above[int(draw.integers(len(above)))]
        assert tree.is_below(joint, top)
        if pair in tree.pair_up or top == tree.root or tree.is_below(onto, top):
            continue
        before = sum(cost[depth] for depth in tree.depth)
        more = tree.cost_of_moving(top, joint, onto, cost)
        tree.move(top, joint, onto, pair)
        check_tree(tree, joined)
        assert sum(cost[depth] for depth in tree.depth) == before + more


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
