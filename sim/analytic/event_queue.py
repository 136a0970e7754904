"""What happens when: actions in the order of their cycles."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

__all__ = ["LAST", "EventQueue"]

LAST = 1 << 30
"""Rank of what sees all else of its cycle."""


class EventQueue:
    """Calls actions in the order of their cycles.

    In one cycle those of lower rank go first, then those that were noted first; so what comes out
    depends on nothing else.

    Examples
    --------
    >>> event_queue, said = EventQueue(), []
    >>> event_queue.at(5.0, said.append, "later")
    >>> event_queue.at(3.0, said.append, "sooner")
    >>> event_queue.run()
    >>> said, event_queue.now
    (['sooner', 'later'], 5.0)
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._count = 0
        self._heap: list[tuple[float, int, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, cycle: float, action: Callable[..., None], *given: Any, rank: int = 0) -> None:
        """Note an action; one for a cycle that is past comes at once."""
        self._count += 1
        # The count makes each entry unique, so that actions are never compared.
        heappush(self._heap, (max(cycle, self.now), rank, self._count, action, given))

    def run(self) -> None:
        """Until nothing is left to do."""
        heap = self._heap
        while heap:
            self.now, _, _, action, given = heappop(heap)
            action(*given)
