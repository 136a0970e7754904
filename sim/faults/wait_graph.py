"""What stopped messages on shared links wait for, and whether in a circle."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt

from multitree.nic.driver.routed_rows import places_in_sums
from multitree.sim.faults.in_flight import Channel, InFlight, Message
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = ["WaitForGraph"]

BoolArray = npt.NDArray[np.bool_]

_MOST_NAMED = 8
# A search takes time linear in the waits of its part, so that all starts would be quadratic.
_MOST_SEARCHED = 256


class _Wait(NamedTuple):
    """Wait of a message in words, followed by the messages awaited, if any."""

    words: str
    behind: tuple[Message, ...] = ()


class WaitForGraph:
    """Waits of every message for others, from the state of a network that stopped.

    A message waits for all messages named here, not for one of several: a channel has one holder, a
    buffer one front flit, a sum all its contributions. So a circle is a deadlock, and without one
    every chain of waits ends at the cause.
    """

    def __init__(
        self, schedules: Sequence[Schedule], in_flight: InFlight, is_in: Sequence[BoolArray]
    ) -> None:
        self._schedules = schedules
        self._in_flight = in_flight
        self._is_in = is_in
        self._places = [places_in_sums(schedule) for schedule in schedules]
        self._topology = schedules[0].topology
        self._known: dict[tuple[int, int], tuple[Message, ...]] = {}

    def sentence(self) -> str:
        """Shortest circle of waits or, without one, a chain and its end; empty if all arrived."""
        first = [one for one in self._in_flight.messages() if not self._is_in[one[0]][one[1]]]
        incomplete = [k for k, is_in in enumerate(self._is_in) if not is_in.all()]
        if not incomplete:
            return ""
        first += self._not_in(incomplete[0], ~self._is_in[incomplete[0]])
        graph = self._graph(first)
        circle = _shortest_circle(graph)
        if circle:
            last_words = f"{graph.edges[circle[-1], circle[0]]['words']} the first"
            return f"circle of waits: {self._described(graph, circle, last_words)}"
        chain = [min(first)]
        # A message that waits for itself, after flits were lost or doubled, ends the chain.
        while onward := set(graph[chain[-1]]) - set(chain):
            chain.append(min(onward))
        last_words = self._waits_of(chain[-1])[0].words
        return f"no circle of waits: {self._described(graph, chain, last_words)}"

    def _described(
        self, graph: "nx.DiGraph[Message]", chain: list[Message], last_words: str
    ) -> str:
        """Words of a chain, without its middle where it is long."""
        words = [self._name(chain[0])]
        for here, there in pairwise(chain):
            words.append(f"{graph.edges[here, there]['words']} {self._name(there)}, which")
        left_out = len(chain) - _MOST_NAMED
        # The ends of a chain say who waits and why; its middle repeats itself.
        if left_out > 0:
            words[_MOST_NAMED - 1 : -1] = [f"waits behind {left_out} more, the last of which"]
        return " ".join([*words, last_words])

    def _graph(self, first: Iterable[Message]) -> "nx.DiGraph[Message]":
        """Waits of these messages, of those that they wait for, and so on."""
        graph: nx.DiGraph[Message] = nx.DiGraph()
        pending = list(first)
        graph.add_nodes_from(pending)
        while pending:
            message = pending.pop()
            for wait in self._waits_of(message):
                for other in wait.behind:
                    if other not in graph:
                        pending.append(other)
                    if not graph.has_edge(message, other):
                        graph.add_edge(message, other, words=wait.words)
        return graph

    def _waits_of(self, message: Message) -> list[_Wait]:
        """Waits of a message that has not arrived, at least one."""
        links, place = self._in_flight.links(message), self._in_flight.place(message)
        if place is None:
            return [self._at_rank(message, "has come in at", "and is not all in memory")]
        if not place.entered:
            return [self._to_enter(message, place.hop)] if place.hop else self._at_source(message)
        channel = self._in_flight.channel(message, place.hop)
        front = self._in_flight.front(channel)
        if front is not None and front != message:
            return [_Wait(f"waits in {self._channel(channel)} behind", (front,))]
        if place.hop == len(links) - 1:
            return [self._at_rank(message, "waits at", "which does not take it")]
        if self._in_flight.has_begun(message, place.hop + 1):
            return [self._to_enter(message, place.hop + 1)]
        wanted = self._in_flight.channel(message, place.hop + 1)
        holder = self._in_flight.holder(wanted)
        at = self._node(int(self._topology.links[wanted.link, 0]))
        if holder is None:
            return [_Wait(f"waits at {at} for {self._channel(wanted)}, which no message holds")]
        return [_Wait(f"waits at {at} for {self._channel(wanted)}, held by", (holder,))]

    def _to_enter(self, message: Message, hop: int) -> _Wait:
        """Wait of a message that holds its channel for entering the link."""
        channel = self._in_flight.channel(message, hop)
        at = self._node(int(self._topology.links[channel.link, 0]))
        front = self._in_flight.front(channel)
        if front is not None and not self._in_flight.has_room(channel):
            words = f"waits at {at} for a credit of {self._channel(channel)}, spent on"
            if front == message:
                # Only where flits were lost or doubled: else its first flit is in this buffer.
                return _Wait(f"{words} its own flits")
            return _Wait(words, (front,))
        other = self._in_flight.latest(channel.link)
        if other is not None and other != message:
            return _Wait(f"waits at {at} for {self._link(channel.link)}, used by", (other,))
        return _Wait(f"waits at {at}, although {self._channel(channel)} is free")

    def _at_rank(self, message: Message, verb: str, otherwise: str) -> _Wait:
        """Wait of a message that the receiving rank does not take or count."""
        rank = int(self._schedules[message.collective].dst[message.row])
        at, ended = f"{verb} rank {rank},", self._num_ended(rank, message.collective)
        if message.collective > ended:
            words = f"{at} which has not ended collective {ended} and needs"
            return _Wait(words, self._missing(rank, ended))
        earlier = self._earlier_in_sum(message)
        if earlier:
            return _Wait(f"{at} where its turn in the sum comes after", earlier)
        return _Wait(f"{at} {otherwise}")

    def _at_source(self, message: Message) -> list[_Wait]:
        """Waits of a message of which something has not left its rank."""
        collective, row = message
        schedule = self._schedules[collective]
        rank = int(schedule.src[row])
        if self._in_flight.has_begun(message, 0):
            return [self._to_enter(message, 0)]
        at, ended = f"has not left rank {rank},", self._num_ended(rank, collective)
        if collective > ended:
            words = f"{at} which has not ended collective {ended} and needs"
            return [_Wait(words, self._missing(rank, ended))]
        of_flow = (schedule.dst == rank) & (schedule.flow == schedule.flow[row])
        needed = self._not_in(collective, of_flow & (schedule.step < schedule.step[row]))
        waits = [_Wait(f"{at} which needs", needed)] if needed else []
        mine = [Message(collective, int(k)) for k in np.flatnonzero(schedule.src[:row] == rank)]
        before = [one for one in mine if not self._in_flight.has_left(one)]
        link = self._in_flight.links(message)[0]
        same = [one for one in before if self._in_flight.links(one)[0] == link]
        if same:
            waits.append(_Wait(f"{at} where it comes after", (same[-1],)))
        if waits or not self._in_flight.has_room(self._in_flight.channel(message, 0)):
            return waits or [self._to_enter(message, 0)]
        if before:
            # The queue of another port may be full, and rows are fetched in order.
            return [_Wait(f"{at} whose table has before it", (before[0],))]
        return [_Wait(f"{at} although all it needs is there")]

    def _num_ended(self, rank: int, most: int) -> int:
        """Number of collectives that a rank has ended, up to `most`."""
        return next((k for k in range(most) if self._missing(rank, k)), most)

    def _missing(self, rank: int, collective: int) -> tuple[Message, ...]:
        """Messages of a collective that a rank has not received or sent."""
        if (rank, collective) not in self._known:
            schedule = self._schedules[collective]
            sent = (Message(collective, int(row)) for row in np.flatnonzero(schedule.src == rank))
            unsent = tuple(one for one in sent if not self._in_flight.has_left(one))
            not_in = self._not_in(collective, schedule.dst == rank)
            self._known[rank, collective] = not_in + unsent
        return self._known[rank, collective]

    def _earlier_in_sum(self, message: Message) -> tuple[Message, ...]:
        """Missing contributions that are added before this one."""
        collective, row = message
        schedule = self._schedules[collective]
        of_sum = (schedule.op == Op.REDUCE) & (schedule.flow == schedule.flow[row])
        of_sum &= schedule.dst == schedule.dst[row]
        places = self._places[collective]
        return self._not_in(collective, of_sum & (places < places[row]))

    def _not_in(self, collective: int, which: BoolArray) -> tuple[Message, ...]:
        """Messages among `which` that have not arrived."""
        rows = np.flatnonzero(which & ~self._is_in[collective])
        return tuple(Message(collective, int(row)) for row in rows)

    def _name(self, message: Message) -> str:
        of = f" of collective {message.collective}" if len(self._schedules) > 1 else ""
        return f"{self._schedules[message.collective].describe(message.row)}{of}"

    def _node(self, node: int) -> str:
        return f"{'rank' if node < self._topology.num_ranks else 'switch'} {node}"

    def _channel(self, channel: Channel) -> str:
        return f"VC {channel.vc} of {self._link(channel.link)}"

    def _link(self, link: int) -> str:
        src, dst = self._topology.links[link].tolist()
        return f"link {link} ({self._node(src)} to {self._node(dst)})"


def _shortest_circle(graph: Any) -> list[Message]:
    """Shortest circle, of these the one with the lowest message; empty if there is none."""
    best: list[Message] = []
    for component in nx.strongly_connected_components(graph):
        inside = graph.subgraph(component)
        for start in sorted(component)[:_MOST_SEARCHED] if len(component) > 1 else []:
            # No longer ones than the best so far: `cutoff` counts edges, one of which closes it.
            cutoff = len(best) - 1 if best else None
            paths = nx.single_source_shortest_path(inside, start, cutoff=cutoff)
            circles = [paths[last] for last in inside.predecessors(start) if last in paths]
            for circle in circles:
                if not best or (len(circle), circle) < (len(best), best):
                    best = circle
    return best
