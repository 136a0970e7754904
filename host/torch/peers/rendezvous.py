"""Ranks of a group meet at the first one, and connect each to each."""

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic, sleep
from typing import NamedTuple, Protocol

from multitree.host.torch.peers.addresses import local_address, own_address
from multitree.host.torch.peers.connections import Connection
from multitree.host.torch.peers.failures import FAILURE_KEY
from multitree.host.torch.peers.greetings import (
    Door,
    Incoming,
    Message,
    Place,
    listens,
    reach,
    send_message,
)

__all__ = ["GroupTerms", "PeerStore", "Peers", "connect_all"]

# The store says nothing but where the first rank listens, and may say it of an attempt that has
# ended. The first rank collects where all others listen, and sends all of them this one table: a
# group has ranks that were there at the same time.
_KEY = "address/0"
_MOST_TABLE_BYTES = 1 << 28
_CONNECT_S = 5.0
_READ_STORE_EVERY_S = 1.0
_PAUSES_S = 0.002, 0.1
_ANSWER_S = 2.0
# Ranks that have the table have nothing else to do than to connect.
_MESH_S = 60.0
_FIRST_LOOK_S = 0.5


class PeerStore(Protocol):
    """The part of PyTorch's store that is used."""

    def set(self, key: str, value: str) -> None:
        """Write a value."""

    def get(self, key: str) -> bytes:
        """Read a value."""

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        """Wait until values are there."""

    def delete_key(self, key: str) -> bool:
        """Forget a value; whether it was there."""


@dataclass(frozen=True)
class GroupTerms:
    """What all ranks of a group must agree on."""

    name: str
    global_ranks: list[int]
    options: dict[str, str]
    refusal: str = ""  # why the first rank cannot serve the others

    def ranks(self, ranks: Iterable[int]) -> str:
        """Ranks of the group in words, as they are numbered in the default group."""
        names = [str(self.global_ranks[rank]) for rank in sorted(ranks)]
        return ("Rank " if len(names) == 1 else "Ranks ") + ", ".join(names)

    def must_come(self, ranks: Iterable[int], timeout: timedelta) -> str:
        """What to say if ranks do not come."""
        seconds = timeout.total_seconds()
        return f"{self.ranks(ranks)} must come to group {self.name!r} within {seconds:g} s"


class Peers(NamedTuple):
    """Connections of one rank to all others of its group."""

    connections: dict[int, Connection]
    attempt: str  # a name of this group alone, and not of one that was begun before
    elsewhere: list[int]  # ranks that cannot share memory with the first one
    address: str | None  # this host's own one in a connection to another, if there is such one


def connect_all(
    store: PeerStore, rank: int, terms: GroupTerms, *, timeout: timedelta, has_unix: bool
) -> Peers:
    """Connect a rank to every other one of its group; all of them call this with its store.

    They use Unix sockets, which pass descriptors, where these reach and `has_unix`, and else TCP.
    TimeoutError, with their names, if ranks do not come, ValueError if they differ in options,
    ConnectionError if one is lost. num_ranks - 1 sockets per rank and group.
    """
    num_ranks = len(terms.global_ranks)
    if rank == 0:
        # That of an attempt before; no rank of this one can have failed yet.
        with suppress(RuntimeError):  # some stores, such as etcd's, delete nothing
            store.delete_key(FAILURE_KEY)
    if num_ranks == 1:
        return Peers({}, os.urandom(8).hex(), [], None)
    door = Door(num_ranks, own_address(store), has_unix=has_unix)
    with ExitStack() as listening, ExitStack() as made:
        listening.callback(door.close)
        if rank == 0:
            store.set(_KEY, door.place.packed())
            streams, table = _Gathering(door, terms, timeout).run()
        else:
            stream, table = _Arrival(store, rank, door.place, terms, timeout).run()
            streams = {0: stream}
        for stream in streams.values():
            made.callback(stream.close)
        if rank > 0:
            streams |= _connect_others(rank, door, terms, table, made)
        made.pop_all()
    by_tcp = [stream for stream in streams.values() if stream.family != socket.AF_UNIX]
    address = local_address(by_tcp[0]) if by_tcp else None
    connections = {peer: Connection(streams[peer], peer) for peer in sorted(streams)}
    return Peers(connections, table["attempt"], table["elsewhere"], address)


