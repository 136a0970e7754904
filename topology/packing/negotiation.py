"""Spanning trees that negotiate for pairs of links until none has too many."""

import heapq
import random
from collections.abc import Callable
from typing import TypeVar

from multitree.topology.errors import report
from multitree.topology.networks.measures import hops_from
from multitree.topology.packing.link_pairs import Neighbours

__all__ = ["Prices", "central_ranks", "negotiated", "negotiated_trees"]

Tree = TypeVar("Tree")

MOST_ROUNDS = 60
LANDMARKS = 64
PRESSURE, GROWTH, MEMORY = 0.5, 1.3, 0.2
"""What a tree too many on a pair costs, how that grows from round to round, and what stays."""
EVENNESS, CHANCE = 0.3, 0.1
"""What a full pair costs more than a free one, and what is drawn at random: both below a hop."""


class Prices:
    """What pairs cost: by trees beyond `most`, more from round to round, and by those before."""

    def __init__(self, most: list[int], draw: random.Random) -> None:
        self._most, self._draw = most, draw
        self._load, self._past = [0] * len(most), [0.0] * len(most)
        self._noise = [0.0] * len(most)
        self._pressure = 0.0

    def begin_round(self, number: int) -> None:
        """Raise the price of a tree too many."""
        self._pressure = PRESSURE * GROWTH ** min(number, MOST_ROUNDS // 2)

    def for_a_tree(self) -> list[float]:
        """What each pair costs the tree that is grown next."""
        self._noise = [CHANCE * self._draw.random() for _ in self._most]
        return [self.of(pair) for pair in range(len(self._most))]

    def of(self, pair: int) -> float:
        """What a pair costs now."""
        may = self._most[pair]
        has = self._load[pair]
        # PathFinder's history and present congestion; here they add to the depth, not multiply.
        cost = self._past[pair] + self._pressure * max(0, has + 1 - may)
        return cost + EVENNESS * has / max(1, may) + self._noise[pair]

    def take(self, pairs: list[int]) -> None:
        """Let a tree have pairs."""
        for pair in pairs:
            self._load[pair] += 1

    def give_back(self, pairs: list[int]) -> None:
        """Take a tree's pairs away."""
        for pair in pairs:
            self._load[pair] -= 1

    def end_round(self) -> bool:
        """Remember what is too much; whether nothing is."""
        over = [max(0, has - may) for has, may in zip(self._load, self._most, strict=True)]
        self._past = [was + MEMORY * more for was, more in zip(self._past, over, strict=True)]
        return not any(over)


def negotiated(
    most: list[int],
    num_trees: int,
    seed: int,
    grow: Callable[[Prices, random.Random], tuple[Tree, list[int]]],
) -> tuple[list[Tree], bool]:
    """Trees that are grown again and again, each around what the others take.

    `grow` makes a tree at prices, and names the pairs that it has taken. Returns the trees, and
    whether no pair carries more than `most` allows; else there were `MOST_ROUNDS` (McMurchie,
    Ebeling, "PathFinder: a negotiation-based performance-driven router for FPGAs", FPGA 1995).
    """
    draw = random.Random(seed)
    prices = Prices(most, draw)
    grown: dict[int, Tree] = {}
    taken: dict[int, list[int]] = {}
    turns = list(range(num_trees))
    for number in range(MOST_ROUNDS):
        prices.begin_round(number)
        draw.shuffle(turns)
        for tree in turns:
            report("negotiating trees, rounds done", number, MOST_ROUNDS)
            # Rip-up and reroute: a tree gives back its pairs before it is grown again.
            prices.give_back(taken.get(tree, []))
            grown[tree], taken[tree] = grow(prices, draw)
        if prices.end_round():
            return [grown[tree] for tree in range(num_trees)], True
    # Callers complete the trees by exact exchanges, or try a longer period (over switches).
    return [grown[tree] for tree in range(num_trees)], False


def negotiated_trees(
    neighbours: Neighbours, most: list[int], num_trees: int, seed: int
) -> list[list[int]]:
    """Spanning trees of pairs, negotiated; some pairs may carry too many of them.

    A tree takes the rank next whose depth and cost are least. O(rounds x num_trees x num_pairs log
    num_pairs). Where `most` is the least that is possible, a round or two do on tori, some ten on
    meshes.
    """
    roots, _ = central_ranks(neighbours)

    def grow(prices: Prices, draw: random.Random) -> tuple[list[int], list[int]]:
        cost = prices.for_a_tree()
        pairs = _grown(neighbours, draw.choice(roots), cost)
        prices.take(pairs)
        return pairs, pairs

    return negotiated(most, num_trees, seed, grow)[0]


def _grown(neighbours: Neighbours, root: int, cost: list[float]) -> list[int]:
    """The pairs of one tree, grown from its root by the least depth and cost."""
    reached = bytearray(len(neighbours))
    reached[root] = 1
    # Between Prim's algorithm and breadth-first search: the key is a parent's depth plus the price
    # of one pair. Ties fall to the lowest rank.
    ahead = [(cost[pair], there, pair, 1) for there, pair in neighbours[root]]
    heapq.heapify(ahead)
    taken: list[int] = []
    while len(taken) < len(neighbours) - 1:
        _, rank, pair, depth = heapq.heappop(ahead)
        if reached[rank]:
            continue
        reached[rank] = 1
        taken.append(pair)
        for there, further in neighbours[rank]:
            if not reached[there]:
                heapq.heappush(ahead, (depth + cost[further], there, further, depth + 1))
    return taken


def central_ranks(neighbours: Neighbours) -> tuple[list[int], int]:
    """The ranks nearest to all others, as far as landmarks tell, and the least height of a tree.

    An eighth of all ranks, or one, by ascending distance to the farthest landmark and number. Each
    landmark is a rank farthest away from those before it. O(LANDMARKS x num_pairs).
    """
    adjacent = [[there for there, _ in around] for around in neighbours]
    # Farthest-first traversal (Gonzalez 1985): it covers the graph with few searches.
    nearest = hops_from(adjacent, 0)
    farthest = nearest
    for _ in range(min(LANDMARKS, len(neighbours)) - 1):
        hops = hops_from(adjacent, int(nearest.argmax()))
        nearest, farthest = nearest.clip(max=hops), farthest.clip(min=hops)
    # A tree is at least as high as its root is far from some landmark.
    by_distance = [int(rank) for rank in farthest.argsort(kind="stable")]
    return by_distance[: max(1, len(neighbours) // 8)], int(farthest.min())
