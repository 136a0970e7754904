"""The rank that a collective fails for is the one that all others wait for."""

import time

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

from multitree.host.torch.peers import failures  # noqa: E402
from multitree.host.torch.peers.failures import Status, Watch, find_culprit  # noqa: E402
from multitree.host.torch.peers.frames import Frame, FrameKind  # noqa: E402
from multitree.host.torch.peers.handles import Handle  # noqa: E402
from multitree.host.torch.peers.mailbox import exchange_messages  # noqa: E402
from multitree.host.torch.peers.progress import Waiting  # noqa: E402
from multitree.torch import CollectiveError, FailureRecord  # noqa: E402

SEQUENCE = 7


def culprit(statuses, *, dead=()):
    """What rank 0, which waits for rank 1, finds out."""
    asked = []
    known = {"is_open": lambda peer: peer not in dead, "ask": asked.append, "answer": statuses.get}
    steps = find_culprit(Waiting(1, 4, 2), SEQUENCE, own_rank=0, **known)
    while True:
        try:
            next(steps)
            time.sleep(0.005)
        except StopIteration as end:
            return (*end.value, asked)


def waits_for(peer, flow=5, step=3):
    return Status(SEQUENCE, "all_reduce", peer, flow, step, 1.0)


IDLE = Status(SEQUENCE, "", -1, -1, -1, 30.0)


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(failures, "ANSWER_S", 0.05)


def test_a_rank_whose_connection_has_ended_is_dead_and_not_asked():
    assert culprit({}, dead={1}) == (1, "dead", Waiting(1, 4, 2), "", [])


def test_the_rank_at_the_end_of_the_chain_is_named_with_the_row_that_is_awaited_of_it():
    rank, state, waiting, detail, asked = culprit({1: waits_for(2), 2: waits_for(3), 3: IDLE})
    assert (rank, state, asked) == (3, "late", [1, 2, 3])
    assert (waiting.flow, waiting.step) == (5, 3)
    assert "idle for 30.0 s" in detail


BEHIND = Status(SEQUENCE - 1, "broadcast", 0, 1, 1, 9.0)
NAMED = {
    "dead behind living ones": ({1: waits_for(2)}, {2}, 2, "dead", ""),
    "in an earlier collective": ({1: BEHIND}, (), 1, "late", ""),
    "without an answer": ({1: waits_for(2)}, (), 2, "not responding", "no answer"),
    "in a circle": ({1: waits_for(2), 2: waits_for(1)}, (), 1, "waiting", "[0, 1, 2]"),
    "computing in this collective": ({1: waits_for(-1)}, (), 1, "late", ""),
}


@pytest.mark.parametrize("case", NAMED)
def test_the_rank_that_all_wait_for_is_named_with_its_state(case):
    statuses, dead, rank, state, says = NAMED[case]
    found = culprit(statuses, dead=dead)
    assert found[:2] == (rank, state) and says in found[3]


def test_a_record_is_what_was_packed_and_says_all_it_knows():
    record = FailureRecord(3, "dead", "all_reduce of 4 float32", 9, 5, 2, 1, "dp", "why")
    assert FailureRecord.unpacked(record.packed()) == record
    text = str(CollectiveError(record))
    for said in ("Rank 3 is dead", "collective 9", "'dp'", "flow 5", "step 2", "rank 1", "why"):
        assert said in text
    assert not record.is_slow
    assert FailureRecord(3, "late", "", 0, -1, -1, 0, "").is_slow


def test_a_handle_ends_once_and_its_future_gives_the_result():
    handle = Handle([torch.ones(2)])
    calls = []
    handle.when_done(calls.append)
    future = handle.get_future()
    assert not handle.is_completed() and not future.done()
    handle.finish(source=3)
    handle.finish(ValueError("too late"))
    assert handle.wait() and handle.is_success() and handle.source_rank() == 3
    assert future.wait()[0].tolist() == [1, 1] and handle.get_future() is future
    assert calls == [None]


def test_the_error_of_a_handle_comes_up_in_wait_and_in_its_future():
    handle = Handle([])
    handle.finish(ValueError("wrong"))
    for wait in (handle.wait, handle.get_future().wait):
        with pytest.raises(ValueError, match="wrong"):
            wait()
    assert handle.is_completed() and not handle.is_success()
    assert str(handle.exception()) == "wrong"


def test_results_that_cannot_be_copied_back_are_an_error():
    handle = Handle([], after=lambda: 1 / 0)
    handle.finish()
    with pytest.raises(ZeroDivisionError):
        handle.wait()


class Written:
    """A connection that keeps what is sent."""

    is_closed = False

    def __init__(self):
        self.sent = []

    def send(self, frame, payload):
        self.sent.append((frame.kind, payload))


def test_who_learns_of_a_failure_passes_it_on_once():
    record = FailureRecord(1, "mismatch", "all_reduce (sum)", SEQUENCE, -1, -1, 2, "0", "detail")
    packed, errors = record.packed(), []
    connections = {1: Written(), 2: Written(), 3: Written()}
    watch = Watch(0, [0, 1, 2, 3], "0", connections, None, None, None, errors.append, None)
    for peer in (2, 1):
        assert watch.handle(peer, Frame(FrameKind.FAILED, length=len(packed)), packed)
    assert [each.sent for each in connections.values()] == [[(FrameKind.FAILED, packed)]] * 3
    assert [error.record for error in errors] == [record]


class BrokenWhenSent:
    """A mailbox whose connections break while they are written to."""

    def receive(self, post):
        """Nothing comes in."""

    def send(self, peer, channel, tag, memory, when_done, *, fingerprint):
        when_done(BrokenPipeError(32, "Broken pipe"))


def test_a_connection_that_breaks_while_it_is_written_to_is_awaited_as_the_end_of_its_peer():
    steps = exchange_messages(BrokenWhenSent(), SEQUENCE, b"", {1: torch.ones(1)}, {})
    for _ in range(2):
        waiting = next(steps)
        # What does not move is ended by the end of the peer, with the reason that it gave.
        assert waiting.peer == 1 and not waiting.is_in_flight
