"""Tests of the reduction datapath against NumPy, over random memory latencies."""

from types import SimpleNamespace

import numpy as np
import pytest
from ml_dtypes import bfloat16

from multitree.hw.lanes import DType
from multitree.nic.driver.config import LANE_TYPES
from multitree.nic.reduce.reducer import Acknowledger, Reducer
from multitree.topology import collectives
from multitree.topology.collectives import DTYPES
from tests.hw.streams import PATTERNS, go, put, run, seeded, send, simulation_of
from tests.nic.blocks import SMALL
from tests.nic.memory import latencies, reader, writer

S = SMALL.submessage_flits
DEPTH = 1 << SMALL.address_width
NUMPY = {DType(lane.value): DTYPES[name] for name, lane in LANE_TYPES.items()}
READ_CYCLES, WRITE_CYCLES = 12, 8


def combine(a, b, dtype, maximum):
    """The sum of two flits, lane by lane, or the larger lanes."""
    a, b = (np.array([value], np.uint64).view(NUMPY[dtype]) for value in (a, b))
    collectives.combine(a, b, "max" if maximum else "sum")
    return int(a.view(np.uint64)[0])


def random_flit(rng):
    """Lanes of ordinary numbers of all exponents, or any bits at all."""
    if rng.random() < 0.2:
        return rng.getrandbits(64)
    if rng.random() < 0.3:
        values = [rng.uniform(-2, 2) * 2.0 ** rng.randrange(-5, 5) for _ in range(4)]
        return int(np.array(values, bfloat16).view(np.uint64)[0])
    values = [rng.uniform(-2, 2) * 2.0 ** rng.randrange(-20, 20) for _ in range(2)]
    return int(np.array(values, np.float32).view(np.uint64)[0])


def messages(rng, count, sizes=(1, S - 1, S, 23), replace=None):
    """Items of messages to places that do not overlap, and the arrivals they lead to."""
    items, arrivals, base = [], [], 0
    for flow in range(count):
        size, op = rng.choice(sizes), rng.randrange(2) if replace is None else replace
        for k in range(size):
            last, number = k == size - 1, k // S + 1
            mark = {"op": op, "flow": flow, "count": number, "last": int(last)}
            end = last or k % S == S - 1
            item = {"payload": random_flit(rng), "address": base + k, "replace": op}
            items.append(item | {"end": int(end), "mark": mark})
            if end:
                arrivals.append((mark, base + k))
        base += size
    assert base <= DEPTH
    return items, arrivals


def simulate(
    items,
    num_arrivals,
    *,
    dtype=DType.INT32,
    maximum=0,
    seed=0,
    timing=None,
    stalls=("never",) * 3,
):
    """Memory before and after, arrivals with their cycle, and the cycles of items and acks."""
    rng = seeded(seed)
    block = Reducer(SMALL)
    before = [random_flit(rng) for _ in range(DEPTH)]
    after, reads = list(before), []
    seen = SimpleNamespace(arrivals=[], times=[], acked=[], before=before, after=after)
    read, write = timing or (latencies(rng, 30), latencies(rng, 30))

    async def give(ctx):
        put(ctx, block, dtype=dtype, maximum=maximum)
        await send(ctx, block.items, items, go(stalls[0], f"{seed} items"), seen.times)

    async def watch(ctx):
        arrival, cycle = block.arrival, 0
        names = ("op", "flow", "count", "last")
        quiet = inside = 0
        taken = block.items.valid & block.items.ready
        while quiet < 5:
            _, _, valid, *mark, idle, comes, goes = await ctx.tick().sample(
                arrival.valid,
                *(getattr(arrival, name) for name in names),
                *(block.idle, taken, block.write.ack),
            )
            assert not (idle and (valid or inside)), "idle with a flit or a report on its way"
            inside += comes - goes
            if valid:
                seen.arrivals.append((dict(zip(names, mark, strict=True)), cycle))
            quiet = quiet + 1 if len(seen.arrivals) == num_arrivals and idle else 0
            cycle += 1

    background = [
        reader(block.fetch, after, latency=read, stall=stalls[1], seed=f"{seed} r", taken=reads),
        writer(block.write, after, latency=write, stall=stalls[2], seed=seed, acked=seen.acked),
    ]
    run(block, give, watch, background=background)
    seen.reads = reads
    return seen


def expected_memory(before, items, dtype, maximum):
    after = list(before)
    for item in items:
        place, payload = item["address"], item["payload"]
        after[place] = (
            payload if item["replace"] else combine(after[place], payload, dtype, maximum)
        )
    return after


