"""What a group has under way, and the last collectives that have ended."""

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple, Protocol

from multitree.host.torch.peers.frames import Fingerprint
from multitree.host.torch.peers.progress import Waiting

__all__ = ["KEPT_ENTRIES", "Flight", "FlightEntry", "Message"]

KEPT_ENTRIES = 256
"""Collectives of a group that are kept after their end."""


class Message(NamedTuple):
    """A message of users."""

    kind: str  # "send" or "recv", or "unexpected" for one that came before its receive
    peer: int | None  # rank in the group; None for any
    tag: int
    num_bytes: int


class Submitted(Protocol):
    """What users wait for: a handle."""

    entry: "FlightEntry | None"

    def finish(self, error: BaseException | None = None) -> None:
        """End it."""


class FlightEntry:
    """A collective or a message, and when it was submitted, begun and ended.

    Times are monotonic seconds, 0.0 for what has not happened. It holds no tensor.
    """

    __slots__ = (
        "awaited",
        "awaited_s",
        "begun_s",
        "created_s",
        "ended_s",
        "error",
        "flight",
        "moved",
        "sequence",
        "timeout_s",
        "what",
    )

    def __init__(
        self,
        flight: "Flight",
        what: Fingerprint | Message,
        timeout_s: float,
        sequence: int = 0,
        moved: tuple[int, int] | None = None,
    ) -> None:
        self.flight: Flight | None = flight
        self.what = what
        self.timeout_s = timeout_s
        self.sequence = sequence  # in its group, from 1; 0 for a message
        self.moved = moved  # elements that go out and come in, where these are not all ranks'
        self.created_s = monotonic()
        self.begun_s = self.ended_s = self.awaited_s = 0.0
        self.awaited: Waiting | None = None
        self.error = ""

    def waits(self, waiting: Waiting) -> None:
        """Note what it waits for, and since when that has been the same."""
        last = self.awaited
        if waiting is last:
            return
        if (
            last is None
            or last.step != waiting.step
            or last.flow != waiting.flow
            or last.peer != waiting.peer
        ):
            self.awaited_s = monotonic()
        self.awaited = waiting

    def end(self, error: BaseException | None) -> None:
        """Note its end, once; what a failed one waited for stays known."""
        flight, self.flight = self.flight, None
        if flight is None:
            return
        self.ended_s = monotonic()
        if error is None:
            self.awaited = None
        else:
            self.error = f"{type(error).__name__}: {error}"
        flight.under_way.pop(self, None)
        if self.sequence:
            flight.ended.append(self)


class Flight:
    """All that a group has under way, and the last `KEPT_ENTRIES` collectives that have ended.

    Any thread may look at any time: dictionaries and queues change in one step each.
    """

    def __init__(self, global_ranks: list[int]) -> None:
        self.global_ranks = global_ranks
        self.under_way: dict[FlightEntry, Submitted] = {}
        self.ended: deque[FlightEntry] = deque(maxlen=KEPT_ENTRIES)
        self.when_failed: Callable[[], None] = lambda: None

    def add(
        self,
        handle: Submitted,
        what: Fingerprint | Message,
        timeout_s: float = 0.0,
        sequence: int = 0,
        moved: tuple[int, int] | None = None,
    ) -> FlightEntry:
        """Begin an entry for what was submitted, which ends with its handle."""
        # Before it can be found: whoever ends the handle ends its entry.
        entry = handle.entry = FlightEntry(self, what, timeout_s, sequence, moved)
        self.under_way[entry] = handle
        return entry

    def entries(self) -> list[FlightEntry]:
        """All entries, in the order in which they were submitted."""
        # Those under way first: what ends between is found twice rather than not at all.
        found = [*list(self.under_way), *list(self.ended)]
        return sorted(dict.fromkeys(found), key=lambda entry: entry.created_s)
