"""Tests of the sender on shared links: a message keeps to its own channel."""

from dataclasses import replace

import pytest

from multitree.hw.link.link import Kind
from multitree.nic.send.sender import Sender
from tests.hw.streams import PATTERNS, go, run, seeded, send
from tests.nic.blocks import SMALL, start
from tests.nic.memory import latencies, reader

CONFIG = replace(SMALL, flit_bytes=16, num_classes=2)


def channels(jobs, *, parity, stall, seed):
    """The channel and kind of every flit that a sender sends, message by message."""
    rng = seeded(seed)
    block, messages = Sender(CONFIG), []
    memory = [0] * (1 << CONFIG.address_width)
    moves = go(stall, f"{seed} flits")

    async def give(ctx):
        start(ctx, block, sequence=6 + parity)
        await send(ctx, block.jobs, jobs, go("seldom", f"{seed} jobs"))

    async def take(ctx):
        flits = []
        while len(messages) < len(jobs):
            ctx.set(block.flits.ready, next(moves))
            signals = block.flits.ready, block.flits.valid, block.flits.payload.kind, block.vc
            _, _, ready, valid, kind, vc = await ctx.tick().sample(*signals)
            if ready and valid:
                flits.append(vc)
                if kind in (Kind.TAIL, Kind.SINGLE):
                    messages.append(flits)
                    flits = []

    run(block, give, take, background=[reader(block.memory, memory, latency=latencies(rng, 12))])
    return messages


@pytest.mark.parametrize("stall", PATTERNS)
@pytest.mark.parametrize("parity", [0, 1])
def test_all_flits_of_a_message_are_on_the_channel_of_its_class_whatever_is_behind_it(
    stall, parity
):
    """Channel 2 x class + parity, also where the next message, already queued, has another one."""
    rng = seeded(f"{stall} {parity}")
    sizes = [1, 2, 7, 0, 5, 1, 0, 0, 3, 12, 4, 1]
    classes = [k % 2 for k in range(6)] + [rng.randrange(2) for _ in sizes[6:]]
    jobs = [
        {"row": k, "flow": k, "base": 20 * k, "size": size, "vc_class": vc_class}
        for k, (size, vc_class) in enumerate(zip(sizes, classes, strict=True))
    ]
    seen = channels(jobs, parity=parity, stall=stall, seed=f"{stall} {parity}")
    assert seen == [
        [2 * vc_class + parity] * (1 + size) for size, vc_class in zip(sizes, classes, strict=True)
    ]
