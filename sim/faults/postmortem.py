"""What a network that failed was waiting for: the first message missing, a circle."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from multitree.nic.faults import DeviceError
from multitree.sim.emulator.network import Network
from multitree.sim.faults.in_flight import InFlight
from multitree.sim.faults.message_trace import Events, counts_of, turns_of
from multitree.sim.faults.wait_graph import WaitForGraph
from multitree.topology.arrays import positions_in_group
from multitree.topology.schedules.schedule import Schedule

__all__ = ["findings", "first_missing"]

IntArray = npt.NDArray[np.int64]


def findings(schedules: Sequence[Schedule], network: Network, *, stalled: bool) -> list[str]:
    """Say what a network waited for at its first fault.

    Parameters
    ----------
    schedules : sequence of Schedule
        What ran, one after the other, header-only phases included.
    network : Network
        After a fault in these runs.
    stalled : bool
        Whether that was a watchdog's: then, on shared links, the wait-for graph is reported, too.

    Returns
    -------
    list of str
        What `first_missing` and `waits.WaitForGraph` say, if anything.
    """
    sent, arrived = network.sent(), network.arrived()
    said = [first_missing(schedules, sent, arrived)]
    if stalled and network.config.shared:
        said.append(_waits(schedules, network, sent, arrived))
    return [words for words in said if words]


def _waits(schedules: Sequence[Schedule], network: Network, sent: Events, arrived: Events) -> str:
    """Who waits for whom on shared links; nothing if no fault was reported on one."""
    stopped, crossings = network.crossings()
    if stopped is None:
        return ""
    # What is in later came since a fault had those that it blocked dropped.
    turns = turns_of(schedules, sent, arrived[arrived["cycle"] < stopped])
    ran = zip(schedules, turns, strict=True)
    is_in = [counts_of(schedule, *turn)[1] > 0 for schedule, turn in ran]
    first_sequence = int(sent["sequence"][0]) if len(sent) else 0
    try:
        in_flight = InFlight(schedules, network.config, crossings, first_sequence)
    except DeviceError as error:
        return str(error)
    return WaitForGraph(schedules, in_flight, is_in).sentence()


def first_missing(schedules: Sequence[Schedule], sent: Events, arrived: Events) -> str:
    """Name the message that a network waits for, from all that was seen on its links.

    That is, of the first collective that is not complete, the first message, in the order of
    steps, that was not sent although it was the next on its link and all it needed had arrived;
    if there is none, the first that was sent and never arrived. Others are missing too, but only
    because of it.

    Parameters
    ----------
    schedules : sequence of Schedule
        What ran, one after the other, header-only phases included.
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
        sent_waves, waves_in = counts_of(schedule, *turn)
        ready = _is_next(schedule, sent_waves)
        for wave in np.unique(sent_waves[ready]):
            waiting = ready & (sent_waves == wave)
            ready[waiting] = _has_all_it_needs(schedule, waves_in > wave)[waiting]
        for missing, wave, what in (
            (ready, sent_waves, "was not sent, although all it needs had arrived"),
            (sent_waves > waves_in, waves_in, "was sent, and is not complete"),
        ):
            rows = np.flatnonzero(missing)
            if rows.size:
                row = int(rows[np.argmin((schedule.step + wave * schedule.period)[rows])])
                where = f" of wave {wave[row]}" if schedule.num_waves > 1 else ""
                return f"{schedule.describe(row)}{where} {what}"
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


def _is_next(schedule: Schedule, sent_waves: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether a transfer is the first of its link that was not sent, of all waves together."""
    link = schedule.route_links[schedule.route_offsets[:-1]].astype(np.int64)
    by_time = np.argsort(schedule.step + sent_waves * schedule.period, kind="stable")
    waiting = by_time[sent_waves[by_time] < schedule.num_waves]
    first = np.zeros(schedule.num_transfers, dtype=np.bool_)
    first[waiting[positions_in_group(link[waiting]) == 0]] = True
    return first
