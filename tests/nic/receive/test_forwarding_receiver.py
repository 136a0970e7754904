"""Tests of the receiver that forwards: sums in order, wherever the one before is."""

from dataclasses import replace

import pytest

from multitree.nic.driver.faults import Awaited
from tests.hw.streams import PATTERNS, seeded
from tests.nic.forward.messages import Messages
from tests.nic.forward.ports import FORWARDING
from tests.nic.receive.forwarding_receivers import (
    DEEP,
    LOADED,
    LONG,
    add_sibling,
    assert_received,
    framed,
    initial,
    simulate,
)
from tests.nic.receive.receivers import (
    EMPTY,
    FIRST,
    GATHER,
    PORT,
    REDUCE,
    SECOND,
    message,
    packets,
)

RING, ROOM = FORWARDING.forward_flits, FORWARDING.memory_queue_flits
STALE = 8
"""Flits of the ring that are not read any more: positions are some cycles old."""
WAVES = replace(FORWARDING, wave_width=3)

KINDS = [(0, REDUCE), (1, REDUCE), (2, GATHER), (3, REDUCE), (3, GATHER), (4, REDUCE), (5, GATHER)]


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("stall_flits", PATTERNS)
@pytest.mark.parametrize("writes", PATTERNS)
@pytest.mark.parametrize("frame", [message, packets], ids=["messages", "packets"])
def test_each_contribution_is_added_to_the_sum_before_it_and_each_result_replaces_it(
    stall_flits, writes, frame
):
    seed = f"{stall_flits} {writes}"
    rng, messages = seeded(seed), Messages(lead=2)
    kinds = KINDS[:5] if frame is packets else KINDS[:]
    rng.shuffle(kinds)
    before = initial(seed)
    for number, port in ((1, None), (3, None), (4, None), (2, 0), (5, 2)):
        if number in dict(kinds):
            add_sibling(messages, before, rng, number, port=port)
    # The result of an empty flow follows its last child's message, which comes in here.
    kinds.sort(key=lambda kind: kind == (3, GATHER))
    sent = [(number, op, 0, framed(number, op, rng, frame)) for number, op in kinds]
    stalls = (stall_flits, "seldom", rng.choice(PATTERNS), rng.choice(PATTERNS), "often")
    script = {0: {"packets": int(frame is packets)}}
    given = {"stalls": stalls, "writes": writes, "acks": rng.choice(PATTERNS), "script": script}
    seen = simulate(sent, messages, seed=seed, **given)
    assert_received(seen, sent, messages)


@pytest.mark.parametrize("place", ["ring", "memory", "late"])
def test_a_sum_is_that_of_the_sibling_before_and_the_contribution_wherever_it_is(place):
    """In order: (local + first) + second, with the rounding of each."""
    rng, messages, before = seeded(place), Messages(lead=1), initial(place)
    add_sibling(messages, before, rng, 4)
    begin, size = (300 if place == "late" else 0), LONG["size"]
    messages.since = begin

    def at(cycle, port):
        if port != LONG["children"][1]:
            return 0, 0
        if place == "memory":
            return size, min(cycle, size)
        # Memory acknowledges only when the sum made of it is long written.
        return min(max(cycle - max(begin, 60), 0), size), min(max(cycle - 420, 0), size)

    sent = [(4, REDUCE, 0, framed(4, REDUCE, rng))]
    seen = simulate(sent, messages, seed=place, at=at)
    assert_received(seen, sent, messages)
    # What is kept no more is read, and nothing else is.
    kept = RING - STALE if place == "memory" else size
    assert len(seen.reads) == size - kept
    own = next(cycle for cycle, now in enumerate(seen.shown) if now[PORT][0] > 0)
    assert (own > 300) == (place == "late") and own < 320
    if place != "memory":
        # Forwarded itself before memory has what it is added to, and written behind that.
        assert seen.shown[419][PORT] == (size - (0 if size <= ROOM else size - ROOM), 0)
        assert seen.written[0][0] > 420


def test_a_result_is_forwarded_at_once_and_written_when_the_last_childs_sum_is_in_memory():
    rng, messages, before, hold = seeded(0), Messages(), initial(0), 200
    add_sibling(messages, before, rng, 5, port=DEEP["children"][-1])
    size = DEEP["size"]

    def at(cycle, port):
        return (size, max(0, min(cycle - hold, size))) if port == 2 else (0, 0)

    sent = [(5, GATHER, 0, framed(5, GATHER, rng))]
    seen = simulate(sent, messages, at=at)
    assert_received(seen, sent, messages)
    assert not seen.reads
    assert seen.shown[hold][PORT] == (ROOM, 0)
    assert seen.written[0][0] > hold


