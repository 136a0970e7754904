"""What messages of a trace waited for, and which of them overlap."""

import heapq

import numpy as np
import numpy.typing as npt

from multitree.sim.trace import Trace

__all__ = ["lanes_of_slices", "last_awaited"]

IntArray = npt.NDArray[np.int64]


def last_awaited(trace: Trace) -> IntArray:
    """Row of the last arrival that each message waited for, or -1: (num_waves, num_transfers).

    A row waits for all rows of its flow that reach its source in an earlier step: O(n log n) for n
    rows, and O(n) per wave.
    """
    schedule = trace.schedule
    steps, ranks = schedule.num_steps + 1, schedule.topology.num_ranks
    flow, step = schedule.flow.astype(np.int64), schedule.step.astype(np.int64)
    arrives = (flow * ranks + schedule.dst) * steps + step
    leaves = (flow * ranks + schedule.src) * steps
    by_step = np.argsort(arrives, kind="stable")
    arrives = arrives[by_step]
    first = np.searchsorted(arrives, leaves)
    behind = np.searchsorted(arrives, leaves + step)
    _, group = np.unique(arrives // steps, return_inverse=True)
    place = np.arange(len(by_step))
    found = np.full(trace.sent.shape, -1)
    waits = behind > first
    for wave, arrived in enumerate(trace.arrived):
        # Each group begins above all before it, so that one running maximum serves all groups.
        times = group * (int(arrived.max(initial=0)) + 1) + arrived[by_step]
        highest = np.maximum.accumulate(times)
        last = np.maximum.accumulate(np.where(times == highest, place, 0))
        found[wave, waits] = by_step[last[behind[waits] - 1]]
    return found


def lanes_of_slices(track: IntArray, begin: IntArray, end: IntArray) -> IntArray:
    """The lowest lane of its track, from 0, that is free where each slice begins.

    >>> begin, end = np.array([[0, 2, 4, 2], [4, 5, 6, 3]])
    >>> lanes_of_slices(np.array([7, 7, 7, 8]), begin, end).tolist()
    [0, 1, 0, 0]
    """
    lanes = np.zeros(len(track), np.int64)
    busy: dict[int, list[tuple[int, int]]] = {}
    free: dict[int, list[int]] = {}
    for index in np.lexsort((end, begin, track)).tolist():
        key, start = int(track[index]), int(begin[index])
        taken, open_ = busy.setdefault(key, []), free.setdefault(key, [])
        while taken and taken[0][0] <= start:
            heapq.heappush(open_, heapq.heappop(taken)[1])
        lane = heapq.heappop(open_) if open_ else len(taken)
        heapq.heappush(taken, (int(end[index]), lane))
        lanes[index] = lane
    return lanes
