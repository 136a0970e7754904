"""The arithmetic of a dragonfly: who joins which groups, and the way there."""

from dataclasses import dataclass

import numpy as np

from multitree.topology.arrays import Int64Array, int64s

__all__ = ["DragonflyShape"]

_LOWEST = -(2**62)


@dataclass(frozen=True)
class DragonflyShape:
    """Groups of routers: all of a group are linked with each other, any two groups by one link.

    Nodes are ranks, then routers, group by group. The ah links of a group to others are counted
    router by router; link k of group i leads to group i + k + 1, all around.

    Parameters
    ----------
    routers, links_out, hosts : int
        a, h and p: routers of a group, links of each to other groups, ranks on each.

    Examples
    --------
    >>> shape = DragonflyShape(2, 1, 1)
    >>> shape.num_groups, shape.num_ranks, shape.gateway(np.array([0]), np.array([2])).tolist()
    (3, 6, [7])
    """

    routers: int
    links_out: int
    hosts: int

    @property
    def num_groups(self) -> int:
        """As many as there can be: ah + 1."""
        return self.routers * self.links_out + 1

    @property
    def num_routers(self) -> int:
        """Of all groups."""
        return self.routers * self.num_groups

    @property
    def num_ranks(self) -> int:
        """Of all groups."""
        return self.hosts * self.num_routers

    def gateway(self, group: Int64Array, other: Int64Array) -> Int64Array:
        """The router of a group that is linked with another group, node numbers, int64 (n,).

        Parameters
        ----------
        group, other : numpy.ndarray, int64 (n,)
            Two different groups each.
        """
        link = (other - group - 1) % self.num_groups
        return np.asarray(self.num_ranks + group * self.routers + link // self.links_out)

    def onward(
        self, at: Int64Array, src: Int64Array, dst: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """The next node of the way through no third group, and the class of the link to it.

        Parameters
        ----------
        at, src, dst : numpy.ndarray, int64 (n,)
            Where each message is, the rank it comes from and the one it goes to.

        Returns
        -------
        tuple of numpy.ndarray, int64 (n,)
            Class 1 behind the link between two groups, and into a rank; else 0.
        """
        first = self.num_ranks
        last = first + dst // self.hosts
        goal, start = ((node - first) // self.routers for node in (last, first + src // self.hosts))
        here = (at - first) // self.routers
        out = self.gateway(here, np.where(goal == here, here + 1, goal))
        across = self.gateway(goal, np.where(goal == here, here + 1, here))
        onward = np.where(at == out, across, out)
        onward = np.where(here == goal, last, onward)
        onward = np.where(at == last, dst, onward)
        onward = np.where(at < first, first + at // self.hosts, onward)
        behind = (here == goal) & (start != goal)
        return onward, (behind | (onward < first)).astype(np.int64)

    def keys(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Orders of the nodes for `UpDown`, a group of its own for what leaves by each router.

        Up from that router to all of its group and from these to others; down from the routers
        where its group's links end to the others, and to ranks.

        Returns
        -------
        up_key, down_key : numpy.ndarray, int64 (num_routers, num_nodes)
        group : numpy.ndarray, int64 (num_ranks,)
        """
        router, groups = np.arange(self.num_routers), np.arange(self.num_groups)
        group, place = np.divmod(router, self.routers)
        up = np.where(group[:, None] == group, 2, 3)
        up[router, router] = 1
        enters = (groups[:, None] - group - 1) % self.num_groups // self.links_out == place
        down = np.where(enters, 2, 1)[group]
        ranks = np.full((self.num_routers, self.num_ranks), _LOWEST)
        up, down = (int64s("Keys", np.concatenate([ranks, keys], axis=1)) for keys in (up, down))
        return up, down, int64s("Groups", np.arange(self.num_ranks) // self.hosts)
