"""Reductions on shared links: which contribution is next, and which wait."""

from collections import deque
from collections.abc import Callable
from enum import Enum

import numpy as np

from multitree.sim.analytic.messages import LAST, EventQueue, Messages
from multitree.sim.timing.link_model import LinkModel

__all__ = [
    "ReductionSequencers",
    "Spans",
    "Verdict",
    "drained_at",
]

Spans = list[tuple[float, float]]
"""From and to cycles."""


def drained_at(began: float, size: int, reads: Spans, uses: Spans, room: int) -> float:
    """Cycle after the last of `size` flits is read and moved, while others use the reducer.

    A flit is read in a cycle without other reads, at most `room` ahead of those moved, and moved in
    one without other uses. O(n log n) for n spans.
    """
    edges: list[tuple[float, int, int]] = []
    for kind, spans in enumerate((reads, uses)):
        for begin, end in spans:
            if end > began:
                edges += [(max(begin, began), kind, 1), (end, kind, -1)]
    edges.sort()
    # Spans of several messages may overlap, so that they are counted.
    busy, read, moved, now = [0, 0], 0.0, 0.0, began
    for cycle, kind, change in [*edges, (float("inf"), 0, 0)]:
        span = cycle - now
        if not busy[1]:
            ahead = read - moved if busy[0] else size - moved
            if moved + min(span, ahead) >= size:
                return now + size - moved
            moved += min(span, ahead)
        if not busy[0]:
            read = min(size, read + span, moved + room)
        read = max(read, moved)
        busy[kind] += change
        now = cycle
    raise AssertionError("after the last span no other block reads")


# The reorder buffer takes its turn at the flow memory behind all ports (nic/top/shared_core.py).
_STAGING = LAST


class Verdict(Enum):
    """Where a message goes that claimed its place."""

    DIRECT = 0
    WAITS = 1
    STAGED = 2


class _Sum:
    """What is known of a sum: contributions that claimed their places, and what comes next."""

    def __init__(self) -> None:
        self.next = 0
        self.locked: set[int] = set()
        self.staged: dict[int, int] = {}
        self.waiting: dict[int, int] = {}


class _Rank:
    """What a rank's flow memory, sequencer and staging have to do; by port."""

    def __init__(self) -> None:
        self.questions: dict[int, int] = {}
        self.reservations: dict[int, int] = {}
        self.arrivals: dict[int, deque[tuple[int, bool]]] = {}
        self.turns = {"question": -1, "reservation": -1, "arrival": -1}
        self.answering = self.busy = False
        self.drains, self.drain_began = -1, 0.0
        self.held: tuple[int, int] | None = None

    def turn(self, kind: str, asking: dict[int, int] | dict[int, deque[tuple[int, bool]]]) -> int:
        """Whose turn it is among ports: the next one behind the last."""
        # Like RoundRobin of hw/arbiter.py, the search begins behind the port that was last.
        last = self.turns[kind]
        self.turns[kind] = min(asking, key=lambda port: (port <= last, port))
        return self.turns[kind]


