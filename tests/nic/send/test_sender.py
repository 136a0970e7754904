"""Tests of the sender: rows become messages, bit for bit and never too early."""

from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace

import pytest

from multitree.hw.link.link import Kind
from multitree.nic.driver.faults import Awaited
from multitree.nic.send.sender import Sender
from tests.hw.streams import PATTERNS, go, put, receive, run, seeded, send
from tests.nic.blocks import SMALL, head, plain, start
from tests.nic.memory import latencies, reader, tracker

S = SMALL.submessage_flits
BASE, SEQUENCE = 17, 200


def flits_of(job, memory, packets=0):
    """The message that a job stands for, with a head per sub-message if it goes in packets."""
    named = {"flow": job["flow"], "op": job.get("op", 0), "sequence": SEQUENCE}
    size = job["size"]
    named |= {"size": size, "wave": job.get("wave", 0)}
    if size == 0:
        return [{"kind": Kind.SINGLE.value, "payload": head(**named)}]
    chunk = memory[BASE + job["base"] :][:size]
    flits = []
    for place in range(0, size, S if packets else size):
        part = chunk[place : place + S] if packets else chunk
        flits.append({"kind": Kind.HEAD.value, "payload": head(**named, continued=int(place > 0))})
        flits += [{"kind": Kind.BODY.value, "payload": flit} for flit in part]
        flits[-1]["kind"] = Kind.TAIL.value
    return flits


