"""Tests of chunks read ahead, and of the merged queue: all flits, in order."""

import pytest

from multitree.nic.forward.chunk_reader import LocalReader, MergedQueue
from tests.hw.streams import PATTERNS, go, put, receive, run, seeded, send, simulation_of
from tests.nic.forward.ports import FORWARDING, encoded
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

    read = {"latency": latency, "stall": stalls[2], "seed": seed, "taken": reads}
    run(block, give, take, background=[reader(block.memory, memory, **read)])
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
        await ctx.tick().repeat(150)

    memory_end = reader(block.memory, [0] * 1024, latency=latencies(None, 3), taken=reads)
    run(block, process, background=[memory_end])
    assert len(reads) == ROOM


@pytest.mark.parametrize("stall_reads", PATTERNS)
@pytest.mark.parametrize("stall_taker", ["never", "often"])
def test_flits_of_both_sources_leave_in_order_whenever_they_come(stall_reads, stall_taker):
    rng = seeded(f"{stall_reads} {stall_taker}")
    block = MergedQueue(FORWARDING)
    flits = [rng.getrandbits(64) for _ in range(200)]
    kinds = [rng.randrange(2) for _ in flits]
    got, taken = [], 0

    async def ask(ctx):
        reads, kept, moves, asked = [], None, go(stall_reads, 1), 0
        while taken < len(flits):
            may = asked < len(flits) and asked - taken < ROOM and rng.random() < 0.7
            put(ctx, block, asked=may, of_kept=may and kinds[asked], kept_valid=kept is not None)
            ctx.set(block.kept, encoded(kept or 0))
            comes = bool(reads) and next(moves)
            put(ctx, block, read_valid=comes, read=reads.pop(0) if comes else 0)
            kept = None
            if may:
                if kinds[asked]:
                    kept = flits[asked]
                else:
                    reads.append(flits[asked])
                asked += 1
            await ctx.tick()
            assert not ctx.get(block.state_error)

    async def take(ctx):
        nonlocal taken
        moves = go(stall_taker, 2)
        for _ in flits:
            got.extend(await receive(ctx, block.o, 1, moves))
            taken += 1
        ctx.set(block.o.ready, 0)
        await ctx.tick()
        assert ctx.get(block.empty)

    run(block, ask, take)
    assert got == flits


@simulation_of(lambda: MergedQueue(FORWARDING))
async def test_a_kept_flit_whose_bits_have_flipped_is_reported_when_it_was_taken(ctx, block):
    seen = []
    ctx.set(block.o.ready, 1)
    for cycle in range(12):
        put(ctx, block, asked=cycle in (0, 4), of_kept=1, kept_valid=cycle in (1, 5))
        ctx.set(block.kept, encoded(77) ^ (1 << 3 if cycle == 5 else 0))
        await ctx.tick()
        seen.append(ctx.get(block.state_error))
    assert sum(seen) == 1 and seen.index(1) > 4


@simulation_of(lambda: MergedQueue(FORWARDING))
async def test_one_kept_flit_per_cycle_leaves_a_cycle_behind_what_comes(ctx, block):
    taken = []
    ctx.set(block.o.ready, 1)
    ctx.set(block.of_kept, 1)
    for cycle in range(30):
        put(ctx, block, asked=cycle < 10, kept_valid=1 <= cycle < 11, kept=encoded(cycle))
        _, _, valid = await ctx.tick().sample(block.o.valid)
        taken.extend([cycle] * valid)
    assert taken == list(range(2, 12))