def test_a_child_s_result_that_replaces_nothing_of_another_port_is_written_at_once():
    sent = [(0, REDUCE, 0, framed(0, REDUCE, seeded(0)))]
    seen = simulate(sent, slow=4)
    assert_received(seen, sent)
    assert len(seen.reads) == FIRST["size"]


def test_one_flit_per_cycle_across_messages_too():
    rng, messages, before = seeded(0), Messages(), initial(0)
    for number in (1, 4):
        add_sibling(messages, before, rng, number)
    sent = [(number, REDUCE, 0, framed(number, REDUCE, rng)) for number in (0, 1, 4)]
    most = len(messages.models[2].flits)
    seen = simulate(sent, messages, at=lambda cycle, port: (most * (port == 2),) * 2, slow=4)
    assert_received(seen, sent, messages)
    # Heads are looked up while flits before them pass.
    assert seen.times == list(range(seen.times[0], seen.times[0] + len(seen.times)))


def test_a_message_is_reported_to_begin_five_cycles_behind_its_head():
    sent = [(0, REDUCE, 0, framed(0, REDUCE, seeded(0)))]
    seen = simulate(sent, slow=4)
    (head, *_), ((cycle, *_),) = seen.times, seen.reports
    assert cycle == head + LOADED + 5


def test_an_empty_message_waits_for_what_came_before_and_begins_when_its_sibling_did():
    rng, messages, late = seeded(0), Messages(since=200), 200
    add_sibling(messages, initial(0), rng, 3)
    sent = [(0, REDUCE, 0, framed(0, REDUCE, rng)), (3, REDUCE, 0, framed(3, REDUCE, rng))]
    seen = simulate(sent, messages, at=lambda *_: (0, 0))
    assert_received(seen, sent, messages)
    assert late < seen.reports[-1][0] < late + 10 and late < seen.arrivals[-1][0]
    assert (Awaited.SIBLING, 3, EMPTY["children"][0], REDUCE) in seen.waits
    slow = simulate(sent, messages, at=lambda *_: (0, 0), slow=150)
    assert_received(slow, sent, messages)
    assert slow.reports[-1][0] > slow.acked[-1][0]


def test_the_result_of_an_empty_flow_waits_for_the_last_child():
    sent = [(3, op, 0, framed(3, op, seeded(0))) for op in (REDUCE, GATHER)]
    messages = Messages(since=200)
    add_sibling(messages, initial(0), seeded(0), 3)
    seen = simulate(sent, messages, at=lambda *_: (0, 0))
    assert_received(seen, sent, messages)
    assert seen.arrivals[0][0] < seen.arrivals[1][0]
    only = simulate(sent[1:], messages, at=lambda *_: (0, 0), cycles=300)
    assert not only.arrivals and not only.reports
    assert only.waits[-1] == (Awaited.SIBLING, 3, PORT, REDUCE)


@pytest.mark.slow
def test_it_says_what_it_waits_for():
    rng = seeded(0)
    whole = framed(0, REDUCE, rng)
    cut = simulate([(0, REDUCE, 0, whole[:5])], cycles=200)
    assert cut.waits[-1] == (Awaited.FLIT, 0, PORT, REDUCE)
    between = [(0, REDUCE, 0, packets(0, REDUCE, rng)[: 1 + FORWARDING.submessage_flits])]
    cut = simulate(between, cycles=200, script={0: {"packets": 1}})
    assert cut.waits[-1] == (Awaited.FLIT, 0, PORT, REDUCE)
    assert simulate([(0, REDUCE, 0, whole)], cycles=200).waits[-1][0] == Awaited.NOTHING
    sibling = (Awaited.SIBLING, 1, SECOND["children"][0], REDUCE)
    behind = [(1, REDUCE, 0, framed(1, REDUCE, rng))]
    assert simulate(behind, cycles=200).waits[-1] == sibling
    # The sibling has begun, and stopped in the middle.
    messages = Messages()
    add_sibling(messages, initial(0), rng, 1)
    stuck = simulate(behind, messages, at=lambda cycle, port: (4 * (port == 2), 0), cycles=200)
    assert stuck.waits[-1] == sibling and stuck.shown[-1][PORT] == (4, 0)
    result = simulate([(5, GATHER, 0, framed(5, GATHER, rng))], cycles=200)
    assert result.waits[-1] == (Awaited.SIBLING, 5, DEEP["children"][-1], REDUCE)
    assert simulate([], cycles=60).waits[-1][0] == Awaited.NOTHING