def submessages(job):
    return max(1, -(-job["size"] // S))


def random_jobs(rng, count):
    jobs = []
    for row in range(count):
        job = {"row": row, "flow": row, "op": rng.randrange(2)}
        job |= {"base": 40 * row, "size": rng.choice([0, 0, 1, 2, S, S + 1, 23])}
        job |= {"needs": rng.randrange(2), "need_port": rng.randrange(3)}
        jobs.append(job | {"need_op": rng.randrange(2)})
    return jobs


def simulate(jobs, *, seed=0, count=None, latency=None, stalls=("never",) * 4, **given):
    """What is seen of a sender that sends its jobs' flits: the cycle of each, reads and answers.

    Of each job it has the number of its head among the flits, and the cycle behind which it may go.
    """
    config, rng = given.pop("config", SMALL), seeded(seed)
    block = Sender(config)
    memory = [rng.getrandbits(64) for _ in range(1 << SMALL.address_width)]
    packets = given.get("packets", 0)
    flits = [flit for job in jobs for flit in flits_of(job, memory, packets)]
    seen = SimpleNamespace(times=[], reads=[], answers=[])

    async def give(ctx):
        start(ctx, block, window_base=BASE, sequence=SEQUENCE, **given)
        await send(ctx, block.jobs, jobs, go(stalls[0], f"{seed} jobs"))

    async def take(ctx):
        moves = go(stalls[1], f"{seed} flits")
        got = await receive(ctx, block.flits, len(flits), moves, seen.times)
        assert [plain(flit) for flit in got] == flits
        for _ in range(20):
            assert ctx.get(block.idle)
            await ctx.tick()

    read = {"latency": latency or latencies(rng, 25), "stall": stalls[2], "taken": seen.reads}
    count = count or (lambda *_: (1 << config.count_width) - 1)
    answer = {"stall": stalls[3], "answers": seen.answers}
    ends = reader(block.memory, memory, seed=seed, **read)
    run(block, give, take, background=[ends, tracker(block.query, count, seed=seed, **answer)])
    seen.heads = list(accumulate((1 + job["size"] for job in jobs), initial=0))[:-1]
    return seen


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("stall_flits", PATTERNS)
@pytest.mark.parametrize("stall_memory", PATTERNS)
@pytest.mark.parametrize("packets", [0, 1])
def test_messages_are_the_jobs_bit_for_bit_and_every_flit_is_read_once(
    stall_flits, stall_memory, packets
):
    seed = f"{stall_flits} {stall_memory}"
    jobs = random_jobs(seeded(seed), 10)
    stalls = ("seldom", stall_flits, stall_memory, "often")
    seen = simulate(jobs, seed=seed, stalls=stalls, packets=packets)
    addresses = [BASE + job["base"] + k for job in jobs for k in range(job["size"])]
    assert [address for _, address in seen.reads] == addresses


@pytest.mark.parametrize("seed", range(4))
def test_no_head_and_no_read_before_the_last_submessage_it_depends_on(seed):
    jobs = random_jobs(seeded(seed), 8)
    due = {}

    def count(cycle, port, op, flow):
        job = jobs[flow]
        assert job["needs"] and (port, op) == (job["need_port"], job["need_op"])
        first = due.setdefault(flow, cycle)
        # One sub-message more every nine cycles.
        return min((cycle - first) // 9, submessages(job))

    seen = simulate(jobs, seed=seed, count=count)
    for job, place in zip(jobs, seen.heads, strict=True):
        whole = [c for c, flow, n in seen.answers if flow == job["flow"] and n == submessages(job)]
        if job["needs"]:
            assert 1 <= len(whole) <= 2, "it stops asking when it knows"
            behind = seen.times[place - 1] + 1 if place else 0
            assert seen.times[place] == max(whole[0] + 1, behind)
            reads_of_it = [c for c, a in seen.reads if 0 <= a - BASE - job["base"] < job["size"]]
            assert all(cycle > whole[0] for cycle in reads_of_it)


def first_answer(seen, job, number):
    """The first cycle in which a sender knows of so much of what a job needs."""
    return min(cycle for cycle, flow, n in seen.answers if flow == job["flow"] and n >= number)


def assert_goes_at_once(seen, place, came):
    """A head leaves when enough came in, or behind the message before it."""
    behind = seen.times[place - 1] + 2 if place else 0
    assert came + 1 <= seen.times[place] <= max(came + 1, behind)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("interval", [2, 9])
def test_with_cut_through_each_submessage_is_read_once_as_much_came_in(seed, interval):
    jobs = [job | {"needs": 1} for job in random_jobs(seeded(seed), 8)]
    due, known = {}, {}

    def count(cycle, port, op, flow):
        first = due.setdefault(flow, cycle)
        known[flow] = min((cycle - first) // interval, submessages(jobs[flow]))
        return known[flow]

    seen = simulate(jobs, seed=seed, count=count, cut_through=1)
    for job, place in zip(jobs, seen.heads, strict=True):
        came = [first_answer(seen, job, number) for number in range(1, submessages(job) + 1)]
        assert_goes_at_once(seen, place, came[0])
        for cycle, address in seen.reads:
            offset = address - BASE - job["base"]
            if 0 <= offset < job["size"]:
                assert cycle > came[offset // S]
                assert interval < 9 or offset % S or cycle == came[offset // S] + 1


@pytest.mark.parametrize("cut_through", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_a_wave_goes_when_as_much_as_it_needs_of_that_wave_is_in_and_its_head_names_it(
    seed, cut_through
):
    """All of an earlier wave is not enough, and anything of a later one is."""
    rng = seeded(seed)
    config = replace(SMALL, wave_width=5)
    jobs = [job | {"needs": 1, "wave": rng.randrange(32)} for job in random_jobs(rng, 8)]
    due, skips = {}, [rng.random() < 0.3 for _ in jobs]

    def count(cycle, port, op, flow):
        wave, number = jobs[flow]["wave"], submessages(jobs[flow])
        late = cycle - due.setdefault(flow, cycle)
        if late < 20:
            return max(0, (wave << config.part_width) - 1) if wave else 0
        if skips[flow] and wave < 31:
            return (wave + 1) << config.part_width | 1
        return wave << config.part_width | min((late - 20) // 5, number)

    seen = simulate(jobs, seed=seed, count=count, config=config, cut_through=cut_through)
    for job, place in zip(jobs, seen.heads, strict=True):
        first = 1 if cut_through else submessages(job)
        enough = job["wave"] << config.part_width | first
        assert_goes_at_once(seen, place, first_answer(seen, job, enough))


@pytest.mark.parametrize("latency", [1, 4, 20])
def test_one_flit_per_cycle_and_at_most_one_cycle_lost_per_message(latency):
    sizes = [40, 33, 50, 17, 64, 40]
    jobs = [{"flow": k, "base": 70 * k, "size": size} for k, size in enumerate(sizes)]
    times = simulate(jobs, latency=latencies(None, latency)).times
    flits = sum(sizes) + len(sizes)
    assert times[-1] - times[1] <= flits - 2 + len(sizes) - 1


@pytest.mark.parametrize("latency", [1, 4, 20])
def test_the_first_flits_come_as_soon_as_documented(latency):
    job = {"flow": 1, "base": 5, "size": 9}
    seen = simulate([job], latency=latencies(None, latency))
    satisfied = 1  # The job is taken in cycle 0 and waits for nothing.
    assert seen.times[:2] == [satisfied + 1, satisfied + latency + 2]
    assert [cycle for cycle, _ in seen.reads] == list(range(satisfied + 1, satisfied + 10))


@pytest.mark.parametrize("stop", range(3, 60, 4))
def test_it_stops_at_once_on_a_fault(stop):
    block, after = Sender(SMALL), []
    jobs = [{"flow": 1, "size": 20}, {"flow": 2, "size": 20}]
    memory = list(range(1 << SMALL.address_width))
    reads = []

    async def drive(ctx):
        start(ctx, block)
        ctx.set(block.flits.ready, 1)
        for cycle in range(100):
            put(ctx, block.jobs, valid=cycle < 10, payload=jobs[0])
            if cycle == stop:
                start(ctx, block, running=0, faulted=1)
            _, _, valid = await ctx.tick().sample(block.flits.valid)
            after.append(valid)

    channel = reader(block.memory, memory, latency=latencies(None, 3), taken=reads)
    run(block, drive, background=[channel])
    assert any(after) or stop < 8
    assert not any(after[stop:])
    # At most the two reads that were on their way to memory.
    assert sum(cycle >= stop for cycle, _ in reads) <= 2


def waits(jobs, *, ready=1, answered=0, latency=10_000, cycles=60, config=SMALL):
    """What a sender says it waits for, in the end."""
    block, found = Sender(config), {}

    async def drive(ctx):
        start(ctx, block)
        ctx.set(block.flits.ready, ready)
        put(ctx, block.query, count=answered, answered=1)
        await send(ctx, block.jobs, jobs, go("never", 0))
        await ctx.tick().repeat(cycles)
        for name in block.wait.signature.members:
            found[name] = ctx.get(getattr(block.wait, name))

    memory = [0] * (1 << SMALL.address_width)
    channel = reader(block.memory, memory, latency=latencies(None, latency))
    run(block, drive, background=[channel])
    return found


@pytest.mark.parametrize("packets", [0, 1])
def test_it_is_idle_only_before_and_after_its_message(packets):
    block, idle, tails = Sender(SMALL), [], []

    async def drive(ctx):
        start(ctx, block, packets=packets)
        ctx.set(block.flits.ready, 1)
        for cycle in range(80):
            ctx.set(block.jobs.valid, cycle == 5)
            ctx.set(block.jobs.payload, {"row": 2, "flow": 1, "op": 1, "size": 9})
            _, _, now, kind, sent = await ctx.tick().sample(
                block.idle, block.flits.payload.kind, block.flits.valid
            )
            idle.append(now)
            tails.extend([cycle] * (sent and kind == Kind.TAIL))

    memory = list(range(1 << SMALL.address_width))
    run(block, drive, background=[reader(block.memory, memory, latency=latencies(None, 8))])
    assert len(tails) == (3 if packets else 1)
    assert idle == [1] * 5 + [0] * (tails[-1] - 4) + [1] * (79 - tails[-1])


FREE = {"row": 6, "flow": 3, "op": 1, "size": 4}
BOUND = {"row": 7, "flow": 4, "op": 0, "size": 4, "needs": 1, "need_port": 2, "need_op": 1}


def test_a_message_that_waits_for_memory_is_named():
    found = waits([FREE])
    named = {name: found[name] for name in ("awaited", "row", "flow", "op")}
    assert named == {"awaited": Awaited.MEMORY_READ, "row": 6, "flow": 3, "op": 1}


@pytest.mark.slow
def test_it_names_the_row_that_waits_and_what_for():
    dependency = {"row": 7, "flow": 4, "port": 2, "op": 1}
    assert waits([]) | dependency == {"awaited": Awaited.NOTHING} | dependency
    assert waits([BOUND]) == {"awaited": Awaited.DEPENDENCY} | dependency
    # The message being sent is named while it waits itself, not the next row.
    for stuck in ({"ready": 0, "latency": 3}, {"ready": 1}):
        for behind in (BOUND, BOUND | {"needs": 0}):
            found = waits([FREE, behind], **stuck)
            code = Awaited.CREDIT if not stuck["ready"] else Awaited.MEMORY_READ
            assert (found["awaited"], found["row"], found["flow"], found["op"]) == (code, 6, 3, 1)
    assert waits([FREE, BOUND], latency=3) == {"awaited": Awaited.DEPENDENCY} | dependency
    repeats = {"config": replace(SMALL, wave_width=5)}
    jobs = [FREE | {"wave": 9}, BOUND | {"wave": 30}]
    waiting = {"awaited": Awaited.DEPENDENCY, "wave": 30} | dependency
    assert waits(jobs, latency=3, **repeats) == waiting
    assert waits(jobs, ready=0, **repeats)["wave"] == waits(jobs, **repeats)["wave"] == 9
    empty = FREE | {"size": 0}
    assert waits([empty, BOUND], ready=0)["row"] == 6