class _Gathering:
    """The first rank, to which the others come."""

    def __init__(self, door: Door, terms: GroupTerms, timeout: timedelta) -> None:
        self._door, self._terms, self._timeout = door, terms, timeout
        self._streams: dict[int, socket.socket] = {}
        self._greetings: dict[int, Message] = {}
        self._gave_up: set[int] = set()

    @property
    def _missing(self) -> set[int]:
        return {*range(1, len(self._terms.global_ranks))} - {*self._streams}

    def run(self) -> tuple[dict[int, socket.socket], Message]:
        """Wait for all, and send each the table: connections and table."""
        for stream, message in self._door.messages(monotonic() + self._timeout.total_seconds()):
            came = [rank for rank, known in self._streams.items() if known is stream]
            if not came:
                self._take(stream, message)
            elif message:  # its own time is over
                self._send(came[0], {"late": self._late})
                self._gave_up.add(came[0])
            else:
                del self._streams[came[0]]
            if not self._missing:
                return self._agreed()
        for rank in self._streams:
            self._send(rank, {"late": self._late})
        raise TimeoutError(self._late)

    @property
    def _late(self) -> str:
        # Those who gave up have come, and others are the cause.
        missing = self._missing - self._gave_up or self._missing
        text = self._terms.must_come(missing, self._timeout) + ", but did not"
        if self._door.num_dropped:
            text += f"; {self._door.num_dropped} other connections were dropped"
        return text

    def _send(self, rank: int, message: Message) -> None:
        with suppress(OSError):  # its end is found when the connection is read
            send_message(self._streams[rank], message)

    def _take(self, stream: socket.socket, message: Message) -> None:
        """Take a rank that has come; drop others."""
        terms, rank = self._terms, int(message.get("rank", -1))
        if message.get("token") != self._door.place.token:
            self._door.drop(stream)
        elif message["group"] != [terms.name, terms.global_ranks]:
            with suppress(OSError):
                refusal = f"group {terms.name!r} there has ranks {terms.global_ranks}"
                send_message(stream, {"refused": refusal})
            self._door.drop(stream)
        else:
            if rank in self._streams:  # of a process that was lost with its host
                self._door.drop(self._streams[rank])
            self._streams[rank], self._greetings[rank] = stream, message

    def _agreed(self) -> tuple[dict[int, socket.socket], Message]:
        """Send all ranks the table, or why there is none."""
        if differing := self._differing() or self._terms.refusal:
            for rank in self._streams:
                self._send(rank, {"differing": differing})
            raise ValueError(differing)
        for stream in self._streams.values():
            self._door.release(stream)
            stream.settimeout(_MESH_S)
        # Whoever has the table may begin the next group of this name, whose first rank is another.
        self._door.close()
        table: Message = {
            "attempt": os.urandom(8).hex(),
            "elsewhere": sorted(r for r, s in self._streams.items() if s.family != socket.AF_UNIX),
            "places": {rank: greeting["place"] for rank, greeting in self._greetings.items()},
        }
        for rank in self._streams:
            self._send(rank, table)
        return self._streams, table

    def _differing(self) -> str:
        """An option on which ranks do not agree, in words; empty if they do."""
        for name, ours in self._terms.options.items():
            for rank, greeting in self._greetings.items():
                theirs = greeting["options"].get(name)
                if theirs != ours:
                    first, other = self._terms.ranks([0]).lower(), self._terms.ranks([rank]).lower()
                    return (
                        f"Ranks of group {self._terms.name!r} must agree on {name}, which is "
                        f"{theirs!r} at {other} and {ours!r} at {first}"
                    )
        return ""


