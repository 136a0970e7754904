"""Groups of transfers of which none waits for another, timed together."""

import numpy as np
import numpy.typing as npt

from multitree.topology.arrays import positions_in_group
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = ["generations_of"]

IntArray = npt.NDArray[np.int64]


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
