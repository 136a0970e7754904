"""The header-only phase of broadcast and reduce: heads that say all are there."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from multitree.topology.arrays import positions_in_group
from multitree.topology.checks.verify import verify
from multitree.topology.collectives import OPS_OF, ROOTED, Op
from multitree.topology.mapping.attached_routers import lowered
from multitree.topology.routing.default_routes import routes
from multitree.topology.routing.routes import reordered_routes
from multitree.topology.schedules.columns import ROW_FIELDS
from multitree.topology.schedules.schedule import Schedule

__all__ = ["as_sent", "header_only_ops", "with_header_only_phase"]

_KEPT = 8


def header_only_ops(collective: str) -> tuple[Op, ...]:
    """The op whose messages carry nothing over shared links, if there is one.

    Parameters
    ----------
    collective : str

    Returns
    -------
    tuple of Op

    Examples
    --------
    >>> [header_only_ops(name) for name in ("broadcast", "reduce", "all_gather")]
    [(<Op.REDUCE: 0>,), (<Op.GATHER: 1>,), ()]
    """
    if collective not in ROOTED:
        return ()
    return tuple(op for op in OPS_OF["all_reduce"] if op not in OPS_OF[collective])


def as_sent(schedule: Schedule) -> Schedule:
    """What interfaces really send for a schedule: on shared links with its header-only phase.

    Parameters
    ----------
    schedule : Schedule
        One that `verify` accepts.

    Returns
    -------
    Schedule
        `lowered` of `with_header_only_phase` of it, if the network that carries it has switches;
        else the schedule itself.

    Raises
    ------
    ScheduleError
        As `with_header_only_phase`.
    TopologyError
        As `attached_routers.with_switches`.

    Notes
    -----
    O(num_transfers log num_transfers); the last few parts are kept.

    Examples
    --------
    >>> from multitree.topology.algorithms.build import build
    >>> from multitree.topology.families.switched import fat_tree
    >>> from multitree.topology.families.direct import torus
    >>> direct = build(torus(2, 2), "multitree", "reduce", root=1)
    >>> shared = build(fat_tree(2, 2), "multitree", "reduce", root=1)
    >>> as_sent(direct) is direct, as_sent(shared) is with_header_only_phase(shared)
    (True, True)
    """
    on_shared_links = lowered(schedule).topology.num_switches
    return lowered(with_header_only_phase(schedule)) if on_shared_links else schedule


@lru_cache(_KEPT)
def with_header_only_phase(schedule: Schedule) -> Schedule:
    """Both phases of a broadcast or a reduce, of which the one that is added carries nothing.

    On shared links two collectives may be in flight, so nobody may end one that somebody has not
    begun. In the collectives that give each rank a part of everybody's nobody does; here the
    phase that is missing is run, too: the same trees the other way, as heads without payload.
    All contributions of a reduce go before its heads, and all heads of a broadcast before its
    results.

    Parameters
    ----------
    schedule : Schedule
        One that `verify` accepts.

    Returns
    -------
    Schedule
        An all-reduce, as interfaces run it, with the schedule's rows in their order; the rows of
        the op that is not the schedule's are header-only. The schedule itself, if it has no root.

    Raises
    ------
    ScheduleError
        If both phases together do not pass `verify`: messages could wait in a circle.

    Notes
    -----
    O(num_transfers log num_transfers); the last few results are kept. The heads take the routes
    of `routing.routes`, and may meet on links: one flit each.

    Examples
    --------
    >>> from multitree.topology.algorithms.build import build
    >>> from multitree.topology.families.switched import fat_tree
    >>> both = with_header_only_phase(build(fat_tree(2, 2), "multitree", "broadcast", root=1))
    >>> both.op.tolist(), both.src.tolist()
    ([0, 0, 0, 1, 1, 1], [2, 3, 0, 1, 0, 1])
    """
    if schedule.collective not in ROOTED:
        return schedule
    (added,), steps = header_only_ops(schedule.collective), schedule.num_steps
    back = np.full(schedule.num_transfers, added, np.int32)
    own_begin, header_only_end = (steps, steps) if added == Op.REDUCE else (0, 2 * steps)
    columns = {
        "step": (own_begin + schedule.step, header_only_end - 1 - schedule.step),
        "op": (schedule.op, back),
        "flow": (schedule.flow, schedule.flow),
        "src": (schedule.src, schedule.dst),
        "dst": (schedule.dst, schedule.src),
        "order": (schedule.order, _orders(schedule)),
    }
    joined = {field: np.concatenate(columns[field]) for field in ROW_FIELDS}
    by_step = np.lexsort([joined[field] for field in ("dst", "src", "flow", "step")])
    fields: dict[str, Any] = {field: column[by_step] for field, column in joined.items()}
    names = ("route_offsets", "route_links", "route_classes")
    fields |= zip(names, reordered_routes(_both_routes(schedule), by_step), strict=True)
    whole = replace(schedule, collective="all_reduce", root=None, **fields)
    verify(whole)
    return whole


def _both_routes(schedule: Schedule) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, links and classes of the schedule's routes, and of those the other way."""
    offsets, links, classes = routes(schedule.topology, schedule.dst, schedule.src)
    return (
        np.r_[schedule.route_offsets, schedule.route_offsets[-1] + offsets[1:]],
        np.r_[schedule.route_links, links],
        np.r_[schedule.route_classes, classes],
    )


def _orders(schedule: Schedule) -> np.ndarray:
    """Numbers for the rows the other way that come to one rank in one step of one flow."""
    shape = schedule.num_steps, schedule.num_flows, schedule.topology.num_ranks
    return positions_in_group(
        np.ravel_multi_index((schedule.step, schedule.flow, schedule.src), shape)
    ).astype(np.int32)
