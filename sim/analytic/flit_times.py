"""When each flit of a message goes over each link of its route."""

from bisect import bisect_right
from heapq import heappop, heappush
from itertools import pairwise

from multitree.sim.analytic.messages import Channels, Messages
from multitree.sim.link_model import LinkModel

__all__ = ["FlitTimes"]

_NEVER = -1e18


class FlitTimes:
    """Times of all flits, head 0 to tail, at every hop: the links of a route, and the reducer.

    A flit leaves a hop when it is there, a cycle (or a slow link's interval) behind the one before
    it, and when the buffer behind the link has a place for it, that of the flit that came `depth`
    before. So all times of a message follow from a few *knots* (hop, flit,
    cycle): this flit leaves the hop no sooner, and those behind it follow. Its head makes one at
    each hop, and what held up a full buffer makes one upstream of it.

    What a flit's time depends on may not have happened yet; `blocker` says which message's head
    has to go on first, and a tail's time is *settled* when none does.

    Parameters
    ----------
    messages, channels : Messages, Channels
    model : LinkModel
    """

    def __init__(self, messages: Messages, channels: Channels, model: LinkModel) -> None:
        count, num_channels = len(messages.size), len(channels.depth)
        self._size, self._route, self._depth = messages.size, messages.route, channels.depth
        # From a flit on the next link, which has left the buffer two cycles before.
        self._back = [cycles + model.credit_cycles - 1 for cycles in channels.latency]
        self._hop_cycles = model.switch_cycles, model.receive_cycles - 1
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
        known: dict[tuple[int, ...], tuple[list[float], list[float]]] = {}
        shortest = min(channels.depth)
        keys = [(size > shortest, *route) for size, route in self._messages()]
        for key in keys:
            if key not in known:
                known[key] = self._along(channels, key)
        self._offset = [known[key][0] for key in keys]
        self._paces = [known[key][1] for key in keys]
        self._even = all(max(paces) <= 1 for _, paces in known.values())

    def _messages(self) -> list[tuple[int, list[int]]]:
        return list(zip(self._size, self._route, strict=True))

    def _along(self, channels: Channels, key: tuple[int, ...]) -> tuple[list[float], list[float]]:
        """Cycles from a route's first hop to each, and at each the cycles per flit."""
        offset, paces = [0.0], []
        for hop, channel in enumerate(key[1:], 1):
            way = channels.latency[channel] + self._hop_cycles[hop == len(key) - 1]
            offset.append(offset[-1] + way)
            # A long message goes a buffer full per round trip, if not one flit per cycle.
            around = (way + self._back[channel]) / channels.depth[channel] if key[0] else 1.0
            paces.append(max(channels.interval[channel], around, 1.0))
        return offset, [*paces, 1.0]

    def cycle_of(self, message: int, hop: int, flit: int) -> float:
        """When a flit leaves a hop, as far as is known; O(knots)."""
        best, offset, here = _NEVER, self._offset[message], self._offset[message][hop]
        paces = self._paces[message]
        for at, first, cycle in self._knots[message]:
            if at <= hop and first <= flit:
                cost_model = 1.0 if self._even else max(paces[at : hop + 1])
                best = max(best, cycle + here - offset[at] + (flit - first) * cost_model)
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
        while pending and pending[0][0] < self._length[channel]:
            place, cycle = heappop(pending)
            if begin <= place:
                self.delay(message, hop, place - begin, cycle)
