"""Messages between two ranks, matched by source, channel and tag."""

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from multitree.host.tensors.operators import ADDED_DTYPES
from multitree.host.torch.peers.connections import Connection
from multitree.host.torch.peers.flight import Message
from multitree.host.torch.peers.frames import NO_FINGERPRINT, Frame, FrameKind
from multitree.host.torch.peers.memory import SharedMemory
from multitree.host.torch.peers.progress import Steps, Waiting

__all__ = [
    "COLLECTIVES",
    "EAGER_BYTES",
    "USERS",
    "Mailbox",
    "Receive",
    "bytes_of",
    "carrier_of",
    "exchange_messages",
]

EAGER_BYTES = 1 << 15
"""Longest message that is sent before its receiver has memory for it."""

USERS, COLLECTIVES = 0, 1
"""Channels: messages of users never match those inside collectives."""

_REFUSED = -1
_CARRIERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(eq=False)
class Receive:
    """A receive that was posted, with memory for exactly the message."""

    source: int | None  # None for any; in `when_done` the rank that it came from
    channel: int
    tag: int
    memory: memoryview
    when_done: Callable[[Exception | None], None]  # called with None or an error


@dataclass(eq=False)
class _Unexpected:
    """A message that came before its receive: a short one with payload, or a request."""

    peer: int
    frame: Frame
    payload: memoryview = field(default_factory=lambda: memoryview(b""))


@dataclass(eq=False)
class _LongSend:
    """A long message whose receiver has not yet made room."""

    peer: int
    channel: int
    memory: memoryview
    when_done: Callable[[Exception | None], None]


