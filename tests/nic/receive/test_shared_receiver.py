"""Tests of receivers on shared links: they take what comes, and sum in order."""

from collections import defaultdict

import numpy as np
import pytest

from multitree.nic.driver.faults import FaultCode
from multitree.nic.receive.header_lookup import HeaderLookup
from multitree.nic.signatures import Verdict
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.receive.shared_receivers import (
    BASE,
    CONFIG,
    GATHER,
    LANES,
    REDUCE,
    SEQUENCE,
    flow_entry,
    lay_out,
    message,
    simulate,
)

FLOWS = [(6, 5, 0), (3, 4, 0), (1, 5, 0), (4, 0, 1)]
"""Size, children, parent."""
EVEN = [(port, vc) for port in range(CONFIG.num_ports) for vc in (0, 2)]


def random_memory(rng, flits):
    return np.array([[rng.uniform(-1, 1) for _ in range(LANES)] for _ in range(flits)], np.float32)


def scattered(rng, flows):
    """Each message on a channel drawn at random, in random order, and what they add up to."""
    entries, end = lay_out(flows)
    memory = random_memory(rng, 1 << CONFIG.address_width)
    wanted, streams, messages = memory.copy(), defaultdict(list), []
    for flow, (size, num_children, parent) in enumerate(flows):
        chunk = slice(BASE + entries[flow]["base"], BASE + entries[flow]["base"] + size)
        for order in range(num_children):
            values = random_memory(rng, size)
            wanted[chunk] += values
            messages.append(message(REDUCE, flow, order, values))
        if parent:
            wanted[chunk] = random_memory(rng, size)
            messages.append(message(GATHER, flow, 0, wanted[chunk]))
    rng.shuffle(messages)
    for flits in messages:
        streams[rng.choice(EVEN)] += flits
    chunks = slice(BASE, BASE + sum(size for size, *_ in flows))
    outside = np.r_[0:BASE, BASE + end : len(memory)]
    return memory, wanted, streams, chunks, outside


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("stall", ["never", "often", "bursts"])
@pytest.mark.parametrize("seed", range(3))
def test_sums_are_those_of_the_canonical_order_bit_for_bit(seed, stall):
    rng = seeded(seed)
    memory, wanted, streams, chunks, outside = scattered(rng, FLOWS)
    before = memory.copy()
    messages = sum(children + parent for _, children, parent in FLOWS)
    seen = simulate(streams, FLOWS, memory, seed=seed, stall=stall, slow=12, until=messages)
    assert not seen.faults
    assert seen.counted == messages
    assert sorted(seen.results) == [(REDUCE, 0), (REDUCE, 1), (REDUCE, 2), (GATHER, 3)]
    assert (memory[chunks].view(np.uint32) == wanted[chunks].view(np.uint32)).all()
    assert (memory[outside].view(np.uint32) == before[outside].view(np.uint32)).all()


@pytest.mark.slow
def test_a_channel_that_stops_in_the_middle_of_a_message_does_not_stop_another():
    rng = seeded(0)
    memory = random_memory(rng, 1 << CONFIG.address_width)
    stuck = message(REDUCE, 0, 0, random_memory(rng, 6))[:3]
    passing = message(GATHER, 3, 0, random_memory(rng, 4))
    seen = simulate({(0, 0): stuck, (0, 2): passing}, FLOWS, memory)
    assert seen.results == [(GATHER, 3)]


def test_what_is_early_waits_in_its_own_channels():
    rng = seeded(1)
    memory = random_memory(rng, 1 << CONFIG.address_width)
    early = message(REDUCE, 0, 0, random_memory(rng, 6), sequence=SEQUENCE + 1)
    now = message(GATHER, 3, 0, random_memory(rng, 4))
    seen = simulate({(0, 1): early, (0, 0): now}, FLOWS, memory)
    assert (seen.results, seen.taken, seen.faults) == ([(GATHER, 3)], len(now), [])


def test_messages_without_payload_are_in_when_they_come():
    rng = seeded(2)
    memory = random_memory(rng, 1 << CONFIG.address_width)
    before = memory.copy()
    heads = [message(REDUCE, 1, order, []) for order in (2, 0, 3, 1)]
    streams = {(k % 2, 0): heads[k] + heads[k + 2] for k in range(2)}
    seen = simulate(streams, FLOWS, memory, settings={"header_only": 1})
    assert (seen.results, seen.counted) == ([(REDUCE, 1)], 4)
    assert (memory == before).all()


