"""When each row was sent and arrived, also out of the messages seen."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.nic.driver.faults import DeviceError
from multitree.nic.driver.routed_rows import places_in_sums
from multitree.topology.arrays import positions_in_group
from multitree.topology.collectives import OPS_OF
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Events", "Trace", "counts_of", "trace_of", "turns_of"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Trace:
    """Cycle by cycle result of one collective, comparable between engines by subtraction.

    Cycle 0 is the first rank's start. The arrays are read-only: copies, unless the given ones own
    their data and are read-only already.

    Parameters
    ----------
    schedule : Schedule
        What ran.
    engine : str
        Which engine: "rtl", "exact", "analytic" or "translated".
    num_flits : int
        Length of the padded buffer in flits.
    sent : int64 array, shape (num_waves, num_transfers)
        Cycle in which a message's head flit is on its link.
    arrived : int64 array, shape (num_waves, num_transfers)
        Cycle in which the message's last flit is reduced or written, and acknowledged.
    start, done : int64 array, shape (num_ranks,)
        Cycle in which a rank was started, and in which it said that it is done.
    link_flits : int64 array, shape (num_links,)
        Payload flits that went over each link; counted in RTL, computed otherwise.

    Raises
    ------
    ValueError
        If shapes do not fit the schedule, a message arrives before it is sent, or a rank is done
        before it starts.
    """

    schedule: Schedule
    engine: str
    num_flits: int
    sent: IntArray
    arrived: IntArray
    start: IntArray
    done: IntArray
    link_flits: IntArray

    def __post_init__(self) -> None:
        """Freeze and check the arrays."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, _frozen(value))
        self._check_shapes()
        if (self.arrived < self.sent).any():
            row = int(np.argwhere(self.arrived < self.sent)[0][1])
            raise ValueError(f"Trace arrived must be after sent, not before it at transfer {row}")
        if (self.done < self.start).any():
            rank = int(np.flatnonzero(self.done < self.start)[0])
            raise ValueError(f"Trace done must be after start, not before it at rank {rank}")

    def _check_shapes(self) -> None:
        """Raise unless every array has the shape that the schedule asks for."""
        topology = self.schedule.topology
        transfers = (self.schedule.num_waves, self.schedule.num_transfers)
        for name, shape in (
            ("sent", transfers),
            ("arrived", transfers),
            ("start", (topology.num_ranks,)),
            ("done", (topology.num_ranks,)),
            ("link_flits", (topology.num_links,)),
        ):
            found = getattr(self, name).shape
            if found != shape:
                raise ValueError(f"Trace {name} must be of shape {shape}, not {found!r}")

    @property
    def cycles(self) -> int:
        """Cycles from the first rank's start to the last rank's done."""
        return int(self.done.max() - self.start.min())

    @property
    def link_utilization(self) -> float:
        """Payload flits over links times cycles, between 0 and 1."""
        available = self.schedule.topology.num_links * self.cycles
        return float(self.link_flits.sum()) / available if available else 0.0

    @property
    def busiest_link_utilization(self) -> float:
        """Payload flits of the busiest link over cycles, between 0 and 1."""
        return float(self.link_flits.max(initial=0)) / self.cycles if self.cycles else 0.0

    def step_spans(self) -> npt.NDArray[np.int64]:
        """First cycle sent and last cycle arrived of every step, in any wave.

        Returns
        -------
        int64 array, shape (num_steps, 2)
        """
        spans = np.zeros((self.schedule.num_steps, 2), dtype=np.int64)
        for step in range(self.schedule.num_steps):
            rows = self.schedule.step == step
            if rows.any():
                spans[step] = self.sent[:, rows].min(), self.arrived[:, rows].max()
        return spans


def _frozen(values: npt.NDArray[Any]) -> IntArray:
    """A read-only array of the same values."""
    # Those of many waves are too long to copy without need.
    if values.dtype == np.int64 and values.base is None and not values.flags.writeable:
        return values
    # It is a copy, since a read-only flag would reach the caller's array.
    frozen = np.array(values, dtype=np.int64)
    frozen.setflags(write=False)
    return frozen


Events = npt.NDArray[Any]
"""Messages that left or came in: structured arrays with the fields of `native.EVENT`."""


