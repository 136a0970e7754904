"""Order of rows: groups timed together, and rows that tables give to ports."""

from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.sim.timing.link_model import LinkModel
from multitree.topology.arrays import positions_in_group
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Ranks", "TableRows", "generations_of", "idle_before"]

IntArray = npt.NDArray[np.int64]
Ranks = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.float64]


class TableRows:
    """Cycles in which the head of each rank's next row could be on its link.

    `idle` is that of `idle_before` where tables repeat; `step_cycles` is the least time of a step
    in lockstep.
    """

    def __init__(
        self,
        schedule: Schedule,
        model: LinkModel,
        start: FloatArray,
        idle: tuple[IntArray, IntArray] | None = None,
        step_cycles: int | None = None,
    ) -> None:
        piped = model.forward_flits > 0
        self._row = model.piped_row_cycles if piped else model.row_cycles
        self._idle_row = model.piped_row_cycles if piped else model.idle_row_cycles
        self._read = start + model.start_cycles + (model.piped_cycles if piped else 0) - self._row
        self._more = np.zeros(schedule.num_transfers)
        if idle is not None:
            rows, runs = idle
            self._row += not piped
            self._more += rows * self._idle_row + (0 if piped else runs)
        self._step, self._step_cycles = schedule.step, step_cycles
        # In lockstep, the step that each rank has reached, and when the one before it ended.
        self._steps, self._begins = np.zeros(len(start), np.int64), np.ones(len(start), bool)
        self._ended = start + model.launch_cycles
        # READ_ROW and IDLE of nic/send/fetcher.py follow.
        self._gone = 2
        self._way = model.start_cycles - model.launch_cycles - model.row_cycles

    def read(self, rows: IntArray, src: Ranks, room: FloatArray) -> FloatArray:
        """Cycles for the next row of some ranks each, whose ports have room from `room` on."""
        read = self._read[src] + self._row + self._more[rows]
        if self._step_cycles is not None:
            read = self._begun(self._step[rows], src, read - self._way) + self._way
        read = np.maximum(read, room)
        self._read[src] = read
        return read

    def over(self, num_steps: int) -> FloatArray:
        """Cycles in which ranks are through their tables, in lockstep perhaps much later."""
        if self._step_cycles is None:
            return self._read
        ranks = np.arange(len(self._read))
        # Who sends in the last step goes on behind that row; the others' rows wait for its end.
        waits = self._begins | (self._steps < num_steps - 1)
        self._begun(np.full(len(ranks), num_steps), ranks, np.zeros(len(ranks)))
        return np.where(waits, self._ended + self._gone, self._read)

    def _begun(self, step: Ranks, src: Ranks, there: FloatArray) -> FloatArray:
        """Cycles in which rows begin that are in hand at `there`, but wait for their steps."""
        assert self._step_cycles is not None
        more = step - self._steps[src]
        # A step in which nothing is sent has a row of its own, which waits until it is over.
        idle = more > np.where(self._begins[src], 0, 1)
        first = np.where(idle, self._read[src] - self._way + self._idle_row, there)
        ended = np.maximum(self._ended[src] + self._step_cycles, first)
        ended += (more - 1) * self._step_cycles
        begun = np.where(more > 0, ended + np.where(idle, self._row, 1), there)
        self._ended[src] = np.where(more > 0, ended, self._ended[src])
        self._steps[src], self._begins[src] = step, False
        return begun


