"""Slots for transfers that hold all links of a route at once."""

import heapq

import numpy as np

from multitree.topology.arrays import Int64Array
from multitree.topology.errors import report
from multitree.topology.packing.modulo_search import OutwardPlan

__all__ = ["RouteSearch"]

MOVES_PER_TRANSFER, MOST_MOVES = 40, 15_000
TRIED = 12
"""Transfers in conflict that are looked at for one move."""
TABU, MORE_TABU = 0.6, 10
"""Moves that a transfer does not go back: for each one in conflict, and drawn."""


class RouteSearch:
    """A slot of the period for every transfer such that nothing that it holds is taken twice.

    Each transfer takes the soonest slot where all that it holds is free, or that of fewest
    conflicts (modulo list scheduling, Rau 1994). Then transfers in conflict move to where there are
    fewest, and do not move back for some time (A. Hertz, D. de Werra, "Using tabu search techniques
    for graph coloring", Computing 39, 1987). `time` is as of `ModuloSearch`; `is_conflict_free`
    says whether the moves did. O(num_transfers x period) for the first places, then 0.1 ms for each
    move.
    """

    def __init__(self, plan: OutwardPlan, holds: list[list[int]], seed: int) -> None:
        self._plan, self._draw = plan, np.random.default_rng(seed)
        self._holds = [np.array(each) for each in holds]
        num_held, num = max(map(max, holds)) + 1, len(plan.before)
        self._taken = np.zeros((num_held, plan.period), np.int64)
        self._holders: list[list[list[int]]] = [
            [[] for _ in range(plan.period)] for _ in range(num_held)
        ]
        self._start, self._clashes = [0] * num, [0] * num
        # A dict is a set in order of insertion, so that draws among its members are reproducible.
        self._bad: dict[int, None] = {}
        self._place_all()
        self.is_conflict_free = self._resolve()
        self.time = self._times()

    def _place_all(self) -> None:
        plan, after = self._plan, self._plan.after()
        followers, ties = plan.followers(), self._draw.random(len(plan.before)).tolist()
        # Priorities of list scheduling: soonest ready, then
        # longest path behind (Rau's height), then a draw.
        ahead = [
            (lag, -followers[transfer], ties[transfer], transfer)
            for transfer, lag in enumerate(plan.lag)
            if plan.before[transfer] < 0
        ]
        heapq.heapify(ahead)
        while ahead:
            ready, _, _, transfer = heapq.heappop(ahead)
            held = self._held(transfer)
            # In the order of waiting: argmin takes the first, so
            # the soonest slot of those with fewest conflicts.
            starts = [plan.start(transfer, ready + wait) for wait in range(plan.period)]
            wait = int(held[starts].argmin())
            self._put(transfer, starts[wait])
            for other in after[transfer]:
                following = (ready + wait + plan.lag[other], -followers[other], ties[other], other)
                heapq.heappush(ahead, following)

    def _held(self, transfer: int) -> Int64Array:
        """How many hold what it holds, were it to begin in each slot."""
        at_once: Int64Array = self._taken[self._holds[transfer]].sum(axis=0)
        held = at_once.copy()
        # Entry s becomes the sum over the slots s to s + slots - 1 of the period, cyclically.
        for later in range(1, self._plan.slots[transfer]):
            held += np.roll(at_once, -later)
        return held

    def _held_by_others(self, transfer: int) -> Int64Array:
        held, here = self._held(transfer), self._start[transfer]
        slots, num_held = self._plan.slots[transfer], len(self._holds[transfer])
        # At a distance `away` a transfer overlaps its own
        # present place in slots - |away| slots of each link.
        for away in range(1 - slots, slots):
            held[(here + away) % self._plan.period] -= num_held * (slots - abs(away))
        return held

    def _put(self, transfer: int, start: int) -> None:
        """Let it begin in a slot."""
        self._start[transfer] = start
        for holders in self._places(transfer, 1):
            for other in holders:
                self._clash(other, 1)
                self._clash(transfer, 1)
            holders.append(transfer)

    def _take_away(self, transfer: int) -> None:
        for holders in self._places(transfer, -1):
            holders.remove(transfer)
            for other in holders:
                self._clash(other, -1)
                self._clash(transfer, -1)

    def _places(self, transfer: int, more: int) -> list[list[int]]:
        """Who is in each place that it is in; so many more count from now on."""
        start, period = self._start[transfer], self._plan.period
        cells = [(start + slot) % period for slot in range(self._plan.slots[transfer])]
        for cell in cells:
            self._taken[self._holds[transfer], cell] += more
        holds = self._holds[transfer].tolist()
        return [self._holders[held][cell] for held in holds for cell in cells]

    def _clash(self, transfer: int, more: int) -> None:
        self._clashes[transfer] += more
        if self._clashes[transfer]:
            self._bad[transfer] = None
        else:
            self._bad.pop(transfer, None)

    def _resolve(self) -> bool:
        """Move what is in conflict; whether nothing is any more."""
        num = len(self._start)
        total = least = sum(self._clashes)
        tabu = np.zeros((num, self._plan.period), np.int64)
        for move in range(min(MOVES_PER_TRANSFER * num, MOST_MOVES)):
            if not self._bad:
                return True
            report("moving messages to slots, conflicts left", len(self._bad), num)
            more, transfer, start = self._best_move(tabu, move, least - total)
            if transfer < 0:
                continue
            # TabuCol's tenure as in Galinier and Hao (1999): 0.6 x nodes in conflict + a draw.
            stay = int(TABU * len(self._bad) + MORE_TABU * self._draw.random())
            tabu[transfer, self._start[transfer]] = move + stay
            self._take_away(transfer)
            self._put(transfer, start)
            # Every conflict is counted at both of its transfers.
            total += 2 * more
            least = min(least, total)
        return not self._bad

    def _best_move(self, tabu: Int64Array, move: int, better: int) -> tuple[int, int, int]:
        """Conflicts more, transfer and slot of the best move of some; back only if that is new."""
        best, found = float("inf"), (0, -1, -1)
        bad = list(self._bad)
        for place in self._draw.integers(len(bad), size=min(TRIED, len(bad))).tolist():
            transfer = bad[place]
            here = self._start[transfer]
            more = self._held_by_others(transfer) - self._clashes[transfer]
            # Aspiration: a tabu move is allowed where it leads below the fewest conflicts so far.
            barred = (tabu[transfer] > move) & (2 * more >= better)
            barred[here] = True
            # Conflicts are integers, so a draw below 1 breaks ties and changes no other order.
            cost = np.where(barred, np.inf, more + self._draw.random(len(more)))
            start = int(cost.argmin())
            if cost[start] < best:
                best, found = float(cost[start]), (int(more[start]), transfer, start)
        return found

    def _times(self) -> list[int]:
        """Outward times: the soonest in the slot of each transfer behind the one before it."""
        plan, time = self._plan, [0] * len(self._start)
        for transfer in plan.outwards():
            before = plan.before[transfer]
            ready = plan.lag[transfer] + (time[before] if before >= 0 else 0)
            residue = plan.time(transfer, self._start[transfer])
            time[transfer] = ready + (residue - ready) % plan.period
        return time
