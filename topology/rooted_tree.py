"""One spanning tree below its root, whose parts can be hung elsewhere."""

from collections.abc import Iterable

__all__ = ["RootedTree"]


class RootedTree:
    """A spanning tree rooted at the middle of its longest way.

    Parameters
    ----------
    joined : list of list of int
        The two ends of each pair.
    num_ranks : int
    pairs : iterable of int
        The tree's.

    Attributes
    ----------
    root : int
    parent, pair_up, depth : list of int (num_ranks,)
        Of each rank; parent and pair of the root are -1.
    children : list of list of int (num_ranks,)

    Examples
    --------
    >>> tree = RootedTree([[0, 1], [1, 2], [2, 3]], 4, [0, 1, 2])
    >>> tree.root, tree.parent, tree.depth
    (2, [1, 2, -1, 2], [2, 1, 0, 1])
    """

    def __init__(self, joined: list[list[int]], num_ranks: int, pairs: Iterable[int]) -> None:
        beside: list[list[tuple[int, int]]] = [[] for _ in range(num_ranks)]
        for pair in pairs:
            first, second = joined[pair]
            beside[first].append((second, pair))
            beside[second].append((first, pair))
        self._hang(beside, 0)
        self._hang(beside, self.depth.index(max(self.depth)))
        middle = self.depth.index(max(self.depth))
        for _ in range((self.depth[middle] + 1) // 2):
            middle = self.parent[middle]
        self._hang(beside, middle)

    def _hang(self, beside: list[list[tuple[int, int]]], root: int) -> None:
        num_ranks = len(beside)
        self.root = root
        self.parent, self.pair_up, self.depth = ([-1] * num_ranks for _ in range(3))
        self.children: list[list[int]] = [[] for _ in range(num_ranks)]
        self.depth[root] = 0
        reached = [root]
        for rank in reached:
            for there, pair in beside[rank]:
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

        Parameters
        ----------
        top, joint, onto : int
            `joint` is `top` or below it, `onto` is not.
        cost : list of float
            By depth.

        Returns
        -------
        float

        Notes
        -----
        O(ranks below `top`).
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
