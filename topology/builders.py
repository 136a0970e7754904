"""Schedules by the name of their algorithm and of the collective."""

from collections.abc import Callable

from multitree.topology.collectives import check_collective
from multitree.topology.errors import ScheduleError
from multitree.topology.multitree import build_multitree
from multitree.topology.rings import build_bidirectional_ring, build_ring
from multitree.topology.schedule import Schedule
from multitree.topology.topology import Topology

_BUILDERS: dict[str, Callable[..., Schedule]] = {
    "multitree": build_multitree,
    "ring": build_ring,
    "bidirectional_ring": build_bidirectional_ring,
}
ALGORITHMS = tuple(_BUILDERS)


def build(
    topology: Topology,
    algorithm: str,
    collective: str = "all_reduce",
    root: int | None = None,
) -> Schedule:
    """Build the schedule of a named algorithm for a named collective.

    Parameters
    ----------
    topology : Topology
    algorithm : str
        "multitree", "ring" or "bidirectional_ring".
    collective : str
        "all_reduce", "reduce_scatter", "all_gather", "broadcast" or "reduce".
    root : int, optional
        The rank that broadcast sends from and reduce sums at; only for these.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        If a name is unknown, the root is missing, out of range or uncalled for, or the
        algorithm has no such schedule on this topology.

    Notes
    -----
    For broadcast and reduce MultiTree grows as many trees at the root as it has links, each
    with an equal part of the buffer; the rings send the buffer once around, in one part or,
    both ways, in two.

    Examples
    --------
    >>> from multitree.topology.families import torus
    >>> build(torus(4, 4), "multitree", "broadcast", root=3).num_flows
    4
    """
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise ScheduleError(f"Algorithm must be one of {known}, not {algorithm!r}")
    check_collective(collective, root, topology.num_ranks)
    builder = _BUILDERS[algorithm]
    if collective == "all_reduce":
        return builder(topology)
    if root is None:
        return builder(topology).phase(collective)
    degree = topology.degree if collective == "broadcast" else topology.in_degree
    num_trees = int(degree[root]) if algorithm == "multitree" else 1
    return builder(topology, roots=[root] * num_trees).phase(collective)
