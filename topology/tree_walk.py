"""Rings around a spanning tree, where links make no circle of all ranks."""

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array
from multitree.topology.errors import ScheduleError
from multitree.topology.routes import LinkFinder
from multitree.topology.topology import Topology

Routes = tuple[Int64Array, Int64Array, Int64Array]


class TreeWalk:
    """A ring of all ranks, each at most three links behind the one before.

    A walk around a spanning tree takes every link of it once each way and comes to every rank.
    A rank gets its place in the ring where the walk first comes to it if it is an even number of
    links below rank 0, and where the walk last leaves it if an odd one: so neither a way down nor
    a way up passes two ranks that have or had their place elsewhere.

    Parameters
    ----------
    topology : Topology
        Without switches.

    Attributes
    ----------
    order : list of int
        The ranks as they follow each other, from 0.

    Raises
    ------
    ScheduleError
        If links with a reverse do not join all ranks.

    Notes
    -----
    Breadth first from rank 0, lowest neighbours first; O(num_links log num_links).

    References
    ----------
    M. Sekanina, "On an ordering of the set of vertices of a connected graph", Publications of
    the Faculty of Science, University of Brno 412, 1960.

    Examples
    --------
    >>> from multitree.topology.families import mesh
    >>> TreeWalk(mesh(5)).order
    [0, 2, 4, 3, 1]
    """

    def __init__(self, topology: Topology) -> None:
        self._finder = LinkFinder(topology)
        both_ways = topology.links[topology.reverse >= 0]
        self._parent = _parents(topology, both_ways[np.lexsort(both_ways.T[::-1])])
        self.order = self._walk()

    def _walk(self) -> list[int]:
        children: list[list[int]] = [[] for _ in self._parent]
        for rank, parent in enumerate(self._parent):
            if parent >= 0:
                children[parent].append(rank)
        order: list[int] = []
        stack = [(0, 0, False)]
        while stack:
            rank, depth, leaves = stack.pop()
            if leaves == bool(depth % 2):
                order.append(rank)
            if not leaves:
                stack.append((rank, depth, True))
                stack += [(child, depth + 1, False) for child in reversed(children[rank])]
        return order

    def routes(self, src: Int64Array, dst: Int64Array) -> Routes:
        """For each pair of ranks the link that joins them, or else the way along the tree.

        Of the pairs that follow each other in `order` no two take the same link, and since ways
        lead up the tree, then down, no messages wait in a circle.

        Parameters
        ----------
        src, dst : numpy.ndarray, int64 (n,)

        Returns
        -------
        tuple of numpy.ndarray
            Offsets, links and classes as for `Schedule.from_rows`; all classes are 0.
        """
        pairs, pair_of_row = np.unique(np.stack([src, dst]), axis=1, return_inverse=True)
        ways = [self._way(*pair) for pair in pairs.T.tolist()]
        taken = [ways[pair] for pair in pair_of_row.ravel().tolist()]
        offsets = np.r_[0, np.cumsum([len(way) for way in taken])]
        links = np.concatenate(taken)
        return offsets, links, np.zeros_like(links)

    def _way(self, src: int, dst: int) -> Int64Array:
        direct = self._finder.lowest(np.array([src]), np.array([dst]))
        if direct[0] >= 0:
            return direct
        up, down = self._ancestors(src), self._ancestors(dst)
        while len(up) > 1 and len(down) > 1 and up[-2] == down[-2]:
            up.pop()
            down.pop()
        nodes = np.array(up[:-1] + down[::-1])
        return self._finder.lowest(nodes[:-1], nodes[1:])

    def _ancestors(self, rank: int) -> list[int]:
        found = [rank]
        while self._parent[found[-1]] >= 0:
            found.append(self._parent[found[-1]])
        return found


def _parents(topology: Topology, links: Int32Array) -> list[int]:
    """Each rank's parent in a tree below rank 0, breadth first; -1 for rank 0."""
    neighbours: list[list[int]] = [[] for _ in range(topology.num_nodes)]
    for here, there in links.tolist():
        neighbours[here].append(there)
    parent = [-1] * topology.num_nodes
    reached = [0]
    for rank in reached:
        for there in neighbours[rank]:
            if there and parent[there] < 0:
                parent[there] = rank
                reached.append(there)
    if len(reached) < topology.num_nodes:
        raise ScheduleError(
            f"{topology.name!r} must be joined by links with a reverse for a ring around a tree"
        )
    return parent
