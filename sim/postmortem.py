"""Which message of a schedule was the first that should have come and did not."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from multitree.sim.events import Events, counts_of, turns_of
from multitree.topology.arrays import positions_in_group
from multitree.topology.schedule import Schedule

__all__ = ["first_missing"]

IntArray = npt.NDArray[np.int64]


def first_missing(schedules: Sequence[Schedule], sent: Events, arrived: Events) -> str:
    """Name the message that a network waits for, from all that was seen on its links.

    That is, of the first collective that is not complete, the first message, in the order of
    steps, that was not sent although it was the next on its link and all it needed had arrived;
    if there is none, the first that was sent and never arrived. Others are missing too, but only
    because of it.

    Parameters
    ----------
    schedules : sequence of Schedule
        What ran, one after the other, silent phases included.
    sent, arrived : structured arrays
        As `Network.sent` and `Network.arrived` return them, of these runs only.

    Returns
    -------
    str
        A few words; empty if nothing is missing.

    Notes
    -----
    O(num_transfers log num_transfers).
    """
    for schedule, turn in zip(schedules, turns_of(schedules, sent, arrived), strict=True):
        is_sent, is_in = (counts > 0 for counts in counts_of(schedule, *turn))
        ready = ~is_sent & _has_all_it_needs(schedule, is_in) & _is_next(schedule, is_sent)
        for rows, what in (
            (np.flatnonzero(ready), "was not sent, although all it needs had arrived"),
            (np.flatnonzero(is_sent & ~is_in), "was sent, and is not complete"),
        ):
            if rows.size:
                return f"{schedule.describe(int(rows[0]))} {what}"
    return ""


def _has_all_it_needs(schedule: Schedule, is_in: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether all of its flow that comes to a transfer's source in earlier steps is in."""
    shape = (schedule.num_flows, schedule.topology.num_ranks)
    # Earliest step of an arrival that is still out, per flow and rank.
    out = np.full(shape, np.iinfo(np.int64).max)
    missing = np.flatnonzero(~is_in)
    places = schedule.flow[missing], schedule.dst[missing]
    np.minimum.at(out, places, schedule.step[missing].astype(np.int64))
    complete: npt.NDArray[np.bool_] = schedule.step <= out[schedule.flow, schedule.src]
    return complete


def _is_next(schedule: Schedule, is_sent: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether a transfer is the first of its link that was not sent."""
    link = schedule.route_links[schedule.route_offsets[:-1]].astype(np.int64)
    waiting = np.flatnonzero(~is_sent)
    first = np.zeros(schedule.num_transfers, dtype=np.bool_)
    first[waiting[positions_in_group(link[waiting]) == 0]] = True
    return first
