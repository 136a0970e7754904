"""Steps and cycles that no schedule can beat on a topology."""

import math
from collections import deque
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array, Int64Array, int32s, int64s
from multitree.topology.errors import report
from multitree.topology.networks.measures import smallest_cut
from multitree.topology.networks.topology import Topology

__all__ = [
    "Partition",
    "bound_cycles",
    "bound_steps",
    "link_occupancy",
    "worst_partition",
]

Weights = list[dict[int, int]]
Capacity = Float64Array | Int64Array
MOST_SLOTS = 4
"""On the fastest link, where that makes slower ones come out even."""
ROUNDING = 1e-9
"""Speeds that differ by less count as multiples of each other."""


class Partition(NamedTuple):
    """Parts of all ranks: the part of each, int32 (num_ranks,), and the capacity between them."""

    parts: Int32Array
    num_parts: int
    capacity: float  # of all edges between different parts

    @property
    def share(self) -> float:
        """(parts - 1) / capacity: what spanning trees that add up to 1 need of each edge."""
        return (self.num_parts - 1) / self.capacity


def worst_partition(ends: Int32Array, capacity: Capacity, num_ranks: int) -> Partition:
    """The partition with the largest (parts - 1) / capacity between the parts, exactly.

    Trees of weight 1 in all load some edge by that share of its capacity at least, and some trees
    none by more (Nash-Williams, "Edge-disjoint spanning trees of finite graphs", and Tutte, "On the
    problem of decomposing a graph into n connected factors", J. London Math. Soc. 36, 1961). Each
    edge is taken in as far as no set of ranks holds more than `limit` x (ranks - 1) (Cunningham,
    "Optimal attack and reinforcement of a network", J. ACM 32 (3), 1985); the limit is that of the
    worst partition so far (Dinkelbach). `ends` are int32 (num_edges, 2), `capacity` is positive;
    mesh 32x32 takes 0.15 CPU s.
    """
    weights = _integers(ends, capacity, num_ranks)
    parts = list(range(num_ranks))
    while True:
        between, steps = _between(weights, parts)
        found = _Hand(weights, between, steps).parts()
        worse, more_steps = _between(weights, found)
        # Compared crosswise in exact integers: rounded
        # ratios could keep Dinkelbach's iteration going.
        if worse * steps >= between * more_steps:
            break
        parts = found
    numbers = np.unique(parts, return_inverse=True)[1]
    across = numbers[ends[:, 0]] != numbers[ends[:, 1]]
    return Partition(int32s("Parts", numbers), steps + 1, float(np.sum(capacity[across])))


def _integers(ends: Int32Array, capacity: Capacity, num_ranks: int) -> Weights:
    """For each rank the others that it shares edges with, and their exact weights."""
    # Floats are binary fractions, so one common denominator makes all capacities exact integers.
    exact = [Fraction(size) for size in capacity.tolist()]
    scale = lcm(*(size.denominator for size in exact))
    weights: Weights = [{} for _ in range(num_ranks)]
    for (first, second), size in zip(ends.tolist(), exact, strict=True):
        weight = weights[first].get(second, 0) + int(size * scale)
        weights[first][second] = weights[second][first] = weight
    return weights


def _between(weights: Weights, parts: list[int]) -> tuple[int, int]:
    """What is between different parts, and the number of parts less one."""
    both_directions = sum(
        weight
        for rank, others in enumerate(weights)
        for other, weight in others.items()
        if parts[rank] != parts[other]
    )
    return both_directions // 2, len(set(parts)) - 1


