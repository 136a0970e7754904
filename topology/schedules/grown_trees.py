"""Trees as they were grown: edges, and the route of each."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array
from multitree.topology.collectives import Op
from multitree.topology.networks.topology import Topology
from multitree.topology.routing.default_routes import Routes
from multitree.topology.routing.updown import up_down


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


def farthest_first(grown: GrownRoutes, rest_steps: int) -> GrownRoutes:
    """The same edges with the steps that no later one needs at the end, longest routes first.

    So the last messages of an all-gather have the shortest way, and in its reverse the first
    ones: what has a longer way also leaves later there, and contributions come in order.

    Parameters
    ----------
    grown : GrownRoutes
        Over switches.
    rest_steps : int
        From a rank's joining a tree to its first passing the chunk on; still so afterwards, or
        steps stay as they are.

    Returns
    -------
    GrownRoutes

    Notes
    -----
    Steps change places as a whole, so none meets other messages than before. O(num_edges).

    Examples
    --------
    >>> edges = np.array([[0, 0, 0, 1], [1, 0, 0, 2]], np.int32)
    >>> links = np.array([0, 1, 0, 2, 3, 4], np.int32)
    >>> grown = GrownRoutes(edges, np.array([0, 2, 6]), links, np.zeros(6, np.int32))
    >>> farthest_first(grown, 1).edges[:, 0].tolist()
    [1, 0]
    """
    step, tree, parent, child = grown.edges.T.astype(np.int64)
    joined = np.full((tree.max() + 1, child.max(initial=0) + parent.max() + 1), -1)
    joined[tree, child] = step
    before = joined[tree, parent]
    num_steps = int(step.max()) + 1
    longest = np.zeros(num_steps, np.int64)
    np.maximum.at(longest, step, np.diff(grown.offsets))
    needed = np.isin(np.arange(num_steps), before)
    place = np.empty(num_steps, np.int64)
    place[np.lexsort((np.where(needed, 0, -longest), ~needed))] = np.arange(num_steps)
    leads = before >= 0
    if (place[step[leads]] - place[before[leads]]).min(initial=rest_steps) < rest_steps:
        return grown
    edges = np.column_stack([place[step], grown.edges[:, 1:]]).astype(np.int32)
    return grown._replace(edges=edges)


def turned_around(topology: Topology, grown: GrownRoutes, *, mirrored: bool) -> GrownRoutes:
    """Edges from child to parent.

    Parameters
    ----------
    topology : Topology
        Over whose links the new edges go.
    grown : GrownRoutes
        Of the same topology if `mirrored`, else of `transposed`.
    mirrored : bool
        Whether the new edges take the reverse links.

    Returns
    -------
    GrownRoutes
        Up becomes down: where the two have classes of their own, these change places.
    """
    num_hops = np.diff(grown.offsets)
    last = np.repeat(grown.offsets[:-1] + grown.offsets[1:] - 1, num_hops)
    backwards = last - np.arange(len(grown.links))
    edges, links = grown.edges[:, [0, 1, 3, 2]], grown.links[backwards]
    if mirrored:
        links = topology.reverse[links]
    classes = grown.classes
    if topology.num_switches:
        orders = up_down(topology)
        up, down = orders.classes[orders.group[np.repeat(edges[:, 2], num_hops)]].T
        classes = np.where(classes[backwards] == down, up, down)
    return GrownRoutes(edges, grown.offsets, links, classes)


def both_phases(
    topology: Topology,
    grow: Callable[[Topology], GrownRoutes],
    slots: Int64Array | None = None,
) -> tuple[Int32Array, Routes]:
    """An all-gather along grown trees, and before it the reduce-scatter in reverse.

    Parameters
    ----------
    topology : Topology
    grow : callable
        Grows the trees on a topology; on the `transposed` one, too, where a link has no reverse
        that is as fast.
    slots : numpy.ndarray, int64 (num_links,), optional
        Steps that a chunk takes on each link; 1 when left out. Over several it takes the most.

    Returns
    -------
    rows : numpy.ndarray, int32 (num_transfers, 5)
        Step, op, flow, src and dst.
    routes : tuple of numpy.ndarray
        Offsets, links and classes, in the order of the rows.
    """
    held = np.ones(topology.num_links, np.int64) if slots is None else slots
    mirrored = topology.is_symmetric and bool((held[topology.reverse] == held).all())
    outwards = grow(topology)
    inwards = outwards if mirrored else grow(transposed(topology))
    ends = inwards.edges[:, 0] + np.maximum.reduceat(held[inwards.links], inwards.offsets[:-1])
    inwards = turned_around(topology, inwards, mirrored=mirrored)
    steps = np.r_[ends.max() - ends, ends.max() + outwards.edges[:, 0]]
    ops = np.repeat([int(Op.REDUCE), int(Op.GATHER)], [len(inwards.edges), len(outwards.edges)])
    rest = np.concatenate([inwards.edges[:, 1:], outwards.edges[:, 1:]])
    offsets = np.r_[inwards.offsets, inwards.offsets[-1] + outwards.offsets[1:]]
    links, classes = np.r_[inwards.links, outwards.links], np.r_[inwards.classes, outwards.classes]
    return np.column_stack([steps, ops, rest]), (offsets, links, classes)