def assert_right(seen, items, arrivals, dtype, maximum=0):
    assert seen.after == expected_memory(seen.before, items, dtype, maximum)
    assert [mark for mark, _ in seen.arrivals] == [mark for mark, _ in arrivals]
    assert [a for _, a in seen.acked] == [item["address"] for item in items]
    assert [a for _, a in seen.reads] == [i["address"] for i in items if not i["replace"]]
    acked = {address: cycle for cycle, address in seen.acked}
    for (_, cycle), (_, address) in zip(seen.arrivals, arrivals, strict=True):
        assert cycle > acked[address], "an arrival before its write was in memory"


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("stall_read", PATTERNS)
@pytest.mark.parametrize("stall_write", PATTERNS)
def test_contributions_are_added_and_chunks_replaced_in_order(stall_read, stall_write):
    seed = f"{stall_read} {stall_write}"
    dtype = DType.FP32 if stall_read in ("never", "bursts") else DType.BF16
    items, arrivals = messages(seeded(seed), 14)
    stalls = ("seldom", stall_read, stall_write)
    seen = simulate(items, len(arrivals), dtype=dtype, seed=seed, stalls=stalls)
    assert_right(seen, items, arrivals, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", list(DType), ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("replace", [0, 1])
def test_one_flit_per_cycle_and_one_report_per_submessage(dtype, replace):
    items, arrivals = messages(seeded(1), 5, sizes=(40,), replace=replace)
    timing = latencies(None, READ_CYCLES), latencies(None, WRITE_CYCLES)
    seen = simulate(items, len(arrivals), dtype=dtype, timing=timing)
    assert_right(seen, items, arrivals, dtype)
    assert seen.times == list(range(len(items)))
    # Adder 4, address register, queues of responses and writes; to replace, two queues.
    latency = 2 if replace else READ_CYCLES + 4 + 3
    assert seen.acked[0][0] == latency + WRITE_CYCLES
    assert [cycle for cycle, _ in seen.acked] == [
        seen.acked[0][0] + k for k in range(len(items))
    ], "writes come at line rate"
    assert seen.arrivals[0][1] == seen.acked[S - 1][0] + 1


@pytest.mark.slow
@pytest.mark.parametrize("dtype", list(DType), ids=lambda dtype: dtype.name)
def test_the_larger_one_is_kept_on_request(dtype):
    items, arrivals = messages(seeded(4), 6, sizes=(23,))
    seen = simulate(items, len(arrivals), dtype=dtype, maximum=1, stalls=("seldom",) * 3)
    assert_right(seen, items, arrivals, dtype, maximum=1)


def test_a_late_memory_only_slows_it_down():
    items, arrivals = messages(seeded(2), 4, sizes=(40,))
    timing = latencies(None, 100), latencies(None, 60)
    seen = simulate(items, len(arrivals), timing=timing)
    assert_right(seen, items, arrivals, DType.INT32)


def test_a_flits_bits_survive_replacing_whatever_they_mean():
    """Signalling NaNs and negative zeros are data like any other."""
    odd = [0x7F800001_FF800001, 0x80000000_00000000, 0x00000001_80000001, 0xFFFFFFFF_7FFFFFFF]
    mark = {"op": 1, "flow": 0, "count": 1, "last": 1}
    items = [
        {"payload": flit, "address": k, "replace": 1, "end": int(k == 3), "mark": mark}
        for k, flit in enumerate(odd)
    ]
    seen = simulate(items, 1, dtype=DType.FP32)
    assert seen.after[: len(odd)] == odd


@pytest.mark.parametrize("seed", range(3))
def test_reports_follow_acknowledgements_of_the_last_write(seed):
    """The acknowledger alone: acknowledgements long before or after their marks."""
    rng = seeded(seed)
    block = Acknowledger(SMALL)
    ends = [int(rng.random() < 0.3) for _ in range(300)] + [1]
    marks = [{"op": k & 1, "flow": k, "count": k % 7, "last": k % 2} for k in range(sum(ends))]
    reports, acked_ends = [], []

    async def drive(ctx):
        given, outstanding = 0, []
        acks, cycle = 0, 0
        while len(reports) < len(marks):
            room = ctx.get(block.room)
            assert room or outstanding
            taken = given < len(ends) and room and rng.random() < 0.6
            put(ctx, block, taken=taken, end=ends[given] if taken else rng.randrange(2))
            ack = bool(outstanding) and rng.random() < (0.2 if cycle % 100 < 60 else 0.9)
            ctx.set(block.ack, ack)
            if ack:
                acked_ends.extend([cycle] if outstanding.pop(0) else [])
                acks += 1
            unacknowledged = bool(outstanding)
            if taken:
                outstanding.append(ends[given])
                given += 1
            assert acks <= given
            arrival = block.arrival
            _, _, valid, flow, last, idle = await ctx.tick().sample(
                arrival.valid, arrival.flow, arrival.last, block.idle
            )
            if valid:
                assert (flow, last) == (len(reports), len(reports) % 2)
                reports.append(cycle)
                assert len(reports) <= len(acked_ends), "a report before its acknowledgement"
                assert cycle > acked_ends[len(reports) - 1]
            assert not (idle and unacknowledged)
            cycle += 1
        await ctx.tick()
        assert ctx.get(block.idle)

    async def give_marks(ctx):
        await send(ctx, block.marks, marks, go("often", seed))

    run(block, drive, give_marks)


@simulation_of(lambda: Acknowledger(SMALL))
async def test_never_more_writes_are_outstanding_than_it_can_count(ctx, block):
    taken = 0
    for _ in range(3 * SMALL.memory_queue_flits):
        room = ctx.get(block.room)
        ctx.set(block.taken, room)
        taken += room
        await ctx.tick()
    assert taken == SMALL.memory_queue_flits
    for _ in range(taken):
        ctx.set(block.ack, 1)
        await ctx.tick()
    ctx.set(block.ack, 0)
    await ctx.tick().repeat(5)
    assert ctx.get(block.idle) and ctx.get(block.room)
