"""Finds the rank for which a group fails, and lets all the others know."""

import json
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from torch.distributed import DistBackendError

from multitree.host.torch.peers.connections import Connection
from multitree.host.torch.peers.frames import NO_FINGERPRINT, Fingerprint, Frame, FrameKind
from multitree.host.torch.peers.handles import CollectiveLog, QueuedCollective
from multitree.host.torch.peers.progress import Progress, Steps, Task, Waiting

__all__ = [
    "ANSWER_S",
    "FAILURE_KEY",
    "CollectiveError",
    "FailureRecord",
    "Status",
    "Watch",
    "find_culprit",
]

_LOGGER = logging.getLogger("multitree.torch")

FAILURE_KEY = "failure"
"""Where the store has the record of why a group has failed."""

ANSWER_S = 2.0
"""How long a rank has to say what it is doing before it counts as not responding."""

_STATES = {
    "dead": "is dead: its connection closed without a goodbye",
    "left": "has left the group",
    "not responding": "is slow: its process is alive but does not respond (stopped, or its "
    "interpreter is blocked)",
    "late": "is slow: it is alive and has not begun this collective",
    "aborted": "has aborted the group",
    "mismatch": "runs another collective",
    "waiting": "waits itself for ranks that wait for it",
}


class CollectiveError(DistBackendError):
    """A collective has failed; `record` says for which rank and where.

    Parameters
    ----------
    record : FailureRecord
    """

    def __init__(self, record: "FailureRecord") -> None:
        super().__init__(str(record))
        self.record = record


@dataclass(frozen=True)
class FailureRecord:
    """Why a group has failed. All its ranks raise the same one.

    Parameters
    ----------
    rank : int
        The rank that failed, as numbered in the default group.
    state : str
        "dead", "left", "not responding", "late", "aborted", "mismatch" or "waiting".
    collective : str
        Name and size of what ran where it was noticed.
    sequence : int
        Number of the collective in its group.
    flow, step : int
        Of the row that was awaited; -1 where it was none.
    noticed_by : int
        Rank that noticed it.
    group : str
    detail : str
        What else is known.
    """

    rank: int
    state: str
    collective: str
    sequence: int
    flow: int
    step: int
    noticed_by: int
    group: str
    detail: str = ""

    @property
    def is_slow(self) -> bool:
        """Whether the rank is alive as far as is known, so that more time might help."""
        return self.state in ("not responding", "late", "waiting")

    def __str__(self) -> str:
        """The record as a sentence."""
        row = f", flow {self.flow}, step {self.step}" if self.flow >= 0 else ""
        return (
            f"Rank {self.rank} {_STATES[self.state]} (collective {self.sequence} of group "
            f"{self.group!r}: {self.collective}{row}; noticed by rank {self.noticed_by})"
            + (f"; {self.detail}" if self.detail else "")
        )

    def packed(self) -> bytes:
        """The record as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def unpacked(cls, packed: bytes | memoryview) -> "FailureRecord":
        """The inverse of `packed`."""
        return cls(**json.loads(bytes(packed)))


@dataclass(frozen=True)
class Status:
    """What a rank is doing, as it answers when it is asked."""

    sequence: int  # of the collective that it runs, or would run next
    collective: str  # what it is, empty if none runs
    peer: int  # -1 if it waits for none
    flow: int
    step: int
    running_s: float  # how long it has waited or, if none runs, been idle

    def packed(self) -> bytes:
        """The status as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def unpacked(cls, packed: bytes | memoryview) -> "Status":
        """The inverse of `packed`."""
        return cls(**json.loads(bytes(packed)))


def find_culprit(
    waiting: Waiting,
    sequence: int,
    *,
    own_rank: int,
    is_open: Callable[[int], bool],
    ask: Callable[[int], None],
    answer: Callable[[int], Status | None],
) -> Steps[tuple[int, str, Waiting, str]]:
    """Follow who waits for whom to the rank that all others wait for.

    Returns that rank, its state as in `FailureRecord`, what was awaited of it, and more words. At
    most one question per rank, `ANSWER_S` each: once that where one rank is the cause.
    """
    seen = [own_rank]
    while True:
        peer = waiting.peer
        if not is_open(peer):
            return peer, "dead", waiting, ""
        if peer in seen:
            return peer, "waiting", waiting, f"ranks of the group in this circle: {seen}"
        seen.append(peer)
        ask(peer)
        asked = monotonic()
        while (status := answer(peer)) is None:
            if not is_open(peer):
                return peer, "dead", waiting, ""
            if monotonic() - asked > ANSWER_S:
                return peer, "not responding", waiting, f"no answer in {ANSWER_S} s"
            yield Waiting(peer, until_s=asked + ANSWER_S + 0.01)
        if status.sequence < sequence or not status.collective:
            since = f"idle for {status.running_s:.1f} s, next is collective {status.sequence}"
            return peer, "late", waiting, since
        if status.peer < 0:
            detail = f"runs {status.collective} for {status.running_s:.1f} s"
            return peer, "late", waiting, detail
        waiting = Waiting(status.peer, status.flow, status.step)


