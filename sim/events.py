"""Traces out of the messages that a network was seen to send and receive."""

from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.nic.faults import DeviceError
from multitree.nic.routed_rows import places_in_sums
from multitree.sim.trace import Trace
from multitree.topology.schedule import Schedule

__all__ = ["Events", "counts_of", "traces_of"]

IntArray = npt.NDArray[np.int64]
Events = npt.NDArray[Any]
"""Messages that left or came in: structured arrays with the fields of `native.EVENT`."""


def traces_of(
    schedule: Schedule,
    num_flits: int,
    sent: Events,
    arrived: Events,
    start: IntArray,
    done: IntArray,
) -> list[Trace]:
    """Find every transfer of several collectives among the messages seen.

    A rank sends the messages of an op, a flow and a step over a port in the order of the
    collectives, and takes those of a place in a sum in that order, too.

    Parameters
    ----------
    schedule : Schedule
        What ran, on direct links.
    num_flits : int
        Of one rank's buffer.
    sent, arrived : structured arrays
        As `Network.sent` and `Network.arrived` return them, of these collectives only.
    start, done : int64 arrays, shape (num_collectives, num_ranks)
        Cycles in which each rank was started, and said that it is done.

    Returns
    -------
    list of Trace
        One per collective; its cycle 0 is its own first rank's start.

    Raises
    ------
    DeviceError
        If the messages are not those of the schedule.
    """
    topology, hops = schedule.topology, np.diff(schedule.route_offsets)
    leaving, came = (
        _match(wanted, found, len(start))
        for wanted, found in zip(_wanted(schedule), _found(schedule, sent, arrived), strict=True)
    )
    traces = []
    for k in range(len(start)):
        first = start[k].min()
        payload = sent["num_payload"][leaving[k]].astype(np.int64)
        traces.append(
            Trace(
                schedule=schedule,
                engine="rtl",
                num_flits=num_flits,
                sent=(sent["cycle"][leaving[k]].astype(np.int64) - first)[None],
                arrived=(arrived["cycle"][came[k]].astype(np.int64) - first)[None],
                start=start[k] - first,
                done=done[k] - first,
                link_flits=np.bincount(
                    schedule.route_links, np.repeat(payload, hops), topology.num_links
                ).astype(np.int64),
            )
        )
    return traces


def counts_of(schedule: Schedule, sent: Events, arrived: Events) -> tuple[IntArray, IntArray]:
    """How often each transfer was sent, and has arrived.

    Parameters
    ----------
    schedule : Schedule
        What ran, on direct links.
    sent, arrived : structured arrays
        As for `traces_of`.

    Returns
    -------
    int64 arrays, shape (num_transfers,)
    """
    counts = []
    for wanted, keys in zip(_wanted(schedule), _found(schedule, sent, arrived), strict=True):
        found = np.sort(keys)
        counts.append(np.searchsorted(found, wanted, "right") - np.searchsorted(found, wanted))
    return counts[0], counts[1]


def _wanted(schedule: Schedule) -> tuple[IntArray, IntArray]:
    """Keys of each transfer where it leaves and where it comes in."""
    topology = schedule.topology
    links = schedule.route_links[schedule.route_offsets[:-1]]
    port = np.array([topology.port_of_link(link) for link in range(topology.num_links)], np.int64)
    if topology.num_switches:
        # What was staged is added at port 0, wherever it came in.
        coming_port, coming_place = np.zeros(len(links), np.int64), places_in_sums(schedule)
        leaving_place = schedule.step.astype(np.int64)
    else:
        coming_port = port[topology.reverse[links]]
        leaving_place = coming_place = np.zeros(len(links), np.int64)
    return (
        _key(schedule.src, port[links], schedule.op, schedule.flow, leaving_place),
        _key(schedule.dst, coming_port, schedule.op, schedule.flow, coming_place),
    )


def _match(wanted: IntArray, found: IntArray, num_collectives: int) -> IntArray:
    """Event of each transfer in each collective, int64 (num_collectives, num_transfers).

    Of several transfers with one key the k-th is the k-th of each collective's events.
    """
    by_key = np.argsort(found, kind="stable")
    ranked = np.argsort(wanted, kind="stable")
    if not np.array_equal(found[by_key], np.repeat(wanted[ranked], num_collectives)):
        raise DeviceError(
            f"The interfaces must send the {len(wanted) * num_collectives} messages of the "
            f"schedule, not {len(found)} others"
        )
    alike, first = np.unique(wanted[ranked], return_index=True)
    group = np.searchsorted(alike, wanted[ranked])
    size = np.diff(np.r_[first, len(ranked)])[group]
    place = first[group] * num_collectives + np.arange(len(ranked)) - first[group]
    matched = np.empty((num_collectives, len(wanted)), dtype=np.int64)
    matched[:, ranked] = by_key[place + np.arange(num_collectives)[:, None] * size]
    return matched


def _found(schedule: Schedule, sent: Events, arrived: Events) -> tuple[IntArray, IntArray]:
    """Keys of the messages seen; where links are shared no port tells where one came in."""
    ports = sent["port"], arrived["port"] * (schedule.topology.num_switches == 0)
    of_sent, of_arrived = (
        _key(events["rank"], port, events["op"], events["flow"], events["place"])
        for events, port in zip((sent, arrived), ports, strict=True)
    )
    return of_sent, of_arrived


def _key(rank: Any, port: Any, op: Any, flow: Any, place: Any) -> IntArray:
    """One number for rank, port, op, flow, and step or order."""
    wide = [part.astype(np.int64) for part in (rank, port, op, flow, place)]
    key: IntArray = wide[0] << 40 | wide[1] << 34 | wide[2] << 32 | wide[3] << 16 | wide[4]
    return key
