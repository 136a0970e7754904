"""Where messages on shared links are: in which buffers, with which channels."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from multitree.hw.codes import HOP_WIDTH
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import DeviceError
from multitree.nic.driver.formats import NUM_HOPS, head_format
from multitree.nic.driver.routed_rows import places_in_sums
from multitree.sim.emulator.native import Crossings
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Channel", "InFlight", "Message", "Place"]

# The highest bit of a hop is the class.
_PORT_MASK = (1 << HOP_WIDTH - 1) - 1
_FAR = 128
"""Numbers of collectives in heads wrap at twice as many."""


class Message(NamedTuple):
    """Transfer of one of several collectives that run one after the other, counted from 0."""

    collective: int
    row: int


class Channel(NamedTuple):
    """A virtual channel of a link."""

    link: int
    vc: int


class Place(NamedTuple):
    """Place of a message's first flit that has not arrived.

    `hop` counts the links of its route; `entered` is true in the buffer behind that link, false in
    front of it, at its source or granted by a switch.
    """

    hop: int
    entered: bool


class _Part(NamedTuple):
    """Flits of a message that went onto a link, and that left the buffer behind it."""

    vc: int
    sent: int
    taken: int
    ended: bool


class InFlight:
    """Contents of every buffer of a network with switches, derived from what its links carried.

    A link's near end shows the order of messages on it, its far end how many flits left the buffer
    of each channel; the difference waits. A head that a switch has taken and not sent on holds its
    channel already. DeviceError if a link carried a message that is in no schedule. O(messages x
    links of a route).
    """

    def __init__(
        self,
        schedules: Sequence[Schedule],
        config: Config,
        crossings: list[Crossings],
        first_sequence: int,
    ) -> None:
        self._schedules = schedules
        self._first_sequence = first_sequence
        self._topology = schedules[0].topology
        self._depth = config.buffer_flits
        self._parts: dict[tuple[Message, int], _Part] = {}
        self._queues: dict[Channel, list[Message]] = defaultdict(list)
        self._newest: dict[int, Message] = {}
        self._rows = {schedule: _rows_by_name(schedule) for schedule in set(schedules)}
        heads = head_format(config)
        for link, (found, taken) in enumerate(crossings):
            left, collective = taken.tolist(), 0
            for low, high, num_flits, vc, ended, _ in found.tolist():
                head = heads.unpack(low | high << 64)
                message = self._message(link, head, collective)
                collective = message.collective
                # A channel keeps order, so that the flits taken are those of its first messages.
                part = _Part(vc, num_flits, min(left[vc], num_flits), bool(ended))
                left[vc] -= part.taken
                self._parts[message, link] = part
                self._queues[Channel(link, vc)].append(message)
                self._newest[link] = message
        self._granted = self._find_granted()

    def _message(self, link: int, head: dict[str, int], near: int) -> Message:
        """Message of a head, in a collective near the one of the message before it."""
        ahead = (head["sequence"] - self._first_sequence - near + _FAR) % (2 * _FAR) - _FAR
        collective = near + ahead
        is_known = 0 <= collective < len(self._schedules)
        rows = self._rows[self._schedules[collective]] if is_known else {}
        name = head["op"], head["flow"], self._end_of_route(link, head["route"]), head["order"]
        message = Message(collective, rows.get(name, -1))
        if name not in rows or link not in self.links(message):
            raise DeviceError(f"Link {link} carries a message that is none of the schedule")
        return message

    def _end_of_route(self, link: int, route: int) -> int | None:
        """Rank at the end of a route, counted from a link; None if there is none."""
        topology = self._topology
        node = int(topology.links[link, 1])
        # A corrupted head may name a port that is not there, or lead in a circle.
        for hop in range(NUM_HOPS):
            port = route >> hop * HOP_WIDTH & _PORT_MASK
            onward = None if node < topology.num_ranks else topology.link_at(node, port)
            if onward is None:
                break
            node = int(topology.links[onward, 1])
        return node if node < topology.num_ranks else None

    def _find_granted(self) -> dict[Channel, Message]:
        """Channels granted by switches to messages of which nothing went onto them yet."""
        granted = {}
        for (message, link), part in self._parts.items():
            # A switch takes a head only in the cycle of its grant (hw/switch/input.py, ROUTE).
            hop = self.links(message).index(link) + 1
            if part.taken and hop < len(self.links(message)):
                channel = self.channel(message, hop)
                if (message, channel.link) not in self._parts:
                    granted[channel] = message
        return granted

    def messages(self) -> list[Message]:
        """Messages that went onto a link, each once."""
        return sorted({message for message, _ in self._parts})

    def links(self, message: Message) -> list[int]:
        """Links of a message's route."""
        schedule = self._schedules[message.collective]
        entries = slice(*schedule.route_offsets[message.row : message.row + 2])
        links: list[int] = schedule.route_links[entries].tolist()
        return links

    def channel(self, message: Message, hop: int) -> Channel:
        """Channel that a message has, or requests, on a link of its route."""
        links = self.links(message)
        part = self._parts.get((message, links[hop]))
        if part is not None:
            return Channel(links[hop], part.vc)
        schedule = self._schedules[message.collective]
        vc_class = int(schedule.route_classes[schedule.route_offsets[message.row] + hop])
        # Switches keep the parity of a channel; the collective's number gives the first one.
        parity = self._first_sequence + message.collective
        if hop:
            parity = self.channel(message, hop - 1).vc
        return Channel(links[hop], 2 * vc_class + parity % 2)

    def place(self, message: Message) -> Place | None:
        """Place of the first flit that has not arrived; None if the whole message has."""
        links = self.links(message)
        parts = [self._parts.get((message, link), _Part(0, 0, 0, False)) for link in links]
        delivered = parts[-1].taken
        if parts[-1].ended and delivered == parts[-1].sent:
            return None
        for hop in reversed(range(len(links))):
            if parts[hop].sent > delivered:
                onward = parts[hop].taken > delivered
                return Place(hop + onward, not onward)
        return Place(0, False)

    def has_begun(self, message: Message, hop: int) -> bool:
        """True if some flit of a message went onto a link of its route."""
        return (message, self.links(message)[hop]) in self._parts

    def has_left(self, message: Message) -> bool:
        """True if a whole message has left its source."""
        part = self._parts.get((message, self.links(message)[0]))
        return part is not None and part.ended

    def front(self, channel: Channel) -> Message | None:
        """Message of the first flit in the buffer behind a link, or None."""
        for message in self._queues.get(channel, ()):
            part = self._parts[message, channel.link]
            if part.taken < part.sent:
                return message
        return None

    def holder(self, channel: Channel) -> Message | None:
        """Message that holds a channel, as its tail has not gone onto the link, or None."""
        if channel in self._granted:
            return self._granted[channel]
        return self._unended(channel.link, self._queues.get(channel, [])[-1:])

    def latest(self, link: int) -> Message | None:
        """Message of the last head on a link, unless its tail has followed."""
        return self._unended(link, [self._newest[link]] if link in self._newest else [])

    def _unended(self, link: int, messages: list[Message]) -> Message | None:
        return next((one for one in messages if not self._parts[one, link].ended), None)

    def has_room(self, channel: Channel) -> bool:
        """True if the buffer behind a link has room for one more flit of a channel."""
        parts = (self._parts[one, channel.link] for one in self._queues.get(channel, ()))
        return sum(part.sent - part.taken for part in parts) < self._depth


def _rows_by_name(schedule: Schedule) -> dict[tuple[int | None, ...], int]:
    """Rows by what distinguishes them on shared links: op, flow, destination, place in the sum."""
    columns = (schedule.op, schedule.flow, schedule.dst, places_in_sums(schedule))
    names = np.stack([column.astype(np.int64) for column in columns], axis=1).tolist()
    return {tuple(name): row for row, name in enumerate(names)}