def _said(value: object) -> str:
    """A field of a fingerprint in a sentence."""
    return value.hex() if isinstance(value, bytes) else repr(value)


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
        log: CollectiveLog,
        progress: Progress,
        failed: Callable[[CollectiveError], None],
        left: Callable[[int, CollectiveError], None],
    ) -> None:
        self._rank, self._global_ranks, self._group = rank, global_ranks, group
        self._connections, self._store = connections, store
        self._log, self._progress, self._failed, self._left = log, progress, failed, left
        self.failure: FailureRecord | None = None
        """Why the group has failed; set before `fail` where its thread can no more."""
        self._has_failed = False
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
            self._left(peer, CollectiveError(self.record("left", Waiting(peer))))
        else:
            return False
        return True

    def begin(self, queued: QueuedCollective) -> None:
        """Compare what has come for a collective before it was submitted."""
        for peer, frame in self._early.pop(queued.sequence, {}).items():
            self._check(peer, frame)

    def _check(self, peer: int, frame: Frame) -> None:
        """Fail if another rank runs another collective under the same number."""
        queued = self._log.get(frame.sequence)
        if queued is None:
            self._early.setdefault(frame.sequence, {})[peer] = frame
        elif frame.fingerprint != queued.packed:
            theirs, ours = Fingerprint.unpacked(frame.fingerprint), queued.fingerprint
            detail = "ranks must agree, but " + "; ".join(
                f"{name} is {_said(getattr(theirs, name))} there and "
                f"{_said(getattr(ours, name))} here"
                for name in Fingerprint._fields
                if getattr(theirs, name) != getattr(ours, name)
            )
            self.fail(self.record("mismatch", Waiting(peer), detail, queued))

    def _status(self) -> Status:
        task, queued = self._progress.current, self._log.get(self._log.num_ended)
        if task is None or queued is None:
            return Status(self._log.num_ended, "", -1, -1, -1, monotonic() - self.idle_since)
        waiting = task.waiting if task.waiting is not None else Waiting(-1)
        peer = waiting.peer if waiting.peer != self._rank else -1
        running_s = monotonic() - queued.begun_s if task.has_begun else 0.0
        return Status(queued.sequence, queued.text, peer, waiting.flow, waiting.step, running_s)

    def closed(self, peer: int) -> CollectiveError | None:
        """A connection has ended: a collective under way fails, unless it was after a goodbye.

        Returns the error for messages of that rank, where the group as a whole does not fail.
        """
        state = self.ended[peer] = "left" if self._connections[peer].has_left else "dead"
        queued, task = self._log.get(self._log.num_ended), self._progress.current
        if state == "left" or queued is None or task is None:
            # The next collective that waits for it fails, and knows for which row.
            return CollectiveError(self.record(state, Waiting(peer), "", queued))
        waiting, detail = task.waiting or Waiting(peer), ""
        if waiting.peer != peer:
            detail = f"this rank waited for rank {self.global_rank(waiting.peer)}"
        self.fail(self.record(state, Waiting(peer, waiting.flow, waiting.step), detail, queued))
        return None

    def diagnose(self, queued: QueuedCollective, task: Task) -> None:
        """The time of a collective is over: find the rank that all wait for."""
        waiting = task.waiting if task.waiting is not None else Waiting(self._rank)
        self._answers.clear()
        self._progress.spawn(Task(self._diagnosis(queued, waiting), self._diagnosis_ended))

    def _diagnosis(self, queued: QueuedCollective, waiting: Waiting) -> Steps[None]:
        peer, state, last, detail = yield from find_culprit(
            waiting,
            queued.sequence,
            own_rank=self._rank,
            is_open=lambda peer: peer == self._rank or not self._connections[peer].is_closed,
            ask=lambda peer: self._connections[peer].send(Frame(FrameKind.ASK)),
            answer=lambda peer: self._answers.get(peer),
        )
        if queued.handle is None:
            return  # it has ended meanwhile
        state = self.ended.get(peer, state)
        detail = f"the timeout of {queued.timeout_s:.1f} s has passed" + (
            f"; {detail}" if detail else ""
        )
        self.fail(self.record(state, Waiting(peer, last.flow, last.step), detail, queued))

    def _diagnosis_ended(self, error: BaseException | None) -> None:
        if error is not None:
            _LOGGER.error("diagnosis of group %r failed", self._group, exc_info=error)
            self.fail(self.record("aborted", Waiting(self._rank), str(error)))

    def record(
        self, state: str, waiting: Waiting, detail: str = "", queued: QueuedCollective | None = None
    ) -> FailureRecord:
        """A record of a failure that this rank has noticed in a collective, if in any."""
        return FailureRecord(
            rank=self.global_rank(waiting.peer),
            state=state,
            collective="no collective" if queued is None else queued.text,
            sequence=self._log.num_ended if queued is None else queued.sequence,
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
        if self._has_failed:
            return
        self._has_failed = True
        self.failure = record = self.failure or record
        packed = record.packed()
        for connection in self._connections.values():
            if not connection.is_closed:
                connection.send(Frame(FrameKind.FAILED, length=len(packed)), packed)
        if is_own:
            self.keep(record)
        self._failed(CollectiveError(record))

    def keep(self, record: FailureRecord) -> None:
        """Write the record to the store; from any thread."""
        # A store that waits for a dead rank must not hold up the caller.
        threading.Thread(target=self._keep, args=(record,), daemon=True).start()

    def _keep(self, record: FailureRecord) -> None:
        """Write the record to the store; it may be gone with the rank that held it."""
        with suppress(Exception):
            self._store.set(FAILURE_KEY, record.packed().decode())
