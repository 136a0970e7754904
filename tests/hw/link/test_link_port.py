"""An end of a link with virtual channels: up, down, resets, faults reported."""

import itertools
import random

import pytest

from tests.hw.link.wires import Line, listener, talker
from tests.hw.streams import pulse, put, run, seeded

NUM_VCS, DEPTH = 3, 5


def a_line(latency_cycles):
    return Line(latency_cycles, latency_cycles, num_vcs=NUM_VCS, depth=DEPTH)


@pytest.mark.slow
@pytest.mark.parametrize("latency_cycles", [0, 5])
@pytest.mark.parametrize("seed", range(2))
def test_after_resets_of_either_end_in_any_cycle_each_channel_begins_anew(latency_cycles, seed):
    """What is delivered is, per time that the sender was up, its first flits in order."""
    rng = seeded(f"{latency_cycles} {seed}")
    line, sent, got = a_line(latency_cycles), [[], []], [[], []]

    async def drive(ctx):
        for _ in range(4):
            reset = line.resets[rng.randrange(2)]
            await ctx.tick().repeat(rng.choice([3, line.come_up_cycles]) + rng.randrange(60))
            await pulse(ctx, reset, rng.randrange(1, 4))
        await ctx.tick().repeat(line.come_up_cycles + 80)
        assert all(ctx.get(end.up) for end in line.ends)

    ends = [f(line, k, rng, s) for k in range(2) for f, s in ((talker, sent), (listener, got))]
    run(line, drive, background=ends)
    for k in range(2):
        came = {}
        for vc, session, number in itertools.chain(*got[1 - k]):
            came.setdefault((vc, session), []).append(number)
        assert {session for _, session in came} >= {len(sent[k])}
        for numbers in came.values():
            assert numbers == [*range(len(numbers))]
        # Nothing of the last session is missing but what still has a place or is on its way to it.
        for vc in range(NUM_VCS):
            assert sent[k][-1][vc] > 5
            assert len(came[vc, len(sent[k])]) >= sent[k][-1][vc] - DEPTH - 1


def test_a_fault_is_reported_beside_the_data_and_heard_once_with_its_news():
    line, heard = a_line(2), []

    async def drive(ctx):
        await ctx.tick().repeat(line.come_up_cycles)
        near, far = line.ends
        put(ctx, near, fault_record=0xABCD, send_fault=1)
        await ctx.tick().until(near.fault_sent)
        ctx.set(near.send_fault, 0)
        await ctx.tick().repeat(20)
        assert heard == [0xABCD] and not ctx.get(far.fault_sent)

    async def monitor(ctx):
        far = line.ends[1]
        async for _, _, strobe, record in ctx.tick().sample(far.fault_received, far.received_fault):
            heard.extend([record] if strobe else [])

    run(line, drive, background=[monitor, talker(line, 0, random.Random(0), [[], []])])


def test_lost_is_reported_once_by_the_end_that_was_not_reset():
    line, lost = a_line(1), [0, 0]

    async def drive(ctx):
        await ctx.tick().repeat(line.come_up_cycles)
        await pulse(ctx, line.resets[0])
        await ctx.tick().repeat(line.come_up_cycles)
        assert lost == [0, 1] and all(ctx.get(end.up) for end in line.ends)

    async def monitor(ctx):
        async for _, _, *now in ctx.tick().sample(*(end.lost for end in line.ends)):
            lost[:] = [count + strobe for count, strobe in zip(lost, now, strict=True)]

    run(line, drive, background=[monitor])
