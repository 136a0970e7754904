"""Ring all-reduces, the baselines: one way, or both ways at once."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.arrays import Int64Array
from multitree.topology.errors import ScheduleError
from multitree.topology.hamiltonian import hamiltonian_cycle
from multitree.topology.schedule import Op, Schedule
from multitree.topology.topology import Topology


def build_ring(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the one-way ring all-reduce along a Hamiltonian cycle.

    Flow f's sum starts behind its root, goes once around and ends at the root, from where
    the result goes once around: N-1 steps per phase, one transfer per rank and step.

    Parameters
    ----------
    topology : Topology
    roots : sequence of int, optional
        One flow for each entry; every rank once when left out.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        If there is no Hamiltonian cycle, or a root is no rank.

    References
    ----------
    P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
    workstations", Journal of Parallel and Distributed Computing 69 (2), 2009.

    Examples
    --------
    >>> from multitree.topology.families import torus
    >>> build_ring(torus(4, 4)).steps_all_gather
    15
    """
    chosen = _checked_roots(topology, roots)
    cycle = np.array(hamiltonian_cycle(topology), np.int64)
    rows, links = _around(topology, cycle, chosen)
    return Schedule.from_rows(
        topology,
        algorithm="ring",
        collective="all_reduce",
        flow_offsets=np.arange(len(chosen) + 1),
        rows=rows,
        links=links,
    )