class Mailbox:
    """Sends and receives of one rank, used by the thread of the group alone.

    Messages of at most `EAGER_BYTES` are sent at once. For longer ones the receiver is asked first,
    so that it never stores what no receive was posted for, and the payload is written where it
    belongs. Where ranks share memory, a message that has room there is left in it instead.
    """

    def __init__(self, rank: int, connections: dict[int, Connection]) -> None:
        self._rank = rank
        self._connections = connections
        self.shared: SharedMemory | None = None
        # By channel and tag. Both have no empty queues: there may be a tag for each message.
        self._posted: dict[tuple[int, int], deque[Receive]] = {}
        self._unexpected: dict[tuple[int, int], deque[_Unexpected]] = {}
        self._arriving: dict[int, Receive] = {}
        self._cleared: dict[tuple[int, int], Receive] = {}
        self._long: dict[int, _LongSend] = {}
        self._numbers = itertools.count()

    def send(
        self,
        peer: int,
        channel: int,
        tag: int,
        memory: memoryview,
        when_done: Callable[[Exception | None], None],
        *,
        fingerprint: bytes = NO_FINGERPRINT,
    ) -> None:
        """Send bytes, which must not change before `when_done`."""
        if peer == self._rank:
            self._deliver(peer, Frame(FrameKind.EAGER, channel, 0, tag, 0, len(memory)), memory)
            when_done(None)
            return
        connection = self._connections[peer]
        if self._is_gone(peer, channel):
            when_done(ConnectionResetError(f"Rank {peer} must be connected, but is gone"))
            return
        length = len(memory)
        if length <= EAGER_BYTES:
            frame = Frame(FrameKind.EAGER, channel, 0, tag, 0, length, fingerprint)
            connection.send(frame, memory, when_sent=when_done)
            return
        place = None if self.shared is None else self.shared.put(memory)
        if place is not None:
            frame = Frame(FrameKind.PLACED, channel, 0, tag, place, length, fingerprint)
            connection.send(frame, when_sent=when_done)
            return
        number = next(self._numbers) & 0x7FFFFFFF  # a frame's index is an int32
        self._long[number] = _LongSend(peer, channel, memory, when_done)
        connection.send(Frame(FrameKind.REQUEST, channel, number, tag, 0, length, fingerprint))

    def receive(self, receive: Receive) -> None:
        """Post a receive: the first message that fits ends it."""
        key = receive.channel, receive.tag
        for waiting in self._unexpected.get(key, ()):
            if receive.source in (None, waiting.peer):
                _remove(self._unexpected, key, waiting)
                self._take(receive, waiting)
                return
        source = receive.source
        others = self._connections if source is None else {source} - {self._rank}
        if others and all(self._is_gone(peer, receive.channel) for peer in others):
            receive.when_done(ConnectionResetError(f"Rank {source} must be connected, but is gone"))
            return
        self._posted.setdefault(key, deque()).append(receive)

    def unexpected(self) -> list[Message]:
        """Messages of users that no receive was posted for; from any thread."""
        return [
            Message("unexpected", message.peer, message.frame.sequence, message.frame.length)
            for (channel, _), messages in list(self._unexpected.items())
            for message in (list(messages) if channel == USERS else ())
        ]

    def _is_gone(self, peer: int, channel: int) -> bool:
        """Whether a rank takes and sends nothing that has not begun: collectives go on a while."""
        connection = self._connections[peer]
        return connection.is_closed or (connection.has_left and channel == USERS)

    def withdraw(self, receive: Receive) -> None:
        """Forget a receive that was posted and has not been matched."""
        key = receive.channel, receive.tag
        if receive in self._posted.get(key, ()):
            _remove(self._posted, key, receive)

    def withdraw_send(self, peer: int, when_done: Callable[[Exception | None], None]) -> None:
        """Give up a send: its memory may change from now on, and its receiver learns of it."""
        for number in [n for n, sent in self._long.items() if sent.when_done == when_done]:
            del self._long[number]
            self._connections[peer].send(Frame(FrameKind.WITHDRAWN, index=number))
        if peer != self._rank:
            self._connections[peer].keep_copy(when_done)

    def _withdrawn(self, peer: int, frame: Frame) -> None:
        """Forget a long message that its sender has given up."""
        receive = self._cleared.pop((peer, frame.index), None)
        if receive is not None:
            receive.source = peer
            receive.when_done(
                RuntimeError(
                    f"Message from rank {peer} with tag {receive.tag} must be sent, "
                    "but its sender has given it up"
                )
            )
        self._forget_requests(lambda kept: kept.peer == peer and kept.frame.index == frame.index)

    def _forget_requests(self, is_meant: Callable[[_Unexpected], bool]) -> None:
        """Forget long messages that were announced."""
        for key, waiting in list(self._unexpected.items()):
            for meant in [w for w in waiting if w.frame.kind == FrameKind.REQUEST and is_meant(w)]:
                _remove(self._unexpected, key, meant)

    def place(self, peer: int, frame: Frame) -> memoryview:
        """Memory for the payload of a frame that has begun to arrive."""
        if frame.kind == FrameKind.DATA:
            self._arriving[peer] = self._cleared.pop((peer, frame.index))
            return self._arriving[peer].memory
        receive = self._match(peer, frame)
        if receive is None:
            return memoryview(bytearray(frame.length))
        self._arriving[peer] = receive
        if len(receive.memory) != frame.length:
            return memoryview(bytearray(frame.length))
        return receive.memory

    def handle(self, peer: int, frame: Frame, payload: memoryview | None) -> None:
        """Take a frame of a message: EAGER, PLACED, REQUEST, CLEAR, DATA or WITHDRAWN."""
        if frame.kind == FrameKind.CLEAR:
            self._send_long(frame)
        elif frame.kind == FrameKind.WITHDRAWN:
            self._withdrawn(peer, frame)
        elif frame.kind == FrameKind.DATA or peer in self._arriving:
            receive = self._arriving.pop(peer)
            self._finish(receive, peer, frame.length)
        else:
            self._deliver(peer, frame, payload)

    def _deliver(self, peer: int, frame: Frame, payload: memoryview | None) -> None:
        """Give a message to its receive, or keep a copy until one is posted."""
        receive = self._match(peer, frame)
        if receive is None:
            kept = memoryview(bytes(payload or b""))
            waiting = self._unexpected.setdefault((frame.channel, frame.sequence), deque())
            waiting.append(_Unexpected(peer, frame, kept))
        else:
            self._take(receive, _Unexpected(peer, frame, payload or memoryview(b"")))

    @property
    def has_messages(self) -> bool:
        """Whether a message is under way, or waits to be taken."""
        return bool(self._long or self._cleared or self._arriving)

    def drop_unmatched(self, error: Exception) -> None:
        """End receives of users that nothing has come for."""
        self._end_posted(error, lambda receive: receive.channel == USERS)

    def leave(self, peer: int, error: Exception) -> None:
        """End what users wait for from a rank that begins nothing more; collectives go on."""
        all_left = all(self._is_gone(other, USERS) for other in self._connections)
        sources = (peer, None) if all_left else (peer,)
        self._end_posted(error, lambda r: r.channel == USERS and r.source in sources)
        self._end_long(error, lambda sent: sent.channel == USERS and sent.peer == peer)

    def _end_posted(self, error: Exception, is_meant: Callable[[Receive], bool]) -> None:
        for key, posted in list(self._posted.items()):
            for receive in [r for r in posted if is_meant(r)]:
                _remove(self._posted, key, receive)
                receive.when_done(error)

    def _end_long(self, error: Exception, is_meant: Callable[[_LongSend], bool]) -> None:
        for number in [n for n, sent in self._long.items() if is_meant(sent)]:
            self._long.pop(number).when_done(error)

    def fail(self, error: Exception, peer: int | None = None) -> None:
        """End what waits for a rank, or all, with an error."""
        self._end_posted(error, lambda receive: peer is None or receive.source == peer)
        self._forget_requests(lambda kept: peer in (None, kept.peer))
        for key in [k for k in self._cleared if peer in (None, k[0])]:
            self._cleared.pop(key).when_done(error)
        self._end_long(error, lambda sent: peer in (None, sent.peer))
        for source in [p for p in self._arriving if peer in (None, p)]:
            self._arriving.pop(source).when_done(error)

    def _match(self, peer: int, frame: Frame) -> Receive | None:
        """Take the first receive that was posted for a message."""
        key = frame.channel, frame.sequence
        for receive in self._posted.get(key, ()):
            if receive.source in (None, peer):
                _remove(self._posted, key, receive)
                return receive
        return None

    def _take(self, receive: Receive, arrived: _Unexpected) -> None:
        """Give an arrived message, or the permission to send it, to its receive."""
        frame = arrived.frame
        fits = frame.length == len(receive.memory)
        if frame.kind == FrameKind.REQUEST:
            answer = Frame(FrameKind.CLEAR, index=frame.index, length=0 if fits else _REFUSED)
            if fits:
                receive.source = arrived.peer
                self._cleared[arrived.peer, frame.index] = receive
            self._connections[arrived.peer].send(answer)
            if fits:
                return
        elif frame.kind == FrameKind.PLACED:
            assert self.shared is not None
            self.shared.read(arrived.peer, frame.offset, receive.memory if fits else None)
        elif fits:
            receive.memory[:] = arrived.payload
        self._finish(receive, arrived.peer, frame.length)

    def _finish(self, receive: Receive, peer: int, length: int) -> None:
        """End a receive, with an error where the length differs."""
        receive.source = peer
        error = None
        if length != len(receive.memory):
            error = ValueError(
                f"Message from rank {peer} with tag {receive.tag} must have "
                f"{len(receive.memory)} bytes, as the receive has, not {length}"
            )
        receive.when_done(error)

    def _send_long(self, frame: Frame) -> None:
        """Send the payload that the receiver has room for."""
        sent = self._long.pop(frame.index, None)
        if sent is None:
            return
        if frame.length == _REFUSED:
            sent.when_done(
                ValueError(
                    f"Message to rank {sent.peer} must have the length of its receive, "
                    f"not {len(sent.memory)} bytes"
                )
            )
            return
        data = Frame(FrameKind.DATA, index=frame.index, length=len(sent.memory))
        self._connections[sent.peer].send(data, sent.memory, when_sent=sent.when_done)


