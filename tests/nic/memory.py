"""A memory behind read and write channels, as slow and uneven as it may be."""

from collections import deque
from itertools import repeat

from tests.hw.streams import go


def latencies(rng, most):
    """Endless latencies: `most` every time, or drawn up to it where there is a generator."""
    return repeat(most) if rng is None else iter(lambda: rng.randrange(1, most + 1), None)


def reader(channel, memory, *, latency, stall="never", seed=0, taken=None):
    """A background process that answers reads in order; `taken` gets (cycle, address) of each.

    A read returns what is in memory when it is taken.
    """

    async def process(ctx):
        waiting, moves = deque(), go(stall, seed)
        cycle, due = 0, 0
        while True:
            answers = bool(waiting) and waiting[0][0] <= cycle
            ctx.set(channel.data_valid, answers)
            # What is on the bus without a strobe means nothing.
            ctx.set(channel.data, waiting.popleft()[1] if answers else 0xDEAD)
            ready = next(moves)
            ctx.set(channel.ready, ready)
            _, _, valid, address = await ctx.tick().sample(channel.valid, channel.address)
            if valid and ready:
                due = max(cycle + next(latency), due + 1)
                waiting.append((due, memory[address]))
                if taken is not None:
                    taken.append((cycle, address))
            cycle += 1

    return process


def writer(channel, memory, *, latency, stall="never", seed=0, acked=None):
    """A background process that stores writes; `acked` gets (cycle, address) of each.

    A write is in memory from its acknowledgement on, and not before.
    """

    async def process(ctx):
        waiting, moves = deque(), go(stall, seed)
        cycle, due = 0, 0
        while True:
            acks = bool(waiting) and waiting[0][0] <= cycle
            ctx.set(channel.ack, acks)
            if acks:
                _, address, data = waiting.popleft()
                memory[address] = data
                if acked is not None:
                    acked.append((cycle, address))
            ready = next(moves)
            ctx.set(channel.ready, ready)
            _, _, valid, address, data = await ctx.tick().sample(
                channel.valid, channel.address, channel.data
            )
            if valid and ready:
                due = max(cycle + next(latency), due + 1)
                waiting.append((due, address, data))
            cycle += 1

    return process


def tracker(query, count, *, stall="never", seed=0, answers=None):
    """A background process that answers questions with `count(cycle, port, op, flow)`.

    `answers` gets (cycle, flow, count). Answers to nobody's question are made up.
    """

    async def process(ctx):
        moves, cycle = go(stall, seed), 0
        while True:
            _, _, valid, *asked = await ctx.tick().sample(
                query.valid, query.port, query.op, query.flow
            )
            granted = bool(valid) and next(moves)
            found = count(cycle, *asked) if granted else (1 << len(query.count)) - 1
            cycle += 1
            ctx.set(query.answered, granted or not valid)
            ctx.set(query.count, found)
            if granted and answers is not None:
                answers.append((cycle, asked[2], found))

    return process
