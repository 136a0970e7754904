"""Spanning trees packed such that every pair of links carries its share."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s, int64s
from multitree.topology.errors import ScheduleError
from multitree.topology.link_pairs import LinkPairs, link_pairs, neighbours_of
from multitree.topology.negotiation import negotiated_trees
from multitree.topology.rooted_tree import RootedTree
from multitree.topology.topology import Topology
from multitree.topology.tree_depth import shallow_trees
from multitree.topology.tree_exchange import completed_trees

__all__ = ["MOST_TREES", "TOLERANCE", "Packing", "pack_trees"]

MOST_TREES = 64
"""That are chosen; more can be asked for."""
TOLERANCE = 0.01
"""How far a number of trees may be from what fractions of trees would come to."""
ATTEMPTS, SMALL = 4, 400
"""At shallow trees, where trees times ranks are no more."""
PLENTY = 16
"""Trees up to which their number is multiplied where that makes them flatter."""


@dataclass(frozen=True, eq=False)
class Packing:
    """Spanning trees whose edges are pairs of links: REDUCE goes up one, GATHER down the other.

    Parameters
    ----------
    topology : Topology
    roots : array_like, int (num_trees,)
    parents : array_like, int (num_trees, num_ranks)
        -1 for the root.
    links : array_like, int (num_trees, num_ranks)
        From each rank to its parent, -1 for the root; GATHER takes the reverse.
    slots : array_like, int (num_links,)
        Slots that a chunk holds each link: those of the slower of the link and its reverse.
    period : int
        Slots within which every link can carry all its trees once.
    """

    topology: Topology
    roots: Int32Array
    parents: Int32Array
    links: Int32Array
    slots: Int64Array
    period: int

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
        """Trees that each link carries, one way or the other, int64 (num_links,)."""
        up = self.links[self.links >= 0]
        both = np.concatenate([up, self.topology.reverse[up]])
        return int64s("Loads", np.bincount(both, minlength=self.topology.num_links))

    @cached_property
    def heights(self) -> Int32Array:
        """Links between each tree's root and the rank farthest from it, int32 (num_trees,)."""
        height = np.zeros(self.num_trees, np.int32)
        at = np.tile(np.arange(self.topology.num_ranks), (self.num_trees, 1))
        trees = np.arange(self.num_trees)[:, None]
        while (at != self.roots[:, None]).any():
            above = self.parents[trees, at]
            height += (above >= 0).any(axis=1)
            at = np.where(above >= 0, above, at)
        return int32s("Heights", height)


def pack_trees(topology: Topology, *, num_trees: int | None = None, seed: int = 0) -> Packing:
    """As few spanning trees as load links evenly, as shallow as swaps make them.

    The period is the least that there is for so many trees: negotiation finds the trees, or else
    exact exchanges do, or prove that the period has to be longer.

    Parameters
    ----------
    topology : Topology
        Without switches. Links without a reverse are left out.
    num_trees : int, optional
        Otherwise the fewest, of at most `MOST_TREES`, whose period for each tree is within
        `TOLERANCE` of the least with any number, or else as near as there are; or some times as
        many, up to `PLENTY`, where those are less high.
    seed : int
        The same seed gives the same trees.

    Returns
    -------
    Packing

    Raises
    ------
    ScheduleError
        If there are switches, if links with a reverse do not join all ranks, or if there is no
        tree to pack.

    Notes
    -----
    Mesh 8x8 0.3, mesh 16x16 1.5 CPU s.

    Examples
    --------
    >>> from multitree.topology.families import mesh
    >>> packing = pack_trees(mesh(4, 4))
    >>> packing.num_trees, packing.period, int(packing.link_loads.max())
    (8, 5, 5)
    """
    pairs = link_pairs(topology)
    if num_trees is not None:
        if num_trees < 1:
            raise ScheduleError(f"Number of trees must be at least 1, not {num_trees!r}")
        return _packed(topology, pairs, num_trees, seed)
    fewest = _fewest_trees(pairs, topology.num_ranks)
    best = _packed(topology, pairs, fewest, seed)
    times = 2
    while fewest * times <= PLENTY:
        more = _packed(topology, pairs, fewest * times, seed)
        is_as_fast = more.period * best.num_trees <= best.period * more.num_trees
        if is_as_fast and more.heights.max() < best.heights.max():
            best = more
        times *= 2
    return best


def _fewest_trees(pairs: LinkPairs, num_ranks: int) -> int:
    """The number of trees by its definition in `pack_trees`."""
    share = (num_ranks - 1) / (1 / pairs.slots).sum()
    ratios = [
        _least_period(pairs, num_ranks, number) / (number * share)
        for number in range(1, MOST_TREES + 1)
    ]
    enough = max(1 + TOLERANCE, min(ratios))
    return 1 + next(place for place, ratio in enumerate(ratios) if ratio <= enough)


def _least_period(pairs: LinkPairs, num_ranks: int, num_trees: int) -> int:
    """The fewest slots in which all links carry enough, and those of each rank."""
    at_rank = np.zeros((num_ranks, len(pairs.ends)), bool)
    at_rank[pairs.ends.T, np.arange(len(pairs.ends))] = True
    period = 1
    while True:
        may = period // pairs.slots
        if may.sum() >= num_trees * (num_ranks - 1) and (at_rank @ may).min() >= num_trees:
            return period
        period += 1


def _packed(topology: Topology, pairs: LinkPairs, num_trees: int, seed: int) -> Packing:
    period = _least_period(pairs, topology.num_ranks, num_trees)
    beside = neighbours_of(pairs.ends, topology.num_ranks)
    while True:
        most = (period // pairs.slots).tolist()
        begun = negotiated_trees(beside, most, num_trees, seed)
        found = completed_trees(pairs.ends, topology.num_ranks, most, begun)
        if found is not None:
            break
        period += 1
    attempts = (
        shallow_trees(pairs.ends.tolist(), beside, most, found, seed + attempt)
        for attempt in range(ATTEMPTS if num_trees * topology.num_ranks <= SMALL else 1)
    )
    best = min(attempts, key=lambda trees: sorted((tree.height for tree in trees), reverse=True))
    return _as_packing(topology, pairs, best, period)


def _as_packing(
    topology: Topology, pairs: LinkPairs, trees: list[RootedTree], period: int
) -> Packing:
    parents = np.array([tree.parent for tree in trees])
    pair_up = np.array([tree.pair_up for tree in trees])
    is_second = parents < np.arange(topology.num_ranks)
    links = np.where(pair_up >= 0, pairs.links[pair_up, is_second.astype(int)], -1)
    slots = np.ones(topology.num_links, np.int64)
    slots[pairs.links.T] = pairs.slots
    roots = [tree.root for tree in trees]
    return Packing(topology, roots, parents, links, slots, period)  # type: ignore[arg-type]
