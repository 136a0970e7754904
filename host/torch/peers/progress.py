"""The thread of a group that moves its frames and runs its collectives."""

import os
import selectors
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeVar, cast

import torch

from multitree.host.torch.peers.connections import Connection
from multitree.host.torch.peers.frames import Frame, GroupProtocolError

__all__ = ["Progress", "Steps", "Task", "Waiting"]

Returned = TypeVar("Returned")

_HELPER_ENDS_S = 1.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a task waits for."""

    peer: int  # rank of the group; -1 if it is this one
    flow: int = -1  # of the row that is awaited, as step; -1 where it is no row
    step: int = -1
    is_in_flight: bool = False  # the data are on their way already, so that the peer may leave
    until_s: float | None = None  # monotonic time at which to resume the task in any case


Steps = Generator[Waiting, None, Returned]
"""A task's code: it yields what it waits for, and is resumed after every event."""


class Task:
    """Steps that are to be run, and what to do at their end, with an error or None.

    At the deadline, a monotonic time, `when_late` is called once. Used by the thread of the group
    alone.
    """

    def __init__(
        self,
        steps: Steps[None],
        when_done: Callable[[BaseException | None], None],
        *,
        deadline: float | None = None,
        when_late: Callable[["Task"], None] | None = None,
    ) -> None:
        self.deadline = deadline
        self.waiting: Waiting | None = None
        self.has_begun = False
        self._steps = steps
        self._when_done = when_done
        self._when_late = when_late
        self._is_running = False
        self._error: BaseException | None = None

    def advance(self) -> bool:
        """Go on until something is awaited; True at the end."""
        self.has_begun = self._is_running = True
        error: BaseException | None = None
        try:
            self.waiting = next(self._steps)
            if self._error is None:
                return False
            self._steps.close()
        except StopIteration:
            pass
        except Exception as problem:
            error = problem
        finally:
            self._is_running = False
        self._when_done(self._error or error)
        return True

    def check_deadline(self, now: float) -> None:
        """Report once that the deadline has passed."""
        if self.deadline is not None and now >= self.deadline and self._when_late is not None:
            self.deadline = None
            self._when_late(self)

    def fail(self, error: BaseException) -> None:
        """End it with an error; where its own steps call this, as soon as they yield."""
        self._error = error
        if not self._is_running:
            self._steps.close()
            self._when_done(error)