GOOD = np.ones((3, LANES), np.float32)
WRONG = {
    "an order beyond the children": (message(REDUCE, 1, 4, GOOD), FaultCode.UNEXPECTED_MESSAGE),
    "a gather at a root": (message(GATHER, 1, 0, GOOD), FaultCode.UNEXPECTED_MESSAGE),
    "no payload for a chunk": (message(REDUCE, 1, 0, []), FaultCode.UNEXPECTED_MESSAGE),
    "a flow that is not in use": (message(REDUCE, 4, 0, GOOD), FaultCode.UNEXPECTED_MESSAGE),
    "another length": (message(REDUCE, 1, 0, GOOD[:2]), FaultCode.LENGTH),
    "another collective": (
        message(REDUCE, 1, 0, GOOD, sequence=SEQUENCE - 2),
        FaultCode.STALE_SEQUENCE,
    ),
    "no head": (message(REDUCE, 1, 0, GOOD)[1:], FaultCode.FRAMING),
    "twice": (2 * message(REDUCE, 1, 1, GOOD), FaultCode.DUPLICATE_MESSAGE),
    "a tail too late": (
        message(REDUCE, 1, 0, GOOD)[:-1] + message(REDUCE, 1, 1, GOOD),
        FaultCode.FRAMING,
    ),
}


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("what", WRONG)
def test_what_the_flow_memory_does_not_expect_is_a_named_fault(what):
    flits, code = WRONG[what]
    memory = random_memory(seeded(3), 1 << CONFIG.address_width)
    assert simulate({(1, 2): flits}, FLOWS, memory).faults == [code]


@pytest.mark.parametrize("op", [REDUCE, GATHER])
def test_a_message_without_payload_that_comes_twice_is_a_named_fault_and_counted_once(op):
    flow = 1 if op == REDUCE else 3
    memory = random_memory(seeded(4), 1 << CONFIG.address_width)
    before = memory.copy()
    streams = {place: message(op, flow, 0, []) for place in ((0, 0), (1, 2))}
    seen = simulate(streams, FLOWS, memory, settings={"header_only": 3})
    assert (seen.faults, seen.counted) == ([FaultCode.DUPLICATE_MESSAGE], 1)
    assert (memory == before).all()


@pytest.mark.parametrize("single", [0, 1])
@pytest.mark.parametrize("late", [0, 1, 255])
@pytest.mark.parametrize("verdict", Verdict)
@simulation_of(lambda: HeaderLookup(CONFIG))
async def test_a_claim_that_is_answered_when_its_collective_is_over_opens_nothing(
    ctx, block, verdict, late, single
):
    vc, seen = 2, []
    settings = {"running": 1, "num_flows": 4, "window_flits": 100, "header_only": 3 * single}
    put(ctx, block.run, sequence=SEQUENCE, **settings)
    values = [] if single else np.ones((3, LANES), np.float32)
    put(ctx, block.heads[vc], valid=1, payload=message(REDUCE, 1, 0, values)[0])
    put(ctx, block.lookup, entry=flow_entry(base=6, size=3, num_children=4), granted=1, intact=1)
    await ctx.tick().until(block.heads[vc].ready)
    ctx.set(block.heads[vc].valid, 0)
    await ctx.tick().until(block.reservation.valid)
    put(ctx, block.run, sequence=(SEQUENCE + late) % 256)
    put(ctx, block.reservation, answered=1, verdict=verdict)
    _, _, *reported = await ctx.tick().sample(block.opened, block.fault)
    seen.append(tuple(reported))
    if verdict == Verdict.TWICE:
        assert seen == [(0, FaultCode.DUPLICATE_MESSAGE)]
    else:
        opened = 0 if single else 1 << vc
        assert seen == [(0, FaultCode.STALE_SEQUENCE) if late else (opened, 0)]


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("third", [(0, 0), (0, 2), (1, 0)])
def test_one_behind_a_staged_one_waits_until_that_is_added(third):
    memory = np.zeros((1 << CONFIG.address_width, LANES), np.float32)
    values = [np.full((3, LANES), value, np.float32) for value in (1e8, 1.0, -1e8)]
    first, second, last = (message(REDUCE, 0, k, part) for k, part in enumerate(values))
    # The second is staged, since the first has not begun; that is slow, and the third comes.
    streams = {(0, 0): second, (1, 2): first}
    pauses = {(0, 0): [0] * len(second), (1, 2): [30, *[60] * 3]}
    streams[third] = streams.get(third, []) + last
    pauses[third] = [*pauses.get(third, []), 60, 0, 0, 0]
    seen = simulate(streams, [(3, 3, 0)], memory, until=3, pauses=pauses)
    assert (seen.faults, seen.counted) == ([], 3)
    assert (memory[BASE : BASE + 3] == (values[0] + values[1]) + values[2]).all()


@pytest.mark.slow
def test_what_was_added_in_the_collective_before_lets_nothing_go_on():
    # There the first one came here, and now it comes elsewhere, slowly.
    memory = np.full((1 << CONFIG.address_width, LANES), -1e8, np.float32)
    ones, many = (np.full((3, LANES), value, np.float32) for value in (1.0, 1e8))
    before = message(REDUCE, 0, 0, np.zeros_like(ones))
    first, second = (
        message(REDUCE, 0, order, values, sequence=SEQUENCE + 1)
        for order, values in enumerate((ones, many))
    )
    streams = {(0, 0): before, (1, 1): first, (0, 1): second}
    pauses = {(0, 0): [0] * 4, (1, 1): [0, *[90] * 3], (0, 1): [150, 0, 0, 0]}
    seen = simulate(streams, [(3, 2, 0)], memory, until=3, turns=1, pauses=pauses)
    assert (seen.faults, seen.counted) == ([], 3)
    assert (memory[BASE : BASE + 3] == (np.float32(-1e8) + ones) + many).all()
