"""Messages on links with virtual channels: who has which channel when."""

from collections import deque
from typing import Protocol

from multitree.sim.analytic.flit_times import FlitTimes
from multitree.sim.analytic.messages import LAST, Channels, EventQueue, Messages
from multitree.sim.timing.link_model import LinkModel

__all__ = ["Ends", "WormholeChannels"]

_NEVER = -1e18


class Ends(Protocol):
    """Receives what becomes of messages, in the same cycle."""

    def left(self, message: int) -> None:
        """Its tail is on its first link."""

    def came(self, message: int) -> None:
        """Its head is at its destination."""

    def sunk(self, message: int) -> None:
        """Its last flit is at the reducer."""


class WormholeChannels(FlitTimes):
    """Messages on their routes through switches, head by head.

    A channel is one message's from head to tail, then that of the oldest head that asks for it,
    equals in turns. A head asks when it is there and the message before it on its channel of the
    input has left. Two classes share a link: the older message has it as long as it has flits.
    """

    def __init__(
        self,
        event_queue: EventQueue,
        model: LinkModel,
        messages: Messages,
        channels: Channels,
        ends: Ends,
    ) -> None:
        super().__init__(messages, channels, model)
        self._event_queue, self._ends, self._step = event_queue, ends, messages.step
        self.classes, self._place = channels.classes, channels.place
        self._gap, self._interval = model.gap_cycles, channels.interval
        count = len(channels.depth)
        # Who has a channel, who asks for it, whose turn was last, and when it was left.
        self._holder, self._granted = [-1] * count, [-1] * count
        self._asking: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self._freed = [_NEVER] * count
        # The last message that each link took, over which hop, and when.
        self._last = [(-1, 0, _NEVER)] * count
        # Who is in the buffer behind it, and when the last one was out of it.
        self._behind: list[deque[tuple[int, int]]] = [deque() for _ in range(count)]
        self._cleared = [_NEVER] * count
        # The hop that a head has come to.
        self._reached = [0] * len(messages.size)
        # Who waits for a head to go on: to send its own over a hop, or to know its tail's time.
        self._watchers: dict[int, list[tuple[int, int]]] = {}
        self._watches = [-1] * len(messages.size)

    def send(self, message: int, payload: float) -> None:
        """Put a head on its first link, which nothing else uses, and payload no sooner."""
        if self._size[message]:
            self._knots[message].append((0, 1, payload))
        self._acquire(message, 0, self._event_queue.now)

    def sink(self, message: int, cycle: float) -> None:
        """Its first payload flit goes to the reducer."""
        hop, flit = len(self._route[message]), min(self._size[message], 1)
        self._knots[message].append((hop, flit, cycle))
        self._go_on(message, hop, flit, cycle)

    def _reach(self, message: int, hop: int) -> None:
        """A head is at a switch: it asks there a little behind the message before it."""
        self._reached[message] = hop
        channel = self._route[message][hop - 1]
        if self._behind[channel][0][0] != message:
            return
        clear = self._cleared[channel] + self._gap
        if clear > self._event_queue.now:
            self._event_queue.at(clear, self._ask, message, hop, rank=self._step[message])
        else:
            self._ask(message, hop)

    def _ask(self, message: int, hop: int) -> None:
        """Want the channel of a hop."""
        channel = self._route[message][hop]
        self._asking[channel].append((message, hop))
        if self._holder[channel] < 0:
            # All heads that ask in a cycle are compared, so that the grant comes last in it.
            self._event_queue.at(self._event_queue.now, self._grant, channel, rank=LAST)

    def _grant(self, channel: int) -> None:
        """Give a free channel to the oldest head that asks for it, in turns among equals."""
        asking, last = self._asking[channel], self._granted[channel]
        if self._holder[channel] >= 0 or not asking:
            return
        places = [self._place[self._route[message][hop - 1]] for message, hop in asking]
        # hw/arbiter.py compares collectives first, which are the same for all here.
        ages = [(self._step[asking[k][0]], at <= last, at) for k, at in enumerate(places)]
        oldest = ages.index(min(ages))
        self._granted[channel] = places[oldest]
        # A channel is granted while its tail leaves, and used from the next cycle on
        # (hw/switch/output.py).
        self._acquire(*asking.pop(oldest), max(self._event_queue.now, self._freed[channel] + 1))

    def _acquire(self, message: int, hop: int, cycle: float) -> None:
        """Have a channel from now on."""
        channel = self._route[message][hop]
        self._holder[channel] = message
        self._had[channel].append((message, hop))
        self._begins[channel].append(self._length[channel])
        self._first[message].append(self._length[channel])
        self._length[channel] += self._size[message] + 1
        self._behind[channel].append((message, hop))
        self._begin(message, hop, cycle)

    def _begin(self, message: int, hop: int, cycle: float) -> None:
        """Send the head over a hop, or wait for who holds its place in the buffer."""
        channel = self._route[message][hop]
        place = self._first[message][hop] - self._depth[channel]
        if place >= 0:
            other, beyond, flit = self.before(channel, place)
            blocker = self.blocker(other, beyond, flit)
            if blocker >= 0:
                self._watchers.setdefault(blocker, []).append((message, hop))
                return
            free = self.cycle_of(other, beyond, flit) + self._back[channel] + (flit > 0)
            cycle = max(cycle, free)
        cycle = self._share(message, hop, cycle)
        self._knots[message].append((hop, 0, cycle))
        self._inherit(message, hop)
        way = self._offset[message][hop + 1] - self._offset[message][hop]
        there = max(cycle, self._entered(channel)) + way
        if there > cycle + way:
            size, interval = self._size[message], self._interval[channel]
            self._knots[message] += [(hop + 1, k, there + k * interval) for k in {0, size}]
        self._last[channel] = message, hop, there - way
        rank = self._step[message]
        if hop + 1 == len(self._route[message]):
            # Payload goes through one more queue, `ahead` of nic/receive/shared_lane.py.
            self._event_queue.at(there - 1, self._ends.came, message, rank=rank)
        else:
            self._event_queue.at(there, self._reach, message, hop + 1, rank=rank)
        self._go_on(message, hop, 0, cycle)

    def _entered(self, channel: int) -> float:
        """When a link can take another head: a slow one is still busy after a tail has left."""
        link, free = channel // self.classes, _NEVER
        interval = self._interval[channel]
        if interval <= 1:
            return free
        for each in range(link * self.classes, (link + 1) * self.classes):
            message, hop, began = self._last[each]
            if message >= 0 and self.is_settled(message, hop):
                size = self._size[message]
                tail = max(began + size * interval, self.crossed(message, hop, size))
                free = max(free, tail + interval)
        return free

    def _go_on(self, message: int, hop: int, flit: int, cycle: float) -> None:
        """Note that the front of a message goes over a hop, and all that follows from it."""
        self._started[message] = hop + 1
        self._hold_up(message, hop, flit, cycle)
        self._settle(message)
        for waiting, at in self._watchers.pop(message, ()):
            if at < 0:
                self._watches[waiting] = -1
                self._settle(waiting)
            else:
                self._begin(waiting, at, self._event_queue.now)

    def _settle(self, message: int) -> None:
        """Note when tails leave, as far as that is known."""
        size, hop = self._size[message], self._settled[message]
        while hop < self._started[message]:
            blocker = self.blocker(message, hop, size)
            if blocker >= 0:
                if self._watches[message] != blocker:
                    self._watches[message] = blocker
                    self._watchers.setdefault(blocker, []).append((message, -1))
                break
            cycle = self.cycle_of(message, hop, size)
            # What delays flits here leaves a gap in what comes behind them upstream.
            for flit in self.gaps(message, hop):
                self._hold_up(message, hop, flit, self.cycle_of(message, hop, flit))
            self._event_queue.at(cycle, self._leave, message, hop, rank=-1)
            hop += 1
            self._settled[message] = hop

    def _leave(self, message: int, hop: int) -> None:
        """A tail leaves a hop, unless it was held up since."""
        now, route = self._event_queue.now, self._route[message]
        cycle = self.cycle_of(message, hop, self._size[message])
        # The margin is for rounding, since times are floats.
        if cycle > now + 1e-6:
            self._event_queue.at(cycle, self._leave, message, hop, rank=-1)
            return
        if hop < len(route):
            self._free(route[hop])
        if hop:
            before = self._behind[route[hop - 1]]
            before.popleft()
            self._cleared[route[hop - 1]] = now
            if before and hop < len(route) and self._reached[before[0][0]] == before[0][1] + 1:
                self._reach(before[0][0], before[0][1] + 1)
        else:
            self._ends.left(message)
        if hop == len(route):
            self._ends.sunk(message)

    def _free(self, channel: int) -> None:
        """A tail left a channel."""
        self._holder[channel], self._freed[channel] = -1, self._event_queue.now
        if self._asking[channel]:
            self._event_queue.at(self._event_queue.now, self._grant, channel, rank=LAST)

    def _share(self, message: int, hop: int, cycle: float) -> float:
        """When a head goes over a link that the other class uses: the older message first.

        Equals take turns, so that each ends later by what the other one sends meanwhile.
        """
        # Two classes of link l are channels 2l and 2l + 1. A port sends one message at a time, so
        # that nothing is shared at hop 0.
        channel = self._route[message][hop] ^ 1
        if self.classes == 1 or hop == 0 or self._holder[channel] < 0:
            return cycle
        other, at = self._had[channel][-1]
        size, others = self._size[message], self._size[other]
        end = self.cycle_of(other, at, others)
        if self._started[other] <= at or end < cycle:
            return cycle
        age, other_age = self._step[message], self._step[other]
        left = int(end - cycle) + 1
        if age > other_age:
            # It goes when the other one is through, or stands still, since a buffer is full.
            flit = others if self._settled[other] > at else min(others, self._depth[channel])
            return max(cycle, self.cycle_of(other, at, flit) + (flit == others))
        if age < other_age:
            self.delay(other, at, max(others + 1 - left, min(others, 1)), cycle + size + 1)
        else:
            both = min(left, size + 1)
            self.delay(other, at, others, end + both)
            self._knots[message].append((hop, min(left, size), cycle + 2 * both))
        return cycle
