"""Tests of the reducer that forwards: it keeps what it writes, none too early."""

from types import SimpleNamespace

import pytest

from multitree.hw.lanes import DType
from multitree.nic.reduce.forwarding_reducer import ForwardingReducer
from tests.hw.streams import PATTERNS, go, run, seeded, send
from tests.nic.blocks import start
from tests.nic.forward.flips import flipping, recorded
from tests.nic.forward.messages import Messages, scripted
from tests.nic.forward.ports import FORWARDING, encoded, ports
from tests.nic.memory import latencies, reader, tracker, writer
from tests.nic.reduce.test_reducer import combine, random_flit

S, ROOM = FORWARDING.submessage_flits, FORWARDING.memory_queue_flits
DEPTH, ADDER = 1 << FORWARDING.address_width, FORWARDING.adder_stages


def drawn(rng, number, before, dtype, *, sizes=(0, 1, S - 1, S, 23, 40), needs=(0, 1), ops=(0, 1)):
    """Jobs with their items, and what other ports write first at the addresses of some.

    To these addresses a port writes sums of its own, as a sibling before or the last child does.
    """
    jobs, messages, base = [], Messages(lead=1), 0
    for flow in range(number):
        size, op, port = rng.choice(sizes), rng.choice(ops), rng.randrange(3)
        job = {"flow": flow, "op": op, "base": base, "size": size}
        job |= {"needs": rng.choice(needs), "need_port": port, "need_op": 0}
        if job["needs"]:
            sums = [combine(old, random_flit(rng), dtype, 0) for old in before[base:][:size]]
            messages.add(sums, port=port, op=0, flow=flow, base=base)
        jobs.append((job, list(items_of(rng, job))))
        base += size
    assert base <= DEPTH
    return jobs, messages


