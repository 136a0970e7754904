"""Steps and cycles that no schedule can beat on a topology."""

import math

import numpy as np

from multitree.topology.arrays import Float64Array
from multitree.topology.cuts import smallest_cut
from multitree.topology.topology import Topology


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

    The largest of three. Every element leaves and enters ranks at least 2 (N-1) times, N-1
    times to be summed and N-1 times to be spread, and all links that leave ranks, or all that
    enter some, together carry so many flits per cycle: without switches these are all links.
    Out of each set of ranks, the worst cut included, a sum of the whole buffer has to go.
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
    """
    if num_flits < 0:
        raise ValueError(f"Number of flits must be at least 0, not {num_flits!r}")
    speeds = np.broadcast_to(np.asarray(flits_per_cycle, np.float64), (topology.num_links,))
    if (speeds == speeds[0]).all():
        worst_cut = topology.min_cut * float(speeds[0])
    else:
        worst_cut = smallest_cut(topology.links, speeds, topology.num_ranks)
    at_ranks = min(
        math.fsum(speeds[ends < topology.num_ranks].tolist()) for ends in topology.links.T
    )
    by_links = 2 * (topology.num_ranks - 1) * num_flits / at_ranks
    by_distance = topology.diameter * float(np.min(latency_cycles))
    return max(by_links, num_flits / worst_cut, by_distance)
