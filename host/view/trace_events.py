"""Traces as files for Perfetto: processes, threads, slices and arrows."""

import gzip
import heapq
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.sim.timing.trace import Trace
from multitree.topology.collectives import Op
from multitree.topology.errors import report
from multitree.topology.file_io import replacing

__all__ = ["SUFFIXES", "TraceEvents", "lanes_of_slices", "last_awaited", "write_trace_events"]

SUFFIXES = (".json", ".json.gz")
_CYCLES_PER_US = 1000
_SOURCE, _DESTINATION = 0, 1
_AT_ONCE = 20_000
_LEAST_ID = {"message": 0, "dependency": 1}

IntArray = npt.NDArray[np.int64]
Event = dict[str, Any]


@dataclass(frozen=True, eq=False)
class TraceEvents:
    """A trace's events, or those of some cycles, in Google's trace-event format of 2016.

    A rank is a process, each direction of a port a thread, with more where messages overlap. A
    message is a slice from sent to arrived at both ends; arrows join these, and lead to it from the
    last arrival that it waited for. Times are cycles, which viewers show as nanoseconds.
    """

    trace: Trace
    first_cycle: int = 0
    last_cycle: int | None = None  # one past the end

    def __iter__(self) -> Iterator[Event]:
        """Names of processes and threads, then all else by ascending time."""
        yield from self._names()
        starts = np.maximum(self.trace.start, self.first_cycle)
        makers = (
            (starts[self._ranks], self._ranks, self._rank_slice),
            (self._begin, self._all, self._source_slice),
            (self._begin, self._all, self._destination_slice),
            (self._begin, self._all, self._message_leaves),
            (self._begin, self._all, self._message_comes),
            (self._released, self._waiting, self._wait_begins),
            (self._begin[self._waiting], self._waiting, self._wait_ends),
        )
        times = np.concatenate([at for at, _, _ in makers])
        number = np.concatenate([entry for _, entry, _ in makers])
        kind = np.repeat(np.arange(len(makers)), [len(at) for at, _, _ in makers])
        for place in np.lexsort((number, kind, times)).tolist():
            made = makers[kind[place]][2](int(number[place]))
            yield made | {"ts": _microseconds(int(times[place]))}

    @cached_property
    def _end_cycle(self) -> int:
        end = max(int(self.trace.done.max()), int(self.trace.arrived.max(initial=0)))
        return end if self.last_cycle is None else min(self.last_cycle, end)

    @cached_property
    def _ranks(self) -> IntArray:
        """Ranks that run within the window."""
        return np.flatnonzero(self._is_inside(self.trace.start, self.trace.done))

    def _is_inside(self, begin: IntArray, end: IntArray) -> npt.NDArray[np.bool_]:
        return (begin < self._end_cycle) & (end > self.first_cycle)

    @cached_property
    def _messages(self) -> IntArray:
        """Messages that are on their way within the window: wave x num_transfers + row."""
        return np.flatnonzero(self._is_inside(self.trace.sent, self.trace.arrived))

    @cached_property
    def _all(self) -> IntArray:
        return np.arange(len(self._messages))

    @cached_property
    def _row(self) -> IntArray:
        return self._messages % max(self.trace.schedule.num_transfers, 1)

    @cached_property
    def _sent(self) -> IntArray:
        return self.trace.sent.ravel()[self._messages]

    @cached_property
    def _arrived(self) -> IntArray:
        return self.trace.arrived.ravel()[self._messages]

    @cached_property
    def _begin(self) -> IntArray:
        """Where a message's slices begin: when it was sent, or with the window."""
        return np.maximum(self._sent, self.first_cycle)

    @cached_property
    def _end(self) -> IntArray:
        return np.minimum(self._arrived, self._end_cycle)

    @cached_property
    def _awaited(self) -> IntArray:
        """The message that each one waited for, by its place in the window; -1 for none."""
        trace, count = self.trace, self.trace.schedule.num_transfers
        rows = last_awaited(trace)
        waves = np.arange(len(rows))[:, None]
        # What lies outside of the window has the place -1, and so has no message: the last entry.
        place = np.full(trace.sent.size + 1, -1)
        place[self._messages] = self._all
        message = np.where(rows < 0, trace.sent.size, waves * count + rows)
        return np.asarray(place[message.ravel()[self._messages]])

    @cached_property
    def _waiting(self) -> IntArray:
        """Messages with an arrow to them: those sent in the window, of which the other end is."""
        return np.flatnonzero((self._awaited >= 0) & (self._sent >= self.first_cycle))

    @cached_property
    def _released(self) -> IntArray:
        """When the arrows to `_waiting` leave: as the awaited arrives, within its slice.

        With cut-through a message leaves before all that it waits for has arrived; then at once.
        """
        awaited = self._awaited[self._waiting]
        within = np.maximum(self._end[awaited] - 1, self._begin[awaited])
        return np.minimum(within, self._begin[self._waiting])

    @cached_property
    def _threads(self) -> tuple[dict[tuple[int, int, int], int], IntArray]:
        """Threads by side, link and lane, from 1; and those of each message, shape (2, n)."""
        schedule = self.trace.schedule
        offsets, links = schedule.route_offsets, schedule.route_links.astype(np.int64)
        threads: dict[tuple[int, int, int], int] = {}
        found = []
        for side, at in ((_SOURCE, offsets[:-1]), (_DESTINATION, offsets[1:] - 1)):
            track = links[at][self._row]
            lanes = lanes_of_slices(track, self._begin, self._end)
            keys = zip(track.tolist(), lanes.tolist(), strict=True)
            found.append([threads.setdefault((side, *key), len(threads) + 1) for key in keys])
        return threads, np.array(found, np.int64)

    def _names(self) -> Iterator[Event]:
        topology = self.trace.schedule.topology
        for rank in range(topology.num_ranks):
            own = self._own_thread(rank)
            yield _metadata("process_name", rank, own, name=f"rank {topology.label(rank)}")
            yield _metadata("process_sort_index", rank, own, sort_index=rank)
            yield _metadata("thread_name", rank, own, name="collective")
            yield _metadata("thread_sort_index", rank, own, sort_index=-1)
        for key, thread in self._threads[0].items():
            rank, name, place = self._thread_name(*key)
            yield _metadata("thread_name", rank, thread, name=name)
            yield _metadata("thread_sort_index", rank, thread, sort_index=place)

    def _thread_name(self, side: int, link: int, lane: int) -> tuple[int, str, int]:
        """Whose thread it is, what it is called, and where it stands."""
        topology = self.trace.schedule.topology
        src, dst = topology.links[link].tolist()
        # A link comes in at the port by which its reverse leaves.
        outgoing = link if side == _SOURCE else int(topology.reverse[link])
        port = int(topology.link_ports[outgoing]) if outgoing >= 0 else None
        what = f"port {'?' if port is None else port} "
        what += f"to {topology.label(dst)}" if side == _SOURCE else f"from {topology.label(src)}"
        what += f", lane {lane + 1}" if lane else ""
        place = (2 * (topology.num_links if port is None else port) + side) << 16 | min(lane, 65535)
        return (src if side == _SOURCE else dst), what, place

    def _own_thread(self, rank: int) -> int:
        """The thread of a rank's own slice; Perfetto wants no number in two processes."""
        return len(self._threads[0]) + 1 + rank

    def _rank_slice(self, rank: int) -> Event:
        trace = self.trace
        begin, end = int(trace.start[rank]), int(trace.done[rank])
        cut = min(end, self._end_cycle) - max(begin, self.first_cycle)
        return {
            "name": trace.schedule.collective,
            "cat": "collective",
            "ph": "X",
            **_at(rank, self._own_thread(rank)),
            "dur": _microseconds(cut),
            "args": {"start_cycle": begin, "done_cycle": end},
        }

    def _source_slice(self, message: int) -> Event:
        return self._slice(message, _SOURCE)

    def _destination_slice(self, message: int) -> Event:
        return self._slice(message, _DESTINATION)

    def _slice(self, message: int, side: int) -> Event:
        schedule, row = self.trace.schedule, int(self._row[message])
        op, flow = Op(int(schedule.op[row])).name, int(schedule.flow[row])
        return {
            "name": f"{op} {flow}",
            "cat": ("send", "receive")[side],
            "ph": "X",
            **self._place(message, side),
            "dur": _microseconds(int(self._end[message] - self._begin[message])),
            "args": {
                "op": op,
                "flow": flow,
                "wave": int(self._messages[message]) // schedule.num_transfers,
                "step": int(schedule.step[row]),
                "src": int(schedule.src[row]),
                "dst": int(schedule.dst[row]),
                "flits": int(self._flits[flow]),
                "sent_cycle": int(self._sent[message]),
                "arrived_cycle": int(self._arrived[message]),
            },
        }

    @cached_property
    def _flits(self) -> IntArray:
        return np.diff(self.trace.schedule.chunks(self.trace.num_flits))

    def _place(self, message: int, side: int) -> Event:
        schedule = self.trace.schedule
        rank = (schedule.src, schedule.dst)[side][self._row[message]]
        return _at(int(rank), int(self._threads[1][side, message]))

    def _message_leaves(self, message: int) -> Event:
        return _arrow("s", "message", message) | self._place(message, _SOURCE)

    def _message_comes(self, message: int) -> Event:
        return _arrow("f", "message", message) | self._place(message, _DESTINATION)

    def _wait_begins(self, message: int) -> Event:
        awaited = int(self._awaited[message])
        return _arrow("s", "dependency", message) | self._place(awaited, _DESTINATION)

    def _wait_ends(self, message: int) -> Event:
        return _arrow("f", "dependency", message) | self._place(message, _SOURCE)


