"""Trees as they were grown: edges, and the route of each."""

from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array
from multitree.topology.topology import Topology
from multitree.topology.updown import up_down


class GrownRoutes(NamedTuple):
    """Edges of trees and their routes, in the order in which they were added.

    Parameters
    ----------
    edges : numpy.ndarray, int32 (num_edges, 4)
        Step, tree, parent and child.
    offsets : numpy.ndarray, int64 (num_edges + 1,)
        Edge i's route is entries off[i] to off[i+1] of the next two.
    links, classes : numpy.ndarray, int32 (offsets[-1],)
    """

    edges: Int32Array
    offsets: Int64Array
    links: Int32Array
    classes: Int32Array


def with_direct_links(
    topology: Topology, step: Int32Array, tree: Int32Array, link: Int32Array
) -> GrownRoutes:
    """Edges that are one link each.

    Parameters
    ----------
    topology : Topology
    step, tree, link : numpy.ndarray, int32 (num_edges,)

    Returns
    -------
    GrownRoutes
    """
    edges = np.stack([step, tree, *topology.links[link].T], axis=1)
    return GrownRoutes(edges, np.arange(len(link) + 1), link, np.zeros_like(link))


def transposed(topology: Topology) -> Topology:
    """The same nodes and link ids, every link the other way.

    Parameters
    ----------
    topology : Topology

    Returns
    -------
    Topology

    Examples
    --------
    >>> transposed(Topology("x", 3, 0, [[0, 1], [1, 2], [2, 0]], 16.0, 150.0)).links.tolist()
    [[1, 0], [2, 1], [0, 2]]
    """
    counts = (topology.num_ranks, topology.num_switches)
    speeds = (topology.bandwidth_gbytes_per_s, topology.latency_ns)
    return Topology(topology.name, *counts, topology.links[:, ::-1], *speeds)


def turned_around(topology: Topology, grown: GrownRoutes) -> GrownRoutes:
    """Edges from child to parent.

    Parameters
    ----------
    topology : Topology
        Over whose links the new edges go.
    grown : GrownRoutes
        Of the same topology where each link has a reverse, else of `transposed`.

    Returns
    -------
    GrownRoutes
        Up becomes down: where the two have classes of their own, these change places.
    """
    num_hops = np.diff(grown.offsets)
    last = np.repeat(grown.offsets[:-1] + grown.offsets[1:] - 1, num_hops)
    backwards = last - np.arange(len(grown.links))
    edges, links = grown.edges[:, [0, 1, 3, 2]], grown.links[backwards]
    if topology.is_symmetric:
        links = topology.reverse[links]
    classes = grown.classes
    if topology.num_switches:
        orders = up_down(topology)
        up, down = orders.classes[orders.group[np.repeat(edges[:, 2], num_hops)]].T
        classes = np.where(classes[backwards] == down, up, down)
    return GrownRoutes(edges, grown.offsets, links, classes)
