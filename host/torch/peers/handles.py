"""Collectives that were submitted, by number, and the handles that users wait for."""

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist

from multitree.host.torch.peers.flight import FlightEntry
from multitree.host.torch.peers.frames import Fingerprint
from multitree.host.torch.peers.futures import CALLBACKS, CollectiveFuture, list_future
from multitree.host.torch.peers.progress import Steps

__all__ = ["CollectiveLog", "Handle", "QueuedCollective", "all_of"]

_KEPT_COLLECTIVES = 8


class Handle(dist._Work):
    """A collective, or a message, that was started, with the interface of PyTorch's handles.

    The thread of the group ends it by `finish`, which calls `after` once before `wait` returns: it
    copies results to where another thread must not write, such as a device. Users' code does not
    run in that thread: what hangs on Futures is handed on.
    """

    def __init__(self, result: list[Any], *, after: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._result = result
        self._after = after
        self._error: BaseException | None = None
        self._source = -1
        self.sequence = 0
        self.entry: FlightEntry | None = None
        self.is_read_by_cpp = False
        """Whether its Future is for PyTorch's C++; set before that is asked for."""
        self._lock = threading.Lock()
        self._is_done = self._is_ending = False
        # Held until the end: waiting for a plain lock is cheaper than for an Event.
        self._gate = threading.Lock()
        self._gate.acquire()
        self._future: Callable[[], CollectiveFuture | None] = lambda: None
        self._of_users: list[Callable[[], None]] = []
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
        if error is None and self._after is not None:
            with self._lock:
                if self._is_ending or self._is_done:
                    return
                self._is_ending = True
            # Without the lock: an error may end it even where this blocks.
            try:
                self._after()
            except Exception as problem:
                error = problem
        with self._lock:
            if self._is_done:
                return
            self._error, self._source = error, source
            self._is_done = True
            if self.entry is not None:
                self.entry.end(error)
            of_users, self._of_users = self._of_users, []
            callbacks, self._callbacks = self._callbacks, []
        try:
            for callback in callbacks:
                callback(error)
        finally:
            # Last, so that what waits sees all that hangs on the end done.
            self._gate.release()
        for call_back in of_users:
            CALLBACKS.submit(call_back)

    def call_back(self, callback: Callable[[], None]) -> None:
        """Have a callback of users run at the end, in the thread for these."""
        with self._lock:
            if not self._is_done:
                self._of_users.append(callback)
                return
        CALLBACKS.submit(callback)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end: for ever where the timeout is 0 or none.

        Raises what the collective failed with.
        """
        seconds = timeout.total_seconds() if timeout is not None else 0
        with CALLBACKS.waiting():
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
        future = self._future()
        if future is None:
            future = CollectiveFuture(self, self._result)
            # What is to be done at the end keeps it alive until then; later it would be a circle.
            self._future = weakref.ref(future)
        return list_future(future) if self.is_read_by_cpp else future

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


def all_of(handles: list[Handle], result: Sequence[torch.Tensor]) -> Handle:
    """One handle that ends with the last of several; they run in order."""
    if len(handles) == 1:
        return handles[0]
    whole = Handle(list(result))
    left = len(handles)

    def done(error: BaseException | None) -> None:
        nonlocal left
        left -= 1
        if error is not None or left == 0:
            whole.finish(error)

    for handle in handles:
        handle.when_done(done)
    return whole


@dataclass(eq=False)
class QueuedCollective:
    """A collective that was submitted: `steps` makes its code from its number in the group."""

    fingerprint: Fingerprint
    text: str  # what it is, for messages
    steps: Callable[[int], Steps[None]] | None  # None once it has ended: tensors hang on it
    handle: Handle | None  # likewise
    timeout_s: float
    sequence: int = -1
    begun_s: float = 0.0
    moved: tuple[int, int] | None = None  # elements that go out and come in, if not all ranks'

    @cached_property
    def packed(self) -> bytes:
        """The fingerprint as frames have it."""
        return self.fingerprint.packed()


class CollectiveLog:
    """The collectives of a group that have not ended, and the last ones that have, in order."""

    def __init__(self) -> None:
        self._collectives: dict[int, QueuedCollective] = {}
        self.num_submitted = 0
        self.num_ended = 0
        """Also the number of the collective that runs, or is the next: they run in order."""

    def add(self, queued: QueuedCollective) -> None:
        """Keep a collective."""
        self._collectives[queued.sequence] = queued

    def end(self, queued: QueuedCollective) -> None:
        """Keep what it was, and forget one that ended long ago."""
        queued.steps = queued.handle = None
        self.num_ended = queued.sequence + 1
        self._collectives.pop(queued.sequence - _KEPT_COLLECTIVES, None)

    def get(self, sequence: int) -> QueuedCollective | None:
        """The collective of a number, if it was submitted and is still known."""
        return self._collectives.get(sequence)
