"""Collectives that were submitted to a group, by their numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from multitree.host.peers.frames import Fingerprint
from multitree.host.peers.handles import Handle
from multitree.host.peers.progress import Steps

__all__ = ["Job", "Jobs"]

_KEPT_JOBS = 8


@dataclass(eq=False)
class Job:
    """A collective that was submitted: `steps` makes its code from its number in the group."""

    fingerprint: Fingerprint
    text: str  # what it is, for messages
    steps: Callable[[int], Steps[None]]
    handle: Handle
    timeout_s: float
    sequence: int = -1
    begun_s: float = 0.0

    @cached_property
    def packed(self) -> bytes:
        """The fingerprint as frames have it."""
        return self.fingerprint.packed()


class Jobs:
    """The last collectives of a group, and those that have not ended."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self.num_submitted = 0

    def add(self, job: Job) -> None:
        """Keep a collective, and forget one that ended long ago."""
        self._jobs[job.sequence] = job
        self._jobs.pop(job.sequence - _KEPT_JOBS, None)

    def get(self, sequence: int) -> Job | None:
        """The collective of a number, if it was submitted and is still known."""
        return self._jobs.get(sequence)

    @property
    def running(self) -> int:
        """Number of the collective that runs, or is the next."""
        left = [n for n, job in self._jobs.items() if not job.handle.is_completed()]
        return min(left, default=self.num_submitted)
