"""When each flit of a message goes over each link of its route."""

from bisect import bisect_right
from heapq import heappop, heappush
from itertools import pairwise

from multitree.hw.codes import AHEAD_FLITS
from multitree.sim.analytic.messages import Channels, Messages
from multitree.sim.timing.link_model import LinkModel

__all__ = ["FlitTimes"]

_NEVER = -1e18
Cost = tuple[float, int, float, float]
"""From one hop to another: cycles per flit; flits of the narrowest buffer between, cycles in which
so many go, and of one that has waited for a place."""


class FlitTimes:
    """Times of all flits, head 0 to tail, at every hop: the links of a route, and the reducer.

    A flit leaves a hop when it is there, a cycle (or a slow link's interval) after the one before
    it, and when the buffer after the link has the place of the flit `depth` before. So all times
    follow from a few *knots* (hop, flit, cycle): this flit leaves the hop no sooner, and those
    behind it follow. What a time depends on may not have happened yet: `blocker` names the message
    whose head has to go on first; a tail's time is *settled* when there is none.
    """

    def __init__(self, messages: Messages, channels: Channels, model: LinkModel) -> None:
        count, num_channels = len(messages.size), len(channels.depth)
        self._size, self._route, self._depth = messages.size, messages.route, channels.depth
        # From a flit on the next link, which has left the buffer two cycles before.
        self._back = [cycles + model.credit_cycles - 1 for cycles in channels.credit_latency]
        self._hop_cycles = model.switch_cycles, model.receive_cycles
        self._knots: list[list[tuple[int, int, float]]] = [[] for _ in range(count)]
        # Per message: hops over which its head went, and over which its tail's time is known; and
        # the place of its head among all flits of each channel.
        self._started, self._settled = [0] * count, [0] * count
        self._first: list[list[int]] = [[] for _ in range(count)]
        # Per channel: who had it as which hop, from which place on; flits in all; what holds up
        # flits that belong to no message yet.
        self._had: list[list[tuple[int, int]]] = [[] for _ in range(num_channels)]
        self._begins: list[list[int]] = [[] for _ in range(num_channels)]
        self._length = [0] * num_channels
        self._pending: list[list[tuple[int, float]]] = [[] for _ in range(num_channels)]
        known: dict[tuple[int, ...], tuple[list[float], list[list[Cost]]]] = {}
        keys = [tuple(route) for route in messages.route]
        for key in set(keys):
            known[key] = self._along(channels, key)
        self._offset = [known[key][0] for key in keys]
        self._costs = [known[key][1] for key in keys]
        shortest, slowest = min(channels.depth), max(channels.interval)
        self._even = [slowest <= 1 and size < shortest for size in messages.size]

    def _along(
        self, channels: Channels, route: tuple[int, ...]
    ) -> tuple[list[float], list[list[Cost]]]:
        """Cycles from a route's first hop to each, and what flits cost from one hop to another."""
        offset, windows = [0.0], []
        for hop, channel in enumerate(route, 1):
            way = channels.latency[channel] + self._hop_cycles[hop == len(route)]
            offset.append(offset[-1] + way)
            # Payload goes ahead as it comes, but for what waits for its turn.
            ahead = AHEAD_FLITS - 1 if hop == len(route) else 0
            depth, interval = channels.depth[channel] - ahead, channels.interval[channel]
            around = way - (hop == len(route)) + self._back[channel]
            windows.append((depth, max(around, depth * interval), interval))
        costs = []
        for at in range(len(route) + 1):
            # Nothing waits for a place where a message only goes to the reducer.
            rate, window, row = 1.0, (1 << 62, 0.0, 1.0), [(1.0, 1 << 62, 0.0, 1.0)] * at
            for hop in range(at, len(route)):
                window = max(window, windows[hop], key=lambda each: each[1] / each[0])
                row.append((rate, *window))
                rate = max(rate, windows[hop][2])
            costs.append([*row, (rate, *window)])
        return offset, costs

    def crossed(self, message: int, hop: int, flit: int) -> float:
        """When a flit is on the link behind a hop, which may be slower; less what holds it up."""
        way = self._offset[message][hop + 1] - self._offset[message][hop]
        return self.cycle_of(message, hop + 1, flit, hop) - way

    def cycle_of(self, message: int, hop: int, flit: int, last: int | None = None) -> float:
        """When a flit leaves a hop, as far as is known of hops up to a last one; O(knots)."""
        last = hop if last is None else last
        best, offset, here = _NEVER, self._offset[message], self._offset[message][hop]
        costs, even = self._costs[message], self._even[message]
        for at, first, cycle in self._knots[message]:
            if at <= last and first <= flit:
                behind: float = flit - first
                if not even:
                    rate, depth, around, interval = costs[at][hop]
                    rounds, rest = divmod(flit - first, depth)
                    each = max(rate, interval) if rounds else 1.0
                    behind = max(behind * rate, rest * each + rounds * around)
                # A comparison, since `max` takes twice the time, millions of times.
                leaves = cycle + here - offset[at] + behind
                if leaves > best:
                    best = leaves
        return best

    def is_settled(self, message: int, hop: int) -> bool:
        """Whether the time of its tail at a hop is known."""
        return self._settled[message] > hop

    def spans(self, message: int, hop: int) -> list[tuple[float, float]]:
        """When payload of a message leaves a hop, as far as is known: from and to cycles."""
        last, found = self._last_known(message, hop), []
        firsts = {max(first, 1) for at, first, _ in self._knots[message] if at <= hop}
        edges = [*sorted(first for first in firsts if first <= last), last + 1]
        for first, beyond in pairwise(edges):
            begin = self.cycle_of(message, hop, first)
            found.append((begin, begin + beyond - first))
        return found

    def _last_known(self, message: int, hop: int) -> int:
        """The last flit whose time at a hop is known; 0 where none is."""
        known, beyond = 0, self._size[message] + 1
        if self._settled[message] > hop:
            return beyond - 1
        # Bisection is allowed: where a flit is known, so are all before it.
        while beyond - known > 1:
            middle = (known + beyond) // 2
            if self.blocker(message, hop, middle) < 0:
                known = middle
            else:
                beyond = middle
        return known

    def before(self, channel: int, place: int) -> tuple[int, int, int]:
        """What has to go on for a place in a buffer to be free: message, its hop behind, its flit.

        A switch holds the flit that goes next in a register outside the buffer; heads wait in it.
        """
        index = bisect_right(self._begins[channel], place) - 1
        message, hop = self._had[channel][index]
        return message, hop + 1, max(place - self._begins[channel][index] - 1, 0)

    def blocker(self, message: int, hop: int, flit: int) -> int:
        """The message whose head has to go on before a flit's time is known, -1 for none."""
        route, firsts = self._route[message], self._first[message]
        started, settled = self._started[message], self._settled[message]
        for at in range(min(settled, hop), len(route) + 1):
            if started <= at:
                return message
            if at == len(route):
                break
            channel = route[at]
            depth, begin = self._depth[channel], firsts[at]
            if at >= settled:
                # A place held by its own flits depends on later hops, which come next.
                place = min(begin + flit - depth, begin - 1)
                if place >= 0:
                    other, beyond, index = self.before(channel, place)
                    if self._settled[other] <= beyond:
                        found = self.blocker(other, beyond, index)
                        if found >= 0:
                            return found
            if at >= hop:
                flit -= depth
                if flit < 0:
                    break
                flit = max(flit - 1, 0)
        return -1

    def delay(self, message: int, hop: int, flit: int, cycle: float) -> None:
        """Flits from this one on leave a hop no sooner; what waits for their places neither."""
        if self.cycle_of(message, hop, flit) < cycle:
            self._knots[message].append((hop, flit, cycle))
            self._hold_up(message, hop, flit, cycle)

    def gaps(self, message: int, hop: int) -> set[int]:
        """Flits that leave a hop later than in the cycle behind the one before them."""
        size, found = self._size[message], {self._size[message]}
        for at, first, _ in self._knots[message]:
            if at <= hop:
                found.add(first)
                if not self._even[message]:
                    depth = self._costs[message][at][hop][1]
                    found.add(first + (size - first) // depth * depth)
        return found

    def close(self, channel: int, place: int, cycle: float) -> None:
        """Let nothing leave a channel's buffer before a cycle, which has so many places."""
        heappush(self._pending[channel], (place, cycle + self._back[channel]))

    def _hold_up(self, message: int, hop: int, flit: int, cycle: float) -> None:
        """What leaves a buffer no sooner than at a cycle lets no flit in before."""
        while hop:
            channel = self._route[message][hop - 1]
            place = self._first[message][hop - 1] + flit + self._depth[channel] + (flit > 0)
            cycle += self._back[channel]
            index = bisect_right(self._begins[channel], place) - 1
            message, hop = self._had[channel][index]
            if place >= self._length[channel] or self._started[message] <= hop:
                heappush(self._pending[channel], (place, cycle))
                return
            flit = place - self._begins[channel][index]
            if self.cycle_of(message, hop, flit) >= cycle:
                return
            self._knots[message].append((hop, flit, cycle))

    def _inherit(self, message: int, hop: int) -> None:
        """Take over what holds up a channel's flits that are now this message's."""
        channel = self._route[message][hop]
        pending, begin = self._pending[channel], self._first[message][hop]
        held, until = begin, _NEVER
        while pending and pending[0][0] < self._length[channel]:
            place, cycle = heappop(pending)
            # Flits follow by a cycle at least, so that most hold up what is held up already.
            if begin <= place and cycle > until + place - held:
                self.delay(message, hop, place - begin, cycle)
                held, until = place, cycle