class ReductionSequencers:
    """Sequencer, flow memory and staging of every rank.

    One look-up per cycle, one claim or arrival per `judge_cycles`, arrivals before claims, ports in
    turn. Staging adds one contribution after the other; meanwhile one that is to go there next
    stops the sequencer.
    """

    def __init__(
        self,
        event_queue: EventQueue,
        model: LinkModel,
        messages: Messages,
        *,
        port: list[int],
        num_ranks: int,
        opened: Callable[[int, Verdict], None],
        added: Callable[[int, float], float],
        whole: Callable[[int], None],
        reads: Callable[[int], Spans],
        uses: Callable[[int], Spans],
    ) -> None:
        self._event_queue, self._model, self._messages = event_queue, model, messages
        self._port, self._opened, self._added, self._whole = port, opened, added, whole
        self._reads, self._uses, self._room = reads, uses, model.memory_queue_flits
        self._sums = [_Sum() for _ in messages.num_children]
        self._ranks = [_Rank() for _ in range(num_ranks)]
        self.arrived = np.full(len(port), -1.0)

    def look_up(self, message: int) -> None:
        """Look a head's flow up, then claim its place."""
        self._question(self._messages.dst[message], self._port[message], message)

    def arrive(self, message: int, *, staged: bool, port: int) -> None:
        """A message is in memory, in its slot or where it belongs."""
        number = self._messages.dst[message]
        self._ranks[number].arrivals.setdefault(port, deque()).append((message, staged))
        self._collect(number)

    def take_turn(self, message: int) -> None:
        """A message that waited for its turn goes without a grant."""
        known = self._sums[self._messages.sum[message]]
        known.waiting.pop(self._messages.order[message], None)

    def _question(self, number: int, port: int, message: int) -> None:
        """Ask the flow memory."""
        rank = self._ranks[number]
        rank.questions[port] = message
        if not rank.answering:
            rank.answering = True
            # The arbiter compares all that ask in a cycle, so that it comes last in it.
            self._event_queue.at(self._event_queue.now, self._answer, number, rank=LAST)

    def _answer(self, number: int) -> None:
        """Answer one question; that of a head is followed by its claim."""
        rank, now = self._ranks[number], self._event_queue.now
        port = rank.turn("question", rank.questions)
        message = rank.questions.pop(port)
        if port != _STAGING:
            self._event_queue.at(now + self._model.reservation_cycles, self._reservation, message)
        rank.answering = bool(rank.questions)
        if rank.answering:
            self._event_queue.at(now + 1, self._answer, number, rank=LAST)

    def _reservation(self, message: int) -> None:
        number = self._messages.dst[message]
        self._ranks[number].reservations[self._port[message]] = message
        self._collect(number)

    def _collect(self, number: int) -> None:
        """Judge what is in, else what claims its place, when all of this cycle are there."""
        rank = self._ranks[number]
        if not rank.busy and (rank.arrivals or rank.reservations):
            rank.busy = True
            self._event_queue.at(self._event_queue.now, self._pick, number, rank=LAST)

    def _pick(self, number: int) -> None:
        """Take one message in hand."""
        rank, done = self._ranks[number], self._event_queue.now + self._model.judge_cycles
        # What is in goes before what claims (`_pick` in nic/reduce/sequencer.py).
        if rank.arrivals:
            port = rank.turn("arrival", rank.arrivals)
            message, staged = rank.arrivals[port].popleft()
            if not rank.arrivals[port]:
                del rank.arrivals[port]
            self._event_queue.at(done, self._judge_arrival, message, staged, rank=-2)
        else:
            message = rank.reservations.pop(rank.turn("reservation", rank.reservations))
            self._event_queue.at(done, self._judge_reservation, message, rank=-2)

    def _judge_reservation(self, message: int) -> None:
        """Say where a message goes; one without payload has then done what it came for."""
        messages, verdict = self._messages, Verdict.DIRECT
        number, empty = messages.dst[message], messages.size[message] == 0
        if messages.adds[message]:
            known, order = self._sums[messages.sum[message]], messages.order[message]
            known.locked.add(order)
            if empty:
                known.next += 1
            elif known.next != order:
                # It waits if every predecessor has a reservation (nic/reduce/sequencer.py).
                before = sum(other < order for other in known.locked)
                verdict = Verdict.WAITS if before == order else Verdict.STAGED
                if verdict == Verdict.WAITS:
                    known.waiting[order] = message
        if empty:
            self._count(message)
        self._ranks[number].busy = False
        self._opened(message, verdict)
        self._collect(number)

    def _judge_arrival(self, message: int, staged: bool) -> None:
        """Add up what is in, and find what may go behind it."""
        number, drain = self._messages.dst[message], -1
        if self._messages.adds[message]:
            known = self._sums[self._messages.sum[message]]
            order = self._messages.order[message]
            if staged:
                known.staged[order] = message
                drain = message if known.next == order else -1
            else:
                known.next = order + 1
                drain = known.staged.get(order + 1, -1)
                waiting = known.waiting.pop(order + 1, -1)
                if waiting >= 0:
                    self._opened(waiting, Verdict.DIRECT)
        # What is staged counts only once it is added.
        rank, counts = self._ranks[number], -1 if staged else message
        if drain >= 0 and rank.drains >= 0:
            # JUDGE of nic/reduce/sequencer.py waits until the reorder buffer is free.
            rank.held = counts, drain
        else:
            self._judged(number, counts, drain)

    def _judged(self, number: int, counts: int, drain: int) -> None:
        """Count what is in, and hand what waits behind it to staging, which is free."""
        rank, now = self._ranks[number], self._event_queue.now
        rank.busy, rank.held = False, None
        if counts >= 0:
            self._count(counts)
        if drain >= 0:
            self._question(number, _STAGING, drain)
            way = self._model.drain_cycles + self._model.memory_read_cycles
            rank.drains, rank.drain_began = drain, now + way
            self._event_queue.at(now + way, self._drained, number)
        self._collect(number)

    def _drained(self, number: int) -> None:
        """All of a staged contribution is with the reducer, unless others were before it."""
        rank, now = self._ranks[number], self._event_queue.now
        message, began = rank.drains, rank.drain_began
        # What is read in a cycle is there that much later.
        behind = self._model.memory_read_cycles + 1
        reads = [(a + behind, b + behind) for a, b in self._reads(number)]
        size, uses = self._messages.size[message], self._uses(number)
        end = drained_at(began, size, reads, uses, self._room)
        # What has begun since may delay it. The margin is for rounding, since times are floats.
        if end > now + 1e-6:
            self._event_queue.at(end, self._drained, number)
            return
        rank.drains = -1
        settled = self._added(message, now - size)
        self._event_queue.at(settled, self._arrive_drained, message)
        if rank.held is not None:
            self._judged(number, *rank.held)

    def _arrive_drained(self, message: int) -> None:
        self.arrive(message, staged=False, port=0)

    def _count(self, message: int) -> None:
        """A message has done what it came for; the last one makes its sum whole."""
        messages, place = self._messages, self._messages.sum[message]
        self.arrived[message] = self._event_queue.now
        last = messages.num_children[place] - 1
        # Contributions without payload are only counted, in any order (nic/reduce/sequencer.py).
        if messages.adds[message] and messages.size[message] == 0:
            whole = self._sums[place].next > last
        else:
            whole = not messages.adds[message] or messages.order[message] == last
        if whole:
            self._whole(place)
