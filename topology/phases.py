"""Reduce-scatter, all-gather, broadcast or reduce: one phase of a schedule."""

from dataclasses import replace

from multitree.topology.collectives import OPS_OF, ROOTED, check_roots
from multitree.topology.columns import ROW_FIELDS
from multitree.topology.errors import ScheduleError
from multitree.topology.routes import select_routes
from multitree.topology.schedule import Schedule


def phase_of(schedule: Schedule, collective: str) -> Schedule:
    """The rows of a schedule that do another collective, steps renumbered from 0.

    Parameters
    ----------
    schedule : Schedule
        Usually an all-reduce.
    collective : str
        "reduce_scatter" and "all_gather" need one flow rooted at each rank; "broadcast"
        and "reduce" need all trees to share their root.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        If the trees are not so, or the schedule lacks the rows.
    """
    if len(OPS_OF.get(collective, ())) != 1:
        known = ", ".join(name for name, ops in OPS_OF.items() if len(ops) == 1)
        raise ScheduleError(f"Phase must be one of {known}, not {collective!r}")
    (op,) = OPS_OF[collective]
    kept = schedule.op == op
    if not kept.any():
        raise ScheduleError(f"{collective} must have {op.name} rows, not only others")
    roots = schedule.flow_roots
    check_roots(collective, roots, schedule.root, schedule.topology.num_ranks)
    routes = (schedule.route_links, schedule.route_classes)
    offsets, (links, classes) = select_routes(schedule.route_offsets, kept, routes)
    columns = {field: getattr(schedule, field)[kept] for field in ROW_FIELDS}
    columns["step"] = columns["step"] - columns["step"][0]
    return replace(
        schedule,
        collective=collective,
        root=int(roots[0]) if collective in ROOTED else None,
        **columns,
        route_offsets=offsets,
        route_links=links,
        route_classes=classes,
    )
