"""Tests of chunks read ahead: all flits in order, never too many."""

import pytest

from multitree.nic.forward.local_reader import LocalReader
from tests.hw.streams import PATTERNS, go, receive, run, send
from tests.nic.blocks import seeded
from tests.nic.forward.ports import FORWARDING
from tests.nic.memory import latencies, reader

ROOM = FORWARDING.memory_queue_flits


def simulate(chunks, *, latency, stalls=("never",) * 3, seed=0):
    block = LocalReader(FORWARDING)
    rng = seeded(seed)
    memory = [rng.getrandbits(64) for _ in range(1 << FORWARDING.address_width)]
    count = sum(chunk["size"] for chunk in chunks)
    got, times, reads = [], [], []

    async def give(ctx):
        ctx.set(block.running, 1)
        await send(ctx, block.chunks, chunks, go(stalls[0], seed))

    async def take(ctx):
        got.extend(await receive(ctx, block.o, count, go(stalls[1], seed), times))

    memory_end = reader(
        block.memory, memory, latency=latency, stall=stalls[2], seed=seed, taken=reads
    )
    run(block, give, take, background=[memory_end])
    addresses = [chunk["base"] + k for chunk in chunks for k in range(chunk["size"])]
    assert got == [memory[address] for address in addresses]
    assert [address for _, address in reads] == addresses
    return times, reads


@pytest.mark.parametrize("pattern", PATTERNS)
def test_flits_come_in_order_over_any_memory(pattern):
    rng = seeded(pattern)
    chunks = [{"base": 50 * k, "size": rng.choice([0, 1, 2, 7, 40])} for k in range(12)]
    simulate(chunks, latency=latencies(rng, 30), stalls=("seldom", pattern, pattern), seed=pattern)


def test_one_flit_per_cycle_across_chunks_and_a_read_latency_and_3_cycles_to_the_first():
    chunks = [{"base": 50 * k, "size": 3} for k in range(8)]
    times, _ = simulate(chunks, latency=latencies(None, 9))
    assert times == list(range(times[0], times[0] + 24))
    assert times[0] == 9 + 3


def test_no_more_is_read_than_there_is_room_for():
    block = LocalReader(FORWARDING)
    reads = []

    async def process(ctx):
        ctx.set(block.running, 1)
        await send(ctx, block.chunks, [{"base": 0, "size": 200}], go("never", 0))
        for _ in range(150):
            await ctx.tick()

    memory_end = reader(block.memory, [0] * 1024, latency=latencies(None, 3), taken=reads)
    run(block, process, background=[memory_end])
    assert len(reads) == ROOM
