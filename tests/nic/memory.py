"""A memory behind read and write channels, as slow and uneven as it may be."""

from collections import deque
from itertools import repeat

from tests.hw.streams import go, put


def latencies(rng, most):
    """Endless latencies: `most` every time, or drawn up to it where there is a generator."""
    return repeat(most) if rng is None else iter(lambda: rng.randrange(1, most + 1), None)


def _serve(channel, fields, latency, moves, take, answer):
    """A background process that takes requests, and answers each when its latency is over."""

    async def process(ctx):
        waiting, cycle, due = deque(), 0, 0
        while True:
            answer(ctx, cycle, waiting.popleft()[1] if waiting and waiting[0][0] <= cycle else None)
            ready = next(moves)
            ctx.set(channel.ready, ready)
            _, _, valid, *request = await ctx.tick().sample(channel.valid, *fields)
            if valid and ready:
                due = max(cycle + next(latency), due + 1)
                waiting.append((due, take(cycle, *request)))
            cycle += 1

    return process


def reader(channel, memory, *, latency, stall="never", seed=0, taken=None):
    """A background process that answers reads in order; `taken` gets (cycle, address) of each.

    A read returns what is in memory when it is taken.
    """

    def take(cycle, address):
        if taken is not None:
            taken.append((cycle, address))
        return memory[address]

    def answer(ctx, cycle, data):
        # What is on the bus without a strobe means nothing.
        put(ctx, channel, data_valid=data is not None, data=0xDEAD if data is None else data)

    return _serve(channel, [channel.address], latency, go(stall, seed), take, answer)


def writer(channel, memory, *, latency, stall="never", seed=0, acked=None):
    """A background process that stores writes; `acked` gets (cycle, address) of each.

    A write is in memory from its acknowledgement on, and not before.
    """

    def answer(ctx, cycle, write):
        ctx.set(channel.ack, write is not None)
        if write is not None:
            address, data = write
            memory[address] = data
            if acked is not None:
                acked.append((cycle, address))

    fields = [channel.address, channel.data]
    return _serve(channel, fields, latency, go(stall, seed), lambda _, *write: write, answer)


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
            put(ctx, query, answered=granted or not valid, count=found)
            if granted and answers is not None:
                answers.append((cycle, asked[2], found))

    return process
