"""Links in pairs with their reverse, and how many spanning trees the pairs carry."""

import math
from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import BoolArray, Float64Array, Int32Array, Int64Array
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.bounds import link_occupancy, worst_partition
from multitree.topology.networks.measures import adjacency, hops_from
from multitree.topology.networks.topology import Topology

__all__ = [
    "MOST_TREES",
    "LinkPairs",
    "Neighbours",
    "TreeCount",
    "link_pairs",
    "neighbours_of",
    "tree_count",
]

Neighbours = list[list[tuple[int, int]]]
"""For each rank (adjacent rank, pair that joins the two), by ascending pair."""


class LinkPairs(NamedTuple):
    """Undirected edges, each two links with opposite directions; parallel ones stay apart."""

    ends: Int32Array  # (num_pairs, 2): the two ranks, the lower one first
    links: Int32Array  # (num_pairs, 2): from the first end to the second, and its reverse
    slots: Int64Array  # that a chunk holds the slower of the two, see `link_occupancy`
    capacity: Float64Array  # GB/s of the slower of the two


def link_pairs(topology: Topology) -> LinkPairs:
    """The links of a network without switches, in pairs; links without a reverse are left out.

    A ScheduleError says that there are switches, or that links with a reverse do not join all
    ranks.
    """
    if topology.num_switches:
        raise ScheduleError(f"{topology.name!r} must have no switches for trees of link pairs")
    # `reverse` matches parallel links one to one: links from lower ranks name each pair once.
    onward = np.flatnonzero((topology.reverse >= 0) & (topology.links[:, 0] < topology.links[:, 1]))
    links = np.stack([onward, topology.reverse[onward]], axis=1).astype(np.int32)
    ends = topology.links[onward]
    both_directions = adjacency(ends.T.ravel(), ends[:, ::-1].T.ravel(), topology.num_ranks)
    # A Topology is strongly connected, but its links that have a reverse need not join all ranks.
    if (hops_from(both_directions, 0) < 0).any():
        raise ScheduleError(
            f"{topology.name!r} must be joined by links with a reverse for trees of link pairs"
        )
    # A tree's edge needs both links in each period, so a pair is as fast as the slower of the two.
    slots = link_occupancy(topology)[links].max(axis=1)
    return LinkPairs(ends, links, slots, topology.bandwidth_gbytes_per_s[links].min(axis=1))


def neighbours_of(ends: Int32Array, num_ranks: int) -> Neighbours:
    """The ranks adjacent to each rank, and the pair that joins them."""
    neighbours: Neighbours = [[] for _ in range(num_ranks)]
    for pair, (first, second) in enumerate(ends.tolist()):
        neighbours[first].append((second, pair))
        neighbours[second].append((first, pair))
    return neighbours


MOST_TREES = 64
"""That are chosen; more can be asked for."""
_LARGEST_COMMON = 2**53


class TreeCount(NamedTuple):
    """A number of spanning trees, and the fewest slots in which each pair carries its trees."""

    num_trees: int
    period: int


class _Cut(NamedTuple):
    """Slots of the pairs between some parts of the ranks, and the number of parts less one."""

    slots: Int64Array
    steps: int

    def period(self, num_trees: int) -> int:
        """The fewest slots in which these pairs carry all that trees need of them."""
        needed = num_trees * self.steps
        # Whole trees need no fewer slots than fractions
        # of trees; the loop counts in exact integers.
        period = math.floor(needed / float((1 / self.slots).sum()))
        while int((period // self.slots).sum()) < needed:
            period += 1
        return period


def tree_count(
    pairs: LinkPairs, num_ranks: int, *, num_trees: int | None = None, tolerance: float = 0.01
) -> TreeCount:
    """The fewest trees whose period for each tree is near the least, and that period.

    So many trees exist in a period if and only if, however the ranks are parted, the pairs between
    the parts carry (parts - 1) x trees within it (Nash-Williams, Tutte). The worst partition with
    fractions gives the period where all pairs are as fast; otherwise whole trees on each pair make
    others count, too, and those are taken in until none is left that the period is too short for.
    With `num_trees` only the period is sought; a tree's share of it may be longer by `tolerance`,
    or the nearest number up to `MOST_TREES` counts.
    """
    cut = _cut(pairs, worst_partition(pairs.ends, _speeds(pairs), num_ranks).parts)
    share = cut.steps / float((1 / cut.slots).sum())
    candidates = range(1, MOST_TREES + 1) if num_trees is None else [num_trees]
    periods = {number: cut.period(number) for number in candidates}
    # A cut that is found is too narrow for the chosen period,
    # so that period rises in each turn and the loop ends.
    while True:
        ratios = {number: period / (number * share) for number, period in periods.items()}
        enough = max(1 + tolerance, min(ratios.values()))
        # Candidates ascend, so the first one that is near enough has the fewest trees.
        chosen = next(number for number, ratio in ratios.items() if ratio <= enough)
        parts = _too_narrow(pairs, num_ranks, chosen, periods[chosen])
        if parts is None:
            return TreeCount(chosen, periods[chosen])
        cut = _cut(pairs, parts)
        periods = {number: max(period, cut.period(number)) for number, period in periods.items()}


def _speeds(pairs: LinkPairs) -> Int64Array | Float64Array:
    """Capacities of the pairs: whole numbers, unless they would be too large for 64 bits."""
    common = math.lcm(*pairs.slots.tolist())
    return common // pairs.slots if common < _LARGEST_COMMON else 1 / pairs.slots


def _cut(pairs: LinkPairs, parts: Int32Array) -> _Cut:
    return _Cut(pairs.slots[np.ptp(parts[pairs.ends], axis=1) > 0], int(parts.max()))


def _too_narrow(pairs: LinkPairs, num_ranks: int, num_trees: int, period: int) -> Int32Array | None:
    """Parts between which the pairs carry too few trees in a period, if there are any."""
    # Pairs of equal speed scale together: the worst partition is the same for whole trees.
    if (pairs.slots == pairs.slots[0]).all():
        return None
    may = period // pairs.slots
    # Pairs slower than the period carry nothing. `worst_partition`
    # needs positive capacities that join all ranks.
    apart = _unjoined(pairs.ends[may > 0], num_ranks)
    if apart.any():
        return apart.astype(np.int32)
    worst = worst_partition(pairs.ends[may > 0], may[may > 0], num_ranks)
    return worst.parts if (worst.num_parts - 1) * num_trees > worst.capacity else None


def _unjoined(ends: Int32Array, num_ranks: int) -> BoolArray:
    """The ranks that rank 0 does not reach."""
    neighbours = adjacency(ends.T.ravel(), ends[:, ::-1].T.ravel(), num_ranks)
    return hops_from(neighbours, 0) < 0
