"""When tables give their rows to the ports: in turn, by steps, run by run."""

from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.sim.timing.link_model import LinkModel
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Ranks", "TableRows", "idle_before"]

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
