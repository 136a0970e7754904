"""Traces out of the messages that a network was seen to send and receive."""

from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.nic.faults import DeviceError
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

    A link carries the messages of an op and a flow in the order of the collectives, so the
    k-th of them belongs to the k-th collective.

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
    topology = schedule.topology
    links = schedule.route_links[schedule.route_offsets[:-1]]
    leaving, coming = (
        _match(wanted, events, len(start))
        for wanted, events in zip(_wanted(schedule), (sent, arrived), strict=True)
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
                arrived=(arrived["cycle"][coming[k]].astype(np.int64) - first)[None],
                start=start[k] - first,
                done=done[k] - first,
                link_flits=np.bincount(links, payload, topology.num_links).astype(np.int64),
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
    for wanted, events in zip(_wanted(schedule), (sent, arrived), strict=True):
        found = np.sort(_keys_of(events))
        counts.append(np.searchsorted(found, wanted, "right") - np.searchsorted(found, wanted))
    return counts[0], counts[1]


def _wanted(schedule: Schedule) -> tuple[IntArray, IntArray]:
    """Keys of each transfer where it leaves and where it comes in."""
    topology = schedule.topology
    links = schedule.route_links[schedule.route_offsets[:-1]]
    port = np.array([topology.port_of_link(link) for link in range(topology.num_links)], np.int64)
    return (
        _key(schedule.src, port[links], schedule.op, schedule.flow),
        _key(schedule.dst, port[topology.reverse[links]], schedule.op, schedule.flow),
    )


def _match(wanted: IntArray, events: Events, num_collectives: int) -> IntArray:
    """Event of each transfer in each collective, int64 (num_collectives, num_transfers)."""
    found = _keys_of(events)
    by_key = np.argsort(found, kind="stable")
    ranked = np.argsort(wanted, kind="stable")
    expected = np.repeat(wanted[ranked], num_collectives)
    if not np.array_equal(found[by_key], expected):
        raise DeviceError(
            f"The interfaces must send the {len(expected)} messages of the schedule, "
            f"not {len(found)} others"
        )
    matched = np.empty((num_collectives, len(wanted)), dtype=np.int64)
    matched[:, ranked] = by_key.reshape(-1, num_collectives).T
    return matched


def _keys_of(events: Events) -> IntArray:
    return _key(events["rank"], events["port"], events["op"], events["flow"])


def _key(rank: Any, port: Any, op: Any, flow: Any) -> IntArray:
    """One number for rank, port, op and flow."""
    key = rank.astype(np.int64) << 32 | port.astype(np.int64) << 24
    result: IntArray = key | op.astype(np.int64) << 20 | flow.astype(np.int64)
    return result