class _Arrival:
    """Another rank, which goes where the store says that the first one is."""

    def __init__(
        self, store: PeerStore, rank: int, place: Place, terms: GroupTerms, timeout: timedelta
    ) -> None:
        self._store, self._rank, self._place = store, rank, place
        self._terms, self._timeout = terms, timeout
        self._deadline = monotonic() + timeout.total_seconds()
        self._problem = ""

    def run(self) -> tuple[socket.socket, Message]:
        """Greet the first rank and wait for the table: connection and table."""
        pause, longest = _PAUSES_S
        while True:
            published = self._published()
            place = Place.unpacked(published)
            try:
                stream, answer = self._greet(place, published)
            except (OSError, ValueError) as error:
                self._problem = f"{place}: {error}"
            else:
                if "places" in answer:
                    return stream, answer
                stream.close()
                if "late" in answer:
                    raise TimeoutError(answer["late"])
                if "differing" in answer:
                    raise ValueError(answer["differing"])
                self._problem = f"{place}: {answer.get('refused', 'is no rank')}"
            sleep(pause)
            pause = min(2 * pause, longest)

    def _published(self) -> str:
        """What the store says, of this attempt or of one before."""
        left = self._deadline - monotonic()
        try:
            if left > 0:
                self._store.wait([_KEY], timedelta(seconds=max(left, 0.001)))
                return self._store.get(_KEY).decode()
        except RuntimeError as error:
            if monotonic() < self._deadline - 0.1:
                raise ConnectionError(
                    f"Store of group {self._terms.name!r} must be reachable, but is not: {error}"
                ) from error
        tried = self._problem or f"{_KEY!r} is not in the store"
        raise TimeoutError(f"{self._terms.must_come([0], self._timeout)}, but did not; {tried}")

    def _greet(self, place: Place, published: str) -> tuple[socket.socket, Message]:
        """Connect and wait for an answer; OSError or ValueError if a rank is there no more."""
        left = self._deadline - monotonic()
        stream = reach(place, min(max(left, 0.01), _CONNECT_S))
        greeting = {
            "token": place.token,
            "rank": self._rank,
            "group": [self._terms.name, self._terms.global_ranks],
            "options": self._terms.options,
            "place": self._place,
        }
        try:
            send_message(stream, greeting)
            return stream, self._answer(stream, published)
        except BaseException:
            stream.close()
            raise

    def _answer(self, stream: socket.socket, published: str) -> Message:
        """What the first rank says, or that the store says of another one that it is the first."""
        incoming = Incoming(stream, _MOST_TABLE_BYTES)
        has_asked = False
        while (left := self._deadline - monotonic()) > -_ANSWER_S:
            if left <= 0 and not has_asked:
                has_asked = True
                send_message(stream, {"late": True})
            stream.settimeout(min(max(left, 0.1), _READ_STORE_EVERY_S))
            answer = incoming.read()
            if answer is not None:
                return answer
            # A stranger may have the port by now, or the host of the first rank may be lost.
            if monotonic() < self._deadline and self._published() != published:
                return {"refused": "has been replaced"}
        return {"late": f"{self._terms.must_come([0], self._timeout)}, but does not answer"}


def _connect_others(
    rank: int,
    door: Door,
    terms: GroupTerms,
    table: Message,
    made: ExitStack,
) -> dict[int, socket.socket]:
    """Connections to all but the first rank: to lower ranks, and then from higher ones."""
    streams = {}
    for peer in range(1, rank):
        place = Place(*table["places"][str(peer)])
        try:
            stream = streams[peer] = reach(place, _MESH_S)
            made.callback(stream.close)
            send_message(stream, {"token": place.token, "rank": rank})
        except OSError as error:
            raise ConnectionError(
                f"{terms.ranks([peer])} must be reachable for {terms.ranks([rank]).lower()} at "
                f"{place} once it has come to group {terms.name!r}, but is not: {error}"
            ) from error
    higher = range(rank + 1, len(terms.global_ranks))
    places = {peer: Place(*table["places"][str(peer)]) for peer in higher}
    for peer, stream in _callers(rank, door, terms, places):
        made.callback(stream.close)
        streams[peer] = stream
    return streams


def _callers(
    rank: int, door: Door, terms: GroupTerms, awaited: dict[int, Place]
) -> Iterator[tuple[int, socket.socket]]:
    """Higher ranks and their connections as they come; who listens is looked at more seldom."""
    until_s, look_s, gone = monotonic() + _MESH_S, _FIRST_LOOK_S, set[int]()
    while awaited:
        for stream, message in door.messages(min(monotonic() + look_s, until_s)):
            peer = message.get("rank", -1)
            if message.get("token") != door.place.token or peer not in awaited:
                door.drop(stream)
                continue
            door.release(stream)
            del awaited[peer]
            yield peer, stream
            if not awaited:
                return
        must = f"must connect to {terms.ranks([rank]).lower()}"
        # Who has connected to all listens no more, either, but what it sent was there before.
        if lost := awaited.keys() & gone:
            raise ConnectionError(
                f"{terms.ranks(lost)} {must} once all have come to group {terms.name!r}, but did "
                "not: nothing listens there any more"
            )
        if monotonic() >= until_s:
            raise TimeoutError(
                f"{terms.ranks(awaited)} {must} within {_MESH_S:g} s once all have come to group "
                f"{terms.name!r}, but did not"
            )
        gone = {peer for peer, place in awaited.items() if not listens(place)}
        look_s *= 2
