"""Spanning trees packed such that every pair of links carries its share."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s, int64s
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.bounds import worst_partition
from multitree.topology.networks.topology import Topology
from multitree.topology.packing.link_pairs import LinkPairs, link_pairs, neighbours_of, tree_count
from multitree.topology.packing.negotiation import central_ranks, negotiated_trees
from multitree.topology.packing.tree_depth import RootedTree, shallow_trees
from multitree.topology.packing.tree_exchange import completed_trees

__all__ = ["TOLERANCE", "Packing", "as_packing", "pack_trees", "rerooted"]

TOLERANCE = 0.01
"""How far the period is from what fractions of trees would come to, where enough trees help."""
ATTEMPTS, SMALL = 4, 400
"""At shallow trees, where trees times ranks are no more."""
PLENTY, PLENTY_EDGES = 16, 4096
"""Trees, and edges of all, up to which their number is multiplied where they get flatter by it."""


@dataclass(frozen=True, eq=False)
class Packing:
    """Spanning trees whose edges are pairs of links: REDUCE goes up one, GATHER down the other."""

    topology: Topology
    roots: Int32Array  # (num_trees,)
    parents: Int32Array  # (num_trees, num_ranks), -1 for the root
    links: Int32Array  # from each rank to its parent, -1 for the root; GATHER takes the reverse
    slots: Int64Array  # (num_links,): of a chunk on the slower of the link and its reverse
    period: int  # slots within which every link can carry all its trees once

    def __post_init__(self) -> None:
        for field in ("roots", "parents", "links"):
            object.__setattr__(self, field, int32s(field.capitalize(), getattr(self, field)))
        object.__setattr__(self, "slots", int64s("Slots", self.slots))

    @property
    def num_trees(self) -> int:
        """Number of trees, each with as large a chunk."""
        return len(self.roots)

    @cached_property
    def link_loads(self) -> Int64Array:
        """Trees that each link carries, in either direction, int64 (num_links,)."""
        up = self.links[self.links >= 0]
        both = np.concatenate([up, self.topology.reverse[up]])
        return int64s("Loads", np.bincount(both, minlength=self.topology.num_links))

    @cached_property
    def ratio_to_optimum(self) -> float:
        """Time of a large buffer by the least that trees of link pairs can come to.

        Above 1 where the number of trees, or of slots of links that differ in speed, is rounded.
        """
        pairs = link_pairs(self.topology)
        worst = worst_partition(pairs.ends, pairs.capacity, self.topology.num_ranks)
        # A slot lasts as long as the pair needs whose number of slots is rounded up least.
        chunk = float((1 / (pairs.capacity * pairs.slots)).max())
        return self.period * chunk / self.num_trees / worst.share

    @cached_property
    def heights(self) -> Int32Array:
        """Links between each tree's root and the rank farthest from it, int32 (num_trees,)."""
        height = np.zeros(self.num_trees, np.int32)
        at = np.tile(np.arange(self.topology.num_ranks), (self.num_trees, 1))
        trees = np.arange(self.num_trees)[:, None]
        # All ranks of all trees climb at once; a tree's
        # height is the number of turns in which one moves.
        while (at != self.roots[:, None]).any():
            above = self.parents[trees, at]
            height += (above >= 0).any(axis=1)
            at = np.where(above >= 0, above, at)
        return int32s("Heights", height)


def pack_trees(
    topology: Topology,
    *,
    num_trees: int | None = None,
    tolerance: float = TOLERANCE,
    seed: int = 0,
) -> Packing:
    """As few spanning trees as load links evenly, as shallow as swaps make them.

    The period is the least that there is for so many trees: negotiation finds the trees, or else
    exact exchanges do. By default they are the fewest whose period for each tree is within
    `tolerance`, see `tree_count`, or some times as many where those are less high: few trees have a
    short period, and so few slots from the first of a wave to its last. A ScheduleError says that
    there are switches, or no tree to pack. Mesh 8x8 takes 0.2, mesh 32x32 8 CPU s; the same seed
    gives the same trees.
    """
    pairs = link_pairs(topology)
    if num_trees is not None:
        if num_trees < 1:
            raise ScheduleError(f"Number of trees must be at least 1, not {num_trees!r}")
        count = tree_count(pairs, topology.num_ranks, num_trees=num_trees)
        return _packed(topology, pairs, *count, seed)
    fewest, period = tree_count(pairs, topology.num_ranks, tolerance=tolerance)
    best = _packed(topology, pairs, fewest, period, seed)
    most = min(PLENTY, PLENTY_EDGES // topology.num_ranks)
    # Multiples keep the period per tree, so only the height can change.
    for times in (2, 4, 8, 16):
        if fewest * times > most or best.heights.max() == _least_height(topology, pairs):
            break
        more = _packed(topology, pairs, fewest * times, period * times, seed)
        if more.heights.max() < best.heights.max():
            best = more
    return best


def rerooted(packing: Packing, root: int) -> Packing:
    """The same trees, all rooted at one rank."""
    parents, links = packing.parents.copy(), packing.links.copy()
    reverse = packing.topology.reverse
    for tree in range(packing.num_trees):
        rank, below, link = root, -1, -1
        while rank >= 0:
            # At the old root `up` is -1, and what `reverse` gives for it is never used.
            above, up = int(parents[tree, rank]), int(links[tree, rank])
            parents[tree, rank], links[tree, rank] = below, link
            rank, below, link = above, rank, int(reverse[up])
    roots = np.full(packing.num_trees, root)
    return replace(packing, roots=roots, parents=parents, links=links)


def _least_height(topology: Topology, pairs: LinkPairs) -> int:
    return central_ranks(neighbours_of(pairs.ends, topology.num_ranks))[1]


def _packed(
    topology: Topology, pairs: LinkPairs, num_trees: int, period: int, seed: int
) -> Packing:
    """So many trees, the flattest of some attempts."""
    neighbours = neighbours_of(pairs.ends, topology.num_ranks)
    most = (period // pairs.slots).tolist()
    # Negotiation is fast and may fail. Exchanges cannot:
    # by `tree_count` so many trees exist in the period.
    begun = negotiated_trees(neighbours, most, num_trees, seed)
    found = completed_trees(pairs.ends, topology.num_ranks, most, begun)
    least_height = _least_height(topology, pairs)
    best: list[RootedTree] = []
    for attempt in range(ATTEMPTS if num_trees * topology.num_ranks <= SMALL else 1):
        trees = shallow_trees(pairs.ends.tolist(), neighbours, most, found, seed + attempt)
        # Lists compare from the highest tree down, so the highest counts first.
        if not best or _heights(trees) < _heights(best):
            best = trees
        if _heights(best)[0] == least_height:
            break
    return as_packing(topology, pairs, best, period)


def _heights(trees: list[RootedTree]) -> list[int]:
    return sorted((tree.height for tree in trees), reverse=True)


def as_packing(
    topology: Topology, pairs: LinkPairs, trees: list[RootedTree], period: int
) -> Packing:
    """Trees of pairs as trees of links."""
    parents = np.array([tree.parent for tree in trees])
    pair_up = np.array([tree.pair_up for tree in trees])
    # Column 0 of pairs.links leads from the lower rank to the higher, column 1 back.
    is_second = parents < np.arange(topology.num_ranks)
    links = np.where(pair_up >= 0, pairs.links[pair_up, is_second.astype(int)], -1)
    slots = np.ones(topology.num_links, np.int64)
    slots[pairs.links.T] = pairs.slots
    roots = [tree.root for tree in trees]
    return Packing(topology, roots, parents, links, slots, period)  # type: ignore[arg-type]
