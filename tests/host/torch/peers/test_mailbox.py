"""Messages match by source, channel and tag, in the order of sending."""

import random
import socket

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

from multitree.host.torch.peers.connections import Connection  # noqa: E402
from multitree.host.torch.peers.frames import Fingerprint, Frame, FrameKind, GroupProtocolError  # noqa: E402
from multitree.host.torch.peers.mailbox import (  # noqa: E402
    COLLECTIVES,
    EAGER_BYTES,
    USERS,
    Mailbox,
    Receive,
)

SEED = 5


class Pair:
    """Two mailboxes, ranks 0 and 1, joined by a socket; frames move when asked."""

    def __init__(self):
        ends = socket.socketpair()
        self.connections = [Connection(end, 1 - rank) for rank, end in enumerate(ends)]
        self.boxes = [Mailbox(rank, {1 - rank: self.connections[rank]}) for rank in range(2)]

    def move(self):
        """Move frames until none is left."""
        for _ in range(200):
            for box, connection in zip(self.boxes, self.connections, strict=True):
                connection.flush()
                for frame, payload in connection.receive(box.place):
                    box.handle(connection.peer, frame, payload)

    def exchange(self, tag, data, length, posted_first):
        """Rank 0 sends to rank 1, whose receive is posted before or after the frames move."""
        if posted_first:
            posted = self.post(1, 0, tag, length)
        sent = self.send(0, tag, data)
        self.move()
        if not posted_first:
            posted = self.post(1, 0, tag, length)
            self.move()
        return sent, *posted

    def post(self, rank, source, tag, length):
        """Post a receive; its memory, and the list its end is put in."""
        memory, ended = bytearray(length), []
        receive = Receive(source, USERS, tag, memoryview(memory), ended.append)
        self.boxes[rank].receive(receive)
        return memory, ended, receive

    def send(self, rank, tag, data, channel=USERS):
        ended = []
        self.boxes[rank].send(1 - rank, channel, tag, memoryview(data), ended.append)
        return ended

    def close(self):
        for connection in self.connections:
            connection.close()


@pytest.fixture
def pair():
    made = Pair()
    yield made
    made.close()


@pytest.mark.parametrize("length", [0, 1, EAGER_BYTES, EAGER_BYTES + 1, 1_000_003])
@pytest.mark.parametrize("is_posted_first", [True, False])
def test_a_message_arrives_whole_whether_its_receive_comes_before_or_after(
    pair, length, is_posted_first
):
    data = random.Random(SEED).randbytes(length)
    sent, memory, ended, receive = pair.exchange(7, data, length, is_posted_first)
    assert memory == data
    assert ended == [None] and sent == [None]
    assert receive.source == 0


