"""The analytic engine: when every message goes and comes, without data."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from multitree.sim.analytic.forwarding_links import ForwardingLinks
from multitree.sim.analytic.private_links import IntArray, PrivateLinks
from multitree.sim.analytic.repeated import timed_in_waves, translated
from multitree.sim.analytic.shared_links import shared_analytic
from multitree.sim.analytic.table_rows import TableRows, generations_of
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
    """Trace of a schedule in closed form where links are private, else by `shared_analytic`.

    Ports send and receive in the order of the table. A message leaves when its row was read, its
    port is free and all it waits for has arrived, with cut-through the first sub-message. It
    arrives when its last flit is added or written, after the sibling before it. A full link buffer
    stops its sender. Within a message flits are evenly spaced, so that the first and the last one
    determine all others. O(num_transfers); within 2 % of the rtl engine on private links
    (`bench/analytic_vs_rtl.py`).
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
