"""Entries are kept for a while, and cost no memory after that."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

from multitree.host.torch.peers.flight import KEPT_ENTRIES, Flight, Message  # noqa: E402
from multitree.host.torch.peers.frames import Fingerprint  # noqa: E402
from multitree.host.torch.peers.handles import Handle  # noqa: E402
from multitree.host.torch.peers.progress import Waiting  # noqa: E402

SUM = Fingerprint("all_reduce", "float32", "sum", -1, 4, bytes(8))


def test_the_last_collectives_are_kept_and_messages_until_they_end():
    flight = Flight([0, 1])
    oldest = flight.add(Handle([]), SUM, 1.0, 1)
    for sequence in range(2, KEPT_ENTRIES + 12):
        flight.add(Handle([]), SUM, 1.0, sequence).end(None)
    message = flight.add(Handle([]), Message("recv", None, 3, 8))
    assert [entry.sequence for entry in flight.entries()][:2] == [1, 12]
    assert len(flight.entries()) == KEPT_ENTRIES + 2
    message.end(None)
    oldest.end(None)
    oldest.end(None)
    assert message not in flight.entries() and not flight.under_way
    assert len(flight.entries()) == KEPT_ENTRIES


def test_what_is_under_way_is_found_with_the_handle_that_ends_it():
    flight, handles = Flight([0, 1]), [Handle([]), Handle([])]
    entries = [flight.add(handle, SUM, 1.0, 1 + n) for n, handle in enumerate(handles)]
    assert flight.under_way == dict(zip(entries, handles, strict=True))
    handles[0].finish(RuntimeError("no"))
    assert flight.under_way == {entries[1]: handles[1]}
    assert entries[0].error == "RuntimeError: no"


def test_since_when_it_waits_is_since_it_waits_for_something_else():
    entry = Flight([0, 1]).add(Handle([]), SUM, 1.0, 1)
    entry.waits(Waiting(1, 2, 3))
    since = entry.awaited_s
    entry.waits(Waiting(1, 2, 3))
    assert entry.awaited_s == since > 0
    entry.waits(Waiting(1, 2, 4))
    assert entry.awaited_s > since


@pytest.mark.parametrize("error", [None, RuntimeError("no")])
def test_what_a_collective_waited_for_stays_known_if_it_failed(error):
    entry = Flight([0, 1]).add(Handle([]), SUM, 1.0, 1)
    entry.waits(Waiting(1, 2, 3))
    entry.end(error)
    assert (entry.awaited, entry.error) == (
        (None, "") if error is None else (Waiting(1, 2, 3), "RuntimeError: no")
    )