def turns_of(
    schedules: Sequence[Schedule], sent: Events, arrived: Events
) -> list[tuple[Events, Events]]:
    """Messages seen, as `Network.sent` and `arrived` give them, shared out among the collectives
    that ran one after the other: a pair per collective. A rank sends and takes all messages of one
    before the first of the next; surplus messages go to the last.
    """
    shares = []
    for events, end in ((sent, "src"), (arrived, "dst")):
        num_ranks = schedules[0].topology.num_ranks
        ends = [
            ran.num_waves * np.bincount(getattr(ran, end), minlength=num_ranks)
            for ran in schedules[:-1]
        ]
        before = np.cumsum(np.reshape(ends, (-1, num_ranks)), axis=0)
        rank = events["rank"].astype(np.int64)
        # Events are in order of time (`Native.events`), so that a rank's k-th event belongs to the
        # collective in whose share k lies.
        turn = (before[:, rank] <= positions_in_group(rank)).sum(axis=0)
        shares.append([events[turn == k] for k in range(len(schedules))])
    return list(zip(*shares, strict=True))


def trace_of(
    schedule: Schedule,
    ran: Schedule,
    num_flits: int,
    turn: tuple[Events, Events],
    start: IntArray,
    done: IntArray,
) -> Trace:
    """Trace of a collective from its messages, a pair of `turns_of`; cycle 0 is the first rank's
    start.

    `ran` is the schedule as the network carries it: perhaps through switches attached to ranks, and
    on shared links with a header-only phase, whose messages are no transfers. Raises DeviceError if
    the messages are not those of `ran`.
    """
    topology, hops = schedule.topology, np.diff(schedule.route_offsets)
    carries = np.isin(ran.op, OPS_OF[schedule.collective])
    leaving, came = (
        _match(np.tile(wanted, ran.num_waves), found).reshape(ran.num_waves, -1)[:, carries]
        for wanted, found in zip(_wanted(ran), _found(ran, *turn), strict=True)
    )
    first = start.min()
    sent, arrived = turn
    # It is counted at the source (harness_rank.h, `send_flit`): links and switches lose no flit.
    payload = np.repeat(sent["num_payload"][leaving].astype(np.int64).sum(axis=0), hops)
    return Trace(
        schedule=schedule,
        engine="rtl",
        num_flits=num_flits,
        # NumPy would make a difference of uint64 and int64 a float64.
        sent=sent["cycle"][leaving].astype(np.int64) - first,
        arrived=arrived["cycle"][came].astype(np.int64) - first,
        start=start - first,
        done=done - first,
        link_flits=np.bincount(schedule.route_links, payload, topology.num_links).astype(np.int64),
    )


def counts_of(schedule: Schedule, sent: Events, arrived: Events) -> tuple[IntArray, IntArray]:
    """Number of waves in which each transfer was sent, and has arrived: two arrays of int64, shape
    (num_transfers,).
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
    port = topology.link_ports.astype(np.int64)
    if topology.num_switches:
        # What was staged is added at port 0, wherever it came in.
        coming_port, coming_place = np.zeros(len(links), np.int64), places_in_sums(schedule)
        # `Event::place` of harness_rank.h is the step where it leaves, the order where it arrives.
        leaving_place = schedule.step.astype(np.int64)
    else:
        coming_port = port[topology.reverse[links]]
        leaving_place = coming_place = np.zeros(len(links), np.int64)
    return (
        _key(schedule.src, port[links], schedule.op, schedule.flow, leaving_place),
        _key(schedule.dst, coming_port, schedule.op, schedule.flow, coming_place),
    )


def _match(wanted: IntArray, found: IntArray) -> IntArray:
    """Event of each transfer; of several with one key, as in waves, the k-th is the k-th event."""
    # Both sorts are stable: waves of a flow arrive in order (nic/receive/duplicate_filter.py).
    by_key = np.argsort(found, kind="stable")
    ranked = np.argsort(wanted, kind="stable")
    if not np.array_equal(found[by_key], wanted[ranked]):
        raise DeviceError(
            f"The interfaces must send the {len(wanted)} messages of the schedule, "
            f"not {len(found)} others"
        )
    matched = np.empty(len(wanted), dtype=np.int64)
    matched[ranked] = by_key
    return matched


def _found(schedule: Schedule, sent: Events, arrived: Events) -> tuple[IntArray, IntArray]:
    """Keys of the messages seen; on shared links the port of an arrival has no meaning."""
    ports = sent["port"], arrived["port"] * (schedule.topology.num_switches == 0)
    of_sent, of_arrived = (
        _key(events["rank"], port, events["op"], events["flow"], events["place"])
        for events, port in zip((sent, arrived), ports, strict=True)
    )
    return of_sent, of_arrived


def _key(rank: Any, port: Any, op: Any, flow: Any, place: Any) -> IntArray:
    """One number for rank, port, op, flow, and step or order."""
    wide = [part.astype(np.int64) for part in (rank, port, op, flow, place)]
    # Flow and place have at most 16 bits in a head, and ranks are at most 65 536: 56 bits suffice.
    key: IntArray = wide[0] << 40 | wide[1] << 34 | wide[2] << 32 | wide[3] << 16 | wide[4]
    return key
