"""The analytic engine: when every message goes and comes, without data."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from multitree.sim.analytic.forwarding_links import ForwardingLinks
from multitree.sim.analytic.generations import generations_of
from multitree.sim.analytic.periodic import timed_in_waves
from multitree.sim.analytic.private_links import IntArray, PrivateLinks
from multitree.sim.analytic.shared_links import shared_analytic
from multitree.sim.analytic.table_rows import TableRows
from multitree.sim.analytic.translated import translated
from multitree.sim.timing.inputs import check_private, shares_links
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.model import Run, Times
from multitree.sim.timing.trace import Trace
from multitree.topology.checks.implicit import AnySchedule
from multitree.topology.schedules.schedule import Schedule

__all__ = ["analytic"]


def analytic(
    schedule: AnySchedule,
    num_flits: int,
    link_model: LinkModel | None = None,
    *,
    lockstep: bool = False,
    start: Sequence[int] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Trace:
    """Time every transfer of a schedule, in closed form where links are private.

    Where routes lead through switches, or through ranks, `shared_analytic` does it. Else it goes
    step by step. Ports send and receive in the order of the table. A message leaves when its row
    was read, its port is free and all it waits for has arrived, or with cut-through the first
    sub-message of it, and then ends no sooner than the last sub-message allows; it arrives when
    its last flit was added or written, which may have to wait for the sibling that is added before
    it, sub-message by sub-message; and a receiver that waits holds up its sender when the link
    buffer is full. Within a message flits are evenly spaced, so that its first and last flit
    determine all others. Of many waves those in the middle are not timed one by one, see
    `timed_in_waves`.

    Parameters
    ----------
    schedule : Schedule or ImplicitSchedule
        One that `verify` accepts; of one that is a tree, translated, that tree is timed.
    num_flits : int
        Of one rank's padded buffer.
    link_model : LinkModel, optional
        Links, buffers, memory, and the pipelines of the interface.
    lockstep : bool
        Interfaces wait out the estimated time of every step.
    start : sequence of int, optional
        Cycles in which ranks are started; all at once if not said.

    Returns
    -------
    Trace
        Its cycle 0 is the first rank's start.

    Raises
    ------
    ScheduleError
        As `shared_analytic`, or if flits are to be forwarded where links are shared.
    TopologyError
        If links are shared and a rank's link has no reverse.
    ValueError
        If the number of flits or a start is negative, or there is not one start per rank.

    Notes
    -----
    O(num_transfers) with a few NumPy calls per group of transfers that do not wait for each
    other, on private links. There within 2 % of the rtl engine, see `bench/analytic_vs_rtl.py`.

    Examples
    --------
    >>> from multitree.topology.families.direct import torus
    >>> from multitree.topology.algorithms.multitree import build_multitree
    >>> analytic(build_multitree(torus(4, 4)), 65536).cycles < 43500
    True
    """
    run = Run.of(schedule.tree, num_flits, link_model, lockstep, start)
    if schedule.group is not None:
        return translated(run, schedule.group)
    if run.schedule.num_waves > 1:
        times = timed_in_waves(run.schedule, run.num_flits, run.model, partial(_times, run))
    else:
        times = _times(run, run.schedule, run.num_flits, None)
    return run.trace("analytic", times)


def _times(
    run: Run, schedule: Schedule, num_flits: int, idle: tuple[IntArray, IntArray] | None
) -> Times:
    """Times of a schedule of one wave, perhaps with several of the run's waves written out."""
    model, start = run.model, run.start.astype(np.float64)
    step_cycles = model.estimated_step_cycles(run.schedule, run.num_flits) if run.lockstep else None
    if shares_links(schedule):
        check_private(schedule.topology, model)
        trace = shared_analytic(schedule, num_flits, model, start=start, step_cycles=step_cycles)
        return Times(trace.sent[0], trace.arrived[0], trace.done)
    table = TableRows(schedule, model, start, idle, step_cycles)
    links = ForwardingLinks if model.forward_flits else PrivateLinks
    timing = links(schedule, num_flits, model, table, start, repeats=idle is not None)
    generations, sibling = generations_of(schedule)
    for rows in generations:
        timing.advance(rows, sibling[rows])
    return timing.times()
