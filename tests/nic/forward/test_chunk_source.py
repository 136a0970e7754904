"""Tests of reader and source: every flit of every chunk, wherever it is."""

from itertools import accumulate

import pytest

from multitree.nic.forward.chunk_reader import ChunkReader
from multitree.nic.forward.chunk_source import ChunkSource
from multitree.topology.collectives import Op
from tests.hw.streams import PATTERNS, go, receive, run, seeded, send, simulation_of
from tests.nic.blocks import each_is_reported, plain, start
from tests.nic.forward.ports import FORWARDING, PortModel, ports
from tests.nic.forward.test_chunk_finder import beginning
from tests.nic.memory import latencies, reader, tracker

NUM_PORTS = FORWARDING.num_ports


def drawn(rng, count, sizes=(0, 1, 2, 9, 40)):
    """Jobs, and the ports that write the chunks of those that need a message."""
    models = [PortModel([], []) for _ in range(NUM_PORTS)]
    jobs, positions = [], {}
    for flow in range(count):
        base, size, port = 41 * flow, rng.choice(sizes), rng.randrange(NUM_PORTS)
        needs = rng.randrange(2)
        if needs:
            positions[flow] = port, len(models[port].flits)
            models[port].flits += [rng.getrandbits(64) for _ in range(size)]
            models[port].places += range(base, base + size)
        job = {"row": flow, "flow": flow, "op": rng.randrange(2), "base": base, "size": size}
        jobs.append(job | {"needs": needs, "need_port": port, "need_op": 0})
    return jobs, models, positions


def expected(jobs, models, positions, memory):
    flits = []
    for job in jobs:
        if job["needs"]:
            port, position = positions[job["flow"]]
            flits += models[port].flits[position : position + job["size"]]
        else:
            flits += memory[job["base"] :][: job["size"]]
    return flits


@pytest.mark.parametrize("writes", PATTERNS)
@pytest.mark.parametrize("acks", PATTERNS)
def test_a_reader_takes_each_flit_from_its_port_or_from_memory_behind_it(writes, acks):
    rng = seeded(f"{writes} {acks}")
    jobs, models, positions = drawn(rng, 16)
    memory = [rng.getrandbits(64) for _ in range(1 << FORWARDING.address_width)]
    flits = expected(jobs, models, positions, memory)
    chunks = [
        job | {"tracked": job["needs"], "position": positions.get(job["flow"], (0, 0))[1]}
        for job in jobs
    ]
    block, got, forwarded = ChunkReader(FORWARDING), [], []

    async def give(ctx):
        ctx.set(block.running, 1)
        await send(ctx, block.chunks, chunks, go("seldom", 1))

    async def take(ctx):
        got.extend(await receive(ctx, block.o, len(flits), go("seldom", 2)))
        await ctx.tick().repeat(3)
        assert ctx.get(block.idle)

    async def count(ctx):
        while True:
            _, _, taken = await ctx.tick().sample(block.forwarded)
            forwarded.append(taken)

    written = ports(block.forward, models, memory, writes=writes, acks=acks)
    memory_end = reader(block.memory, memory, latency=latencies(rng, 20), stall="seldom")
    run(block, give, take, background=[written, memory_end, count])
    assert got == flits
    assert 0 < sum(forwarded) <= sum(job["size"] for job in jobs if job["needs"])


@pytest.mark.dear
@pytest.mark.parametrize("op", [None, Op.REDUCE])
@pytest.mark.parametrize("seed", range(6))
def test_chunks_come_in_the_order_of_their_jobs_whatever_each_waits_for(op, seed):
    rng = seeded(seed)
    jobs, models, positions = drawn(rng, 20)
    memory = [rng.getrandbits(64) for _ in range(1 << FORWARDING.address_width)]
    # Messages begin some flits before they are written, in the order of their port.
    leads = [rng.randrange(4) for _ in jobs]
    read = [job if op is None or job["op"] == int(op) else job | {"size": 0} for job in jobs]
    flits = expected(read, models, positions, memory)
    block, got, begun = ChunkSource(FORWARDING, op=op), [], []

    def begins(cycle, port, need_op, flow):
        written_by, position = positions[flow]
        assert written_by == port
        begins = models[port].written + leads[flow] >= position
        return beginning(FORWARDING, position) if begins else 0

    async def give(ctx):
        start(ctx, block, cut_through=1)
        await send(ctx, block.jobs, jobs, go("seldom", seed))

    async def release(ctx):
        begun.extend(map(plain, await receive(ctx, block.begun, len(jobs), go("often", seed))))

    async def take(ctx):
        got.extend(await receive(ctx, block.o, len(flits), go("seldom", seed)))

    background = [
        ports(block.forward, models, memory, seed=seed),
        reader(block.memory, memory, latency=latencies(rng, 20), stall="seldom"),
        tracker(block.beginning, begins, stall="often", seed=seed),
        tracker(block.query, lambda *_: 0, seed=seed),
    ]
    run(block, give, release, take, background=background)
    assert got == flits
    assert [job["row"] for job in begun] == [job["row"] for job in jobs]
    for job in begun:
        assert job["tracked"] == job["needs"]
        assert not job["needs"] or job["position"] == positions[job["flow"]][1]


