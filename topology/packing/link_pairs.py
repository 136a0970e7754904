"""Links together with their reverse: what a tree edge takes, up and down."""

from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array, Int64Array
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.bounds import link_occupancy
from multitree.topology.networks.measures import adjacency, hops_from
from multitree.topology.networks.topology import Topology

__all__ = ["LinkPairs", "Neighbours", "link_pairs", "neighbours_of"]

Neighbours = list[list[tuple[int, int]]]
"""For each rank (adjacent rank, pair that joins the two), by ascending pair."""


class LinkPairs(NamedTuple):
    """Undirected edges, each two links with opposite directions; parallel ones stay apart.

    Parameters
    ----------
    ends : numpy.ndarray, int32 (num_pairs, 2)
        The two ranks, the lower one first.
    links : numpy.ndarray, int32 (num_pairs, 2)
        The link from the first end to the second, and its reverse.
    slots : numpy.ndarray, int64 (num_pairs,)
        Slots that a chunk holds the slower of the two; see `link_occupancy`.
    capacity : numpy.ndarray, float64 (num_pairs,)
        GB/s of the slower of the two.
    """

    ends: Int32Array
    links: Int32Array
    slots: Int64Array
    capacity: Float64Array


def link_pairs(topology: Topology) -> LinkPairs:
    """The links of a network without switches, in pairs; links without a reverse are left out.

    Parameters
    ----------
    topology : Topology

    Returns
    -------
    LinkPairs
        By ascending id of the first link.

    Raises
    ------
    ScheduleError
        If there are switches, or if links with a reverse do not join all ranks.

    Examples
    --------
    >>> links = [[1, 0], [0, 1], [1, 2], [2, 1]]
    >>> link_pairs(Topology("line", 3, 0, links, [16, 16, 16, 8], 150.0)).slots.tolist()
    [1, 2]
    """
    if topology.num_switches:
        raise ScheduleError(f"{topology.name!r} must have no switches for trees of link pairs")
    # `reverse` matches parallel links one to one: links from lower ranks name each pair once.
    onward = np.flatnonzero((topology.reverse >= 0) & (topology.links[:, 0] < topology.links[:, 1]))
    links = np.stack([onward, topology.reverse[onward]], axis=1).astype(np.int32)
    ends = topology.links[onward]
    both_directions = adjacency(ends.T.ravel(), ends[:, ::-1].T.ravel(), topology.num_ranks)
    # A Topology is strongly connected, but its links that have a reverse need not join all ranks.
    if (hops_from(both_directions, 0) < 0).any():
        raise ScheduleError(
            f"{topology.name!r} must be joined by links with a reverse for trees of link pairs"
        )
    # A tree's edge needs both links in each period, so a pair is as fast as the slower of the two.
    slots = link_occupancy(topology)[links].max(axis=1)
    return LinkPairs(ends, links, slots, topology.bandwidth_gbytes_per_s[links].min(axis=1))


def neighbours_of(ends: Int32Array, num_ranks: int) -> Neighbours:
    """The ranks adjacent to each rank, and the pair that joins them.

    Parameters
    ----------
    ends : numpy.ndarray, int32 (num_pairs, 2)
    num_ranks : int

    Returns
    -------
    list of list of (int, int)

    Examples
    --------
    >>> neighbours_of(np.array([[0, 1], [0, 2]], np.int32), 3)
    [[(1, 0), (2, 1)], [(0, 0)], [(0, 1)]]
    """
    neighbours: Neighbours = [[] for _ in range(num_ranks)]
    for pair, (first, second) in enumerate(ends.tolist()):
        neighbours[first].append((second, pair))
        neighbours[second].append((first, pair))
    return neighbours
