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
from multitree.host.torch.peers.mailbox import USERS, Mailbox, Receive
from multitree.host.torch.peers.progress import Progress, Steps, Task, Waiting

__all__ = ["Member"]

_LOGGER = logging.getLogger("multitree.torch")
_MESSAGES = {FrameKind.EAGER, FrameKind.REQUEST, FrameKind.CLEAR, FrameKind.DATA}


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
    ) -> None:
        self.rank, self.group = rank, group
        self.connections = connections
        self.mailbox = Mailbox(rank, connections)
        self.ready: Callable[[int, Frame], None] = lambda peer, frame: None
        self.announced: Callable[[int, Frame, int], None] = lambda peer, frame, descriptor: None
        self.mark_done: Callable[[int], None] = lambda sequence: None
        self.progress = Progress(
            connections,
            place=self._place,
            handle=self._handle_frame,
            closed=self._closed,
            name=f"multitree-{group}-{rank}",
        )
        self.flight = Flight(global_ranks)
        self._log = CollectiveLog()
        self._watch = Watch(
            rank, global_ranks, group, connections, store, self._log, self.progress, self._failed
        )
        self._num_done = 0
        self._awaited_by: list[tuple[int, int]] = []
        self._lock = threading.Lock()
        self._has_stopped = False

    def start(self, *, with_helper: bool) -> None:
        """Start the thread; with a helper where something blocks."""
        self.progress.start(with_helper=with_helper)

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
        with self._lock:
            self._check_open(queued.text)
            queued.sequence = self._log.num_submitted
            self._log.num_submitted += 1
            queued.handle.sequence = self._log.num_submitted
            queued.handle.entry = self.flight.add(
                queued.fingerprint, queued.timeout_s, queued.handle.sequence, queued.moved
            )
            self.progress.call(lambda: self._enqueue(queued))

    def send(self, peer: int, tag: int, memory: memoryview, handle: Handle) -> None:
        """Start to send a message of users."""
        with self._lock:
            self._check_open("send")
            handle.entry = self.flight.add(Message("send", peer, tag, len(memory)))
            self.progress.call(lambda: self._send(peer, tag, memory, handle))

    def receive(
        self, source: int | None, tag: int, memory: memoryview, handle: Handle, timeout_s: float
    ) -> None:
        """Post a receive of users, which fails alone if no message comes in time."""

        def done(error: Exception | None) -> None:
            handle.finish(error, source=-1 if post.source is None else post.source)

        post = Receive(source, USERS, tag, memory, done)
        with self._lock:
            self._check_open("recv")
            message = Message("recv", source, tag, len(memory))
            handle.entry = self.flight.add(message, timeout_s)
            self.progress.call(lambda: self._post(post, handle, timeout_s))

    def abort(self) -> None:
        """Fail everything under way, here and at the other ranks."""
        self.progress.call(
            lambda: self._watch.fail(self._watch.record("aborted", Waiting(self.rank)))
        )
        self.stop()

    def stop(self) -> None:
        """Say goodbye to the other ranks and end the thread; once."""
        with self._lock:
            if self._has_stopped:
                return
            self._has_stopped = True
            self.progress.call(self._leave)
        self.progress.stop(timeout_s=5)

    def _check_open(self, text: str) -> None:
        if self.failure is not None:
            raise CollectiveError(self.failure)
        if self._has_stopped:
            raise RuntimeError(f"Group {self.group!r} must be open for {text}, not shut down")

    # In the group's own thread.

    def _enqueue(self, queued: QueuedCollective) -> None:
        if self.failure is None:
            self._log.add(queued)
            self._watch.begin(queued)
        if self.failure is not None:
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
        task, entry = self.progress.current, queued.handle.entry
        assert task is not None and entry is not None
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
        if error is None:
            self._num_done = queued.sequence + 1
            self.mark_done(queued.sequence)
            self._answer_awaiting()
        elif self.failure is None:
            # The other ranks would wait for this one for ever.
            _LOGGER.debug("%s failed", queued.text, exc_info=error)
            detail = f"{type(error).__name__}: {error}"
            record = self._watch.record("aborted", Waiting(self.rank), detail, queued)
            self.progress.call(lambda: self._watch.fail(record))
        queued.handle.finish(error)

    def _answer_awaiting(self) -> None:
        """Answer those who wait for this rank to have done a collective."""
        for peer, wanted in [entry for entry in self._awaited_by if entry[1] <= self._num_done]:
            self._awaited_by.remove((peer, wanted))
            self.connections[peer].send(Frame(FrameKind.DONE, sequence=wanted))

    def _send(self, peer: int, tag: int, memory: memoryview, handle: Handle) -> None:
        if self.failure is not None:
            handle.finish(CollectiveError(self.failure))
        else:
            self.mailbox.send(peer, USERS, tag, memory, handle.finish)

    def _post(self, post: Receive, handle: Handle, timeout_s: float) -> None:
        if self.failure is not None:
            handle.finish(CollectiveError(self.failure))
            return
        self.mailbox.receive(post)
        if handle.is_completed():
            return

        def late(task: Task) -> None:
            self.mailbox.withdraw(post)
            source = post.source
            whom = "any rank" if source is None else f"rank {self._watch.global_rank(source)}"
            handle.finish(
                RuntimeError(
                    f"Receive from {whom} with tag {post.tag} must end within {timeout_s} s, "
                    "but no message came: timed out"
                )
            )

        steps, deadline = _until_done(handle, post), monotonic() + timeout_s
        self.progress.spawn(Task(steps, lambda error: None, deadline=deadline, when_late=late))

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
            self._awaited_by.append((peer, frame.sequence))
            self._answer_awaiting()

    def _closed(self, peer: int, error: Exception) -> None:
        left = self._watch.closed(peer)
        if left is not None:
            self.mailbox.fail(left, peer)

    def _failed(self, error: CollectiveError) -> None:
        self.flight.when_failed()
        self.progress.fail_all(error)
        self.mailbox.fail(error)

    def _leave(self) -> None:
        """Say goodbye, and end what is under way."""
        for connection in self.connections.values():
            if not connection.is_closed:
                connection.send(Frame(FrameKind.LEAVE))
        error = RuntimeError(f"Group {self.group!r} was shut down")
        self.progress.fail_all(error)
        self.mailbox.fail(error)


def _until_done(handle: Handle, post: Receive) -> Steps[None]:
    while not handle.is_completed():
        yield Waiting(-1 if post.source is None else post.source)