def test_a_chunk_in_memory_is_read_while_the_one_before_it_is_awaited():
    jobs = [
        {"row": 0, "flow": 0, "base": 0, "size": 4, "needs": 1, "need_port": 1},
        {"row": 1, "flow": 1, "base": 8, "size": 4, "needs": 0},
    ]
    block, memory, reads = ChunkSource(FORWARDING), list(range(100, 200)), []

    async def process(ctx):
        start(ctx, block, cut_through=1)
        await send(ctx, block.jobs, jobs, go("never", 0))
        await ctx.tick().repeat(30)
        assert not ctx.get(block.o.valid) and not ctx.get(block.begun.valid)

    memory_end = reader(block.memory, memory, latency=latencies(None, 5), taken=reads)
    answers = [tracker(q, lambda *_: 0) for q in (block.query, block.beginning)]
    run(block, process, background=[memory_end, *answers])
    assert [address for _, address in reads] == list(accumulate([1] * 3, initial=8))


def test_both_readers_together_have_as_many_reads_in_flight_as_a_reset_waits_for():
    jobs = [
        {"row": 0, "flow": 0, "base": 0, "size": 90, "needs": 1, "need_port": 1},
        {"row": 1, "flow": 1, "base": 100, "size": 90, "needs": 0},
    ]
    # All of it is in memory, and the first flits are kept no longer.
    models, flits = [PortModel([], []) for _ in range(NUM_PORTS)], list(range(90))
    models[1] = PortModel(flits, flits, written=90, acknowledged=90)
    block, reads = ChunkSource(FORWARDING), []

    async def process(ctx):
        start(ctx, block, cut_through=1)
        ctx.set(block.begun.ready, 1)
        await send(ctx, block.jobs, jobs, go("never", 0))
        await ctx.tick().repeat(150)

    background = [
        ports(block.forward, models, [0] * 200),
        reader(block.memory, [0] * 200, latency=latencies(None, 1000), taken=reads),
        tracker(block.beginning, lambda *_: beginning(FORWARDING, 0)),
        tracker(block.query, lambda *_: 0),
    ]
    run(block, process, background=background)
    assert len(reads) == FORWARDING.most_reads


@simulation_of(lambda: ChunkSource(FORWARDING))
async def test_a_flip_in_any_queue_of_the_source_or_its_readers_is_reported(ctx, block, flips):
    await each_is_reported(ctx, block, flips)


@simulation_of(lambda: ChunkReader(FORWARDING))
async def test_no_flit_is_taken_before_its_port_writes_it_nor_read_before_memory_has_it(ctx, block):
    for signal in (block.running, block.o.ready, block.memory.ready):
        ctx.set(signal, 1)

    async def taken(written, acknowledged, cycles=8):
        found = []
        ctx.set(block.forward.written[1], written)
        ctx.set(block.forward.acknowledged[1], acknowledged)
        for _ in range(cycles):
            moves = (block.forwarded, block.memory.valid, block.memory.address)
            _, _, kept, read, address = await ctx.tick().sample(*moves)
            found += ["kept"] * kept + [address] * read
        return found

    gone = FORWARDING.forward_flits
    for position, size in ((5, 1), (6, 2), (8, 1)):
        ctx.set(block.forward.written[1], position)
        ctx.set(block.forward.acknowledged[1], position)
        chunk = {"base": 100, "size": size, "tracked": 1, "need_port": 1, "position": position}
        await send(ctx, block.chunks, [chunk], go("never", 0))
        assert await taken(position, position) == []
        assert await taken(position + size + gone, position) == []
        assert await taken(position + size + gone, position + size) == [100, 101][:size]
