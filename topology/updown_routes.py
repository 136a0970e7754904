"""Shortest routes that go up, then down, on a graph of no family."""

import numpy as np

from multitree.topology.arrays import BoolArray, Int32Array, Int64Array
from multitree.topology.topology import Topology
from multitree.topology.updown import up_down

_FAR = np.int32(2**30)


class UpDownRoutes:
    """The next link of a shortest legal route, for every node and some destinations.

    Parameters
    ----------
    topology : Topology
        Of family "custom".
    targets : numpy.ndarray, int64 (n,)
        Ranks.

    Notes
    -----
    O(num_links x num_targets) time, O(num_nodes x num_targets) memory. Of several shortest
    ways on the destination picks, so that routes to different ranks spread.

    Examples
    --------
    >>> star = Topology("star", 2, 1, [[0, 2], [2, 0], [1, 2], [2, 1]], 16.0, 150.0)
    >>> one = np.array([1])
    >>> link, _, _ = UpDownRoutes(star, one).onward(np.array([0]), None, one, np.array([False]))
    >>> star.links[link].tolist()
    [[0, 2]]
    """

    def __init__(self, topology: Topology, targets: Int64Array) -> None:
        self._topology = topology
        self._orders = up_down(topology)
        self._targets = np.unique(targets)
        links = topology.links
        self._up = self._orders.links_up(links)
        self._down = self._orders.links_down(links)
        shape = (topology.num_nodes, len(self._targets))
        away_down = np.full(shape, _FAR, np.int32)
        away_down[self._targets, np.arange(shape[1])] = 0
        self._next_down = np.full(shape, -1, np.int32)
        for node in np.argsort(self._orders.down_key[0], kind="stable").tolist():
            _, ways = self._ways(node)
            self._next_down[node] = self._shortest(away_down[links[ways, 1]], away_down[node], ways)
        away = away_down.copy()
        self._next = np.full(shape, -1, np.int32)
        for node in np.argsort(-self._orders.up_key[0], kind="stable").tolist():
            up, down = self._ways(node)
            behind = np.concatenate([away[links[up, 1]], away_down[links[down, 1]]])
            self._next[node] = self._shortest(behind, away[node], np.r_[up, down])

    def _ways(self, node: int) -> tuple[Int32Array, Int32Array]:
        ports = self._topology.ports(node)
        return ports[self._up[ports]], ports[self._down[ports]]

    def _shortest(self, behind: Int32Array, away: Int32Array, ways: Int32Array) -> Int32Array:
        """Lower a node's distances, and name the link to take to each target."""
        if not len(ways):
            return np.full(len(away), -1, np.int32)
        np.minimum(away, behind.min(axis=0) + 1, out=away)
        fits = behind + 1 == away
        wanted = self._targets % np.maximum(fits.sum(axis=0), 1) + 1
        place = (fits & (np.cumsum(fits, axis=0) == wanted)).argmax(axis=0)
        return np.asarray(ways[place], np.int32)

    def onward(
        self, at: Int64Array, src: Int64Array, dst: Int64Array, turned: BoolArray
    ) -> tuple[Int64Array, Int64Array, BoolArray]:
        """The next link, its virtual-channel class, and whether it leads down.

        Parameters
        ----------
        at, src, dst : numpy.ndarray, int64 (n,)
            Where each message is, comes from and goes to.
        turned : numpy.ndarray, bool (n,)
            Whether it has gone down before.

        Returns
        -------
        tuple of numpy.ndarray (n,)
        """
        column = np.searchsorted(self._targets, dst)
        link = np.where(turned, self._next_down[at, column], self._next[at, column])
        down = turned | ~self._up[link]
        classes = self._orders.classes[0][down.astype(np.int64)]
        return link.astype(np.int64), classes.astype(np.int64), down
