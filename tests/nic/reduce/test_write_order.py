"""Tests of the order of writes: none before the one it follows is in memory."""

import pytest

from multitree.nic.reduce.forwarding_reducer import WriteOrder
from tests.hw.streams import go, put, run, seeded, send
from tests.nic.forward.ports import FORWARDING


@pytest.mark.parametrize("seed", range(4))
def test_a_flit_may_go_once_the_flit_before_it_is_acknowledged_and_then_at_once(seed):
    rng = seeded(seed)
    block = WriteOrder(FORWARDING)
    messages = []
    for _ in range(30):
        port, size = rng.randrange(3), rng.choice([1, 2, 9])
        messages.append(
            {"tracked": rng.randrange(2), "need_port": port, "position": rng.randrange(60)}
            | {"size": size}
        )
    acknowledged, moves, late = [0, 0, 0], [], 0

    async def give(ctx):
        await send(ctx, block.messages, messages, go("seldom", seed))

    async def write(ctx):
        nonlocal late
        for message in messages:
            for k in range(message["size"]):
                waits = 0
                while not ctx.get(block.may):
                    known = acknowledged[message["need_port"]] > message["position"] + k
                    waits = waits + 1 if known or not message["tracked"] else 0
                    late = max(late, waits)
                    await tick(ctx)
                if message["tracked"]:
                    assert acknowledged[message["need_port"]] > message["position"] + k
                put(ctx, block, moved=1, last=k == message["size"] - 1)
                await tick(ctx)
                ctx.set(block.moved, 0)
                moves.append(k)
        assert ctx.get(block.empty)

    async def tick(ctx):
        await ctx.tick()
        for port in range(3):
            acknowledged[port] += rng.random() < 0.5
            ctx.set(block.acknowledged[port], acknowledged[port])

    run(block, give, write)
    assert len(moves) == sum(message["size"] for message in messages)
    # Cycles from a message, or an acknowledgement, to leave; an offer may have come late itself.
    assert late <= 12
