"""Tests of the receiver: what is expected gets into memory, in its turn."""

import pytest

from multitree.nic.driver.faults import Awaited
from tests.hw.streams import PATTERNS, seeded
from tests.nic.receive.receivers import (
    BASE,
    FLOWS,
    GATHER,
    NUMBERS,
    REDUCE,
    SECOND,
    SEQUENCE,
    S,
    assert_received,
    message,
    packets,
    simulate,
)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("stall_flits", PATTERNS)
@pytest.mark.parametrize("stall_memory", PATTERNS)
@pytest.mark.parametrize("framed", [message, packets], ids=["messages", "packets"])
def test_expected_messages_are_added_or_replace_and_are_reported(stall_flits, stall_memory, framed):
    seed = f"{stall_flits} {stall_memory}"
    rng = seeded(seed)
    kinds = [(0, REDUCE), (1, REDUCE), (2, GATHER), (3, REDUCE), (3, GATHER)]
    rng.shuffle(kinds)
    messages = [(flow, op, 0, framed(flow, op, rng)) for flow, op in kinds]
    script = {0: {"packets": int(framed is packets)}}
    stalls = (stall_flits, "seldom", stall_memory, stall_memory, "often")
    flits = [flit for *_, flits in messages for flit in flits]
    assert_received(simulate(flits, seed=seed, stalls=stalls, script=script), messages)


def test_one_flit_per_cycle_and_three_more_cycles_per_head():
    messages = [(flow, op, 0, message(flow, op)) for flow, op in ((0, 0), (1, 0), (2, GATHER))]
    seen = simulate([f for *_, flits in messages for f in flits], slow=4, cycles=150)
    assert_received(seen, messages)
    # Flow 1 is second in order: its payload waits for the tracker's first answer.
    times = [cycle - seen.times[0] for cycle in seen.times]
    assert times[:11] == [0, *range(4, 14)]
    assert times[12:23] == list(range(times[12], times[12] + 11))
    assert times[-5:] == [times[22] + 1, *range(times[22] + 5, times[22] + 9)]


@pytest.mark.parametrize("interval", [5, 40])
def test_a_contribution_waits_for_the_sibling_before_it_submessage_by_submessage(interval):
    asked = set()

    def count(cycle, port, op, flow):
        asked.add((port, op, flow))
        return max(0, cycle // interval)

    seen = simulate(message(1, REDUCE), count=count)
    assert asked == {(2, REDUCE, 1)}
    assert len(seen.reads) == SECOND["size"]
    for cycle, address in seen.reads:
        number = (address - SECOND["base"]) // S + 1
        assert cycle // interval >= number, "read before the sibling's sum was in memory"
    assert_received(seen, [(1, REDUCE, 0, message(1, REDUCE))])


def test_an_empty_message_waits_for_its_sibling_too_and_for_what_came_before():
    late = 100
    messages = [(flow, REDUCE, 0, message(flow, REDUCE)) for flow in (0, 3)]
    flits = [flit for *_, part in messages for flit in part]
    seen = simulate(flits, count=lambda cycle, *_: int(cycle >= late))
    assert_received(seen, messages)
    assert seen.arrivals[-1][0] > late
    assert (Awaited.SIBLING, 3, 0, REDUCE) in seen.waits
    slow = simulate(flits, slow=60)
    assert_received(slow, messages)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [1, 2, 127, 128, 129, 255, 256, 300, NUMBERS // 2 - 1])
@pytest.mark.parametrize("flow", [0, 9])
def test_a_message_of_a_later_collective_waits_whatever_its_flow(ahead, flow):
    """The later collective's table may have more flows than this one's."""
    later = (SEQUENCE + ahead) % NUMBERS
    flits = message(flow % 4, REDUCE, flow=flow, sequence=later)
    seen = simulate(flits, cycles=200)
    assert not seen.faults and not seen.times and not seen.reads
    if flow == 0:
        seen = simulate(flits, script={150: {"sequence": later}})
        assert_received(seen, [(0, REDUCE, 0, flits)])
        assert seen.reads[0][0] > 150


def test_nothing_is_taken_while_nothing_runs():
    seen = simulate(message(0, REDUCE), script={0: {"running": 0}, 150: {"running": 1}})
    assert_received(seen, [(0, REDUCE, 0, message(0, REDUCE))])
    assert seen.times[0] >= 150


def test_where_the_run_asks_for_the_greater_one_that_stays():
    flits = message(0, REDUCE, seeded("greater"))
    seen = simulate(flits, script={0: {"maximum": 1}})
    first = BASE + FLOWS[0]["base"]

    def lanes(flit):
        return [(flit >> low & 0xFFFFFFFF ^ 1 << 31) - (1 << 31) for low in (0, 32)]

    for place, flit in enumerate(flits[1:], first):
        pairs = zip(lanes(seen.before[place]), lanes(flit["payload"]), strict=True)
        assert lanes(seen.after[place]) == [max(pair) for pair in pairs]
