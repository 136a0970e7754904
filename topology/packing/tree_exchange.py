"""Spanning trees completed by chains of exchanges, or proved impossible."""

from collections import deque
from typing import NamedTuple

from multitree.topology.arrays import Int32Array
from multitree.topology.errors import ScheduleError

__all__ = ["completed_trees"]


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