class Progress:
    """The thread of a group: it reads and writes connections and advances tasks.

    Collectives run one after another in the order in which they were queued; other tasks run as
    they can. All callbacks run in this thread, which alone touches connections, mailbox and tasks:
    others only `call` and `wait`. It owns the helper, the only other thread that lasts.
    """

    def __init__(
        self,
        connections: dict[int, Connection],
        *,
        place: Callable[[int, Frame], memoryview],
        handle: Callable[[int, Frame, memoryview | None], None],
        closed: Callable[[int, Exception], None],
        crashed: Callable[[BaseException], None],
        name: str,
    ) -> None:
        self._connections = connections
        self._place, self._handle, self._closed = place, handle, closed
        self._crashed = crashed
        self._calls: deque[Callable[[], None]] = deque()
        self._queue: deque[Task] = deque()
        self._tasks: list[Task] = []
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        self._is_awake = False
        self._stops = False
        self._helper: _Helper | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._has_started = threading.Event()
        self.has_ended = threading.Event()
        """Set at the end of the thread, or by who finds that it will not come to it."""
        self.num_turns = 0
        self.is_idle = False  # nothing is to be done until something comes in

    def start(self, *, with_helper: bool) -> None:
        """Start the thread, and a helper for functions that block if `in_thread` is used."""
        # Both compute on one core each: the ranks of a host share its cores. PyTorch's number of
        # threads is set per calling thread, but new threads take what was set last, so that the
        # caller sets its own again.
        num_threads = torch.get_num_threads()
        self._thread.start()
        self._has_started.wait()
        if with_helper:
            self._helper = _Helper(f"{self._thread.name}-helper")
        torch.set_num_threads(num_threads)

    def call(self, function: Callable[[], None]) -> None:
        """Have the thread call a function soon; from any thread."""
        self._calls.append(function)
        if not self._is_awake:
            self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake already, or has stopped
            os.write(self._wake_writer, b"\0")

    def queue(self, task: Task) -> None:
        """Append a collective; in the thread."""
        self._queue.append(task)

    def spawn(self, task: Task) -> None:
        """Begin a task that waits for no collective; in the thread."""
        self._tasks.append(task)

    @property
    def current(self) -> Task | None:
        """The collective that runs now."""
        return self._queue[0] if self._queue else None

    @property
    def has_tasks(self) -> bool:
        """Whether a collective has not ended, or something is to be written; in the thread."""
        return bool(self._queue) or self._has_outgoing

    @property
    def _has_outgoing(self) -> bool:
        # A connection that is closed has given up what was left.
        return any(connection.has_outgoing for connection in self._connections.values())

    def fail_all(self, error: BaseException) -> None:
        """End all collectives with an error; in the thread."""
        while self._queue:
            self._queue.popleft().fail(error)

    def in_thread(self, function: Callable[[], Any], waiting: Callable[[], Waiting]) -> Steps[Any]:
        """Run a function that blocks in the helper, and wait for it as a step.

        `waiting` is asked for whom the function waits whenever something comes in.
        """
        assert self._helper is not None, "start must have been called with a helper"
        future = self._helper.submit(function, self._wake)
        now = cast(Waiting, _CurrentWaiting(waiting))
        while not future.done():
            yield now
        return future.result()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def stack(self) -> str:
        """Where the thread is, as a traceback."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None else "it has ended"

    def stop(self) -> None:
        """End the thread soon; in the thread."""
        self._stops = True

    def wait(self) -> None:
        """Wait for the end; from any other thread."""
        if threading.current_thread() is not self._thread:
            self.has_ended.wait()

    def join(self) -> None:
        """Wait for the helper, too, unless what it runs takes longer."""
        if self._helper is not None:
            self._helper.join()

    def _run(self) -> None:
        torch.set_num_threads(1)
        self._has_started.set()
        self._selector.register(self._wake_reader, selectors.EVENT_READ, None)
        for connection in self._connections.values():
            self._selector.register(connection, selectors.EVENT_READ, connection)
        try:
            with torch.inference_mode():
                while not self._stops:
                    self._round()
        except BaseException as error:
            self._crashed(error)
        finally:
            self._finish()
            self.has_ended.set()

    def _round(self) -> None:
        """Calls, tasks, and then whatever comes in."""
        self._is_awake = True
        while self._calls:
            self._calls.popleft()()
        while self._queue:
            task = self._queue[0]
            if not task.advance():
                break
            # A failure within it has emptied the queue already.
            if self._queue and self._queue[0] is task:
                self._queue.popleft()
        self._tasks = [task for task in self._tasks if not task.advance()]
        self._watch_outgoing()
        # Before `_calls` is looked at: what is called between is seen there, or writes to the pipe.
        self._is_awake = False
        timeout = 0.0 if self._calls or self._stops else self._timeout_s()
        self.is_idle = True
        ready = self._selector.select(timeout)
        self.is_idle = False
        self.num_turns += 1
        for key, events in ready:
            if key.data is None:
                os.read(self._wake_reader, 4096)
            else:
                self._serve(key.data, events)
        now = monotonic()
        for task in [*list(self._queue)[:1], *self._tasks]:
            task.check_deadline(now)

    def _timeout_s(self) -> float | None:
        """Seconds until the next deadline."""
        tasks = [*list(self._queue)[:1], *self._tasks]
        times = [task.deadline for task in tasks]
        times += [task.waiting.until_s for task in tasks if task.waiting is not None]
        known = [time for time in times if time is not None]
        return max(min(known) - monotonic(), 0) if known else None

    def _watch_outgoing(self) -> None:
        """Ask to be woken for room in sockets that were full."""
        for connection in self._connections.values():
            if not connection.is_closed:
                events = selectors.EVENT_READ
                if connection.has_outgoing:
                    events |= selectors.EVENT_WRITE
                if self._selector.get_key(connection).events != events:
                    self._selector.modify(connection, events, connection)

    def _serve(self, connection: Connection, events: int) -> None:
        """Write and read one connection."""
        if events & selectors.EVENT_WRITE:
            connection.flush()
        if not events & selectors.EVENT_READ or connection.is_closed:
            return
        try:
            for frame, payload in connection.receive(self._place):
                self._handle(connection.peer, frame, payload)
        except (OSError, GroupProtocolError) as error:
            self.drop(connection)
            self._closed(connection.peer, error)

    def drop(self, connection: Connection) -> None:
        """Close a connection; in the thread."""
        if not connection.is_closed:
            self._selector.unregister(connection)
            connection.close()

    def _finish(self) -> None:
        """Write what is left for at most a second, and close everything."""
        deadline = monotonic() + 1
        # The last frames say why the group ends; without them others would take it for a death.
        while monotonic() < deadline and self._has_outgoing:
            for connection in self._connections.values():
                connection.flush()
            threading.Event().wait(0.001)
        for connection in self._connections.values():
            self.drop(connection)
        self._selector.close()
        os.close(self._wake_reader)
        # Who wakes a thread that has ended must not write to what has its number then.
        writer, self._wake_writer = self._wake_writer, -1
        os.close(writer)
        if self._helper is not None:
            self._helper.stop()


class _CurrentWaiting:
    """What a function in the helper waits for whenever it is looked at, not when it was yielded."""

    def __init__(self, waiting: Callable[[], Waiting]) -> None:
        self._waiting = waiting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._waiting(), name)


class _Helper:
    """A thread for functions that block, one after another, in inference mode."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[tuple[Callable[[], Any], Future[Any], Callable[[], None]] | None]
        self._queue = SimpleQueue()
        self._has_started = threading.Event()
        # A daemon, unlike those of an executor: a function that waits for a rank that will not come
        # must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._has_started.wait()

    def submit(self, function: Callable[[], Any], then: Callable[[], None]) -> Future[Any]:
        """Have a function called, and `then` when it has ended."""
        future: Future[Any] = Future()
        self._queue.put((function, future, then))
        return future

    def stop(self) -> None:
        """End the thread behind what was submitted."""
        self._queue.put(None)

    def join(self) -> None:
        """Wait a while for the end of the thread."""
        self._thread.join(_HELPER_ENDS_S)

    def _run(self) -> None:
        torch.set_num_threads(1)
        self._has_started.set()
        with torch.inference_mode():
            while (item := self._queue.get()) is not None:
                function, future, then = item
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)
                then()
