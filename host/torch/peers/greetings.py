"""Sockets of a group while it is made: where a rank listens, and who has come."""

import json
import os
import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, NamedTuple

from multitree.host.torch.peers.addresses import listening_socket

__all__ = ["Door", "Incoming", "Message", "Place", "listens", "reach", "send_message"]

Message = dict[str, Any]

_LENGTH_BYTES = 4
_MOST_GREETING_BYTES = 1 << 20
# Whoever connects greets at once; a stopped process may take longer.
_GREETING_S = 30.0
_PROBE_S = 0.2
_LEAST_BACKLOG = 128
_FULL_BACKLOG_PAUSE_S = 0.01


class Place(NamedTuple):
    """Where a rank listens, and the token by which it knows the ranks of its group."""

    token: str
    unix_name: str  # abstract, so that no file is left behind; empty if there is none
    host: str
    port: int

    def packed(self) -> str:
        """The place as JSON."""
        return json.dumps(self)

    @classmethod
    def unpacked(cls, packed: str) -> "Place":
        """The inverse of `packed`."""
        return cls(*json.loads(packed))

    def __str__(self) -> str:
        return f"{self.host} port {self.port}"


def reach(place: Place, timeout_s: float) -> socket.socket:
    """Connect to a place, by its Unix socket if that is in this network namespace; or OSError."""
    if place.unix_name:
        with suppress(OSError):
            return _reach_unix(place.unix_name, timeout_s)
    return socket.create_connection((place.host, place.port), timeout_s)


def listens(place: Place) -> bool:
    """Whether something listens at a place; True where that is not known for sure."""
    try:
        reach(place, _PROBE_S).close()
    except ConnectionRefusedError:
        return False
    except OSError:  # a host that does not answer, or a network that is lost for a while
        pass
    return True


def _reach_unix(name: str, timeout_s: float) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(timeout_s)
    until_s = monotonic() + timeout_s
    while True:
        try:
            stream.connect(f"\0{name}")
            return stream
        except BlockingIOError:  # many have come at once
            if monotonic() < until_s:
                sleep(_FULL_BACKLOG_PAUSE_S)
                continue
            stream.close()
            raise
        except OSError:
            stream.close()
            raise


def send_message(stream: socket.socket, message: Message) -> None:
    """Send a message within the timeout of a socket; or OSError."""
    packed = json.dumps(message).encode()
    stream.sendall(len(packed).to_bytes(_LENGTH_BYTES, "big") + packed)


class Incoming:
    """Messages that come in on a stream, of which not a byte is read that follows them."""

    def __init__(self, stream: socket.socket, most_bytes: int = _MOST_GREETING_BYTES) -> None:
        self._stream, self._most_bytes = stream, most_bytes
        self._data, self._length = bytearray(), 0

    def read(self) -> Message | None:
        """The next message, or None if it is not complete within the timeout of the socket.

        ConnectionResetError at the end of the stream, ValueError if it is no message.
        """
        while True:
            wanted = self._length or _LENGTH_BYTES
            try:
                data = self._stream.recv(wanted - len(self._data))
            except (BlockingIOError, TimeoutError):
                return None
            if not data:
                raise ConnectionResetError("closed at the other end")
            self._data += data
            if len(self._data) < wanted:
                continue
            complete, self._data = self._data, bytearray()
            if self._length:
                self._length = 0
                return _unpacked(complete)
            self._length = int.from_bytes(complete, "big")
            if not 0 < self._length <= self._most_bytes:
                raise ValueError(f"Message must have up to {self._most_bytes} bytes")


def _unpacked(data: bytearray) -> Message:
    message = json.loads(data)
    if not isinstance(message, dict):
        raise ValueError(f"Message must be an object, not {type(message).__name__}")
    return message


class Door:
    """Listens while a group is made, by a Unix and a TCP socket, and reads messages of all callers.

    Strangers, who send something else or nothing, hold up no one; they are dropped.
    """

    def __init__(self, num_ranks: int, host: str, *, has_unix: bool) -> None:
        backlog = max(num_ranks, _LEAST_BACKLOG)
        self._selector = selectors.DefaultSelector()
        self._callers: dict[socket.socket, Incoming] = {}
        self._greets_until_s: dict[socket.socket, float] = {}
        self.num_dropped = 0
        tcp = listening_socket(backlog)
        self._listeners = [tcp]
        unix_name = f"multitree-{os.urandom(8).hex()}" if has_unix else ""
        if unix_name:
            unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listeners.append(unix)
            unix.bind(f"\0{unix_name}")
            unix.listen(backlog)
        for listener in self._listeners:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ)
        self.place = Place(os.urandom(16).hex(), unix_name, host, tcp.getsockname()[1])

    def close(self) -> None:
        """Listen no more, and drop all whom `release` was not called for."""
        for stream in (*self._listeners, *self._callers):
            stream.close()
        self._listeners, self._callers, self._greets_until_s = [], {}, {}
        self._selector.close()

    def messages(self, until_s: float) -> Iterator[tuple[socket.socket, Message]]:
        """Messages of callers, and an empty one at the end of a caller; until a monotonic time."""
        while (left := until_s - monotonic()) > 0:
            for key, _ in self._selector.select(min(left, _GREETING_S / 10)):
                stream = key.fileobj
                assert isinstance(stream, socket.socket)
                if stream in self._listeners:
                    self._accept(stream)
                elif stream in self._callers:
                    yield from self._message_of(stream)
            now = monotonic()
            for stream in [s for s, until in self._greets_until_s.items() if until <= now]:
                self.drop(stream)

    def _accept(self, listener: socket.socket) -> None:
        try:
            stream, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        stream.setblocking(False)
        self._callers[stream] = Incoming(stream)
        self._greets_until_s[stream] = monotonic() + _GREETING_S
        self._selector.register(stream, selectors.EVENT_READ)

    def _message_of(self, stream: socket.socket) -> Iterator[tuple[socket.socket, Message]]:
        """At most one message: what follows it may be of another kind."""
        try:
            message = self._callers[stream].read()
        except (OSError, ValueError):
            yield stream, {}
            if stream in self._callers:
                self.drop(stream)
            return
        if message:
            self._greets_until_s.pop(stream, None)
            yield stream, message

    def drop(self, stream: socket.socket) -> None:
        """Close the connection of a caller."""
        self.release(stream)
        self.num_dropped += 1
        stream.close()

    def release(self, stream: socket.socket) -> None:
        """Leave the connection of a caller to others."""
        self._selector.unregister(stream)
        del self._callers[stream]
        self._greets_until_s.pop(stream, None)
