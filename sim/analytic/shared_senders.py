"""Senders on shared links: tables read, rows issued in order, messages framed."""

from collections import deque

import numpy as np

from multitree.sim.analytic.messages import EventQueue, Messages
from multitree.sim.analytic.reduction import Spans
from multitree.sim.analytic.table_rows import TableRows
from multitree.sim.analytic.wormhole import WormholeChannels
from multitree.sim.timing.link_model import LinkModel

__all__ = ["Senders"]

_NEVER = -1e18


class _Port:
    """A port: rows that wait, one in hand, messages that are being read and the one on the link."""

    def __init__(self) -> None:
        self.queue: deque[tuple[int, float]] = deque()
        self.freed = _NEVER
        self.hand, self.taken = -1, 0.0
        self.issued = 0.0
        self.framed: deque[tuple[int, float]] = deque()
        self.sending, self.since = -1, 0.0
        self.begun = False
        self.tail = _NEVER
        self.reads: Spans = []


class Senders:
    """Table of every rank, and ports that send rows in order, each when its data are whole."""

    def __init__(
        self,
        event_queue: EventQueue,
        model: LinkModel,
        messages: Messages,
        *,
        table: TableRows,
        num_ranks: int,
        classes: int,
        first_port: list[int],
    ) -> None:
        self._event_queue, self._model, self._messages = event_queue, model, messages
        self._first_port, self._room = first_port, model.memory_queue_flits
        self._port = [route[0] // classes for route in messages.route]
        self._ports = {port: _Port() for port in {*self._port, *first_port}}
        self._rows: list[deque[int]] = [deque() for _ in range(num_ranks)]
        for message, rank in enumerate(messages.src):
            self._rows[rank].append(message)
        self._table = table
        # When each sum or result was whole, and the ports that wait for it.
        self._ready: list[float | None] = [None] * messages.num_sums
        self._waiting: dict[int, list[int]] = {}
        self.sent = np.zeros(len(messages.size))
        self.tails = np.zeros(len(messages.size))

    def start(self, wormhole_channels: WormholeChannels) -> None:
        """All ranks start."""
        self._wormhole_channels = wormhole_channels
        for rank in range(len(self._rows)):
            self._fetch(rank)

    def whole(self, place: int) -> None:
        """A sum or a result is in memory."""
        self._ready[place] = self._event_queue.now
        for number in self._waiting.pop(place, ()):
            self._issue(number)

    def left(self, message: int) -> None:
        """A tail is on its link: the port is free."""
        number = self._port[message]
        port = self._ports[number]
        self.sent[message] = self._wormhole_channels.cycle_of(message, 0, 0)
        self.tails[message] = port.tail = self._event_queue.now
        port.reads += self._spans(message, port.since, begun=True)
        port.sending = -1
        self._frame(number)
        self._take(number)

    def reads(self, rank: int) -> Spans:
        """When a rank's first port read, and reads, what it sends."""
        port = self._ports[self._first_port[rank]]
        spans = list(port.reads)
        if port.sending >= 0:
            spans += self._spans(port.sending, port.since, begun=port.begun)
        for row, issue in port.framed:
            spans += self._spans(row, issue, begun=False)
        return spans

    def _spans(self, message: int, issue: float, *, begun: bool) -> Spans:
        """When its payload is read, as far as is known: at once, as far ahead as there is room."""
        size, first = self._messages.size[message], self._room
        spans = [(issue, issue + min(size, first))]
        for begin, end in self._wormhole_channels.spans(message, 0) if begun else ():
            beyond = min(first + int(end - begin), size)
            start = max(issue + first, begin)
            if beyond > first:
                spans.append((start, start + beyond - first))
            first = beyond
        return spans

    def _fetch(self, rank: int) -> None:
        """Read rows into queues, until one is full."""
        rows, depth = self._rows[rank], max(self._model.port_queue_rows, 1)
        while rows and len(self._ports[self._port[rows[0]]].queue) < depth:
            number = self._port[rows[0]]
            port = self._ports[number]
            row, free = np.array(rows[0]), np.array(port.freed)
            read = float(self._table.read(row, np.array(rank), free))
            port.queue.append((rows.popleft(), read))
            if port.hand < 0:
                self._event_queue.at(max(read, port.issued), self._take, number)

    def _take(self, number: int) -> None:
        """Take the next row in hand, when all reads of the one before it are issued."""
        port, size = self._ports[number], self._messages.size
        if port.hand >= 0 or not port.queue:
            return
        row, read = port.queue[0]
        ahead = sum(size[framed] for framed, _ in port.framed)
        if ahead > self._room:
            return
        # Reads go on as the message on the link leaves, so that its tail has to be known.
        if port.sending >= 0:
            if not self._wormhole_channels.is_settled(port.sending, 0):
                return
            port.tail = self._wormhole_channels.cycle_of(port.sending, 0, size[port.sending])
        # Reads run at most `room` flits ahead of the link (`room` in nic/send/issuer.py).
        port.issued = max(port.issued, port.tail + ahead - self._room)
        taken = max(read, port.issued)
        if taken > self._event_queue.now:
            self._event_queue.at(taken, self._take, number)
            return
        port.queue.popleft()
        port.hand, port.taken = row, taken
        if len(port.queue) == max(self._model.port_queue_rows, 1) - 1:
            port.freed = taken + self._model.refill_cycles
        self._issue(number)
        self._fetch(self._messages.src[row])

    def _issue(self, number: int) -> None:
        """Read what the row in hand sends, if all that it needs is whole."""
        port, model = self._ports[number], self._model
        row = port.hand
        if row < 0:
            return
        need, issue = self._messages.needs[row], port.taken
        if need >= 0:
            ready = self._ready[need]
            if ready is None:
                waiting = self._waiting.setdefault(need, [])
                if number not in waiting:
                    waiting.append(number)
                return
            issue = max(issue + model.ask_cycles, ready + model.dependency_cycles)
        port.hand = -1
        port.issued = issue + max(self._messages.size[row], 1) + model.take_cycles
        port.framed.append((row, issue))
        self._frame(number)
        if port.queue:
            self._event_queue.at(max(port.issued, port.queue[0][1]), self._take, number)

    def _frame(self, number: int) -> None:
        """Send the next message, if the last one's tail is sent."""
        port, model = self._ports[number], self._model
        if port.sending >= 0 or not port.framed:
            return
        port.sending, port.since = port.framed.popleft()
        port.begun = False
        head = max(port.since, port.tail + 1)
        payload = port.since + model.memory_read_cycles + model.payload_cycles
        self._event_queue.at(head, self._go, number, max(head + 1, payload))

    def _go(self, number: int, payload: float) -> None:
        """The head is on its link."""
        port = self._ports[number]
        port.begun = True
        self._wormhole_channels.send(port.sending, payload)
        self._take(number)
