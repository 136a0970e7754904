"""Counts and marks whose bits flip are reported when read, and only they."""

import pytest
from amaranth.lib.memory import Memory

from multitree.nic.control import tracker as trackers
from multitree.nic.receive import scoreboard as ledgers
from tests.hw.streams import run
from tests.nic.blocks import SMALL, put, seeded

CLIENTS = 3


@pytest.fixture
def memories(monkeypatch):
    """The memories of the block that is made, whose content a test may change."""
    made = []

    class Recorded(Memory):
        def __init__(self, **sizes):
            super().__init__(**sizes)
            made.append(self)

    for module in (trackers, ledgers):
        monkeypatch.setattr(module, "Memory", Recorded)
    return made


def flip(ctx, entry, bits):
    """Flip bits of a memory's entry."""
    ctx.set(entry, ctx.get(entry) ^ sum(1 << bit for bit in bits))


@pytest.mark.slow
@pytest.mark.parametrize("running", [0, 1])
def test_a_count_that_flipped_is_told_at_its_port_when_it_is_read_while_a_collective_runs(
    memories, running
):
    rng = seeded(running)
    tracker = trackers.DependencyTracker(SMALL, num_clients=CLIENTS)

    async def told(ctx, port, op, flow):
        """Ports that are reported while a client asks for a count, and what it is answered."""
        query, ports, count = tracker.queries[rng.randrange(CLIENTS)], 0, None
        put(ctx, query, valid=1, port=port, op=op, flow=flow)
        for _ in range(CLIENTS + 5):
            found = await ctx.tick().sample(tracker.state_error, query.answered, query.count)
            ports |= found[2]
            count = found[4] if found[3] else count
        ctx.set(query.valid, 0)
        await ctx.tick().repeat(4)
        return ports, count

    async def drive(ctx):
        ctx.set(tracker.running, running)
        for _ in range(60):
            port, op = rng.randrange(SMALL.num_ports), rng.randrange(2)
            flow, count = rng.randrange(SMALL.num_flows), rng.randrange(1, 1 << SMALL.count_width)
            put(ctx, tracker.arrivals[port], valid=1, op=op, flow=flow, count=count)
            await ctx.tick()
            ctx.set(tracker.arrivals[port].valid, 0)
            await ctx.tick()
            assert await told(ctx, port, op, flow) == (0, count)
            entry = memories[port].data[op << 1 | flow << 2]
            bits = rng.sample(range(memories[port].data.shape), rng.randrange(1, 4))
            flip(ctx, entry, bits)
            assert (await told(ctx, port, op, flow))[0] == running << port, bits
            other = rng.randrange(SMALL.num_ports), rng.randrange(2), rng.randrange(SMALL.num_flows)
            if other != (port, op, flow):
                assert (await told(ctx, *other))[0] == 0
            flip(ctx, entry, bits)

    run(tracker, drive)


def test_a_mark_that_flipped_is_told_with_the_answer(memories):
    rng = seeded(1)
    scoreboard = ledgers.Scoreboard(SMALL)

    async def intact(ctx, op, flow):
        put(ctx, scoreboard, op=op, flow=flow)
        await ctx.tick()
        return ctx.get(scoreboard.intact)

    async def drive(ctx):
        for bank in range(2):
            put(ctx, scoreboard, bank=bank, phase=1)
            for _ in range(60):
                op, flow = rng.randrange(2), rng.randrange(SMALL.num_flows)
                if rng.random() < 0.5:
                    put(ctx, scoreboard, op=op, flow=flow, mark=1)
                    await ctx.tick()
                    ctx.set(scoreboard.mark, 0)
                assert await intact(ctx, op, flow)
                entry = memories[bank].data[op | flow << 1]
                bits = rng.sample(range(memories[bank].data.shape), rng.randrange(1, 4))
                flip(ctx, entry, bits)
                assert not await intact(ctx, op, flow), bits
                assert await intact(ctx, 1 - op, flow)
                flip(ctx, entry, bits)

    run(scoreboard, drive)
