"""Routes through switches in the place of links between ranks."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from multitree.topology.arrays import Float64Array, Int64Array, chosen_routes
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology
from multitree.topology.packing.link_pairs import LinkPairs
from multitree.topology.routing.default_routes import Routes
from multitree.topology.schedules.trees import GrownRoutes, turned_around

__all__ = ["OverlayLinks", "overlay_links_of"]


@dataclass(frozen=True, eq=False)
class OverlayLinks:
    """What the trees of a packing go by: a network of ranks alone, joined by pairs of routes.

    Links 2i and 2i + 1 of the network stand for route i and the same route backwards: as fast as
    its slowest link, with the sum of its latencies. Offsets, links and classes of routes are those
    of `Schedule`.
    """

    network: Topology
    offsets: Int64Array
    links: Int64Array
    classes: Int64Array

    @property
    def routes(self) -> list[list[int]]:
        """The real links that each link of the network takes."""
        links = self.links.tolist()
        return [links[first:last] for first, last in pairwise(self.offsets.tolist())]

    def chosen(self, links: Int64Array) -> Routes:
        """The routes of some links of the network, one behind the other."""
        offsets, hops, classes = chosen_routes((self.offsets, self.links, self.classes), links)
        return offsets, hops.astype(np.int32), classes.astype(np.int32)

    def pairs(self, slots: Int64Array) -> LinkPairs:
        """The overlay links in pairs, held as long as the slowest real link of either route."""
        there = np.arange(0, self.network.num_links, 2)
        both = np.stack([there, there + 1], axis=1).astype(np.int32)
        ends = self.network.links[there]
        # Overlay links lead as their tree edge was grown; LinkPairs wants the lower rank first.
        falls = ends[:, 0] > ends[:, 1]
        both[falls] = both[falls, ::-1]
        # No route is empty, which `reduceat` would answer with an entry of the next one.
        held = np.maximum.reduceat(slots[self.links], self.offsets[:-1])
        speeds = self.network.bandwidth_gbytes_per_s
        return LinkPairs(
            np.sort(ends, axis=1), both, held[both].max(axis=1), speeds[both].min(axis=1)
        )

    def cost_model_of_routes(self, cost_model: CostModel) -> CostModel:
        """What messages take on overlay links: they go whole, and wait for those that share a link.

        A slot has room for the latency of one link more than the message, as steps of lockstep
        have: so messages on routes of different length do not block each other.
        """
        per_link: list[Float64Array] = [cost_model.cycles_per_flit, cost_model.latency_cycles]
        slowest = np.maximum.reduceat(per_link[0][self.links], self.offsets[:-1])
        whole_way = np.add.reduceat(per_link[1][self.links], self.offsets[:-1])
        room = cost_model.message_cycles + int(np.ceil(per_link[1].max()))
        return CostModel(cost_model.num_flits, slowest, whole_way, room, None)


def overlay_links_of(topology: Topology, found: GrownRoutes) -> OverlayLinks:
    """The overlay links of different routes, each with its reverse links backwards."""
    back = turned_around(topology, found, mirrored=True)
    lengths = np.repeat(np.diff(found.offsets), 2)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    links, classes = (
        np.concatenate(
            [
                part[first:last]
                for first, last in pairwise(found.offsets.tolist())
                for part in (there, other)
            ]
        ).astype(np.int64)
        for there, other in ((found.links, back.links), (found.classes, back.classes))
    )
    ends = np.stack([found.edges[:, 2:], found.edges[:, :1:-1]], axis=1).reshape(-1, 2)
    speeds = np.minimum.reduceat(topology.bandwidth_gbytes_per_s[links], offsets[:-1])
    latency = np.add.reduceat(topology.latency_ns[links], offsets[:-1])
    # Each overlay link comes in both directions, so `reverse`
    # pairs it with its own mirror image even among parallel ones.
    network = Topology(topology.name, topology.num_ranks, 0, ends, speeds, latency)
    return OverlayLinks(network, offsets, links, classes)
