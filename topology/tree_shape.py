"""The arithmetic of fat trees: which node stands above and below which."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from multitree.topology.arrays import Int64Array, int64s


@dataclass(frozen=True)
class TreeShape:
    """An extended generalized fat tree: level 0 are ranks, the levels above are switches.

    Below a node of level i are m_i nodes, above a node of level i-1 are w_i. With M_i and W_i
    the products of the first i of them, node number A W_i + B of level i stands above ranks
    A M_i up to (A+1) M_i, as one of W_i such nodes.

    Parameters
    ----------
    num_below, num_above : tuple of int
        m_1, m_2, ... and w_1, w_2, ..., one for each level of switches.

    References
    ----------
    S. R. Öhring, M. Ibel, S. K. Das, M. J. Kumar, "On generalized fat trees", IPPS 1995.

    Examples
    --------
    >>> TreeShape((2, 3), (1, 2)).first_node.tolist()
    [0, 6, 9, 11]
    """

    num_below: tuple[int, ...]
    num_above: tuple[int, ...]

    @cached_property
    def ranks_below(self) -> Int64Array:
        """M_i for each level i from 0, int64 (num_levels + 1,)."""
        return int64s("Ranks below", np.cumprod([1, *self.num_below]))

    @cached_property
    def width(self) -> Int64Array:
        """W_i for each level i from 0, int64 (num_levels + 1,)."""
        return int64s("Width", np.cumprod([1, *self.num_above]))

    @cached_property
    def first_node(self) -> Int64Array:
        """The first node of each level, and the one after the last, int64 (num_levels + 2,)."""
        sizes = self.ranks_below[-1] // self.ranks_below * self.width
        return int64s("First nodes", np.r_[0, np.cumsum(sizes)])

    def levels(self) -> Iterator[Int64Array]:
        """The nodes of each level from the ranks up."""
        for first, last in zip(self.first_node[:-1], self.first_node[1:], strict=True):
            yield np.arange(first, last)

    def level_of(self, nodes: Int64Array) -> Int64Array:
        """The level of each node, int64 (n,)."""
        return int64s("Level", np.searchsorted(self.first_node, nodes, side="right") - 1)

    def below(self, nodes: Int64Array) -> Int64Array:
        """The nodes below each of some nodes of one level, int64 (n, m_i)."""
        level = int(self.level_of(nodes[:1])[0])
        if level == 0:
            return np.empty((len(nodes), 0), np.int64)
        subtree = (nodes - self.first_node[level]) // self.width[level]
        num_below = self.num_below[level - 1]
        children = subtree[:, None] * num_below + np.arange(num_below)
        place = (nodes - self.first_node[level]) % self.width[level - 1]
        lower = children * self.width[level - 1] + place[:, None]
        return np.asarray(self.first_node[level - 1] + lower)

    def above(self, nodes: Int64Array) -> Int64Array:
        """The nodes above each of some nodes of one level, int64 (n, w_i+1)."""
        level = int(self.level_of(nodes[:1])[0])
        if level == len(self.num_above):
            return np.empty((len(nodes), 0), np.int64)
        return np.stack(
            [
                self.parent(nodes, np.full(len(nodes), choice))
                for choice in range(self.num_above[level])
            ],
            axis=1,
        )

    def parent(self, nodes: Int64Array, choice: Int64Array) -> Int64Array:
        """The node above each node that a choice of 0..w_i+1 - 1 names, int64 (n,).

        Parameters
        ----------
        nodes : numpy.ndarray, int64 (n,)
            Of any levels but the highest.
        choice : numpy.ndarray, int64 (n,)

        Returns
        -------
        numpy.ndarray, int64 (n,)
        """
        level = self.level_of(nodes)
        number, width = nodes - self.first_node[level], self.width[level]
        subtree = number // width // np.array([*self.num_below, 1])[level]
        place = choice * width + number % width
        return np.asarray(self.first_node[level + 1] + subtree * self.width[level + 1] + place)

    def onward(self, nodes: Int64Array, ranks: Int64Array) -> Int64Array:
        """The next node on the way to a rank: down where it is below, else up by rank.

        A node with w ways up takes way (rank / W_i) mod w, so that the ways down to a rank
        from all others are one tree and neighbouring ranks' trees share no way up.

        Parameters
        ----------
        nodes, ranks : numpy.ndarray, int64 (n,)

        Returns
        -------
        numpy.ndarray, int64 (n,)

        References
        ----------
        E. Zahavi, "D-Mod-K routing providing non-blocking traffic for shift permutations on
        real life fat trees", CCIT report 776, Technion, 2010.
        """
        level = self.level_of(nodes)
        number = nodes - self.first_node[level]
        goes_down = (ranks // self.ranks_below[level]) == number // self.width[level]
        goes_down &= level > 0
        lower = np.maximum(level - 1, 0)
        child = ranks // self.ranks_below[lower]
        down = self.first_node[lower] + child * self.width[lower] + number % self.width[lower]
        above = np.array([*self.num_above, 1])[level]
        up = np.minimum(level, len(self.num_above) - 1)
        choice = ranks // self.width[up] % above
        highest = level == len(self.num_above)
        return np.where(goes_down | highest, down, self.parent(np.where(highest, 0, nodes), choice))


def tree_shape(family: str, dims: tuple[int, ...]) -> TreeShape:
    """The shape of a family of fat trees.

    Parameters
    ----------
    family : str
        "fat_tree" or "kary_tree".
    dims : tuple of int

    Returns
    -------
    TreeShape

    Examples
    --------
    >>> tree_shape("fat_tree", (4, 8)), tree_shape("kary_tree", (4, 2, 2))
    (TreeShape(num_below=(8, 4), num_above=(1, 8)), TreeShape(num_below=(4, 4), num_above=(1, 2)))
    """
    if family == "fat_tree":
        num_leaves, hosts = dims
        return TreeShape((hosts, num_leaves), (1, hosts))
    down_ports, num_levels, oversubscription = dims
    ways_up = down_ports // oversubscription
    return TreeShape((down_ports,) * num_levels, (1,) + (ways_up,) * (num_levels - 1))
