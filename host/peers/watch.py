"""Notices which rank of a group fails, and lets all the others know."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from multitree.host.peers.connections import Connection
from multitree.host.peers.failures import CollectiveError, FailureRecord, Status, find_culprit
from multitree.host.peers.frames import NO_FINGERPRINT, Fingerprint, Frame, FrameKind
from multitree.host.peers.jobs import Job, Jobs
from multitree.host.peers.progress import Progress, Steps, Task, Waiting

__all__ = ["Watch"]

_LOGGER = logging.getLogger("multitree.torch")


class Watch:
    """Finds the rank for which a group fails; used by the thread of the group.

    A connection that ends without a goodbye is a dead rank, noticed at once. When the time of a
    collective is over, ranks are asked what they wait for, until one is found that waits for none.
    Every rank then fails with the same record, which is also written to the store.
    """

    def __init__(
        self,
        rank: int,
        global_ranks: list[int],
        group: str,
        connections: dict[int, Connection],
        store: Any,
        jobs: Jobs,
        progress: Progress,
        failed: Callable[[CollectiveError], None],
    ) -> None:
        self._rank, self._global_ranks, self._group = rank, global_ranks, group
        self._connections, self._store = connections, store
        self._jobs, self._progress, self._failed = jobs, progress, failed
        self.failure: FailureRecord | None = None
        self.ended: dict[int, str] = {}
        self.idle_since = monotonic()
        self._answers: dict[int, Status] = {}
        self._early: dict[int, dict[int, Frame]] = {}

    def handle(self, peer: int, frame: Frame, payload: memoryview | None) -> bool:
        """Take a frame; False if it is none of those that are about failures."""
        if frame.fingerprint != NO_FINGERPRINT:
            self._check(peer, frame)
        if frame.kind == FrameKind.ASK:
            packed = self._status().packed()
            self._connections[peer].send(Frame(FrameKind.STATUS, length=len(packed)), packed)
        elif frame.kind == FrameKind.STATUS:
            self._answers[peer] = Status.unpacked(payload or b"")
        elif frame.kind == FrameKind.FAILED:
            self.fail(FailureRecord.unpacked(payload or b""), is_own=False)
        elif frame.kind == FrameKind.LEAVE:
            self._connections[peer].has_left = True
        else:
            return False
        return True

    def begin(self, job: Job) -> None:
        """Compare what has come for a collective before it was submitted."""
        for peer, frame in self._early.pop(job.sequence, {}).items():
            self._check(peer, frame)

    def _check(self, peer: int, frame: Frame) -> None:
        """Fail if another rank runs another collective under the same number."""
        job = self._jobs.get(frame.sequence)
        if job is None:
            self._early.setdefault(frame.sequence, {})[peer] = frame
        elif frame.fingerprint != job.packed:
            theirs, ours = Fingerprint.unpacked(frame.fingerprint), job.fingerprint
            detail = "ranks must agree, but " + "; ".join(
                f"{name} is {getattr(theirs, name)!r} there and {getattr(ours, name)!r} here"
                for name in Fingerprint._fields
                if getattr(theirs, name) != getattr(ours, name)
            )
            self.fail(self.record("mismatch", Waiting(peer), detail, job))

    def _status(self) -> Status:
        task, job = self._progress.current, self._jobs.get(self._jobs.running)
        if task is None or job is None:
            return Status(self._jobs.running, "", -1, -1, -1, monotonic() - self.idle_since)
        waiting = task.waiting if task.waiting is not None else Waiting(-1)
        peer = waiting.peer if waiting.peer != self._rank else -1
        running_s = monotonic() - job.begun_s if task.has_begun else 0.0
        return Status(job.sequence, job.text, peer, waiting.flow, waiting.step, running_s)

    def closed(self, peer: int) -> CollectiveError | None:
        """A connection has ended: a collective under way fails, unless it was after a goodbye.

        Returns the error for messages of that rank, where the group as a whole does not fail.
        """
        state = self.ended[peer] = "left" if self._connections[peer].has_left else "dead"
        job, task = self._jobs.get(self._jobs.running), self._progress.current
        if state == "left" or job is None or task is None:
            # The next collective that waits for it fails, and knows for which row.
            return CollectiveError(self.record(state, Waiting(peer), "", job))
        waiting, detail = task.waiting or Waiting(peer), ""
        if waiting.peer != peer:
            detail = f"this rank waited for rank {self.global_rank(waiting.peer)}"
        self.fail(self.record(state, Waiting(peer, waiting.flow, waiting.step), detail, job))
        return None

    def diagnose(self, job: Job, task: Task) -> None:
        """The time of a collective is over: find the rank that all wait for."""
        waiting = task.waiting if task.waiting is not None else Waiting(self._rank)
        self._answers.clear()
        self._progress.spawn(Task(self._diagnosis(job, waiting), self._diagnosis_ended))

    def _diagnosis(self, job: Job, waiting: Waiting) -> Steps[None]:
        peer, state, last, detail = yield from find_culprit(
            waiting,
            job.sequence,
            own_rank=self._rank,
            is_open=lambda peer: peer == self._rank or not self._connections[peer].is_closed,
            ask=lambda peer: self._connections[peer].send(Frame(FrameKind.ASK)),
            answer=lambda peer: self._answers.get(peer),
        )
        if job.handle.is_completed():
            return
        state = self.ended.get(peer, state)
        detail = f"the timeout of {job.timeout_s:.1f} s has passed" + (
            f"; {detail}" if detail else ""
        )
        self.fail(self.record(state, Waiting(peer, last.flow, last.step), detail, job))

    def _diagnosis_ended(self, error: BaseException | None) -> None:
        if error is not None:
            _LOGGER.error("diagnosis of group %r failed", self._group, exc_info=error)
            self.fail(self.record("aborted", Waiting(self._rank), str(error)))

    def record(
        self, state: str, waiting: Waiting, detail: str = "", job: Job | None = None
    ) -> FailureRecord:
        """A record of a failure that this rank has noticed in a collective, if in any."""
        return FailureRecord(
            rank=self.global_rank(waiting.peer),
            state=state,
            collective="no collective" if job is None else job.text,
            sequence=self._jobs.running if job is None else job.sequence,
            flow=waiting.flow,
            step=waiting.step,
            noticed_by=self.global_rank(self._rank),
            group=self._group,
            detail=detail,
        )

    def global_rank(self, rank: int) -> int:
        """Number in the default group of a rank of this group."""
        return self._global_ranks[rank] if 0 <= rank < len(self._global_ranks) else rank

    def fail(self, record: FailureRecord, *, is_own: bool = True) -> None:
        """Fail the group for good: its collectives, its messages, and those of the others.

        Who has learned of it passes it on, too: its own goodbye, which follows, could otherwise
        come before what the rank that has noticed it sends, and would be taken for the failure.
        """
        if self.failure is not None:
            return
        self.failure = record
        packed = record.packed()
        for connection in self._connections.values():
            if not connection.is_closed:
                connection.send(Frame(FrameKind.FAILED, length=len(packed)), packed)
        if is_own:
            # A store that waits for a dead rank must not hold up the thread of the group.
            thread = threading.Thread(target=self._keep, args=(record,), daemon=True)
            thread.start()
        self._failed(CollectiveError(record))

    def _keep(self, record: FailureRecord) -> None:
        """Write the record to the store; it may be gone with the rank that held it."""
        with suppress(Exception):
            self._store.set("failure", record.packed().decode())
