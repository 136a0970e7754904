"""Tests of header check on shared links: what is offered stays until it is taken."""

import numpy as np
import pytest

from multitree.nic.driver.faults import FaultCode
from multitree.nic.layouts import FLOW_ENTRY
from multitree.nic.receive.shared_receiver import SharedHeaderCheck
from multitree.nic.signatures import Verdict
from tests.hw.streams import go, process, put, receive, run, send, simulation_of
from tests.nic.receive.shared_receivers import CONFIG, LANES, REDUCE, SEQUENCE, flow_entry, message

SIZE, NUM_MESSAGES = 4, 6
CHANNELS = [vc for vc in range(CONFIG.num_vcs) if vc % 2 == SEQUENCE % 2]


def taken(num_messages, size, offers, takes):
    """Items in the order taken; on each channel messages of a flow of its own, its number."""
    block = SharedHeaderCheck(CONFIG, unwritten_width=4)
    values = np.arange(size * LANES, dtype=np.float32).reshape(size, LANES)
    got = []

    async def drive(ctx):
        put(ctx, block.run, running=1, sequence=SEQUENCE, num_flows=len(CHANNELS))
        entry = flow_entry(size=size, num_children=num_messages)
        put(ctx, block.lookup, granted=1, intact=1, entry=FLOW_ENTRY.const(entry))
        put(ctx, block.reservation, answered=1, verdict=Verdict.DIRECT)
        # Fails where what is offered changes before it is taken.
        got.extend(await receive(ctx, block.items, len(CHANNELS) * num_messages * size, takes))

    @process
    async def feed(ctx, flow, vc):
        messages = (message(REDUCE, flow, order, values + order) for order in range(num_messages))
        flits = [flit for each in messages for flit in each]
        await send(ctx, block.flits[vc], flits, go(offers, vc))

    run(block, drive, background=[feed(*each) for each in enumerate(CHANNELS)])
    return got


@pytest.mark.slow
@pytest.mark.parametrize("stall", ["often", "seldom", "bursts"])
def test_a_flit_in_turn_stays_until_it_is_taken_whatever_comes_on_other_channels(stall):
    got = taken(NUM_MESSAGES, SIZE, "often", go(stall, 1))
    for flow in range(len(CHANNELS)):
        orders = [item.mark.order for item in got if item.mark.flow == flow]
        assert orders == [order for order in range(NUM_MESSAGES) for _ in range(SIZE)]


def test_channels_that_always_offer_something_take_turns():
    size = 24
    flows = [item.mark.flow for item in taken(1, size, "never", go("never", 1))]
    last = [size * len(CHANNELS) - flows[::-1].index(flow) for flow in range(len(CHANNELS))]
    for flow in range(len(CHANNELS)):
        assert flows[: min(last)].count(flow) > size // 2


@simulation_of(lambda: SharedHeaderCheck(CONFIG, unwritten_width=4))
async def test_what_waits_and_what_is_refused_name_the_port(ctx, block):
    seen = []
    put(ctx, block, port=5)
    put(ctx, block.run, running=1, sequence=SEQUENCE, num_flows=1)
    flit = message(REDUCE, 3, 0, np.zeros((SIZE, LANES), np.float32))[0]
    put(ctx, block.flits[CHANNELS[0]], valid=1, payload=flit)
    for _ in range(8):
        _, _, *each = await ctx.tick().sample(block.fault, block.wait.port, block.wait.flow)
        seen.append(each)
    assert [FaultCode.UNEXPECTED_MESSAGE, 5, 3] in seen


@pytest.mark.dear
@pytest.mark.parametrize(
    ("size", "order", "intact", "fault"),
    [
        (SIZE, 1, 1, FaultCode.NONE),
        (SIZE + 1, 1, 1, FaultCode.LENGTH),
        (SIZE - 1, 1, 1, FaultCode.LENGTH),
        (0, 1, 1, FaultCode.UNEXPECTED_MESSAGE),
        (SIZE, 2, 1, FaultCode.UNEXPECTED_MESSAGE),
        (SIZE, 1, 0, FaultCode.TABLE_PARITY),
    ],
)
@simulation_of(lambda: SharedHeaderCheck(CONFIG, unwritten_width=4))
async def test_a_message_is_taken_if_it_is_as_its_flow_expects_it(
    ctx, block, size, order, intact, fault
):
    claimed, found = [], []
    put(ctx, block.run, running=1, sequence=SEQUENCE, num_flows=1)
    entry = FLOW_ENTRY.const(flow_entry(size=SIZE, num_children=2))
    put(ctx, block.lookup, granted=1, intact=intact, entry=entry)
    first = message(REDUCE, 0, order, np.zeros((size, LANES), np.float32))[0]
    put(ctx, block.flits[CHANNELS[0]], valid=1, payload=first)
    for _ in range(10):
        outputs = (block.fault, block.reservation.valid, block.flits[CHANNELS[0]].ready)
        _, _, code, claims, taken = await ctx.tick().sample(*outputs)
        found.append(code)
        claimed.append(claims)
        if taken:
            ctx.set(block.flits[CHANNELS[0]].valid, 0)
    assert max(found) == fault and any(claimed) == (fault == FaultCode.NONE)
