"""Which rank a collective failed for, in what state, and the record of it."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import monotonic

from torch.distributed import DistBackendError

from multitree.host.peers.progress import Steps, Waiting

__all__ = ["ANSWER_S", "CollectiveError", "FailureRecord", "Status", "find_culprit"]

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