def test_messages_of_a_tag_match_in_the_order_of_sending_and_tags_do_not_mix(pair):
    drawn = random.Random(SEED)
    tags = [drawn.randrange(3) for _ in range(60)]
    lengths = [drawn.choice([4, EAGER_BYTES + 4]) for _ in tags]
    data = [index.to_bytes(4, "little") * (n // 4) for index, n in enumerate(lengths)]
    for tag, message in zip(tags, data, strict=True):
        pair.send(0, tag, message)
    order = sorted(range(60), key=lambda index: (tags[index], index))
    posts = [(index, pair.post(1, None, tags[index], lengths[index])) for index in order]
    pair.move()
    for index, (memory, ended, _) in posts:
        assert memory == data[index], f"seed {SEED}"
        assert ended == [None]


def test_a_receive_from_any_rank_says_whom_the_message_came_from(pair):
    _, ended, receive = pair.post(1, None, 0, 3)
    pair.send(0, 0, b"abc")
    pair.move()
    assert ended == [None] and receive.source == 0


def test_a_message_to_oneself_is_copied(pair):
    data, ended = bytearray(b"abc"), []
    pair.boxes[0].send(0, USERS, 1, memoryview(data), ended.append)
    data[:] = b"xyz"
    memory, received, _ = pair.post(0, 0, 1, 3)
    assert memory == b"abc" and ended == [None] and received == [None]


@pytest.mark.parametrize("length", [8, EAGER_BYTES + 8])
@pytest.mark.parametrize("is_posted_first", [True, False])
def test_a_message_of_another_length_than_its_receive_is_an_error_and_the_next_one_arrives(
    pair, length, is_posted_first
):
    sent, memory, ended, _ = pair.exchange(0, bytes(length), 4, is_posted_first)
    assert f"must have 4 bytes, as the receive has, not {length}" in str(ended[0])
    if length > EAGER_BYTES:
        assert "must have the length of its receive" in str(sent[0])
    assert memory == bytes(4)
    _, memory, ended, _ = pair.exchange(0, b"next", 4, True)
    assert memory == b"next" and ended == [None]


def test_no_trace_is_left_of_messages_that_have_ended(pair):
    for tag in range(100):
        for length in (4, EAGER_BYTES + 4):
            pair.exchange(tag, bytes(length), length, tag % 2)
        pair.boxes[1].withdraw(pair.post(1, 0, tag, 4)[2])
        _, ended, _ = pair.post(1, 0, tag, 4)
        pair.boxes[1].fail(ConnectionResetError("gone"), 0)
        assert len(ended) == 1
    for box in pair.boxes:
        assert not [
            name
            for name, kept in vars(box).items()
            if isinstance(kept, dict) and kept and name != "_connections"
        ]


def test_what_waits_for_a_rank_fails_with_it(pair):
    _, received, _ = pair.post(0, 1, 0, 4)
    sent = pair.send(0, 0, bytes(EAGER_BYTES + 1))
    error = ConnectionResetError("gone")
    pair.boxes[0].fail(error, 1)
    assert received == [error] and sent == [error]


def test_a_rank_that_leaves_ends_long_messages_of_users_alone(pair):
    sent = [pair.send(0, 0, bytes(EAGER_BYTES + 1), channel) for channel in (USERS, COLLECTIVES)]
    error = ConnectionResetError("gone")
    pair.boxes[0].leave(1, error)
    assert sent == [[error], []]
    pair.boxes[0].fail(error)
    assert sent == [[error], [error]]


def test_a_withdrawn_receive_takes_no_message(pair):
    withdrawn, ended, receive = pair.post(1, 0, 0, 4)
    pair.boxes[1].withdraw(receive)
    memory, _, _ = pair.post(1, 0, 0, 4)
    pair.send(0, 0, b"data")
    pair.move()
    assert (withdrawn, ended, memory) == (bytes(4), [], b"data")


def test_a_frame_is_what_was_packed():
    fingerprint = Fingerprint("reduce", "uint16", "bitwise_xor", 2, 2**40, b"12345678", "cuda")
    frame = Frame(FrameKind.READY, 1, 77, 2**40, 2**50, 9, fingerprint.packed())
    assert Frame.unpacked(frame.packed()) == frame
    assert Fingerprint.unpacked(frame.fingerprint) == fingerprint


def test_what_is_no_frame_is_refused():
    packed = bytearray(Frame(FrameKind.ASK).packed())
    packed[0] ^= 1
    with pytest.raises(GroupProtocolError, match="must begin with b'MT'"):
        Frame.unpacked(packed)


def test_what_cannot_be_sent_any_more_ends_with_an_error(pair):
    blocked = pair.send(0, 0, bytes(EAGER_BYTES))
    while blocked == [None]:  # until the socket takes no more
        blocked = pair.send(0, 0, bytes(EAGER_BYTES))
    assert blocked == []
    pair.connections[0].close()
    assert isinstance(blocked[0], ConnectionResetError)
    after = pair.send(0, 0, b"more")
    assert "must be connected, but is gone" in str(after[0])


def test_a_message_to_a_rank_that_is_gone_ends_with_an_error(pair):
    pair.connections[1].close()
    sent = pair.send(0, 0, b"data")
    assert isinstance(sent[0], OSError)