def _remove(queues: dict[tuple[int, int], deque[Any]], key: tuple[int, int], item: object) -> None:
    """Take an item out of one of several queues, and forget that once it is empty."""
    queues[key].remove(item)
    if not queues[key]:
        del queues[key]


def carrier_of(flat: torch.Tensor) -> torch.Tensor:
    """The same memory as a type that can be copied: the tensor itself where it can be added."""
    # PyTorch has no copies of some types.
    if flat.dtype in ADDED_DTYPES:
        return flat
    carrier = _CARRIERS[flat.element_size()]
    if not flat.is_quantized:
        return flat.view(carrier)
    # A view of a quantised tensor still is one, whose parts end the process.
    storage, offset = flat.untyped_storage(), flat.storage_offset()
    return torch.empty(0, dtype=carrier, device=flat.device).set_(storage, offset, flat.shape)


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """Memory of a contiguous tensor on the CPU, as bytes."""
    flat = carrier_of(tensor.detach().view(-1))
    if flat.numel() == 0:
        return memoryview(bytearray())
    return memoryview(flat.view(torch.uint8).numpy())


def exchange_messages(
    mailbox: Mailbox,
    sequence: int,
    fingerprint: bytes,
    sends: dict[int, torch.Tensor],
    receives: dict[int, torch.Tensor],
) -> Steps[None]:
    """Send and receive messages of contiguous CPU tensors inside a collective, one for each rank.

    All receives come first, then all sends, then their ends. Raises the first error that a message
    ends with; where a connection breaks while it is written to, the end of the peer is awaited
    instead.
    """
    pending: dict[tuple[str, int], None] = {}
    errors: list[Exception] = []
    broken: set[int] = set()

    def ends(what: str, peer: int) -> Callable[[Exception | None], None]:
        pending[what, peer] = None

        def done(error: Exception | None) -> None:
            if what == "send" and isinstance(error, OSError):
                # Why it broke stands in what the peer has sent before, which is still to be read.
                broken.add(peer)
                return
            pending.pop((what, peer), None)
            if error is not None:
                errors.append(error)

        return done

    # Receives first: a short message that finds one is read where it belongs, and not copied.
    for peer, tensor in receives.items():
        done = ends("recv", peer)
        mailbox.receive(Receive(peer, COLLECTIVES, sequence, bytes_of(tensor), done))
    for peer, tensor in sends.items():
        done = ends("send", peer)
        memory = bytes_of(tensor)
        mailbox.send(peer, COLLECTIVES, sequence, memory, done, fingerprint=fingerprint)
    while pending and not errors:
        what, peer = next(iter(pending))
        yield Waiting(peer, is_in_flight=what == "send" and peer not in broken)
    if errors:
        raise errors[0]