def idle_before(schedule: Schedule) -> tuple[IntArray, IntArray]:
    """Rows and ends of a repeated table between rows that send; arrays of all waves' transfers.

    Rows belong to waves that are over, or have not begun.
    """
    stage, step = np.divmod(schedule.step.astype(np.int64), schedule.period)
    src, waves = schedule.src.astype(np.int64), np.arange(schedule.num_waves)
    # It is the order of rows of nic/driver/table.py.
    order = np.lexsort((-stage, step, src))
    length = np.bincount(src, minlength=schedule.topology.num_ranks)
    place = np.empty_like(order)
    place[order] = np.arange(len(order)) - (np.cumsum(length) - length)[src[order]]
    run = waves[:, None] + stage
    turn, rank = (run * length[src] + place).ravel(), np.tile(src, schedule.num_waves)
    by_turn = np.lexsort((turn, rank))
    before = np.full(len(turn), -1, np.int64)
    follows = np.flatnonzero(np.diff(rank[by_turn]) == 0) + 1
    before[by_turn[follows]] = turn[by_turn[follows - 1]]
    runs = run.ravel() - np.maximum(before, 0) // np.tile(length[src], schedule.num_waves)
    return turn - before - 1, runs


def generations_of(
    schedule: Schedule, lane: npt.NDArray[np.int32] | None = None
) -> tuple[list[IntArray], IntArray]:
    """Groups of transfers in which all that one waits for lies in earlier groups, and siblings.

    A transfer waits for earlier rows of its source's table, or of its `lane`, and so for what its
    link sends before; for all arrivals of earlier steps; and for its sibling, the contribution
    added before it, -1 for none. ValueError if transfers of one step wait in a circle.
    O(num_transfers) per group of a step; a step has at most as many groups as a rank has rows and
    siblings in it.
    """
    sibling = _siblings(schedule)
    lane = schedule.src if lane is None else lane
    turn = positions_in_group(_group(schedule.step, lane))
    behind = np.full(schedule.num_transfers, -1, dtype=np.int64)
    by_turn = np.lexsort((turn, lane, schedule.step))
    follows = np.flatnonzero(turn[by_turn] > 0)
    behind[by_turn[follows - 1]] = by_turn[follows]
    # Without a sibling, index -1 reads the last row; the first condition masks it.
    inside = np.flatnonzero((sibling >= 0) & (schedule.step[sibling] == schedule.step))
    added_behind = np.full(schedule.num_transfers, -1, dtype=np.int64)
    added_behind[sibling[inside]] = inside
    level = _levels(turn, (behind, added_behind))
    key = schedule.step.astype(np.int64) * (int(level.max(initial=0)) + 1) + level
    order = np.argsort(key, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(key[order])) + 1), sibling


def _siblings(schedule: Schedule) -> IntArray:
    """Row of each contribution's predecessor in its sum, -1 for none."""
    sibling = np.full(schedule.num_transfers, -1, dtype=np.int64)
    rows = np.flatnonzero(schedule.op == Op.REDUCE)
    place = _group(schedule.flow, schedule.dst)[rows]
    # The last key counts first: within a sum the canonical order is (step, order).
    by_order = np.lexsort((schedule.src[rows], schedule.order[rows], schedule.step[rows], place))
    rows, place = rows[by_order], place[by_order]
    follows = np.flatnonzero(place[1:] == place[:-1]) + 1
    sibling[rows[follows]] = rows[follows - 1]
    return sibling


def _group(major: npt.NDArray[np.int32], minor: npt.NDArray[np.int32]) -> IntArray:
    return major.astype(np.int64) * (int(minor.max(initial=0)) + 1) + minor


def _levels(least: IntArray, behind: tuple[IntArray, ...]) -> IntArray:
    """Levels, at least these, so that each is above those of all rows before it.

    `behind` has for several orders the row after each row, -1 for none.
    """
    level, raised = least.astype(np.int64), np.arange(len(least))
    while len(raised):
        found = []
        for following in behind:
            rows, level_behind = following[raised], level[raised] + 1
            above = (rows >= 0) & (level_behind > level[rows])
            level[rows[above]] = level_behind[above]
            found.append(rows[above])
        raised = np.unique(np.concatenate(found))
        # No chain without a circle is longer than all rows.
        if level[raised].max(initial=0) > len(level):
            raise ValueError("Schedule must not have transfers of one step that wait in a circle")
    return level
