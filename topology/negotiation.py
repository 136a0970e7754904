"""Spanning trees that negotiate for pairs of links until none has too many."""

import heapq
import random

from multitree.topology.distances import hops_from
from multitree.topology.link_pairs import Neighbours

__all__ = ["central_ranks", "negotiated_trees"]

MOST_ROUNDS = 60
LANDMARKS = 64
PRESSURE, GROWTH, MEMORY = 0.5, 1.3, 0.2
"""What a tree too many on a pair costs, how that grows from round to round, and what stays."""
EVENNESS, CHANCE = 0.3, 0.1
"""What a full pair costs beside a free one, and what is drawn at random: both below one hop."""


def negotiated_trees(
    beside: Neighbours, most: list[int], num_trees: int, seed: int
) -> list[list[int]]:
    """Spanning trees that are grown again and again, each around what the others take.

    A pair costs what it carries too much, more from round to round, and also what it carried too
    much before. A tree takes the rank next whose depth and cost are least.

    Parameters
    ----------
    beside : list of list of (int, int)
        See `neighbours_of`.
    most : list of int
        Trees that each pair may carry.
    num_trees : int
    seed : int

    Returns
    -------
    list of list of int
        The pairs of each tree; after `MOST_ROUNDS` some may still carry too many trees.

    Notes
    -----
    O(rounds x num_trees x num_pairs log num_pairs). Where `most` is the least that is possible,
    a round or two do on tori, some ten on meshes.

    References
    ----------
    L. McMurchie, C. Ebeling, "PathFinder: a negotiation-based performance-driven router for
    FPGAs", International Symposium on Field-Programmable Gate Arrays, 1995.

    Examples
    --------
    >>> square = [[(1, 0), (3, 3)], [(0, 0), (2, 1)], [(1, 1), (3, 2)], [(2, 2), (0, 3)]]
    >>> trees = negotiated_trees(square, [3] * 4, 4, 0)
    >>> sorted(sum(trees, []))
    [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    """
    draw = random.Random(seed)
    roots, _ = central_ranks(beside)
    load, past = [0] * len(most), [0.0] * len(most)
    trees: list[list[int]] = [[] for _ in range(num_trees)]
    turns = list(range(num_trees))
    for number in range(MOST_ROUNDS):
        pressure = PRESSURE * GROWTH ** min(number, MOST_ROUNDS // 2)
        draw.shuffle(turns)
        for tree in turns:
            for pair in trees[tree]:
                load[pair] -= 1
            cost = [
                was + pressure * max(0, has + 1 - may) + EVENNESS * has / max(1, may)
                for was, has, may in zip(past, load, most, strict=True)
            ]
            cost = [price + CHANCE * draw.random() for price in cost]
            trees[tree] = _grown(beside, draw.choice(roots), cost)
            for pair in trees[tree]:
                load[pair] += 1
        over = [max(0, has - may) for has, may in zip(load, most, strict=True)]
        if not any(over):
            break
        past = [was + MEMORY * more for was, more in zip(past, over, strict=True)]
    return trees


def _grown(beside: Neighbours, root: int, cost: list[float]) -> list[int]:
    """The pairs of one tree, grown from its root by the least depth and cost."""
    reached = bytearray(len(beside))
    reached[root] = 1
    ahead = [(cost[pair], there, pair, 1) for there, pair in beside[root]]
    heapq.heapify(ahead)
    taken: list[int] = []
    while len(taken) < len(beside) - 1:
        _, rank, pair, depth = heapq.heappop(ahead)
        if reached[rank]:
            continue
        reached[rank] = 1
        taken.append(pair)
        for there, further in beside[rank]:
            if not reached[there]:
                heapq.heappush(ahead, (depth + cost[further], there, further, depth + 1))
    return taken


def central_ranks(beside: Neighbours) -> tuple[list[int], int]:
    """The ranks nearest to all others, as far as some landmarks tell.

    Parameters
    ----------
    beside : list of list of (int, int)

    Returns
    -------
    ranks : list of int
        An eighth of all, or one, by ascending distance to the farthest landmark and number.
        Each landmark is a rank farthest away from those before it.
    least_height : int
        No tree is less high.

    Notes
    -----
    O(LANDMARKS x num_pairs).

    Examples
    --------
    >>> central_ranks([[(1, 0)], [(0, 0), (2, 1)], [(1, 1)]])
    ([1], 1)
    """
    neighbours = [[there for there, _ in around] for around in beside]
    nearest = hops_from(neighbours, 0)
    farthest = nearest
    for _ in range(min(LANDMARKS, len(beside)) - 1):
        hops = hops_from(neighbours, int(nearest.argmax()))
        nearest, farthest = nearest.clip(max=hops), farthest.clip(min=hops)
    by_distance = [int(rank) for rank in farthest.argsort(kind="stable")]
    return by_distance[: max(1, len(beside) // 8)], int(farthest.min())
