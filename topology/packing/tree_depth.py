"""Spanning trees made shallow by swaps that leave every pair's load as it is."""

import random
from collections.abc import Iterable

from multitree.topology.errors import report
from multitree.topology.packing.link_pairs import Neighbours

__all__ = [
    "RootedTree",
    "shallow_trees",
]


class RootedTree:
    """A spanning tree rooted at the middle of its longest path.

    `parent`, `pair_up` and `depth` are of each rank, -1 at the root; `pairs` are the tree's,
    `joined` has the two ends of each.
    """

    def __init__(self, joined: list[list[int]], num_ranks: int, pairs: Iterable[int]) -> None:
        neighbours: list[list[tuple[int, int]]] = [[] for _ in range(num_ranks)]
        for pair in pairs:
            first, second = joined[pair]
            neighbours[first].append((second, pair))
            neighbours[second].append((first, pair))
        # Two searches find a longest path: a rank farthest from any other one is an end of it.
        self._hang(neighbours, 0)
        self._hang(neighbours, self.depth.index(max(self.depth)))
        middle = self.depth.index(max(self.depth))
        for _ in range((self.depth[middle] + 1) // 2):
            middle = self.parent[middle]
        self._hang(neighbours, middle)

    def _hang(self, neighbours: list[list[tuple[int, int]]], root: int) -> None:
        num_ranks = len(neighbours)
        self.root = root
        self.parent, self.pair_up, self.depth = ([-1] * num_ranks for _ in range(3))
        self.children: list[list[int]] = [[] for _ in range(num_ranks)]
        self.depth[root] = 0
        reached = [root]
        for rank in reached:
            for there, pair in neighbours[rank]:
                if self.depth[there] < 0:
                    self.parent[there], self.pair_up[there] = rank, pair
                    self.depth[there] = self.depth[rank] + 1
                    self.children[rank].append(there)
                    reached.append(there)

    @property
    def height(self) -> int:
        """The most links between the root and a rank."""
        return max(self.depth)

    def is_below(self, rank: int, above: int) -> bool:
        """Whether a rank is `above` itself or below it."""
        depth = self.depth[above]
        while self.depth[rank] > depth:
            rank = self.parent[rank]
        return rank == above

    def cost_of_moving(self, top: int, joint: int, onto: int, cost: list[float]) -> float:
        """What all depths would cost more if the part below `top` hung by `joint` below `onto`.

        `joint` is `top` or below it, `onto` is not; `cost` is by depth. O(ranks below `top`).
        """
        depth, children = self.depth, self.children
        below = depth[onto] + 1
        if joint == top and not children[top]:
            return cost[below] - cost[depth[top]]
        more, stack = 0.0, [(joint, -1, below)]
        while stack:
            rank, before, below = stack.pop()
            more += cost[below] - cost[depth[rank]]
            below += 1
            stack += [(child, rank, below) for child in children[rank] if child != before]
            if rank != top and self.parent[rank] != before:
                stack.append((self.parent[rank], rank, below))
        return more

    def move(self, top: int, joint: int, onto: int, pair: int) -> None:
        """Hang the part below `top` by `joint` below `onto`, over `pair`."""
        parent, pair_up, children = self.parent, self.pair_up, self.children
        children[parent[top]].remove(top)
        rank = joint
        while True:
            above, over = parent[rank], pair_up[rank]
            parent[rank], pair_up[rank] = onto, pair
            children[onto].append(rank)
            if rank == top:
                break
            children[above].remove(rank)
            onto, pair, rank = rank, over, above
        stack = [joint]
        while stack:
            rank = stack.pop()
            self.depth[rank] = self.depth[parent[rank]] + 1
            stack += children[rank]


MOVES_PER_EDGE, LEAST_MOVES, MOST_MOVES = 40, 8_000, 400_000
ROUNDS = 8
"""After each the trees are rooted in their middle again."""
STEEPNESS, STEEPEST = 3.0, 600
"""How many times more a rank costs with each hop from its root, and up to how many hops."""


def shallow_trees(
    joined: list[list[int]],
    neighbours: Neighbours,
    most: list[int],
    trees: list[list[int]],
    seed: int,
) -> list[RootedTree]:
    """As many trees with the same loads, or lighter ones, rooted in their middle and flatter.

    A part of a tree is hung elsewhere, over a pair that may carry more; or over one of another
    tree, which takes the pair that is left in exchange. Of any two trees and a pair of one there is
    always such a pair of the other (strong exchange of bases). A move is made if the sum of
    `STEEPNESS ** depth` of all ranks does not grow by it. `most` are the trees that each pair may
    carry. `MOVES_PER_EDGE` moves of some microseconds for each edge: 0.2 CPU s for sixteen trees on
    a mesh 8x8.
    """
    swaps = _Swaps(joined, neighbours, most, trees, seed)
    edges = len(trees) * (len(neighbours) - 1)
    moves = min(max(MOVES_PER_EDGE * edges, LEAST_MOVES), MOST_MOVES)
    for number in range(ROUNDS):
        report("making trees flatter, rounds done", number, ROUNDS)
        for _ in range(moves // ROUNDS):
            swaps.try_one()
        swaps.root_in_the_middle()
    return swaps.trees


class _Swaps:
    """The trees, and who uses each pair, from move to move."""

    def __init__(
        self,
        joined: list[list[int]],
        neighbours: Neighbours,
        most: list[int],
        trees: list[list[int]],
        seed: int,
    ) -> None:
        self._joined, self._neighbours, self._most = joined, neighbours, most
        self.trees = [RootedTree(joined, len(neighbours), pairs) for pairs in trees]
        self._users: list[list[int]] = [[] for _ in joined]
        for number, pairs in enumerate(trees):
            for pair in pairs:
                self._users[pair].append(number)
        # 3 ** 600 is some 1e286, so that sums over all ranks stay finite.
        self._cost = [STEEPNESS ** min(depth, STEEPEST) for depth in range(len(neighbours) + 1)]
        self._draw = random.Random(seed).random

    def try_one(self) -> None:
        """Draw a move, and make it if it is no loss."""
        number = int(self._draw() * len(self.trees))
        tree = self.trees[number]
        top = self._rank_in(tree)
        joint = top
        while tree.children[joint] and self._draw() < 0.5:
            joint = tree.children[joint][int(self._draw() * len(tree.children[joint]))]
        onto, pair = self._neighbours[joint][int(self._draw() * len(self._neighbours[joint]))]
        users, left = self._users[pair], tree.pair_up[top]
        # Of all pairs that lead out of the part below `top`, the tree has only `left`.
        if top == tree.root or pair == left or tree.is_below(onto, top):
            return
        more = tree.cost_of_moving(top, joint, onto, self._cost)
        if len(users) < self._most[pair]:
            if more <= 0:
                tree.move(top, joint, onto, pair)
                self._users[left].remove(number)
                users.append(number)
            return
        if self._swapped(pair, left, more):
            tree.move(top, joint, onto, pair)
            self._users[left].remove(number)
            users.append(number)

    def root_in_the_middle(self) -> None:
        """Root every tree in the middle of its longest path again."""
        num_ranks = len(self._neighbours)
        for number, tree in enumerate(self.trees):
            pairs = [pair for pair in tree.pair_up if pair >= 0]
            self.trees[number] = RootedTree(self._joined, num_ranks, pairs)

    def _rank_in(self, tree: RootedTree) -> int:
        """Any rank, or as often the deeper of two."""
        draw, depth = self._draw, tree.depth
        rank, other = int(draw() * len(depth)), int(draw() * len(depth))
        return other if depth[other] > depth[rank] and draw() < 0.5 else rank

    def _swapped(self, taken: int, given: int, more: float) -> bool:
        """Give one of the trees of pair `taken` the pair `given` for it, if that is no loss."""
        # Symmetric exchange of bases (Brualdi 1969) promises such a pair; this tests the one drawn.
        users, others = self._users[taken], self._users[given]
        start = int(self._draw() * len(users))
        for turn in range(len(users)):
            # Negative indices make this a cyclic walk from a random start.
            number = users[start + turn - len(users)]
            tree = self.trees[number]
            first, second = self._joined[taken]
            top = first if tree.pair_up[first] == taken else second
            joint, onto = self._joined[given]
            is_below = tree.is_below(joint, top)
            # `given` joins both parts of the tree again exactly if one of its ends is below `top`.
            if is_below == tree.is_below(onto, top):
                continue
            if not is_below:
                joint, onto = onto, joint
            if more + tree.cost_of_moving(top, joint, onto, self._cost) <= 0:
                tree.move(top, joint, onto, given)
                users.remove(number)
                others.append(number)
                return True
        return False