def _microseconds(cycles: int) -> float:
    """A cycle for each nanosecond, also where a reader cuts off what is below a nanosecond."""
    time = cycles / _CYCLES_PER_US
    return time if int(time * _CYCLES_PER_US) == cycles else math.nextafter(time, math.inf)


def _at(rank: int, thread: int) -> Event:
    # Process 0 is the idle process of a kernel, which viewers hide.
    return {"pid": rank + 1, "tid": thread}


def _metadata(what: str, rank: int, thread: int, **args: Any) -> Event:
    return {"name": what, "ph": "M", **_at(rank, thread), "args": args}


def _arrow(phase: str, kind: str, message: int) -> Event:
    """One end of an arrow; the other one has the same id."""
    event = {"name": kind, "cat": kind, "ph": phase, "id": 2 * message + _LEAST_ID[kind]}
    return event | ({"bp": "e"} if phase == "f" else {})


def write_trace_events(path: Path, events: TraceEvents, clock_ghz: float) -> None:
    """Write a file that ui.perfetto.dev opens, compressed if it ends in ``.gz``."""
    trace = events.trace
    about = {
        "producer": "multitree",
        "topology": trace.schedule.topology.name,
        "algorithm": trace.schedule.algorithm,
        "schedule_hash": trace.schedule.hash,
        "engine": trace.engine,
        "clock_ghz": clock_ghz,
        "time_unit": "one nanosecond shown is one cycle",
        "cycles": trace.cycles,
    }
    with replacing(path) as temporary, temporary.open("wb") as raw:
        if path.suffix == ".gz":
            # Without a name and a time in its head, equal events are equal bytes.
            with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                _write(io.TextIOWrapper(packed, "utf-8"), about, events)
        else:
            _write(io.TextIOWrapper(raw, "utf-8"), about, events)


def _write(file: io.TextIOWrapper, about: Event, events: TraceEvents) -> None:
    """Write an object whose events stand one a line, never all of them in memory as text."""
    encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
    head = encode({"displayTimeUnit": "ns", "otherData": about})
    file.write(f'{head[:-1]},"traceEvents":[\n')
    for number, event in enumerate(events):
        if number % _AT_ONCE == 0:
            report(f"writing events, {number:,} so far")
        file.write((",\n" if number else "") + encode(event))
    file.write("\n]}\n")
    file.flush()
    file.detach()


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
