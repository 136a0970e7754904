"""The parts of a network between which trees that join them find least."""

from collections import deque
from fractions import Fraction
from math import lcm
from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array, Int64Array, int32s

__all__ = ["Partition", "worst_partition"]

Weights = list[dict[int, int]]
Capacity = Float64Array | Int64Array


class Partition(NamedTuple):
    """Parts of all ranks, and what there is between them.

    Parameters
    ----------
    parts : numpy.ndarray, int32 (num_ranks,)
        The part of each rank, from 0.
    num_parts : int
    capacity : float
        Of all edges between different parts.
    """

    parts: Int32Array
    num_parts: int
    capacity: float

    @property
    def share(self) -> float:
        """(parts - 1) / capacity: what spanning trees that add up to 1 need of each edge."""
        return (self.num_parts - 1) / self.capacity


def worst_partition(ends: Int32Array, capacity: Capacity, num_ranks: int) -> Partition:
    """The partition with the largest (parts - 1) / capacity between the parts.

    Each spanning tree takes at least parts - 1 edges between the parts, so trees of weight 1 in all
    load some edge by at least that share of its capacity; and fractions of trees that load none by
    more exist (Nash-Williams, Tutte). Its inverse is the strength of the graph.

    A partition with less than `limit` x (parts - 1) between its parts is sought by taking in edge
    after edge, each as far as no set of ranks then holds more than `limit` x (ranks - 1): sets that
    come to hold just as much are parts, and whether an edge fits is told by handing what edges
    weigh from one end to the other, with `limit` for each rank (Cunningham's greedy, with flows).
    The limit is that of the worst partition so far, until there is no worse one (Dinkelbach).

    Parameters
    ----------
    ends : numpy.ndarray, int32 (num_edges, 2)
        Two ranks each; parallel edges add up. All ranks are joined.
    capacity : numpy.ndarray, float64 or int64 (num_edges,)
        Positive.
    num_ranks : int

    Returns
    -------
    Partition
        Exact: all weights are integers. Every rank a part of its own where no other is worse.

    Notes
    -----
    Some hand-overs for each edge, most of them over a few ranks: mesh 8x8 2 ms, mesh 32x32 0.15
    CPU s. At worst a search of all edges for each hand-over, for each of a few limits.

    References
    ----------
    C. St. J. A. Nash-Williams, "Edge-disjoint spanning trees of finite graphs", Journal of the
    London Mathematical Society 36, 1961. W. T. Tutte, "On the problem of decomposing a graph into
    n connected factors", the same. W. H. Cunningham, "Optimal attack and reinforcement of a
    network", Journal of the ACM 32 (3), 1985.

    Examples
    --------
    >>> square_with_tail = np.array([[0, 1], [1, 2], [2, 3], [0, 3], [3, 4]])
    >>> worst = worst_partition(square_with_tail, np.ones(5), 5)
    >>> worst.parts.tolist(), worst.share
    ([0, 0, 0, 0, 1], 1.0)
    """
    weights = _integers(ends, capacity, num_ranks)
    parts = list(range(num_ranks))
    while True:
        between, steps = _between(weights, parts)
        found = _Hand(weights, between, steps).parts()
        worse, more_steps = _between(weights, found)
        if worse * steps >= between * more_steps:
            break
        parts = found
    numbers = np.unique(parts, return_inverse=True)[1]
    across = numbers[ends[:, 0]] != numbers[ends[:, 1]]
    return Partition(int32s("Parts", numbers), steps + 1, float(np.sum(capacity[across])))


def _integers(ends: Int32Array, capacity: Capacity, num_ranks: int) -> Weights:
    """For each rank the others that it shares edges with, and their exact weights."""
    exact = [Fraction(size) for size in capacity.tolist()]
    scale = lcm(*(size.denominator for size in exact))
    weights: Weights = [{} for _ in range(num_ranks)]
    for (first, second), size in zip(ends.tolist(), exact, strict=True):
        weight = weights[first].get(second, 0) + int(size * scale)
        weights[first][second] = weights[second][first] = weight
    return weights


def _between(weights: Weights, parts: list[int]) -> tuple[int, int]:
    """What is between different parts, and the number of parts less one."""
    both_ways = sum(
        weight
        for rank, others in enumerate(weights)
        for other, weight in others.items()
        if parts[rank] != parts[other]
    )
    return both_ways // 2, len(set(parts)) - 1


class _Hand:
    """Edges taken in one by one; what each weighs lies at its ends, at no rank more than a limit.

    Parameters
    ----------
    weights : list of dict
    limit, steps : int
        The limit is `limit` / `steps`; all weights are taken times `steps`.
    """

    def __init__(self, weights: Weights, limit: int, steps: int) -> None:
        self._weights, self._limit, self._steps = weights, limit, steps
        self._free = [limit] * len(weights)
        self._held: Weights = [{} for _ in weights]
        self._part = list(range(len(weights)))

    def parts(self) -> list[int]:
        """The part of each rank, where the least is left between parts beyond limit x steps."""
        order = self._breadth_first()
        place = {rank: number for number, rank in enumerate(order)}
        for rank in order:
            for other, weight in self._weights[rank].items():
                if place[other] < place[rank] and self._root(rank) != self._root(other):
                    self._take_in(rank, other, weight * self._steps)
        return [self._root(rank) for rank in range(len(self._part))]

    def _breadth_first(self) -> list[int]:
        order = dict.fromkeys([0])
        queue = deque(order)
        while queue:
            for other in self._weights[queue.popleft()]:
                if other not in order:
                    order[other] = None
                    queue.append(other)
        return list(order)

    def _root(self, rank: int) -> int:
        part = self._part
        while part[rank] != rank:
            part[rank] = part[part[rank]]
            rank = part[rank]
        return rank

    def _take_in(self, rank: int, other: int, weight: int) -> None:
        """Lay as much of an edge's weight at `rank` as fits; else its ends are in one part."""
        free, held = self._free, self._held
        needed = self._limit + weight
        full: list[int] = []
        while free[rank] + free[other] < needed and not full:
            full = self._hand_on(rank, other, needed - free[rank] - free[other])
        fits = min(weight, free[rank] + free[other] - self._limit)
        if fits:
            held[rank][other], held[other][rank] = fits, 0
            free[rank] -= fits
        for member in full:
            self._part[self._root(member)] = self._root(rank)

    def _hand_on(self, rank: int, other: int, amount: int) -> list[int]:
        """Hand at most `amount` from one of two ranks to the nearest one with room.

        Returns
        -------
        list of int
            If there is none, all ranks that were reached: they hold as much as they may.
        """
        free, held = self._free, self._held
        came_from = {rank: rank, other: other}
        queue = deque(came_from)
        while queue:
            here = queue.popleft()
            for there, weight in held[here].items():
                if not weight or there in came_from:
                    continue
                came_from[there] = here
                if free[there]:
                    self._move(came_from, there, min(amount, free[there]))
                    return []
                queue.append(there)
        return list(came_from)

    def _move(self, came_from: dict[int, int], goal: int, amount: int) -> None:
        way = [goal]
        while came_from[way[-1]] != way[-1]:
            way.append(came_from[way[-1]])
        hops = list(zip(way[1:], way[:-1], strict=True))
        amount = min(amount, *(self._held[here][there] for here, there in hops))
        for here, there in hops:
            self._held[here][there] -= amount
            self._held[there][here] += amount
        self._free[way[-1]] += amount
        self._free[goal] -= amount
