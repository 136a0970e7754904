"""Steps and cycles that no schedule can beat on a topology."""

import math
from functools import lru_cache

import numpy as np

from multitree.topology.arrays import Float64Array
from multitree.topology.cuts import smallest_cut
from multitree.topology.strength import worst_partition
from multitree.topology.topology import Topology

MOST_RANKS_IN_PARTS = 2048
"""Beyond that, networks whose worst partition is not known beforehand count as ranks and cuts."""


def bound_steps(topology: Topology) -> int:
    """The fewest steps of a reduce-scatter or an all-gather with one flow per rank.

    In a step each link carries one chunk. A rank must receive N-1 chunks in the all-gather
    and send N-1 sums in the reduce-scatter, and what the farthest rank has takes as many
    steps as links lie between. So max(ceil((N-1) / least degree), eccentricity), where the
    least degree is the fewest links that leave a rank, or that enter one; where these two
    differ, the bound is that of the phase that is better off.

    Parameters
    ----------
    topology : Topology

    Returns
    -------
    int
        Steps per phase, for messages that go one link in a step. Switches pass a message on
        within a step, so with them the distance counts for nothing.

    Examples
    --------
    >>> from multitree.topology.families import mesh, torus
    >>> bound_steps(torus(4, 4)), bound_steps(mesh(4, 4)), bound_steps(torus(8, 8))
    (4, 8, 16)
    >>> from multitree.topology.switched import dgx2, fat_tree
    >>> bound_steps(fat_tree(4, 4)), bound_steps(dgx2())
    (15, 3)
    """
    num_ranks = topology.num_ranks
    least = max(int(degree[:num_ranks].min()) for degree in (topology.degree, topology.in_degree))
    chunks_per_link = -(-(num_ranks - 1) // least)
    return chunks_per_link if topology.num_switches else max(chunks_per_link, topology.diameter)


def bound_cycles(
    topology: Topology,
    num_flits: int,
    *,
    latency_cycles: float | Float64Array = 150,
    flits_per_cycle: float | Float64Array = 1.0,
) -> float:
    """The fewest cycles of an all-reduce, whatever the schedule; head flits not counted.

    The largest of four. Every element leaves and enters ranks at least 2 (N-1) times, N-1
    times to be summed and N-1 times to be spread, and all links that leave ranks, or all that
    enter some, together carry so many flits per cycle: without switches these are all links.
    Out of each set of ranks, the worst cut included, a sum of the whole buffer has to go.
    Where ranks are in k parts, the buffer goes 2 (k-1) times from part to part: without switches
    the worst partition counts, see `strength.worst_partition`, up to `MOST_RANKS_IN_PARTS`.
    And every rank's result depends on the farthest rank's value.

    Parameters
    ----------
    topology : Topology
    num_flits : int
        Of one rank's whole buffer.
    latency_cycles : float or numpy.ndarray (num_links,)
        Delay of every link or of each; of different delays the least counts.
    flits_per_cycle : float or numpy.ndarray (num_links,)
        Speed of every link or of each.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the number of flits is negative.

    Examples
    --------
    >>> from multitree.topology.families import torus
    >>> bound_cycles(torus(4, 4), 65_536)
    30720.0

    Notes
    -----
    Of equal links on a 32x32 torus nothing has to be searched, on a 32x32 mesh a partition is,
    0.2 CPU s at the first call; for unequal links a cut is, too, which takes longer.
    """
    if num_flits < 0:
        raise ValueError(f"Number of flits must be at least 0, not {num_flits!r}")
    speeds = np.broadcast_to(np.asarray(flits_per_cycle, np.float64), (topology.num_links,))
    if (speeds == speeds[0]).all():
        worst_cut = topology.min_cut * float(speeds[0])
        by_parts = num_flits * _share_of_equal_links(topology) / float(speeds[0])
    else:
        worst_cut = smallest_cut(topology.links, speeds, topology.num_ranks)
        by_parts = num_flits * _share(topology, speeds)
    at_ranks = min(
        math.fsum(speeds[ends < topology.num_ranks].tolist()) for ends in topology.links.T
    )
    by_links = 2 * (topology.num_ranks - 1) * num_flits / at_ranks
    by_distance = topology.diameter * float(np.min(latency_cycles))
    return max(by_links, num_flits / worst_cut, by_parts, by_distance)


@lru_cache(maxsize=16)
def _share_of_equal_links(topology: Topology) -> float:
    """What the worst partition needs of links with speed 1.

    Where as many links leave any set of ranks as leave each rank, k parts have k / 2 times as many
    between them: most are needed of them where each rank is a part, which is counted elsewhere.
    """
    known = topology.family != "custom" and topology.min_cut * topology.num_ranks
    if known and known >= topology.num_links:
        return 0.0
    return _share(topology, np.ones(topology.num_links))


def _share(topology: Topology, speeds: Float64Array) -> float:
    """What the worst partition needs of links; half of a link's speed is for either direction."""
    if topology.num_switches or topology.num_ranks > MOST_RANKS_IN_PARTS:
        return 0.0
    return worst_partition(topology.links, speeds / 2, topology.num_ranks).share
