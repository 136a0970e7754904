"""Modulo scheduling of a wave's transfers: start times, improved by swaps."""

import heapq
import random
from typing import NamedTuple

from multitree.topology.errors import report

__all__ = [
    "ModuloSearch",
    "OutwardPlan",
]


class OutwardPlan(NamedTuple):
    """What a search for slots has to know of each transfer, with times from the roots' turn on.

    The GATHER of a wave goes outwards from the root; its REDUCE does, too, with time turned around.
    So each transfer waits for one before it only.
    """

    period: int
    num_links: int
    is_reduce: list[bool]
    before: list[int]  # the transfer that each one follows outwards; -1 next to the root
    lag: list[int]  # slots from the one before, or from the root's turn, to the earliest slot
    link: list[int]
    slots: list[int]  # for which it holds the link

    def after(self) -> list[list[int]]:
        """The transfers that follow each one."""
        after: list[list[int]] = [[] for _ in self.before]
        for transfer, before in enumerate(self.before):
            if before >= 0:
                after[before].append(transfer)
        return after

    def outwards(self) -> list[int]:
        """All transfers, each behind the one that it follows."""
        after = self.after()
        order = [transfer for transfer, before in enumerate(self.before) if before < 0]
        # The list grows while it is iterated over: a breadth-first traversal without a queue.
        for transfer in order:
            order += after[transfer]
        return order

    def followers(self) -> list[int]:
        """How many transfers follow each one on its longest path outwards."""
        longest = [0] * len(self.before)
        for transfer in reversed(self.outwards()):
            before = self.before[transfer]
            if before >= 0:
                longest[before] = max(longest[before], longest[transfer] + 1)
        return longest

    def start(self, transfer: int, time: int) -> int:
        """The slot of the period in which a transfer begins that has an outward time."""
        first = 1 - self.slots[transfer] - time if self.is_reduce[transfer] else time
        return first % self.period

    def time(self, transfer: int, start: int) -> int:
        """The outward time, modulo the period, of a transfer that begins in a slot."""
        first = 1 - self.slots[transfer] - start if self.is_reduce[transfer] else start
        return first % self.period


MOVES_BETWEEN_REPORTS = 256
STEEPNESS = 2.5
"""How many times more a transfer costs with each slot that it is farther from its root's turn."""
LARGEST_COST = 1e250