class _Hand:
    """Edges taken in one by one; what each weighs lies at its ends, at no rank more than a limit.

    The limit is `limit` / `steps`; all weights are taken times `steps`, so that they are integers.
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
            report("weighing partitions of ranks, ranks done", place[rank], len(order))
            for other, weight in self._weights[rank].items():
                # An edge comes in at the later of its ends, so
                # once. A part is full: edges within it are passed over.
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
            # Union-find with path halving.
            part[rank] = part[part[rank]]
            rank = part[rank]
        return rank

    def _take_in(self, rank: int, other: int, weight: int) -> None:
        """Lay as much of an edge's weight at `rank` as fits; else its ends are in one part."""
        free, held = self._free, self._held
        # With `limit` left free at both ends together, no
        # set with both holds more than limit x (ranks - 1).
        needed = self._limit + weight
        full: list[int] = []
        while free[rank] + free[other] < needed and not full:
            full = self._hand_on(rank, other, needed - free[rank] - free[other])
        fits = min(weight, free[rank] + free[other] - self._limit)
        if fits:
            held[rank][other], held[other][rank] = fits, 0
            free[rank] -= fits
        # No other rank reached has room: the set holds just as much as it may, and is one part.
        for member in full:
            self._part[self._root(member)] = self._root(rank)

    def _hand_on(self, rank: int, other: int, amount: int) -> list[int]:
        """Hand at most `amount` from one of two ranks to the nearest one with room.

        Returns all ranks that were reached if there is none: they hold as much as they may.
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


MOST_RANKS_IN_PARTS = 2048
"""Beyond that, networks whose worst partition is not known beforehand count as ranks and cuts."""


def bound_steps(topology: Topology) -> int:
    """The fewest steps of a reduce-scatter or an all-gather with one flow per rank.

    In a step each link carries one chunk. A rank must receive N-1 chunks in the all-gather and send
    N-1 sums in the reduce-scatter, and what the farthest rank has takes as many steps as links lie
    between: max(ceil((N-1) / least degree), eccentricity), for the phase that is better off.
    Switches pass a message on within a step, so with them the distance counts for nothing.
    """
    num_ranks = topology.num_ranks
    # Sums of the reduce-scatter leave ranks, chunks of the all-gather enter: the better one counts.
    least = max(int(degree[:num_ranks].min()) for degree in (topology.degree, topology.in_degree))
    chunks_per_link = -(-(num_ranks - 1) // least)
    return chunks_per_link if topology.num_switches else max(chunks_per_link, topology.diameter)


def bound_cycles(
    topology: Topology,
    num_flits: int,
    *,
    latency_cycles: float | Float64Array = 150,
    flits_per_cycle: float | Float64Array = 1.0,
) -> float:
    """The fewest cycles of an all-reduce of `num_flits` per rank, head flits not counted.

    The largest of four. Every element leaves and enters ranks at least 2 (N-1) times, over all
    links together. Out of each set of ranks a sum of the whole buffer has to go. Between k parts of
    the ranks the buffer goes 2 (k-1) times: without switches, and up to `MOST_RANKS_IN_PARTS`,
    `worst_partition` counts. And every rank's result depends on the farthest rank's value. Latency
    and speed are those of every link or of each; mesh 32x32 takes 0.2 CPU s at the first call, a
    cut of unequal links longer.
    """
    if num_flits < 0:
        raise ValueError(f"Number of flits must be at least 0, not {num_flits!r}")
    speeds = np.broadcast_to(np.asarray(flits_per_cycle, np.float64), (topology.num_links,))
    # Cuts and shares of equal links scale with their speed, so each network is searched once only.
    if (speeds == speeds[0]).all():
        worst_cut = topology.min_cut * float(speeds[0])
        by_parts = num_flits * _share_of_equal_links(topology) / float(speeds[0])
    else:
        worst_cut = smallest_cut(topology.links, speeds, topology.num_ranks)
        by_parts = num_flits * _share(topology, speeds)
    # fsum rounds once, so the bound does not depend on the order of the links.
    at_ranks = min(
        math.fsum(speeds[ends < topology.num_ranks].tolist()) for ends in topology.links.T
    )
    by_links = 2 * (topology.num_ranks - 1) * num_flits / at_ranks
    by_distance = topology.diameter * float(np.min(latency_cycles))
    return max(by_links, num_flits / worst_cut, by_parts, by_distance)


# Topologies do not change and are hashed by identity, so they can be keys of a cache.
@lru_cache(maxsize=16)
def _share_of_equal_links(topology: Topology) -> float:
    """What the worst partition needs of links with speed 1.

    Where as many links leave any set of ranks as leave each rank, k parts have k / 2 times as many
    between them: most are needed of them where each rank is a part, which is counted elsewhere.
    """
    known = topology.family != "custom" and topology.min_cut * topology.num_ranks
    if known and known >= topology.num_links:
        return 0.0
    return _share(topology, np.ones(topology.num_links))


def _share(topology: Topology, speeds: Float64Array) -> float:
    """What the worst partition needs of links; half of a link's speed is for either direction."""
    if topology.num_switches or topology.num_ranks > MOST_RANKS_IN_PARTS:
        return 0.0
    return worst_partition(topology.links, speeds / 2, topology.num_ranks).share


def link_occupancy(topology: Topology) -> Int64Array:
    """Steps that a chunk holds each link, latency left out, int64 (num_links,).

    1 on all links of equal speed; else 1 to `MOST_SLOTS` on the fastest, such that rounding up
    costs the slower ones least.

    >>> links = [[0, 1], [1, 0]] * 2
    >>> link_occupancy(Topology("pair", 2, 0, links, [24, 24, 24, 16], 150.0)).tolist()
    [2, 2, 2, 3]
    """
    speeds = topology.bandwidth_gbytes_per_s
    ratio = speeds.max() / speeds
    whole = [np.ceil(unit * ratio - ROUNDING) for unit in range(1, MOST_SLOTS + 1)]
    # Rounded, so that among units of equal waste the smallest is taken on every platform.
    worst = [round(float((slots / ratio).max()) / unit, 9) for unit, slots in enumerate(whole, 1)]
    return int64s("Slots", whole[worst.index(min(worst))].astype(np.int64))
