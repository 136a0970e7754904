"""The harness's C interface as typed Python calls."""

import ctypes
import enum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.sim.native_build import loaded_library

__all__ = ["CROSSING", "EVENT", "OP", "RESULT", "Crossings", "Native", "Status"]

# These types are the structs HostOp, HostResult, Event and Crossing of the harness, byte for byte:
# every field stands at a multiple of its size, so that C++ adds no padding.
OP = np.dtype([("kind", "<u4"), ("address", "<u4"), ("value", "<u4")])
"""One operation of a host, as the harness reads it."""
RESULT = np.dtype([("begin", "<u8"), ("end", "<u8"), ("value", "<u4"), ("response", "<u4")])
"""What became of it."""
EVENT = np.dtype(
    [
        ("cycle", "<u8"),
        ("num_payload", "<u4"),
        ("sequence", "<u4"),
        ("flow", "<u2"),
        ("rank", "<u2"),
        ("port", "u1"),
        ("op", "u1"),
        ("place", "<u2"),
    ]
)
"""A message that left or came in."""
CROSSING = np.dtype(
    [
        ("low", "<u8"),
        ("high", "<u8"),
        ("num_flits", "<u4"),
        ("vc", "u1"),
        ("ended", "u1"),
        ("unused", "<u2"),
    ]
)
"""A message on one link."""
Crossings = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]
"""The messages of one link, and per virtual channel the flits that its far end has taken."""
_MOST_VCS = 8
_NEVER = 2**64 - 1


class Status(enum.IntEnum):
    """Why the harness stopped."""

    RUNNING = 0
    FINISHED = 1
    BAD_ADDRESS = 2
    NO_LINK = 3


class _Timing(ctypes.Structure):
    _fields_ = (
        ("cycles", ctypes.c_uint32),
        ("extra_cycles", ctypes.c_uint32),
        ("stall_percent", ctypes.c_uint32),
    )


class _Fault(ctypes.Structure):
    _fields_ = (
        ("cycle", ctypes.c_uint64),
        ("kind", ctypes.c_uint32),
        ("node", ctypes.c_uint32),
        ("port", ctypes.c_uint32),
        ("value", ctypes.c_uint32),
    )


_POINTER, _U32, _U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
# Without them ctypes would pass handles and addresses as C ints, of 32 bits.
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "mt_create": (_POINTER, [_U32, _U32, _U32]),
    "mt_destroy": (None, [_POINTER]),
    "mt_connect": (None, [_POINTER, _U32, _U32, _U32, _U32, _U64, _U64, _U64]),
    "mt_set_memory": (None, [_POINTER, _U32, _POINTER, _U64]),
    "mt_set_timing": (None, [_POINTER, _POINTER, _POINTER, _U64]),
    "mt_set_script": (ctypes.c_int, [_POINTER, _U32, _POINTER, _U64, _POINTER]),
    "mt_set_backdoor": (None, [_POINTER, ctypes.c_uint8]),
    "mt_set_sleeps": (None, [_POINTER, ctypes.c_uint8]),
    "mt_asleep": (_U64, [_POINTER]),
    "mt_reset": (None, [_POINTER, _U64]),
    "mt_hold_switches": (None, [_POINTER, ctypes.c_uint8]),
    "mt_switch_down": (_U32, [_POINTER, _U32]),
    "mt_run": (ctypes.c_int, [_POINTER, _U64]),
    "mt_links_idle_from": (_U64, [_POINTER]),
    "mt_cycle": (_U64, [_POINTER]),
    "mt_culprit": (None, [_POINTER, _POINTER]),
    "mt_events": (_U64, [_POINTER, _U32, _U32, _POINTER]),
    "mt_stopped": (_U64, [_POINTER]),
    "mt_crossings": (_U64, [_POINTER, _U32, _POINTER, _POINTER]),
    "mt_inject": (ctypes.c_int, [_POINTER, _POINTER]),
    "mt_heal": (None, [_POINTER]),
    "mt_pending": (_U64, [_POINTER]),
    "mt_forget": (None, [_POINTER]),
    "mt_irq_cycles": (None, [_POINTER, _POINTER]),
    "mt_close_trace": (ctypes.c_int, [_POINTER]),
    "mt_trace": (ctypes.c_int, [_POINTER, ctypes.c_char_p, _U64, _U64]),
}