def items_of(rng, job):
    """The flits of a job's message, with what is reported of them."""
    size = job["size"]
    for k in range(size):
        last = int(k == size - 1)
        mark = {"op": job["op"], "flow": job["flow"], "count": k // S + 1, "last": last}
        item = {"payload": random_flit(rng), "address": job["base"] + k, "replace": job["op"]}
        yield item | {"end": int(last or k % S == S - 1), "mark": mark}


def initial(seed):
    """Content of memory before a run."""
    rng = seeded(f"{seed} memory")
    return [random_flit(rng) for _ in range(DEPTH)]


def simulate(jobs, messages, *, dtype=DType.INT32, seed=0, at=None, slow=None, **given):
    """All that leaves a reducer until everything is acknowledged.

    An item comes with its job or later. `shown` holds per cycle how far this reducer is, and then
    the ports; `times` are those of the items.
    """
    rng, block, after = seeded(seed), ForwardingReducer(FORWARDING), initial(seed)
    seen = SimpleNamespace(arrivals=[], times=[], acked=[], reads=[], written=[], kept=[])
    seen.before, seen.after, seen.shown, seen.idle, seen.errors = list(after), after, [], [], 0
    stalls, taken = given.get("stalls", ("never",) * 5), [0]
    size = sum(len(items) for _, items in jobs)

    async def give(ctx):
        start(ctx, block, cut_through=1)
        ctx.set(block.dtype, dtype)
        for job, _ in jobs:
            await send(ctx, block.jobs, [job], go(stalls[0], f"{seed} {job['flow']}"))
            taken[0] += 1

    async def give_items(ctx):
        moves, cycle = go(stalls[1], f"{seed} items"), 0
        for number, (_, items) in enumerate(jobs):
            while taken[0] <= number:
                await ctx.tick()
                cycle += 1
            for item in items:
                times = []
                await send(ctx, block.items, [item], moves, times)
                cycle += times[0] + 1
                seen.times.append(cycle - 1)

    async def watch(ctx):
        arrival, end = block.arrival, block.forward
        names = ("op", "flow", "count", "last")
        marks = [getattr(arrival, name) for name in names]
        write = [block.write.valid & block.write.ready, block.write.address, block.write.data]
        own = block.positions.written, block.positions.acknowledged
        others = [s for pair in zip(end.written, end.acknowledged, strict=True) for s in pair]
        cycle = quiet = 0
        while quiet < 8:
            signals = [arrival.valid, *marks, *write, block.idle, block.state_error, *own, *others]
            _, _, valid, *rest = await ctx.tick().sample(*signals)
            if valid:
                seen.arrivals.append((dict(zip(names, rest[:4], strict=True)), cycle))
            if rest[4]:
                seen.written.append((cycle, *rest[5:7]))
            seen.idle.append(rest[7])
            seen.errors += rest[8]
            now = rest[9:]
            seen.shown.append(list(zip(now[::2], now[1::2], strict=True)))
            cycle += 1
            quiet = quiet + 1 if len(seen.acked) == size and taken[0] == len(jobs) else 0

    end = block.forward, messages.models, after
    writes, acks = given.get("writes", "seldom"), given.get("acks", "often")
    others = scripted(*end, at) if at else ports(*end, writes=writes, acks=acks, seed=seed)
    read, write = (latencies(rng, 20) if slow is None else latencies(None, slow) for _ in range(2))
    background = [
        others,
        lambda ctx: _look(ctx, block, seen, rng),
        reader(block.fetch, after, latency=read, stall=stalls[2], seed=seed, taken=seen.reads),
        writer(block.write, after, latency=write, stall=stalls[3], seed=seed, acked=seen.acked),
        tracker(block.beginning, messages.begins, stall=stalls[4], seed=seed),
        tracker(block.query, messages.counts, stall=stalls[4], seed=seed),
        *given.get("more", ()),
    ]
    run(block, give, give_items, watch, background=background)
    return seen


async def _look(ctx, block, seen, rng):
    """Read what is kept, at positions that are kept still, with every reader."""
    asked, written, size = [], 0, FORWARDING.forward_flits
    while True:
        seen.kept += [(number, ctx.get(block.kept[k])) for k, number in enumerate(asked)]
        # A position may be asked for in the cycle behind that in which it is seen.
        oldest = max(written - size + 8, 0)
        asked = [rng.randrange(oldest, written) for _ in block.addresses] if written else []
        for address, number in zip(block.addresses, asked, strict=False):
            ctx.set(address, number % size)
        written = ctx.get(block.positions.written)
        await ctx.tick()


def assert_reduced(seen, jobs, messages, dtype):
    """Memory, reports, what was read, and what is kept are as they should be."""
    after, results = messages.written_into(seen.before), []
    for _, items in jobs:
        for item in items:
            place, flit = item["address"], item["payload"]
            after[place] = flit if item["replace"] else combine(after[place], flit, dtype, 0)
            results.append((place, after[place]))
    assert not seen.errors
    assert seen.after == after
    assert [tuple(write) for _, *write in seen.written] == results
    assert [address for _, address in seen.acked] == [place for place, _ in results]
    marks = [item["mark"] for _, items in jobs for item in items if item["end"]]
    assert [mark for mark, _ in seen.arrivals] == marks
    assert seen.kept and all(kept == encoded(results[number][1]) for number, kept in seen.kept)
    assert seen.shown[-1][0] == (len(results),) * 2
    for cycle, ((written, acknowledged), *_) in enumerate(seen.shown):
        assert acknowledged == sum(time < cycle for time, _ in seen.acked) <= written
    local = [i["address"] for job, items in jobs if not job["op"] | job["needs"] for i in items]
    reads = [address for _, address in seen.reads]
    assert len(set(reads)) == len(reads) and set(local) <= set(reads)
    for job, items in jobs:
        assert not (job["op"] and {item["address"] for item in items} & set(reads))
    for cycle, address, *_ in [*seen.written, *seen.reads]:
        place = messages.position_of(address)
        if place:
            port, position = place
            assert seen.shown[cycle][1 + port][1] > position, "before what is to be there first"


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("stall_write", PATTERNS)
@pytest.mark.parametrize("writes", PATTERNS)
def test_contributions_are_added_and_chunks_replaced_behind_what_other_ports_write(
    stall_write, writes
):
    seed = f"{stall_write} {writes}"
    rng, dtype = seeded(seed), list(DType)[PATTERNS.index(writes) % 3]
    jobs, messages = drawn(rng, 12, initial(seed), dtype)
    stalls = ("seldom", rng.choice(PATTERNS), rng.choice(PATTERNS), stall_write, "often")
    given = {"stalls": stalls, "writes": writes, "acks": rng.choice(PATTERNS)}
    seen = simulate(jobs, messages, dtype=dtype, seed=seed, **given)
    assert_reduced(seen, jobs, messages, dtype)


@pytest.mark.parametrize("dtype", list(DType), ids=lambda dtype: dtype.name)
def test_what_is_kept_is_what_is_written_rounded_and_with_canonical_nans(dtype):
    """NaNs and infinities are among the operands; a flit that replaces keeps all its bits."""
    odd = [0x7F800001_FF800001, 0x7F817F81_FFC1FF81, 0x7F80FF80_FF807F80, 0x80000000_00000001]
    seed, rng = dtype.name, seeded(dtype.name)
    jobs, messages = drawn(rng, 6, initial(seed), dtype, sizes=(20,), needs=(0,))
    for _, items in jobs:
        for item, flit in zip(items, odd, strict=False):
            item["payload"] = flit
    seen = simulate(jobs, messages, dtype=dtype, seed=seed)
    assert_reduced(seen, jobs, messages, dtype)


def on_time(jobs, messages, at, **given):
    """A run whose memory takes 3 cycles, and the position of each item that was taken."""
    seen = simulate(jobs, messages, at=at, slow=3, **given)
    assert_reduced(seen, jobs, messages, DType.INT32)
    shown = [now[0][0] for now in seen.shown]
    return seen, [shown.index(k + 1) for k in range(len(seen.times))]


def test_a_sum_has_its_position_adder_and_1_cycles_behind_its_flit_while_operands_are_there():
    jobs, messages = drawn(seeded(0), 3, initial(0), DType.INT32, sizes=(9,), needs=(0,), ops=(0,))
    # Items come so late that what they are added to was read.
    seen, positions = on_time(jobs, messages, lambda *_: (0, 0), stalls=("never", "often") * 3)
    assert positions[9:] == [time + ADDER + 1 for time in seen.times[9:]]


def test_a_flit_that_replaces_has_its_position_2_cycles_behind_while_nothing_is_added():
    jobs, messages = drawn(seeded(0), 2, initial(0), DType.INT32, sizes=(9,), needs=(0,), ops=(1,))
    seen, positions = on_time(jobs, messages, lambda *_: (0, 0))
    assert positions == [time + 2 for time in seen.times]


@pytest.mark.slow
@pytest.mark.parametrize("op", [0, 1])
@pytest.mark.parametrize("needs", [0, 1])
def test_one_flit_per_cycle_is_taken_and_written_while_all_is_there(op, needs):
    given = {"sizes": (30,), "needs": (needs,), "ops": (op,)}
    jobs, messages = drawn(seeded(0), 4, initial(0), DType.INT32, **given)
    lengths = [len(model.flits) for model in messages.models]

    def at(cycle, port):
        return (lengths[port],) * 2

    seen, _ = on_time(jobs, messages, at)
    written = [cycle for cycle, *_ in seen.written]
    assert written[-1] - written[0] <= len(written) - 1 + 4
    assert [mark["count"] for mark, _ in seen.arrivals] == [*range(1, 9)] * 4


@pytest.mark.slow
@pytest.mark.parametrize("op", [0, 1])
def test_it_writes_behind_the_port_before_it_but_goes_on_before(op):
    given = {"sizes": (60,), "needs": (1,), "ops": (op,)}
    jobs, messages = drawn(seeded(0), 1, initial(0), DType.INT32, **given)
    job, _ = jobs[0]
    hold = 150

    def at(cycle, port):
        if port != job["need_port"]:
            return 0, 0
        return min(cycle, 60), min(max(cycle - hold, 0) // 2, 60)

    seen, _ = on_time(jobs, messages, at)
    first, *_ = seen.shown[hold]
    # All that its queues hold is summed and forwarded; nothing of it is written.
    assert first == (ROOM, 0)
    # Each a cycle behind the acknowledgement at its address, of which one comes in two cycles.
    assert [cycle for cycle, *_ in seen.written] == [hold + 2 * k + 2 + 1 for k in range(60)]


def test_more_short_messages_than_it_holds_the_order_of_wait_for_each_other():
    given = {"sizes": (1,), "needs": (1,), "ops": (1,)}
    jobs, messages = drawn(seeded(0), 26, initial(0), DType.INT32, **given)
    lengths = [len(model.flits) for model in messages.models]
    seen, _ = on_time(jobs, messages, lambda cycle, k: (lengths[k], lengths[k] * (cycle > 200)))
    assert seen.written[0][0] > 200


@pytest.mark.slow
def test_it_is_idle_only_while_no_job_and_no_flit_is_in_hand():
    jobs, messages = drawn(seeded(0), 1, initial(0), DType.INT32, sizes=(5,), needs=(1,), ops=(0,))
    port = jobs[0][0]["need_port"]
    seen, _ = on_time(jobs, messages, lambda cycle, k: (5 * (k == port and cycle > 50),) * 2)
    (*_, (_, last)), idle = seen.arrivals, seen.idle
    assert idle == [0] * (last + 1) + [1] * (len(idle) - last - 1)


@pytest.mark.parametrize("needs", [0, 1])
def test_a_message_without_payload_is_in_hand_until_the_one_before_it_has_begun(needs):
    block, messages, idle, begin = ForwardingReducer(FORWARDING), Messages(since=40), [], 40
    messages.add([], port=2, op=0, flow=3, base=0)

    async def drive(ctx):
        start(ctx, block, cut_through=1)
        ctx.set(block.jobs.payload, {"flow": 3, "needs": needs, "need_port": 2})
        for cycle in range(80):
            ctx.set(block.jobs.valid, cycle == 0)
            _, _, now = await ctx.tick().sample(block.idle)
            idle.append(now)

    pairs = (block.beginning, messages.begins), (block.query, lambda *_: 0)
    run(block, drive, background=[tracker(*pair) for pair in pairs])
    busy = begin + 2 if needs else 2
    assert idle == [0] * busy + [1] * (80 - busy)


@pytest.mark.parametrize("running", [0, 1])
def test_positions_begin_at_0_when_no_collective_runs(running):
    (job, items), *_ = drawn(seeded(0), 1, initial(0), DType.INT32, sizes=(3,), needs=(0,))[0]
    block, seen = ForwardingReducer(FORWARDING), []

    async def drive(ctx):
        start(ctx, block)
        await send(ctx, block.jobs, [job], go("never", 0))
        await send(ctx, block.items, items, go("never", 0))
        await ctx.tick().repeat(20)
        start(ctx, block, running=running)
        for _ in range(2):
            positions = block.positions
            seen.append((ctx.get(positions.written), ctx.get(positions.acknowledged)))
            await ctx.tick()

    memory = initial(0)
    ends = reader(block.fetch, memory, latency=latencies(None, 3))
    run(block, drive, background=[ends, writer(block.write, memory, latency=latencies(None, 3))])
    assert seen == [(3, 3), (3 * running,) * 2]


NUM_QUEUES = 13


@pytest.fixture
def memories(monkeypatch):
    """The memories of all queues that are made, whose content a test may change."""
    return recorded(monkeypatch)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("number", [None, *range(NUM_QUEUES)])
def test_a_bit_that_flips_in_a_queue_is_a_state_error_and_nothing_else_is(number, memories):
    rng, flipped, dtype = seeded(0), [], DType.INT32
    jobs, messages = drawn(rng, 20, initial(0), dtype, sizes=(1, 2, 40), needs=(0, 1, 1))
    lengths = [len(model.flits) for model in messages.models]

    def at(cycle, port):
        """Jobs queue up, and then much is written at once: what comes first is kept no more."""
        written = min(9 * max(cycle - 60, 0), lengths[port])
        return written, min(4 * max(cycle - 60, 0), written)

    def flip(ctx):
        return flipping(memories[number], flipped)(ctx)

    more, stalls = [flip] * (number is not None), ("never", "bursts", "never", "bursts", "never")
    seen = simulate(jobs, messages, dtype=dtype, at=at, stalls=stalls, more=more)
    assert len(memories) == NUM_QUEUES
    assert bool(seen.errors) == bool(flipped) == (number is not None)
