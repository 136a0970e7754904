"""Up/down routing: orders of the nodes, and the shortest routes that obey them."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from multitree.topology.arrays import BoolArray, Int32Array, Int64Array
from multitree.topology.families.direct import LOWEST_KEY
from multitree.topology.families.registry import FAMILIES
from multitree.topology.networks.measures import adjacency, hops_from
from multitree.topology.networks.topology import Topology


@dataclass(frozen=True, eq=False)
class UpDown:
    """Which links a message may take, one after the other, on a network with switches.

    First links on which the key of "up" rises, then links on which that of "down" falls. Nothing
    leads from down to up, so that no messages of one group wait in a circle. Groups that use the
    same links have classes of their own, or on a dragonfly one order of (link, class) in common.
    """

    # Both (num_groups, num_nodes); lowest at ranks that do not forward: nothing leads up to one.
    up_key: Int64Array
    down_key: Int64Array
    classes: Int32Array  # (num_groups, 2): of links up, and of links down
    group: Int32Array  # of what each rank sends

    def links_up(self, links: Int32Array, group: int = 0) -> BoolArray:
        """Which links lead up, bool (num_links,)."""
        src, dst = links.T
        rises = self.up_key[group, dst] > self.up_key[group, src]
        return np.asarray(rises)

    def links_down(self, links: Int32Array, group: int = 0) -> BoolArray:
        """Which links lead down, bool (num_links,)."""
        src, dst = links.T
        falls = self.down_key[group, dst] < self.down_key[group, src]
        return np.asarray(falls)


@lru_cache(maxsize=8)
def up_down(topology: Topology) -> UpDown:
    """The orders of a network's nodes: those of its family (`Family.orders`), else up*/down*.

    Up*/down* (Schroeder et al., "Autonet: a high-speed, self-configuring local area network using
    point-to-point links", IEEE Journal on Selected Areas in Communications 9 (8), 1991) goes by
    hops from the lowest node, then by number. O(num_links x num_ranks / 64).
    """
    family = FAMILIES.get(topology.family)
    if family is not None and family.orders is not None:
        return UpDown(*family.orders(topology))
    by_switches = _searched(topology, np.arange(topology.num_nodes) >= topology.num_ranks)
    # Interfaces do not forward, so ranks do only where switches alone do not carry every pair.
    if topology.num_switches and _carries_all(topology, by_switches):
        return by_switches
    return _searched(topology, np.ones(topology.num_nodes, bool))


def _searched(topology: Topology, forwards: BoolArray) -> UpDown:
    num_nodes = topology.num_nodes
    inside = topology.links[forwards[topology.links].all(axis=1)]
    tails, heads = inside.T
    onwards, backwards = (adjacency(*ends, num_nodes) for ends in ((tails, heads), (heads, tails)))
    both_directions = adjacency(np.r_[tails, heads], np.r_[heads, tails], num_nodes)
    # Without ranks the switches may fall into several parts: each has a root of its own.
    roots = _lowest_of_each_part(both_directions, forwards)
    hops = [hops_from(neighbours, *roots).astype(np.int64) for neighbours in (backwards, onwards)]
    # Up goes by the distance to a root, down by that
    # from it: a link may be both, hence two classes.
    classes = np.array([[0, 1]], np.int32)
    if topology.is_symmetric:
        # Distance, then number, as in Autonet: a total order, so each link is either up or down.
        hops = [away * num_nodes + np.arange(num_nodes) for away in hops]
        classes = np.zeros((1, 2), np.int32)
    unreached = [hops_from(neighbours, *roots) < 0 for neighbours in (backwards, onwards)]
    up, down = (
        np.where(none, LOWEST_KEY, -away)[None] for none, away in zip(unreached, hops, strict=True)
    )
    return UpDown(up, down, classes, np.zeros(topology.num_ranks, np.int32))


def _lowest_of_each_part(both_directions: list[list[int]], wanted: BoolArray) -> list[int]:
    roots: list[int] = []
    left = wanted.copy()
    while left.any():
        roots.append(int(left.argmax()))
        left &= hops_from(both_directions, roots[-1]) < 0
    return roots


def _carries_all(topology: Topology, orders: UpDown) -> bool:
    """Whether up and down leads from each rank to each other one that no link joins."""
    num_ranks, links = topology.num_ranks, topology.links
    reached = [1 << node if node < num_ranks else 0 for node in range(topology.num_nodes)]
    # First what each node reaches by going down; then going up adds what its upper nodes reach.
    _spread(reached, links[orders.links_down(links)], orders.down_key[0])
    _spread(reached, links[orders.links_up(links)], -orders.up_key[0])
    for src, dst in links[(links < num_ranks).all(axis=1)].tolist():
        reached[src] |= 1 << dst
    everyone = (1 << num_ranks) - 1
    return all(have == everyone for have in reached[:num_ranks])


def _spread(reached: list[int], links: Int32Array, key: Int64Array) -> None:
    """Give the source of each link what its destination reaches, the lowest keys first."""
    # Along the order what a link leads to is complete before it is used, so one pass suffices.
    for src, dst in links[np.argsort(key[links[:, 0]], kind="stable")].tolist():
        reached[src] |= reached[dst]


# Farther than any node; adding a link to it does not overflow 32 bits.
_FAR = np.int32(2**30)


class UpDownRoutes:
    """The next link of a shortest legal route, from every node to some ranks, on no family.

    Of several links on shortest paths the destination picks one, so that routes spread. O(num_links
    x num_targets) time, O(num_nodes x num_targets) memory.
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
        # Dynamic programming along the order: the ends of a node's links down are done before it.
        for node in np.argsort(self._orders.down_key[0], kind="stable").tolist():
            _, usable = self._links_of(node)
            self._next_down[node] = self._shortest(
                away_down[links[usable, 1]], away_down[node], usable
            )
        away = away_down.copy()
        self._next = np.full(shape, -1, np.int32)
        for node in np.argsort(-self._orders.up_key[0], kind="stable").tolist():
            up, down = self._links_of(node)
            behind = np.concatenate([away[links[up, 1]], away_down[links[down, 1]]])
            self._next[node] = self._shortest(behind, away[node], np.r_[up, down])

    def _links_of(self, node: int) -> tuple[Int32Array, Int32Array]:
        ports = self._topology.ports(node)
        return ports[self._up[ports]], ports[self._down[ports]]

    def _shortest(self, behind: Int32Array, away: Int32Array, usable: Int32Array) -> Int32Array:
        """Lower a node's distances, and name the link to take to each target."""
        if not len(usable):
            return np.full(len(away), -1, np.int32)
        np.minimum(away, behind.min(axis=0) + 1, out=away)
        fits = behind + 1 == away
        # Where no link fits, argmax gives the first one; routes never come to such a node.
        wanted = self._targets % np.maximum(fits.sum(axis=0), 1) + 1
        place = (fits & (np.cumsum(fits, axis=0) == wanted)).argmax(axis=0)
        return np.asarray(usable[place], np.int32)

    def onward(
        self, at: Int64Array, src: Int64Array, dst: Int64Array, turned: BoolArray
    ) -> tuple[Int64Array, Int64Array, BoolArray]:
        """The next link of each message, its class, and whether it leads down, all (n,)."""
        column = np.searchsorted(self._targets, dst)
        link = np.where(turned, self._next_down[at, column], self._next[at, column])
        # A link that is both up and down counts as up: from behind it no destination is farther.
        down = turned | ~self._up[link]
        classes = self._orders.classes[0][down.astype(np.int64)]
        return link.astype(np.int64), classes.astype(np.int64), down
