"""Schedules by the name of their algorithm and of the collective."""

from functools import partial

from multitree.topology.algorithms.registry import ALGORITHMS, Algorithm, check_algorithm
from multitree.topology.checks.implicit import AnySchedule, check_rows
from multitree.topology.collectives import check_collective
from multitree.topology.errors import ScheduleError, check_type
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule, phase_of

__all__ = ["build", "build_compact"]


def build(
    topology: Topology,
    algorithm: str,
    collective: str = "all_reduce",
    root: int | None = None,
    cost_model: CostModel | None = None,
) -> Schedule:
    """Build the schedule of a named algorithm for a named collective.

    Parameters
    ----------
    topology : Topology
    algorithm : str
        "multitree", "ring" and so on: docs/reference/algorithms.md has them all, and where each
        has a schedule.
    collective : str
        "all_reduce", "reduce_scatter", "all_gather", "broadcast" or "reduce".
    root : int, optional
        The rank that broadcast sends from and reduce sums at; only for these.
    cost_model : CostModel, optional
        What forest, tto and direct are suited to; `usual_cost_model` without it.

    Returns
    -------
    Schedule

    Raises
    ------
    TypeError
        If `topology` is no Topology.
    ScheduleError
        If a name is unknown, the root is missing, out of range or uncalled for, or the
        algorithm has no such schedule on this topology.

    Notes
    -----
    All have all_reduce, broadcast and reduce wherever they have a schedule at all. Those with one
    flow per rank have reduce_scatter and all_gather too, which need exactly that; so do direct and
    plane_rings over one plane. For broadcast and reduce MultiTree grows as many trees at the root
    as it has links, forest and tto root all their trees there; the others send the buffer as
    all-reduce sends one rank's part: once around, along a binomial tree, in all chunks of a double
    tree, or straight.

    Examples
    --------
    >>> from multitree.topology.families.direct import torus
    >>> build(torus(4, 4), "multitree", "broadcast", root=3).num_flows
    4
    """
    check_type("Topology", topology, Topology)
    entry = ALGORITHMS[check_algorithm(algorithm)]
    check_collective(collective, root, topology.num_ranks)
    builder = partial(entry.build, cost_model=cost_model) if entry.sized else entry.build
    # Known beforehand: where each rank has a part of the buffer, every other one takes part in it.
    if root is None and not entry.own_roots:
        phases = 2 if collective == "all_reduce" else 1
        num_rows = phases * topology.num_ranks * (topology.num_ranks - 1)
        check_rows(algorithm, topology, num_rows)
    if collective == "all_reduce":
        built: Schedule = builder(topology)
        return built
    if root is None and entry.own_roots:
        raise ScheduleError(
            f"{topology.name!r}: {collective} must have one flow rooted at each rank, "
            f"not the trees of {algorithm}"
        )
    if root is None:
        return phase_of(builder(topology), collective)
    roots = [root] * _num_trees(topology, entry, collective, root)
    return phase_of(builder(topology, roots=roots), collective)


def _num_trees(topology: Topology, entry: Algorithm, collective: str, root: int) -> int:
    """Trees of a broadcast or reduce, which leave the root or come in by links of their own."""
    degree = topology.degree if collective == "broadcast" else topology.in_degree
    return int(degree[root]) if entry.tree_per_link else 1


def build_compact(
    topology: Topology,
    algorithm: str,
    collective: str = "all_reduce",
    root: int | None = None,
    cost_model: CostModel | None = None,
) -> AnySchedule:
    """Build as `build` does, but hold one tree, translated, as an implicit schedule.

    So an all-reduce by symmetric has no limit of rows: networks may be large.
    """
    entry = ALGORITHMS[check_algorithm(algorithm)]
    if entry.build_implicit is not None and (collective, root) == ("all_reduce", None):
        implicit: AnySchedule = entry.build_implicit(topology)
        return implicit
    return build(topology, algorithm, collective=collective, root=root, cost_model=cost_model)
