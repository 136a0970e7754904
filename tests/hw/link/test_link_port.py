"""An end of a link with virtual channels: faults that are told, and a lost link."""

import random

from tests.hw.link.wires import Line, talker
from tests.hw.streams import pulse, put, run


def test_a_fault_is_reported_beside_the_data_and_heard_once_with_its_news():
    line, heard = Line(2, 2, num_vcs=3), []

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
    line, lost = Line(1, 1, num_vcs=3), [0, 0]

    async def drive(ctx):
        await ctx.tick().repeat(line.come_up_cycles)
        await pulse(ctx, line.resets[0])
        await ctx.tick().repeat(line.come_up_cycles)
        assert lost == [0, 1] and all(ctx.get(end.up) for end in line.ends)

    async def monitor(ctx):
        async for _, _, *now in ctx.tick().sample(*(end.lost for end in line.ends)):
            lost[:] = [count + strobe for count, strobe in zip(lost, now, strict=True)]

    run(line, drive, background=[monitor])