class Native:
    """The functions of one library; each takes the handle that `create` returned. Raises
    DeviceError if the library cannot be loaded.
    """

    def __init__(self, library: Path) -> None:
        self._library = loaded_library(library)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.restype = result
            function.argtypes = arguments

    def create(self, num_ranks: int, num_switches: int, num_threads: int) -> int | None:
        """Make a network of unconnected nodes: interfaces, then switches."""
        handle: int | None = self._library.mt_create(num_ranks, num_switches, num_threads)
        return handle

    def destroy(self, handle: int | None) -> None:
        """Give it back."""
        self._library.mt_destroy(handle)

    def connect(self, handle: int | None, *wire: int) -> None:
        """Add a link: src node and port, dst node and port, latencies of flits and of credits in
        the opposite direction, interval in 1/65536.
        """
        self._library.mt_connect(handle, *wire)

    def set_memory(self, handle: int | None, rank: int, address: int, num_flits: int) -> None:
        """Point a rank at its memory."""
        self._library.mt_set_memory(handle, rank, address, num_flits)

    def set_timing(
        self,
        handle: int | None,
        read: tuple[int, int, int],
        write: tuple[int, int, int],
        seed: int,
    ) -> None:
        """Set latency, random extra and stalls of reads and writes."""
        # `byref` keeps its structure alive for the call, in which the harness copies it.
        timings = (ctypes.byref(_Timing(*read)), ctypes.byref(_Timing(*write)))
        self._library.mt_set_timing(handle, *timings, seed)

    def set_script(
        self, handle: int | None, rank: int, ops: int, num_ops: int, results: int
    ) -> bool:
        """Replace a rank's script; False while a register access is in flight."""
        return bool(self._library.mt_set_script(handle, rank, ops, num_ops, results))

    def set_backdoor(self, handle: int | None, open_: bool) -> None:
        """Whether hosts store words of tables at once, without the bus."""
        self._library.mt_set_backdoor(handle, open_)

    def set_sleeps(self, handle: int | None, sleeps: bool) -> None:
        """Whether interfaces whose state repeats are left out of the evaluation."""
        self._library.mt_set_sleeps(handle, sleeps)

    def asleep(self, handle: int | None) -> int:
        """Cycles of all interfaces that were not evaluated."""
        return int(self._library.mt_asleep(handle))

    def reset(self, handle: int | None, cycles: int) -> None:
        """Hold all interfaces in reset."""
        self._library.mt_reset(handle, cycles)

    def hold_switches(self, handle: int | None, level: bool) -> None:
        """Raise or lower the reset of all switches."""
        self._library.mt_hold_switches(handle, level)

    def switch_down(self, handle: int | None, number: int) -> int:
        """Ports of a switch, counted from the first one on, whose link is not up; bit by bit."""
        return int(self._library.mt_switch_down(handle, number))

    def links_idle_from(self, handle: int | None) -> int:
        """Cycle from which on all links are free and carry nothing."""
        return int(self._library.mt_links_idle_from(handle))

    def run(self, handle: int | None, cycles: int) -> Status:
        """Clock the network, at most so many cycles."""
        return Status(self._library.mt_run(handle, cycles))

    def cycle(self, handle: int | None) -> int:
        """Cycles so far."""
        return int(self._library.mt_cycle(handle))

    def culprit(self, handle: int | None) -> tuple[int, int, int]:
        """Rank, port and address of a violation."""
        found = (ctypes.c_uint64 * 3)()
        self._library.mt_culprit(handle, found)
        return found[0], found[1], found[2]

    def events(self, handle: int | None, num_ranks: int, which: int) -> npt.NDArray[Any]:
        """Copy the messages that left (0) or came in (1), in order of time, then of rank."""
        parts = [np.zeros(0, dtype=EVENT)]
        for rank in range(num_ranks):
            first = ctypes.c_void_p()
            count = self._library.mt_events(handle, rank, which, ctypes.byref(first))
            if count and first.value is not None:
                # It is copied at once, since the list moves as the network runs on.
                content = ctypes.string_at(first.value, count * EVENT.itemsize)
                parts.append(np.frombuffer(content, dtype=EVENT))
        events = np.concatenate(parts)
        return events[np.argsort(events["cycle"], kind="stable")]

    def stopped(self, handle: int | None) -> int | None:
        """Cycle in which a fault was first sent on shared links; None if none was."""
        cycle = int(self._library.mt_stopped(handle))
        return None if cycle == _NEVER else cycle

    def crossings(self, handle: int | None, link: int) -> Crossings:
        """Copy the messages that went onto a link, and the flits taken out of its buffers."""
        first, taken = ctypes.c_void_p(), ctypes.c_void_p()
        count = self._library.mt_crossings(handle, link, ctypes.byref(first), ctypes.byref(taken))
        content = ctypes.string_at(first.value or 0, count * CROSSING.itemsize) if count else b""
        flits = ctypes.string_at(taken.value or 0, _MOST_VCS * 8)
        return np.frombuffer(content, CROSSING), np.frombuffer(flits, np.int64)

    def inject(self, handle: int | None, fault: tuple[int, ...]) -> bool:
        """Expect a fault: cycle, kind, rank, port, value; False if the library has no such one."""
        return bool(self._library.mt_inject(handle, ctypes.byref(_Fault(*fault))))

    def heal(self, handle: int | None) -> None:
        """Expect no more faults, and end those that last."""
        self._library.mt_heal(handle)

    def pending(self, handle: int | None) -> int:
        """Faults of flits that have found no flit yet."""
        return int(self._library.mt_pending(handle))

    def forget(self, handle: int | None) -> None:
        """Forget all messages seen."""
        self._library.mt_forget(handle)

    def irq_cycles(self, handle: int | None, num_ranks: int) -> npt.NDArray[np.int64]:
        """Cycle of each rank's last rising interrupt."""
        cycles = np.zeros(num_ranks, dtype=np.uint64)
        self._library.mt_irq_cycles(handle, cycles.ctypes.data)
        return cycles.astype(np.int64)

    def trace(self, handle: int | None, path: str, first: int, last: int) -> bool:
        """Open a waveform; False if the library writes none or the file cannot be opened."""
        return bool(self._library.mt_trace(handle, path.encode(), first, last))

    def close_trace(self, handle: int | None) -> int:
        """End a waveform; the number of the first error while it was written, or 0."""
        return int(self._library.mt_close_trace(handle))
