"""Counts and marks whose bits flip are reported when read, and only they."""

from dataclasses import replace

import pytest

from multitree.nic.control import tracker as trackers
from multitree.nic.receive import duplicate_filter as filters
from multitree.nic.reduce import sequencer as sequencers
from tests.hw.streams import put, run, seeded, simulation_of
from tests.nic.blocks import SMALL
from tests.nic.forward.flips import recorded

SHARED = replace(SMALL, flit_bytes=16, num_classes=1)
CLIENTS = 3


@pytest.fixture
def memories(monkeypatch):
    """The memories of the block that is made, whose content a test may change."""
    return recorded(monkeypatch, trackers, filters, sequencers)


def flip(ctx, entry, bits):
    """Flip bits of a memory's entry."""
    ctx.set(entry, ctx.get(entry) ^ sum(1 << bit for bit in bits))


@pytest.mark.slow
@pytest.mark.parametrize("running", [0, 1])
def test_a_count_that_flipped_is_reported_at_its_port_when_it_is_read_while_a_collective_runs(
    memories, running
):
    rng = seeded(running)
    tracker = trackers.DependencyTracker(SMALL, num_clients=CLIENTS)

    async def answer_of(ctx, port, op, flow):
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
            assert await answer_of(ctx, port, op, flow) == (0, count)
            entry = memories[port].data[op << 1 | flow << 2]
            bits = rng.sample(range(memories[port].data.shape), rng.randrange(1, 4))
            flip(ctx, entry, bits)
            assert (await answer_of(ctx, port, op, flow))[0] == running << port, bits
            other = rng.randrange(SMALL.num_ports), rng.randrange(2), rng.randrange(SMALL.num_flows)
            if other != (port, op, flow):
                assert (await answer_of(ctx, *other))[0] == 0
            flip(ctx, entry, bits)

    run(tracker, drive)


@simulation_of(lambda: filters.DuplicateFilter(SMALL))
async def test_a_mark_that_flipped_is_reported_with_the_answer(ctx, duplicates, memories):
    rng = seeded(1)

    async def intact(op, flow):
        put(ctx, duplicates, op=op, flow=flow)
        await ctx.tick().repeat(2)
        return ctx.get(duplicates.intact)

    for bank in range(2):
        put(ctx, duplicates, bank=bank, phase=1)
        for _ in range(60):
            op, flow = rng.randrange(2), rng.randrange(SMALL.num_flows)
            if rng.random() < 0.5:
                put(ctx, duplicates, op=op, flow=flow, mark=1)
                await ctx.tick()
                ctx.set(duplicates.mark, 0)
            assert await intact(op, flow)
            entry = memories[bank].data[op | flow << 1]
            bits = rng.sample(range(memories[bank].data.shape), rng.randrange(1, 4))
            flip(ctx, entry, bits)
            assert not await intact(op, flow), bits
            assert await intact(1 - op, flow)
            flip(ctx, entry, bits)


@simulation_of(lambda: sequencers.ReductionSequencer(SHARED))
async def test_the_state_of_a_sum_that_flipped_is_reported_when_its_next_message_is_judged(
    ctx, sequencer, memories
):
    rng = seeded(2)

    async def judged(port, flow, order):
        """Whether an error is reported until a while after a reservation was answered."""
        reservation, seen, answered = sequencer.reservations[port], 0, 0
        put(ctx, reservation, valid=1, flow=flow, order=order, last=SHARED.max_children - 1)
        for _ in range(20):
            ctx.set(reservation.valid, not answered)
            _, _, error, hit = await ctx.tick().sample(sequencer.state_error, reservation.answered)
            seen, answered = seen | error, answered | hit
        assert answered
        return seen

    for bank in range(2):
        put(ctx, sequencer, bank=bank, phase=1)
        for flow in range(SHARED.num_flows):
            assert not await judged(rng.randrange(SHARED.num_ports), flow, 0)
            (states,) = memories
            entry = states.data[bank | flow << 1]
            bits = rng.sample(range(states.data.shape), rng.randrange(1, 4))
            flip(ctx, entry, bits)
            assert await judged(rng.randrange(SHARED.num_ports), flow, 1), bits
        assert not await judged(0, 0, 2), "judging it again wrote a whole word"
