"""One rank's end of a group: its thread, and what runs there."""

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from multitree.host.torch.peers.connections import Connection
from multitree.host.torch.peers.failures import CollectiveError, FailureRecord, Watch
from multitree.host.torch.peers.flight import Flight, Message
from multitree.host.torch.peers.frames import Frame, FrameKind
from multitree.host.torch.peers.handles import CollectiveLog, Handle, QueuedCollective
from multitree.host.torch.peers.mailbox import Mailbox
from multitree.host.torch.peers.progress import Progress, Steps, Task, Waiting
from multitree.host.torch.peers.user_messages import UserMessages
from multitree.host.torch.peers.watchdog import WATCHDOG

__all__ = ["Member"]

_LOGGER = logging.getLogger("multitree.torch")
_MESSAGES = {
    *(FrameKind.EAGER, FrameKind.PLACED, FrameKind.WITHDRAWN),
    *(FrameKind.REQUEST, FrameKind.CLEAR, FrameKind.DATA),
}


class Member:
    """Collectives and messages of one rank in one group, numbered by the rank in the group.

    Users' threads call what stands first, under `_lock`, which orders collectives; it hands calls
    to the thread of `Progress`, where all the rest runs. A failure is recorded in the store as
    "failure".
    """

    def __init__(
        self,
        rank: int,
        global_ranks: list[int],
        group: str,
        connections: dict[int, Connection],
        store: Any,
        *,
        timeout_s: float,
    ) -> None:
        self.rank, self.group = rank, group
        self.connections = connections
        self.mailbox = Mailbox(rank, connections)
        self.ready: Callable[[int, Frame], None] = lambda peer, frame: None
        self.announced: Callable[[int, Frame, int], None] = lambda peer, frame, descriptor: None
        self.asked: Callable[[int, Frame], None] = lambda peer, frame: None
        self.progress = Progress(
            connections,
            place=self._place,
            handle=self._handle_frame,
            closed=self._closed,
            crashed=self._crashed,
            name=f"multitree-{group}-{rank}",
        )
        self.flight = Flight(global_ranks)
        self._log = CollectiveLog()
        self._watch = Watch(
            rank,
            global_ranks,
            group,
            connections,
            store,
            self._log,
            self.progress,
            self._failed,
            self.mailbox.leave,
        )
        self._messages = UserMessages(self.mailbox, self._watch, self.progress)
        self.timeout_s = timeout_s
        """How long what this rank begins may take, where no time is given."""
        self._turns_seen, self._num_still = -1, 0
        self._lock = threading.Lock()
        self._has_stopped = False

    def start(self, *, with_helper: bool) -> None:
        """Start the thread; with a helper where something blocks."""
        self.progress.start(with_helper=with_helper)
        WATCHDOG.watch(self)

    @property
    def global_rank(self) -> int:
        """This rank's number in the default group."""
        return self._watch.global_rank(self.rank)

    @property
    def num_submitted(self) -> int:
        """Collectives that were submitted so far."""
        return self._log.num_submitted

    @property
    def failure(self) -> FailureRecord | None:
        """Why the group has failed, or None."""
        return self._watch.failure

    # Called by users' threads.

    def submit(self, queued: QueuedCollective) -> None:
        """Queue a collective behind those submitted before."""
        handle = queued.handle
        assert handle is not None
        with self._lock:
            self._check_open(queued.text)
            queued.sequence = self._log.num_submitted
            self._log.num_submitted += 1
            handle.sequence = self._log.num_submitted
            self.flight.add(
                handle, queued.fingerprint, queued.timeout_s, handle.sequence, queued.moved
            )
            self._call(lambda: self._enqueue(queued))

    def send(
        self, peer: int, tag: int, memory: memoryview, handle: Handle, timeout_s: float
    ) -> None:
        """Start to send a message of users, which fails alone if it is not taken in time."""
        with self._lock:
            self._check_open("send")
            self.flight.add(handle, Message("send", peer, tag, len(memory)), timeout_s)
            self._call(lambda: self._messages.send(peer, tag, memory, handle, timeout_s))

    def receive(
        self, source: int | None, tag: int, memory: memoryview, handle: Handle, timeout_s: float
    ) -> None:
        """Post a receive of users, which fails alone if no message comes in time."""
        post = self._messages.receive_of(source, tag, memory, handle)
        with self._lock:
            self._check_open("recv")
            self.flight.add(handle, Message("recv", source, tag, len(memory)), timeout_s)
            self._call(lambda: self._messages.post(post, handle, timeout_s))

    def abort(self) -> None:
        """Fail everything under way, here and at the other ranks."""
        self.progress.call(
            lambda: self._watch.fail(self._watch.record("aborted", Waiting(self.rank)))
        )
        self.leave()
        self.progress.wait()

    def stop(self) -> None:
        """Finish what was submitted, say goodbye to the other ranks and end the thread."""
        self.leave()
        self.progress.wait()

    def leave(self, *, at_once: bool = False) -> None:
        """The same without waiting for it; `at_once` ends what is under way with an error."""
        with self._lock:
            if not self._has_stopped:
                self._has_stopped = True
                self.progress.call(lambda: self._leave(at_once=at_once))

    def _call(self, function: Callable[[], None]) -> None:
        """Hand a call to the thread; whatever becomes of that, what is under way will end."""
        self.progress.call(function)
        if self.progress.has_ended.is_set():
            self._end_all()

    def _end_all(self) -> None:
        """End all handles with the group's failure."""
        assert self.failure is not None
        for handle in list(self.flight.under_way.values()):
            handle.finish(CollectiveError(self.failure))

    def _check_open(self, text: str) -> None:
        if self.failure is not None:
            raise CollectiveError(self.failure)
        if self._has_stopped:
            raise RuntimeError(f"Group {self.group!r} must be open for {text}, not shut down")

    # In the thread of the watchdog.

    def look(self, seconds: float) -> None:
        """Fail the group where its thread has ended, or has not turned for its timeout.

        Called every so many seconds: a process that was stopped as a whole counts none.
        """
        progress = self.progress
        if progress.has_ended.is_set():
            return
        if not progress.is_alive:
            self._give_up("its thread has ended")
        elif progress.is_idle or progress.num_turns != self._turns_seen:
            self._turns_seen, self._num_still = progress.num_turns, 0
        else:
            self._num_still += 1
            if self._num_still * seconds > self.timeout_s:
                detail = f"its thread has not turned for {self.timeout_s:.1f} s"
                _LOGGER.error("group %r: %s, but is at\n%s", self.group, detail, progress.stack())
                self._give_up(detail)

    def _give_up(self, detail: str) -> None:
        """Do what can be done without the thread."""
        if self._watch.failure is None:
            record = self._watch.record("not responding", Waiting(self.rank), detail)
            self._watch.failure = record
            self._watch.keep(record)
            # If it turns again, it tells the others.
            self.progress.call(lambda: self._watch.fail(record, is_own=False))
        self.progress.has_ended.set()
        self._end_all()
        self.flight.when_failed()

    # In the group's own thread.

    def _enqueue(self, queued: QueuedCollective) -> None:
        if self.failure is None:
            self._log.add(queued)
            self._watch.begin(queued)
        if self.failure is not None:
            assert queued.handle is not None
            queued.handle.finish(CollectiveError(self.failure))
            return
        task = Task(
            self._run(queued),
            lambda error: self._ended(queued, error),
            when_late=lambda task: self._watch.diagnose(queued, task),
        )
        self.progress.queue(task)

    def _run(self, queued: QueuedCollective) -> Steps[None]:
        queued.begun_s = monotonic()
        task, handle = self.progress.current, queued.handle
        assert task is not None and handle is not None and queued.steps is not None
        entry = handle.entry
        assert entry is not None
        entry.begun_s = queued.begun_s
        task.deadline = queued.begun_s + queued.timeout_s
        for waiting in queued.steps(queued.sequence):
            entry.waits(waiting)
            state = self._watch.ended.get(waiting.peer)
            if state is not None and not waiting.is_in_flight:
                # All that the rank has sent was read before its end was noticed.
                self._watch.fail(self._watch.record(state, waiting, "", queued))
            yield waiting

    def _ended(self, queued: QueuedCollective, error: BaseException | None) -> None:
        self._watch.idle_since = monotonic()
        handle = queued.handle
        assert handle is not None
        self._log.end(queued)
        if error is not None and self.failure is None:
            # The other ranks would wait for this one for ever.
            _LOGGER.debug("%s failed", queued.text, exc_info=error)
            detail = f"{type(error).__name__}: {error}"
            record = self._watch.record("aborted", Waiting(self.rank), detail, queued)
            self.progress.call(lambda: self._watch.fail(record))
        handle.finish(error)

    def _place(self, peer: int, frame: Frame) -> memoryview:
        if frame.kind in (FrameKind.EAGER, FrameKind.DATA):
            return self.mailbox.place(peer, frame)
        return memoryview(bytearray(frame.length))

    def _handle_frame(self, peer: int, frame: Frame, payload: memoryview | None) -> None:
        if self._watch.handle(peer, frame, payload):
            return
        kind = frame.kind
        if kind == FrameKind.READY:
            self.ready(peer, frame)
        elif kind in _MESSAGES:
            self.mailbox.handle(peer, frame, payload)
        elif kind == FrameKind.MEMORY:
            self.announced(peer, frame, self.connections[peer].descriptors.popleft())
        elif kind == FrameKind.AWAIT:
            self.asked(peer, frame)

    def _closed(self, peer: int, error: Exception) -> None:
        left = self._watch.closed(peer)
        if left is not None:
            self.mailbox.fail(left, peer)

    def _failed(self, error: CollectiveError) -> None:
        self.flight.when_failed()
        self.progress.fail_all(error)
        self.mailbox.fail(error)

    def _crashed(self, error: BaseException) -> None:
        """The thread ends by an error that nothing has expected."""
        _LOGGER.critical("thread of group %r has ended", self.group, exc_info=error)
        detail = f"its thread has ended by {type(error).__name__}: {error}"
        try:
            self._watch.fail(self._watch.record("aborted", Waiting(self.rank), detail))
        except BaseException:
            _LOGGER.exception("group %r cannot tell the others", self.group)
        self._end_all()

    def _leave(self, *, at_once: bool) -> None:
        """Say goodbye, and end once what is under way has ended."""
        for connection in self.connections.values():
            if not connection.is_closed:
                connection.send(Frame(FrameKind.LEAVE))
        error = RuntimeError(f"Group {self.group!r} was shut down")
        if at_once:
            self.progress.fail_all(error)
            self.mailbox.fail(error)
        self.mailbox.drop_unmatched(error)

        def steps() -> Steps[None]:
            while self.failure is None and (self.progress.has_tasks or self.mailbox.has_messages):
                yield Waiting(self.rank)

        # Collectives have time-outs; what a rank that is stopped does not take has none.
        self.progress.spawn(
            Task(
                steps(),
                lambda error: self.progress.stop(),
                deadline=monotonic() + self.timeout_s,
                when_late=lambda task: None if self.progress.current else self.progress.stop(),
            )
        )
