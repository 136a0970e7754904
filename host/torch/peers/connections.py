"""Connections to all other ranks: non-blocking frames, descriptors, their end."""

import os
import socket
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from datetime import timedelta
from time import monotonic
from typing import Any, Protocol

from multitree.host.torch.peers.frames import HEADER_BYTES, Frame

__all__ = ["Connection", "PeerStore", "connect_all", "host_identity"]

_READ_BYTES = 1 << 16
_SOCKET_BUFFER_BYTES = 1 << 22
_TOKEN_BYTES = 32

Payload = bytes | memoryview
WhenSent = Callable[[Exception | None], None]


class PeerStore(Protocol):
    """The part of PyTorch's store that is used."""

    def set(self, key: str, value: str) -> None:
        """Write a value."""

    def get(self, key: str) -> bytes:
        """Read a value."""

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        """Wait until values are there."""


class Connection:
    """A stream socket to one rank, on which frames are queued and parsed without blocking.

    All methods are for the thread of the group, but for `close_copy` in a forked process.
    """

    def __init__(self, stream: socket.socket, peer: int) -> None:
        stream.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            stream.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER_BYTES)
        if stream.family != socket.AF_UNIX:
            # Frames are short, and each would wait until the last one is acknowledged.
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer = peer
        self.has_left = False
        self.is_closed = False
        self.descriptors: deque[int] = deque()
        self._stream = stream
        self._can_pass = stream.family == socket.AF_UNIX
        self._outgoing: deque[tuple[memoryview, int | None, WhenSent | None]] = deque()
        self._pending = bytearray()
        self._payload: memoryview | None = None
        self._filled = 0
        self._frame: Frame | None = None

    def fileno(self) -> int:
        """Descriptor, for a selector."""
        return self._stream.fileno()

    @property
    def has_outgoing(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._outgoing)

    def send(
        self,
        frame: Frame,
        payload: Payload | None = None,
        *,
        descriptor: int | None = None,
        when_sent: WhenSent | None = None,
    ) -> None:
        """Queue a frame and its payload, and write as much as the socket takes.

        The payload is not copied: it must not change before `when_sent`, which is called once the
        operating system has the last byte, with None, or with an error if that will not happen any
        more. A file descriptor can go with a frame on sockets of one host only.
        """
        header = frame.packed()
        if payload is None or not len(payload):
            self._outgoing.append((memoryview(header), descriptor, when_sent))
        else:
            self._outgoing.append((memoryview(header), descriptor, None))
            self._outgoing.append((memoryview(payload).cast("B"), None, when_sent))
        self.flush()

    def flush(self) -> None:
        """Write as much as the socket takes; a broken connection is found by `receive`."""
        while self._outgoing:
            view, descriptor, when_sent = self._outgoing[0]
            try:
                if descriptor is None:
                    count = self._stream.send(view)
                else:
                    count = socket.send_fds(self._stream, [view], [descriptor])
            except BlockingIOError:
                return
            except OSError as error:
                self._give_up(error)
                return
            if count < len(view):
                self._outgoing[0] = (view[count:], None, when_sent)
                continue
            self._outgoing.popleft()
            if when_sent is not None:
                when_sent(None)

    def _give_up(self, error: Exception) -> None:
        """Forget what has not been written."""
        outgoing, self._outgoing = self._outgoing, deque()
        for _, _, when_sent in outgoing:
            if when_sent is not None:
                when_sent(error)

    def receive(self, place: Callable[[int, Frame], memoryview]) -> Iterator[tuple[Frame, Any]]:
        """Parse all frames that are there, each once its payload is complete.

        `place` gives the memory that the payload of a frame is written to. ConnectionError if the
        other end is closed, GroupProtocolError if what comes in is no frame.
        """
        while True:
            yield from self._parse(place)
            if not self._read_more():
                return

    def _read_more(self) -> bool:
        """Read once, into the payload under way or for headers; False if nothing is there."""
        try:
            if self._payload is not None:
                count = self._stream.recv_into(self._payload[self._filled :])
                self._filled += count
            elif self._can_pass:
                data, descriptors, _, _ = socket.recv_fds(self._stream, _READ_BYTES, 4)
                self.descriptors.extend(descriptors)
                self._pending += data
                count = len(data)
            else:
                data = self._stream.recv(_READ_BYTES)
                self._pending += data
                count = len(data)
        except BlockingIOError:
            return False
        if not count:
            raise ConnectionResetError("closed at the other end")
        return True

    def _parse(self, place: Callable[[int, Frame], memoryview]) -> Iterator[tuple[Frame, Any]]:
        """Frames in what was read, as far as they are complete."""
        while True:
            if self._payload is not None:
                self._take_pending()
                if self._filled < len(self._payload):
                    return
                frame, payload = self._frame, self._payload
                self._frame = self._payload = None
                assert frame is not None
                yield frame, payload
            if len(self._pending) < HEADER_BYTES:
                return
            frame = Frame.unpacked(memoryview(self._pending)[:HEADER_BYTES])
            del self._pending[:HEADER_BYTES]
            if frame.payload_bytes:
                self._frame, self._payload, self._filled = frame, place(self.peer, frame), 0
            else:
                yield frame, None

    def _take_pending(self) -> None:
        """Move bytes that came with headers to the payload they belong to."""
        assert self._payload is not None
        count = min(len(self._pending), len(self._payload) - self._filled)
        if count:
            self._payload[self._filled : self._filled + count] = self._pending[:count]
            del self._pending[:count]
            self._filled += count

    def close_copy(self) -> None:
        """Close this process's copy of the socket alone, after a fork, and call nothing."""
        self.is_closed = True
        self._stream.close()

    def close(self) -> None:
        """Close the socket and descriptors that were not taken; what was queued is not sent."""
        self.is_closed = True
        self._stream.close()
        self._give_up(ConnectionResetError(f"Rank {self.peer} must be connected, but is gone"))
        while self.descriptors:
            os.close(self.descriptors.popleft())