class ModuloSearch:
    """Slots for every transfer such that no link is taken twice at the same slot of the period.

    A link that is held for s slots at a time has cells of s slots, one behind the other from where
    its first transfer begins, and a transfer takes one of them. At first each transfer takes the
    soonest free one, those that more has to follow first (B. R. Rau, "Iterative modulo scheduling:
    an algorithm for software pipelining loops", MICRO-27, 1994). Then `improve` swaps the cells of
    two transfers on a link. `time` is in slots from the root's turn: of GATHER to the first slot,
    of REDUCE back to the last.
    """

    def __init__(self, plan: OutwardPlan, seed: int) -> None:
        self._plan = plan
        self._draw = random.Random(seed).random
        self._after = plan.after()
        held = [1] * plan.num_links
        for link, slots in zip(plan.link, plan.slots, strict=True):
            held[link] = slots
        self._origin = [-1] * plan.num_links
        self._cells = [[-1] * (plan.period // slots) for slots in held]
        self.time = [0] * len(plan.before)
        self._residue = [0] * len(plan.before)
        self._place_all()
        self._cost = self._costs()

    def _place_all(self) -> None:
        followers = self._plan.followers()
        heap = [
            (lag, -followers[transfer], self._draw(), transfer)
            for transfer, lag in enumerate(self._plan.lag)
            if self._plan.before[transfer] < 0
        ]
        heapq.heapify(heap)
        while heap:
            ready, rank, tie, transfer = heapq.heappop(heap)
            cell, time = self._soonest(transfer, ready)
            if time > ready:
                # What becomes ready before `time` may have
                # more followers, so this one queues again.
                heapq.heappush(heap, (time, rank, tie, transfer))
                continue
            self._cells[self._plan.link[transfer]][cell] = transfer
            self.time[transfer], self._residue[transfer] = time, time % self._plan.period
            for after in self._after[transfer]:
                ready = time + self._plan.lag[after]
                heapq.heappush(heap, (ready, -followers[after], self._draw(), after))

    def _soonest(self, transfer: int, ready: int) -> tuple[int, int]:
        """The free cell that comes next, and its time."""
        link = self._plan.link[transfer]
        if self._origin[link] < 0:
            self._origin[link] = self._plan.start(transfer, ready)
        cells = self._cells[link]
        free = [cell for cell, taken in enumerate(cells) if taken < 0]
        times = [self._next(ready, self._residue_of(transfer, cell)) for cell in free]
        soonest = min(times)
        return free[times.index(soonest)], soonest

    def _residue_of(self, transfer: int, cell: int) -> int:
        """The outward time of a cell, modulo the period."""
        slots = self._plan.slots[transfer]
        return self._plan.time(transfer, self._origin[self._plan.link[transfer]] + cell * slots)

    def _cell_at(self, transfer: int, time: int) -> int:
        """The cell that has an outward time; there may be no such cell on the link."""
        origin = self._origin[self._plan.link[transfer]]
        start = self._plan.start(transfer, time) - origin
        return start % self._plan.period // self._plan.slots[transfer]

    def _next(self, ready: int, residue: int) -> int:
        return ready + (residue - ready) % self._plan.period

    def _costs(self) -> list[float]:
        """What a transfer costs by its time; a later time than any now costs too much."""
        latest = max(self.time)
        # Sums must stay finite, since infinity marks times that are forbidden.
        steepness = min(STEEPNESS, LARGEST_COST ** (1 / (latest + 1)))
        cost = [steepness**time for time in range(latest + 1)]
        # A swap delays no transfer by more than a period, so no time lies beyond this list.
        return cost + [float("inf")] * (2 * self._plan.period)

    def improve(self, moves: int) -> None:
        """Try so many swaps of cells of transfers on a link, and keep those that cost no more.

        A move that makes one transfer earlier moves all that follow it, and another with all that
        follow that one. It stays if the sum of `STEEPNESS ** time` does not grow.
        """
        for move in range(moves):
            if move % MOVES_BETWEEN_REPORTS == 0:
                report("moving messages to earlier slots, moves tried", move, moves)
            transfer = self._drawn()
            ready = self._ready(transfer)
            wait = self.time[transfer] - ready
            if wait > 0:
                self._try(transfer, ready, ready + int(self._draw() * wait))

    def _drawn(self) -> int:
        """Any transfer, or as often the later of two; or one before it."""
        draw, time, before = self._draw, self.time, self._plan.before
        drawn, other = int(draw() * len(time)), int(draw() * len(time))
        if time[other] > time[drawn] and draw() < 0.5:
            drawn = other
        while before[drawn] >= 0 and draw() < 0.6:
            drawn = before[drawn]
        return drawn

    def _ready(self, transfer: int) -> int:
        before = self._plan.before[transfer]
        return self._plan.lag[transfer] + (self.time[before] if before >= 0 else 0)

    def _try(self, transfer: int, ready: int, wanted: int) -> None:
        cells = self._cells[self._plan.link[transfer]]
        cell = self._cell_at(transfer, wanted)
        if cell >= len(cells):
            return
        residue = self._residue_of(transfer, cell)
        if self._next(ready, residue) >= self.time[transfer]:
            return
        # No tree takes a link twice, so the two subtrees that
        # move are disjoint and no member is listed twice.
        left, other = self._cell_at(transfer, self.time[transfer]), cells[cell]
        moved: list[tuple[int, int]] = []
        more = self._moved(transfer, residue, moved)
        if other >= 0:
            other_residue = self._residue_of(other, left)
            more += self._moved(other, other_residue, moved)
        # Moves that cost nothing are kept, too: they cross plateaus.
        if more <= 0:
            self._residue[transfer] = residue
            if other >= 0:
                self._residue[other] = other_residue
            cells[cell], cells[left] = transfer, other
        else:
            for member, time in moved:
                self.time[member] = time

    def _moved(self, transfer: int, residue: int, moved: list[tuple[int, int]]) -> float:
        """Move a transfer and what follows it; what that costs, with old times put into `moved`."""
        time, lag, cost, period = self.time, self._plan.lag, self._cost, self._plan.period
        old, new = time[transfer], self._next(self._ready(transfer), residue)
        moved.append((transfer, old))
        time[transfer] = new
        more, stack = cost[new] - cost[old], [transfer]
        while stack:
            before = stack.pop()
            start = time[before]
            for after in self._after[before]:
                ready = start + lag[after]
                new, old = ready + (self._residue[after] - ready) % period, time[after]
                if new != old:
                    moved.append((after, old))
                    time[after] = new
                    more += cost[new] - cost[old]
                    stack.append(after)
        return more
