"""Tests of the reset that waits for memory."""

from dataclasses import replace

import pytest

from multitree.nic.interface import Drain
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.blocks import SMALL

SHARED = replace(SMALL, num_ports=1, flit_bytes=16, memory_queue_flits=6, num_classes=1)
PRIVATE_ROOM = [SMALL.memory_queue_flits] * 3 * SMALL.num_ports
# The sender's reads and those of staged contributions, on one channel, and nothing else.
SHARED_ROOM = [2 * SHARED.memory_queue_flits, 0, 0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("config", "most"), [(SMALL, PRIVATE_ROOM), (SHARED, SHARED_ROOM)])
@simulation_of(lambda config: Drain(config))
async def test_a_reset_lasts_until_every_channel_is_answered_and_no_longer(ctx, block, most, seed):
    rng = seeded(seed)
    outstanding, since, resets = [0] * len(most), None, 0
    for cycle in range(2000):
        reset = ctx.get(block.reset)
        # What asks is reset at the end of the first cycle and silent from the second on.
        asks = since is None or cycle <= since + 1
        room = [n < limit for n, limit in zip(outstanding, most, strict=True)]
        requested = [asks and free and rng.random() < 0.3 for free in room]
        answered = [n > 0 and rng.random() < 0.25 for n in outstanding]
        command = since is None and rng.random() < 0.02
        put(ctx, block, command=command, requested=sum(bit << k for k, bit in enumerate(requested)))
        ctx.set(block.answered, sum(bit << k for k, bit in enumerate(answered)))
        await ctx.tick()
        assert reset == (since is not None)
        if since is not None and cycle >= since + 2 and not any(outstanding):
            since, resets = None, resets + 1
        outstanding = [n + r - a for n, r, a in zip(outstanding, requested, answered, strict=True)]
        since = cycle if command else since
    assert resets > 5


@simulation_of(lambda: Drain(SMALL))
async def test_an_idle_interface_is_reset_for_two_cycles(ctx, block):
    seen = []
    for cycle in range(8):
        ctx.set(block.command, cycle == 2)
        _, _, reset = await ctx.tick().sample(block.reset)
        seen.append(reset)
    assert seen == [0, 0, 0, 1, 1, 0, 0, 0]