def host_identity() -> str:
    """A text that is equal for two processes exactly if they can share local sockets."""
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/net", "/proc/self/ns/ipc"):
        try:
            parts.append(os.readlink(path) if path.startswith("/proc/self") else _text_of(path))
        except OSError:
            parts.append("")
    return "|".join(parts)


def _text_of(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


def connect_all(
    store: PeerStore, rank: int, num_ranks: int, *, timeout: timedelta, local: bool
) -> dict[int, Connection]:
    """Connect a rank to every other one of its group; all of them call this with its store.

    `local` chooses Unix sockets, which pass descriptors, in place of TCP, the same on every rank.
    TimeoutError, with its name, if a rank does not come. num_ranks - 1 sockets per rank and group.
    """
    deadline = monotonic() + timeout.total_seconds()
    token = uuid.uuid4().hex
    listener, address = _listen(num_ranks, local=local)
    with listener:
        store.set(f"address/{rank}", f"{address}|{token}")
        connections = {}
        for peer in range(rank):
            connections[peer] = _connect(store, rank, peer, deadline, local=local)
        for stream, peer in _accepted(listener, token, range(rank + 1, num_ranks), deadline):
            connections[peer] = Connection(stream, peer)
    return connections


def _listen(num_ranks: int, *, local: bool) -> tuple[socket.socket, str]:
    """A listening socket and the address that others connect to."""
    if local:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = f"multitree-{uuid.uuid4().hex}"
        listener.bind(f"\0{name}")  # an abstract name: no file is left behind
        listener.listen(num_ranks)
        return listener, name
    listener = socket.create_server(("", 0), backlog=num_ranks)
    return listener, f"{_own_address()}:{listener.getsockname()[1]}"


def _own_address() -> str:
    """The address by which other hosts reach this one."""
    given = os.environ.get("MULTITREE_HOST_ADDRESS")
    if given:
        return given
    master = os.environ.get("MASTER_ADDR")
    if master:
        # Connecting a datagram socket sends nothing, and tells the address of the route.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((master, 9))
                return str(probe.getsockname()[0])
            except OSError:
                pass
    return socket.gethostbyname(socket.gethostname())


def _connect(store: PeerStore, rank: int, peer: int, deadline: float, *, local: bool) -> Connection:
    """Connect to a lower rank, which listens."""
    left = max(deadline - monotonic(), 0.001)
    key = f"address/{peer}"
    try:
        store.wait([key], timedelta(seconds=left))
        address, token = store.get(key).decode().rsplit("|", 1)
    except RuntimeError as error:
        raise TimeoutError(f"Rank {peer} must come to the group, but did not: {error}") from error
    if local:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.settimeout(left)
        stream.connect(f"\0{address}")
    else:
        host, port = address.rsplit(":", 1)
        stream = socket.create_connection((host, int(port)), timeout=left)
    stream.sendall(f"{token}{rank:8d}".encode())
    return Connection(stream, peer)


def _accepted(
    listener: socket.socket, token: str, awaited: range, deadline: float
) -> Iterator[tuple[socket.socket, int]]:
    """Connections of higher ranks, each once; others are refused."""
    missing = set(awaited)
    while missing:
        listener.settimeout(max(deadline - monotonic(), 0.001))
        try:
            stream, _ = listener.accept()
        except TimeoutError as error:
            ranks = ", ".join(map(str, sorted(missing)))
            raise TimeoutError(f"Ranks {ranks} must come to the group, but did not") from error
        stream.settimeout(max(deadline - monotonic(), 0.001))
        greeting = _exactly(stream, _TOKEN_BYTES + 8)
        peer = int(greeting[_TOKEN_BYTES:] or -1)
        # Any process can connect to a port; only ranks of the group read the token in the store.
        if greeting[:_TOKEN_BYTES] != token.encode() or peer not in missing:
            stream.close()
            continue
        missing.remove(peer)
        yield stream, peer


def _exactly(stream: socket.socket, count: int) -> bytes:
    """Bytes of a greeting; fewer where the other end stops."""
    received = b""
    while len(received) < count:
        try:
            part = stream.recv(count - len(received))
        except OSError:
            break
        if not part:
            break
        received += part
    return received
