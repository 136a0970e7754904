"""Spanning trees packed such that every pair of links carries its share."""

from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s, int64s
from multitree.topology.errors import ScheduleError, report
from multitree.topology.networks.bounds import worst_partition
from multitree.topology.networks.topology import Topology
from multitree.topology.packing.link_pairs import LinkPairs, link_pairs, neighbours_of, tree_count
from multitree.topology.packing.negotiation import central_ranks, negotiated_trees
from multitree.topology.packing.tree_depth import RootedTree, shallow_trees

__all__ = ["TOLERANCE", "Packing", "as_packing", "completed_trees", "pack_trees", "rerooted"]


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


class _Forest(NamedTuple):
    """A forest by parents: each rank's parent, pair to it and depth, and its component's root."""

    pairs: set[int]
    parent: list[int]
    pair_up: list[int]
    depth: list[int]
    root: list[int]

    def way_between(self, first: int, second: int) -> list[int]:
        """The pairs on the path between two ranks of one component."""
        way = []
        while first != second:
            if self.depth[first] < self.depth[second]:
                first, second = second, first
            way.append(self.pair_up[first])
            first = self.parent[first]
        return way


def completed_trees(
    ends: Int32Array, num_ranks: int, most: list[int], trees: list[list[int]]
) -> list[list[int]]:
    """As many spanning trees as `trees` or forests, no pair in more of them than `most` allows.

    What is too much is taken out first. Then one pair after the other comes in by a shortest chain:
    a pair that may carry more joins a tree and closes a circle there, another pair of the circle
    leaves and joins another tree, until one joins two parts of a tree. Where no chain leads on
    there are no such trees, a ScheduleError (matroid union: J. Edmonds, "Minimum partition of a
    matroid into independent subsets", Journal of Research of the National Bureau of Standards 69B,
    1965). O(num_trees x num_pairs x num_ranks) for each pair that is missing.
    """
    pairs_of = [set(tree) for tree in trees]
    load = [sum(pair in pairs for pairs in pairs_of) for pair in range(len(most))]
    for pairs in pairs_of:
        # Sets are sorted, so that results do not rest on the order in which they are iterated.
        for pair in sorted(pairs):
            if load[pair] > most[pair]:
                pairs.remove(pair)
                load[pair] -= 1
    joined = ends.tolist()
    forests = [_forest(joined, num_ranks, pairs) for pairs in pairs_of]
    while any(len(forest.pairs) < num_ranks - 1 for forest in forests):
        chain = _shortest_chain(joined, num_ranks, forests, load, most)
        if not chain:
            raise ScheduleError(
                f"Links must be enough for {len(trees)} spanning trees, not such that some parts "
                "have too few between them"
            )
        # Only the first pair of a chain enters one more tree; the others change from tree to tree.
        load[chain[0][0]] += 1
        # All exchanges at once leave forests because the chain
        # is a shortest one (Edmonds): it has no shortcut.
        for step, (pair, tree) in enumerate(chain):
            forests[tree].pairs.add(pair)
            if step + 1 < len(chain):
                forests[tree].pairs.remove(chain[step + 1][0])
        for tree in {tree for _, tree in chain}:
            forests[tree] = _forest(joined, num_ranks, forests[tree].pairs)
    return [sorted(forest.pairs) for forest in forests]


def _forest(joined: list[list[int]], num_ranks: int, pairs: set[int]) -> _Forest:
    neighbours: list[list[tuple[int, int]]] = [[] for _ in range(num_ranks)]
    for pair in sorted(pairs):
        first, second = joined[pair]
        neighbours[first].append((second, pair))
        neighbours[second].append((first, pair))
    forest = _Forest(pairs, *([-1] * num_ranks for _ in range(4)))
    for start in range(num_ranks):
        if forest.root[start] >= 0:
            continue
        forest.root[start], forest.depth[start], reached = start, 0, [start]
        for rank in reached:
            for there, pair in neighbours[rank]:
                if forest.root[there] < 0:
                    forest.root[there], forest.depth[there] = start, forest.depth[rank] + 1
                    forest.parent[there], forest.pair_up[there] = rank, pair
                    reached.append(there)
    return forest


def _shortest_chain(
    joined: list[list[int]],
    num_ranks: int,
    forests: list[_Forest],
    load: list[int],
    most: list[int],
) -> list[tuple[int, int]]:
    """Pairs and the trees that they join, each in the place of the next; empty if there is none."""
    # Breadth first in the exchange graph of matroid union: the first chain found is a shortest.
    queue = deque(pair for pair, may in enumerate(most) if load[pair] < may)
    came_by: dict[int, tuple[int, int]] = dict.fromkeys(queue, (-1, -1))
    while queue:
        report("completing trees by exchanges")
        pair = queue.popleft()
        first, second = joined[pair]
        for tree, forest in enumerate(forests):
            if pair in forest.pairs:
                continue
            if forest.root[first] != forest.root[second]:
                return _chain(came_by, pair, tree)
            for other in forest.way_between(first, second):
                if other not in came_by:
                    came_by[other] = pair, tree
                    queue.append(other)
    return []


def _chain(came_by: dict[int, tuple[int, int]], pair: int, tree: int) -> list[tuple[int, int]]:
    chain = [(pair, tree)]
    while came_by[pair][0] >= 0:
        pair, tree = came_by[pair]
        chain.append((pair, tree))
    return chain[::-1]
