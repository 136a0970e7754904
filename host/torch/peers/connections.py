"""A connection to another rank: non-blocking frames, descriptors, its end."""

import os
import socket
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from multitree.host.torch.peers.frames import HEADER_BYTES, Frame

__all__ = ["Connection"]

_READ_BYTES = 1 << 16
_SOCKET_BUFFER_BYTES = 1 << 22

Payload = bytes | memoryview
WhenSent = Callable[[Exception | None], None]


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

    def keep_copy(self, when_sent: WhenSent) -> None:
        """Send what is left of a payload from a copy, and call nothing at its end."""
        for place, (view, descriptor, called) in enumerate(self._outgoing):
            if called == when_sent:
                self._outgoing[place] = memoryview(bytes(view)), descriptor, None

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
