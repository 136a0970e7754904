"""The analytic engine: when every message goes and comes, without data."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from multitree.sim.analytic.forwarding_links import ForwardingLinks
from multitree.sim.analytic.private_links import IntArray, PrivateLinks
from multitree.sim.analytic.shared_links import shared_analytic
from multitree.sim.analytic.table_rows import Ranks, TableRows, generations_of, idle_before
from multitree.sim.timing.inputs import check_private, shares_links
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.model import Run, Times
from multitree.sim.timing.trace import Trace
from multitree.topology.checks.implicit import AnySchedule
from multitree.topology.errors import ScheduleError, report
from multitree.topology.lowering import unrolled
from multitree.topology.networks.translations import Translations
from multitree.topology.schedules.schedule import Schedule

__all__ = ["analytic", "timed_in_waves", "translated"]

FloatArray = npt.NDArray[np.float64]
Engine = Callable[[Schedule, int, tuple[IntArray, IntArray]], Times]

ALL_STAGES, MORE_WAVES = 4, 24
"""Waves that are timed first: so many times the periods that one takes, and some more."""
LEAST_STAGES, LEAST_WAVES, LONG_ROWS = 2, 4, 1 << 18
"""So few where those have more rows than this, all of them timed one by one."""
STEADY = 2e-3
"""What is taken for steady: waves follow each other as fast, but for such a part, twice."""


def timed_in_waves(schedule: Schedule, num_flits: int, model: LinkModel, engine: Engine) -> Times:
    """Times of a periodic schedule, timed for as many waves as differ.

    The first waves find links free, the last ones leave them free; waves between follow at one
    interval, at which those that are not timed are inserted. `engine` times `ALL_STAGES` times the
    waves in flight and `MORE_WAVES`, fewer where waves have many rows, and twice as many while the
    interval is not `STEADY` or is less than the busiest link needs.
    """
    wave_flits = schedule.padded(num_flits) // schedule.num_waves
    least = _link_cycles(schedule, num_flits, model) * (1 - STEADY)
    num_stages = (schedule.num_steps - 1) // schedule.period + 1
    timed = max(
        LEAST_STAGES * num_stages + LEAST_WAVES,
        min(ALL_STAGES * num_stages + MORE_WAVES, LONG_ROWS // max(schedule.num_transfers, 1)),
    )
    while True:
        timed = min(timed, schedule.num_waves)
        few = replace(schedule, num_waves=timed)
        written_out = unrolled(few)
        # All steps and flows of a wave are as much higher than those of the first one, so that its
        # rows are in the order of the schedule's.
        by_wave = np.argsort(written_out.flow // schedule.num_flows, kind="stable")
        idle_rows, runs = (before[np.argsort(by_wave)] for before in idle_before(few))
        found = engine(written_out, timed * wave_flits, (idle_rows, runs))
        sent, arrived = (times[by_wave].reshape(timed, -1) for times in (found.sent, found.arrived))
        # Two sixths before the middle are compared: the first and the last waves are in neither.
        middle, part = timed // 2, max(timed // 6, 1)
        now, before = (
            float((sent[end] - sent[end - part]).mean()) / part for end in (middle, middle - part)
        )
        # Below the busiest link's rate its buffer still takes in more than the link passes on.
        steady = abs(now - before) <= STEADY * now and now >= least
        if steady or timed == schedule.num_waves:
            break
        timed *= 2
    more = schedule.num_waves - timed
    later = round(more * now)
    sent, arrived = (_with_waves(times, middle, more, now) for times in (sent, arrived))
    return Times(sent, arrived, found.done + later)


def _link_cycles(schedule: Schedule, num_flits: int, model: LinkModel) -> float:
    """Cycles for which a wave's messages, each a head and a chunk, occupy the busiest link."""
    topology = schedule.topology
    flits = np.diff(schedule.chunks(num_flits))[schedule.flow] + 1
    on_route = np.repeat(flits, np.diff(schedule.route_offsets))
    on_link = np.bincount(schedule.route_links, on_route, topology.num_links)
    return float((on_link * model.cycles_per_flit(topology)).max())


def _with_waves(times: IntArray, middle: int, more: int, interval: float) -> IntArray:
    """Waves with `more` of them inserted after one in the middle, at an interval."""
    begin, end = middle + 1, middle + 1 + more
    # It is the largest part of a long trace, so that it is written once.
    whole = np.empty((len(times) + more, times.shape[1]), np.int64)
    whole[:begin] = times[:begin]
    added = np.rint(interval * np.arange(1, more + 1)).astype(np.int64)
    np.add(times[middle], added[:, None], out=whole[begin:end])
    np.add(times[begin:], round(more * interval), out=whole[end:])
    whole.setflags(write=False)
    return whole


class _OneTable(TableRows):
    """Table that all ranks have: each row of the tree once, over the link of its direction."""

    def read(self, rows: IntArray, src: Ranks, room: FloatArray) -> FloatArray:
        """Cycles for the next rows of every rank, one after the other."""
        turn = np.arange(1, len(rows) + 1)
        read: FloatArray = np.maximum(self._read[0] + turn * self._row, room)
        # One rank stands for all.
        self._read[0] = read.max()
        return read

    def over(self, num_steps: int) -> FloatArray:
        """Cycle in which all ranks are through their tables."""
        return np.full_like(self._read, self._read[0])


def translated(run: Run, group: Translations) -> Trace:
    """Trace of one tree's rows; all others do the same at the same time from ranks of their own.

    A rank's table has each row of the tree once, and each of its links those of one direction, so
    that a rank, its links and one flow stand for all. Tables have rows of a step in the order of
    their flows, which differs between ranks; here it is the tree's. ScheduleError if chunks or
    starts or links of a direction are not all the same, with waves, or in lockstep.
    O(num_transfers) of the tree.
    """
    tree, model, num_flits = run.schedule, run.model, run.num_flits
    topology, directions = tree.topology, group.directions_of(tree.route_links)
    name, num_ranks = topology.name, topology.num_ranks
    if not group.are_alike_on(topology):
        raise ScheduleError(
            f"{name}: links of a translated schedule must be of equal speed and latency at every "
            "rank; `schedule()` writes it out for others"
        )
    if tree.num_waves > 1:
        raise ScheduleError(
            f"{name}: waves of a translated schedule must be 1, not {tree.num_waves}"
        )
    if num_flits % num_ranks:
        raise ScheduleError(
            f"{name}: flits of a translated schedule must be a multiple of {num_ranks}, so that "
            f"chunks are equal, not {num_flits}"
        )
    if run.start.any():
        raise ScheduleError(f"{name}: ranks of a translated schedule must start at once")
    if run.lockstep:
        raise ScheduleError(f"{name}: lockstep must be off in a translated schedule")
    links, chunk = group.links, num_flits // num_ranks
    begins = np.zeros(num_ranks)
    timing = (ForwardingLinks if model.forward_flits else PrivateLinks)(
        tree,
        chunk,
        model,
        _OneTable(tree, model, begins),
        begins,
        link=links[0][directions].astype(np.int64),
    )
    generations, sibling = generations_of(tree, lane=directions)
    for rows in generations:
        timing.advance(rows, sibling[rows])
    times = timing.times()
    flits = np.zeros(topology.num_links, np.int64)
    flits[links] = chunk * np.bincount(directions, minlength=links.shape[1])
    done = np.full(num_ranks, times.done.max())
    return run.trace("translated", times._replace(done=done), flits)


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
    for number, rows in enumerate(generations):
        report("timing rows of messages, done", number, len(generations))
        timing.advance(rows, sibling[rows])
    return timing.times()
