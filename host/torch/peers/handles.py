"""Collectives that were submitted, by number, and the handles that users wait for."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist

from multitree.host.torch.peers.flight import FlightEntry
from multitree.host.torch.peers.frames import Fingerprint
from multitree.host.torch.peers.progress import Steps

__all__ = ["CollectiveLog", "Handle", "QueuedCollective"]

_KEPT_COLLECTIVES = 8


class Handle(dist._Work):
    """A collective, or a message, that was started, with the interface of PyTorch's handles.

    The thread of the group ends it by `finish`, which calls `after` once before `wait` returns: it
    copies results to where another thread must not write, such as a device.
    """

    def __init__(self, result: list[Any], *, after: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._result = result
        self._after = after
        self._error: BaseException | None = None
        self._source = -1
        self.sequence = 0
        self.entry: FlightEntry | None = None
        self._lock = threading.Lock()
        self._is_done = False
        # Held until the end: waiting for a plain lock is cheaper than for an Event.
        self._gate = threading.Lock()
        self._gate.acquire()
        self._future: torch.futures.Future[Any] | None = None
        self._callbacks: list[Callable[[BaseException | None], None]] = []
        self._kept: list[torch.Tensor] = []

    def keep(self, tensor: torch.Tensor) -> None:
        """Keep a tensor alive as long as the handle."""
        self._kept.append(tensor)

    def when_done(self, callback: Callable[[BaseException | None], None]) -> None:
        """Have a function called with the error, or None, at the end."""
        with self._lock:
            if not self._is_done:
                self._callbacks.append(callback)
                return
        callback(self._error)

    def finish(self, error: BaseException | None = None, *, source: int = -1) -> None:
        """End it; what is called again is ignored."""
        with self._lock:
            if self._is_done:
                return
            if error is None and self._after is not None:
                try:
                    self._after()
                except Exception as problem:
                    error = problem
            self._error, self._source = error, source
            self._is_done = True
            if self.entry is not None:
                self.entry.end(error)
            future, callbacks, self._callbacks = self._future, self._callbacks, []
        try:
            if future is not None:
                self._end_future(future)
            for callback in callbacks:
                callback(error)
        finally:
            # Last, so that what waits sees all that hangs on the end done.
            self._gate.release()

    def _end_future(self, future: "torch.futures.Future[Any]") -> None:
        if self._error is None:
            future.set_result(self._result)
        else:
            future.set_exception(self._error)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end: for ever where the timeout is 0 or none.

        Raises what the collective failed with.
        """
        seconds = timeout.total_seconds() if timeout is not None else 0
        if not self._gate.acquire(timeout=seconds if seconds > 0 else -1):
            raise RuntimeError(f"Wait must end within {seconds} s, but has not")
        self._gate.release()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._is_done

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._is_done and self._error is None

    def exception(self) -> BaseException | None:
        """What it failed with."""
        return self._error

    def synchronize(self) -> None:
        """Wait for the end."""
        self.wait()

    def get_future(self) -> "torch.futures.Future[Any]":
        """A Future whose value is the list of results."""
        with self._lock:
            if self._future is None:
                self._future = torch.futures.Future(devices=_devices_of(self._result))
                ended = self._is_done
            else:
                return self._future
        # Without the lock: what hangs on a Future may use the handle.
        if ended:
            self._end_future(self._future)
        return self._future

    def result(self) -> list[Any]:
        """The tensors of results; waits for the end."""
        self.wait()
        return self._result

    def _get_sequence_number(self) -> int:
        """Number of the collective in its group, from 1, as PyTorch counts; 0 for a message."""
        return self.sequence

    def source_rank(self) -> int:
        """Rank of the group that a message came from."""
        return self._source

    _source_rank = source_rank


def _devices_of(result: list[Any]) -> list[torch.device]:
    """Devices of tensors that a Future has to know: all but the CPU."""
    tensors = [item for item in result if isinstance(item, torch.Tensor)]
    return sorted({t.device for t in tensors if t.device.type != "cpu"}, key=str)


@dataclass(eq=False)
class QueuedCollective:
    """A collective that was submitted: `steps` makes its code from its number in the group."""

    fingerprint: Fingerprint
    text: str  # what it is, for messages
    steps: Callable[[int], Steps[None]]
    handle: Handle
    timeout_s: float
    sequence: int = -1
    begun_s: float = 0.0
    moved: tuple[int, int] | None = None  # elements that go out and come in, if not all ranks'

    @cached_property
    def packed(self) -> bytes:
        """The fingerprint as frames have it."""
        return self.fingerprint.packed()


class CollectiveLog:
    """The last collectives of a group, and those that have not ended."""

    def __init__(self) -> None:
        self._collectives: dict[int, QueuedCollective] = {}
        self.num_submitted = 0

    def add(self, queued: QueuedCollective) -> None:
        """Keep a collective, and forget one that ended long ago."""
        self._collectives[queued.sequence] = queued
        self._collectives.pop(queued.sequence - _KEPT_COLLECTIVES, None)

    def get(self, sequence: int) -> QueuedCollective | None:
        """The collective of a number, if it was submitted and is still known."""
        return self._collectives.get(sequence)

    @property
    def running(self) -> int:
        """Number of the collective that runs, or is the next."""
        left = [n for n, queued in self._collectives.items() if not queued.handle.is_completed()]
        return min(left, default=self.num_submitted)