def test_without_cut_through_a_contribution_is_added_flit_by_flit_all_the_same():
    rng, messages, before = seeded(0), Messages(), initial(0)
    add_sibling(messages, before, rng, 1)
    size = SECOND["size"]

    def at(cycle, port):
        # What it is added to is never acknowledged while it is summed.
        return (size, 0 if cycle < 400 else size) if port == 2 else (0, 0)

    sent = [(1, REDUCE, 0, framed(1, REDUCE, rng))]
    seen = simulate(sent, messages, at=at, script={0: {"cut_through": 0}})
    assert_received(seen, sent, messages)
    assert not seen.reads and seen.written[0][0] > 400


def test_the_positions_of_the_next_collective_begin_at_0():
    rng = seeded(0)
    once, again = framed(0, REDUCE, rng), framed(0, REDUCE, rng, sequence=0)
    script = {150: {"running": 0}, 160: {"running": 1, "sequence": 0}}
    seen = simulate([(0, REDUCE, 0, once), (0, REDUCE, 0, again)], script=script)
    size = FIRST["size"]
    assert [position for *_, position, _ in seen.reports] == [0, 0]
    assert seen.shown[LOADED + 149][PORT] == (size, size)
    assert seen.shown[LOADED + 159][PORT] == (0, 0)
    assert seen.shown[-1][PORT] == (size, size)
    assert not seen.faults


@pytest.mark.slow
@pytest.mark.parametrize("writes", PATTERNS)
def test_every_wave_is_added_to_its_own_sibling_and_reported_with_its_number(writes):
    stride, seed = 310, writes
    rng, messages, before = seeded(seed), Messages(WAVES, lead=1), initial(seed)
    sent = []
    for wave in range(3):
        kinds = [(0, REDUCE), (1, REDUCE), (2, GATHER), (3, REDUCE)]
        rng.shuffle(kinds)
        sent += [(number, op, wave, framed(number, op, rng, wave=wave)) for number, op in kinds]
        for number, port in ((1, None), (2, 0), (3, None)):
            given = {"port": port, "wave": wave, "stride": stride}
            add_sibling(messages, before, rng, number, **given)
    given = {"stalls": (writes, "seldom", "seldom", "often", "often"), "stride": stride}
    seen = simulate(sent, messages, seed=seed, writes=writes, script={0: {"last_wave": 2}}, **given)
    assert_received(seen, sent, messages, stride=stride)


def test_a_contribution_waits_for_the_same_wave_of_the_sibling_before_it():
    rng, messages, before = seeded(0), Messages(WAVES), initial(0)
    add_sibling(messages, before, rng, 1, wave=0, stride=310)
    sent = [(1, REDUCE, wave, framed(1, REDUCE, rng, wave=wave)) for wave in range(2)]
    size = SECOND["size"]
    given = {"at": lambda cycle, port: (size * (port == 2),) * 2, "stride": 310, "cycles": 250}
    seen = simulate(sent, messages, script={0: {"last_wave": 1}}, **given)
    assert seen.shown[-1][PORT] == (size, size)
    assert seen.waits[-1] == (Awaited.SIBLING, 1, SECOND["children"][0], REDUCE, 1)


def test_a_message_that_stops_is_named_with_its_wave():
    rng = seeded(0)
    first, second = (framed(0, REDUCE, rng, wave=wave) for wave in range(2))
    sent = [(0, REDUCE, 0, first), (0, REDUCE, 1, second[:5])]
    given = {"script": {0: {"last_wave": 1}}, "stride": 310, "cycles": 250}
    seen = simulate(sent, Messages(WAVES), **given)
    assert seen.waits[-1] == (Awaited.FLIT, 0, PORT, REDUCE, 1)


def test_messages_whose_jobs_find_no_room_wait_until_those_before_them_go_on():
    stride, late = 30, 250
    more = replace(WAVES, wave_width=4)
    rng, messages, before = seeded(0), Messages(more, since=late), initial(0)
    for wave in range(16):
        add_sibling(messages, before, rng, 2, port=0, wave=wave, stride=stride)
    sent = [(2, GATHER, wave, framed(2, GATHER, rng, wave=wave)) for wave in range(16)]
    most = len(messages.models[0].flits)
    given = {"at": lambda cycle, port: (most * (port == 0),) * 2, "stride": stride}
    given["counts"] = lambda cycle, *asked: messages.counts(cycle, *asked) * (cycle >= late)
    seen = simulate(sent, messages, script={0: {"last_wave": 15}}, **given)
    assert_received(seen, sent, messages, stride=stride)
    # Of 16 messages of 4 flits the last ones are not taken: neither their jobs nor they find room.
    taken = sum(cycle + LOADED < late for cycle in seen.times)
    assert 9 <= taken // 5 < 13
