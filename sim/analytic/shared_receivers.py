"""Receivers on shared links: heads looked up, payload to the reducer by lanes."""

from collections import deque
from collections.abc import Callable

from multitree.hw.codes import AHEAD_FLITS
from multitree.sim.analytic.messages import EventQueue, Messages
from multitree.sim.analytic.reduction import ReductionSequencers, Spans, Verdict
from multitree.sim.analytic.wormhole import WormholeChannels
from multitree.sim.timing.link_model import LinkModel

__all__ = ["Receivers"]


class _Lane:
    """A channel that ends at a rank: the messages that are here, the first one in hand."""

    def __init__(self) -> None:
        self.here: deque[int] = deque()
        self.opened: dict[int, tuple[Verdict, float]] = {}
        self.begun = -1
        self.start = 0.0


class _Port:
    """What lanes of a port share: the look-up, and the reducer."""

    def __init__(self) -> None:
        self.heads: deque[int] = deque()
        # The contribution whose turn has come behind the last one here, and when that began.
        self.following: tuple[int, int, float] = (-1, -1, 0.0)
        self.settled = 0.0


class Receivers:
    """Receivers and sequencer of every rank.

    A head is looked up in front while payload before it still moves, one of a port at a time.
    Payload goes to the reducer when its message has its place, lane by lane in order. A
    contribution behind one that is with this port's reducer follows it at once, each flit a chunk
    behind; others wait until those before them are in memory.
    """

    def __init__(
        self,
        event_queue: EventQueue,
        model: LinkModel,
        messages: Messages,
        *,
        classes: int,
        number: dict[int, int],
        listens: list[float],
        whole: Callable[[int], None],
        reads: Callable[[int], Spans],
    ) -> None:
        self._event_queue, self._model, self._messages = event_queue, model, messages
        self._classes, self._listens = classes, listens
        self._lane_of = [route[-1] for route in messages.route]
        self._port_of = [lane // classes for lane in self._lane_of]
        self._number = [number[port] for port in self._port_of]
        self._lanes = {port * classes + k: _Lane() for port in number for k in range(classes)}
        self._ports = {port: _Port() for port in number}
        ranks = zip(self._port_of, messages.dst, strict=True)
        self._first = {rank: port for port, rank in ranks if number[port] == 0}
        self._uses: list[Spans] = [[] for _ in listens]
        self._write = model.written_cycles + model.complete_cycles
        self._add = model.memory_read_cycles + model.fetch_cycles + model.add_cycles
        self.sequencers = ReductionSequencers(
            event_queue,
            model,
            messages,
            port=self._number,
            num_ranks=len(listens),
            opened=self._open,
            added=self._drained,
            whole=whole,
            reads=reads,
            uses=self._used,
        )

    def start(self, wormhole_channels: WormholeChannels) -> None:
        """Receives when payload goes to the reducer."""
        self._wormhole_channels = wormhole_channels

    def came(self, message: int) -> None:
        """A head is here; a rank that has not started leaves it in the buffer."""
        listens = self._listens[self._messages.dst[message]]
        if listens > self._event_queue.now:
            self._event_queue.at(listens, self.came, message)
            return
        lane = self._lanes[self._lane_of[message]]
        lane.here.append(message)
        if len(lane.here) == 1:
            self._see(message)
        elif len(lane.here) == 2 and lane.begun == lane.here[0]:
            self._event_queue.at(self._front(lane), self._see, message)

    def sunk(self, message: int) -> None:
        """All of it is with the reducer."""
        now, number, at = self._event_queue.now, self._messages.dst[message], self._lane_of[message]
        lane, link = self._lanes[at], self._port_of[message]
        port = self._ports[link]
        lane.here.popleft()
        verdict, _ = lane.opened.pop(message)
        if self._messages.size[message]:
            if self._number[message] == 0:
                self._uses[number] += self._wormhole_channels.spans(message, self._hop(message))
            adds = self._messages.adds[message] and verdict != Verdict.STAGED
            settled = now + self._write + (self._add if adds else 0)
            # Writes stay in order (nic/reduce/reducer.py): what is added delays what is behind it.
            port.settled = max(settled, port.settled + 1)
            noted = port.settled + self._model.note_cycles
            self._event_queue.at(noted, self._arrive, message, verdict == Verdict.STAGED)
            if adds:
                began = self._wormhole_channels.cycle_of(message, self._hop(message), 1)
                self._follow(message, link, began, now + 1)
        self._event_queue.at(now + 1, self._advance, at)

    def _arrive(self, message: int, staged: bool) -> None:
        self.sequencers.arrive(message, staged=staged, port=self._number[message])

    def _hop(self, message: int) -> int:
        return len(self._messages.route[message])

    def _front(self, lane: _Lane) -> float:
        """When the head behind a message that goes to the reducer is in front."""
        message = lane.begun
        # The rest of the message then fits queue `ahead` of nic/receive/shared_lane.py.
        ahead = self._messages.size[message] - AHEAD_FLITS
        if ahead <= 0:
            return lane.start
        return max(lane.start, self._wormhole_channels.cycle_of(message, self._hop(message), ahead))

    def _see(self, message: int) -> None:
        """Look it up when its port's heads before it are."""
        heads = self._ports[self._port_of[message]].heads
        heads.append(message)
        if len(heads) == 1:
            # PICK of nic/receive/header_lookup.py takes this cycle, and LOOK_UP asks in the next.
            self._event_queue.at(self._event_queue.now + 1, self.sequencers.look_up, message)

    def _open(self, message: int, verdict: Verdict) -> None:
        """It has its place, or its turn has come."""
        now = self._event_queue.now
        lane = self._lanes[self._lane_of[message]]
        lane.opened[message] = verdict, now + self._model.open_cycles
        heads = self._ports[self._port_of[message]].heads
        self._advance(self._lane_of[message])
        if heads and heads[0] == message:
            heads.popleft()
            if heads:
                self._event_queue.at(now + 1, self.sequencers.look_up, heads[0])

    def _advance(self, number: int) -> None:
        """Let the first message of a lane go to the reducer, if it may."""
        lane = self._lanes[number]
        if not lane.here or lane.begun == lane.here[0] or lane.here[0] not in lane.opened:
            return
        message = lane.here[0]
        verdict, opened = lane.opened[message]
        start = max(self._event_queue.now, opened)
        if verdict == Verdict.WAITS:
            place, order, began = self._ports[self._port_of[message]].following
            if (place, order) != (self._messages.sum[message], self._messages.order[message]):
                return
            self.sequencers.take_turn(message)
            # No flit is added before the one below it is in memory (nic/receive/shared_lane.py).
            start = max(start, began + self._add + self._write)
        lane.begun, lane.start = message, start
        self._wormhole_channels.sink(message, start)
        if len(lane.here) > 1:
            self._event_queue.at(self._front(lane), self._see, lane.here[1])

    def _drained(self, message: int, began: float) -> float:
        """Staging moved a contribution to the first port's reducer; when it is noted."""
        link, now = self._first.get(self._messages.dst[message], -1), self._event_queue.now
        settled = now + self._add + self._write
        if link >= 0:
            self._ports[link].settled = max(self._ports[link].settled, settled)
            self._follow(message, link, began, now)
        return settled + self._model.note_cycles

    def _follow(self, message: int, link: int, began: float, cycle: float) -> None:
        """The contribution behind this one may follow on this port."""
        place, order = self._messages.sum[message], self._messages.order[message]
        self._ports[link].following = place, order + 1, began
        for lane in range(link * self._classes, (link + 1) * self._classes):
            self._event_queue.at(cycle, self._advance, lane)

    def _used(self, number: int) -> Spans:
        """When payload that came in took, and takes, the reducer of a rank's first port."""
        spans, link = list(self._uses[number]), self._first.get(number, -1)
        for at in range(link * self._classes, (link + 1) * self._classes) if link >= 0 else ():
            lane = self._lanes[at]
            if lane.here and lane.begun == lane.here[0]:
                spans += self._wormhole_channels.spans(lane.begun, self._hop(lane.begun))
        return spans
