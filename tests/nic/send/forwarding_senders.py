"""A sender that forwards, for tests: jobs and ports in, all that leaves it out."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

from multitree.hw.link.link import Kind
from multitree.nic.send.sender import ForwardingSender
from tests.hw.streams import go, receive, run, seeded, send
from tests.nic.blocks import plain, start
from tests.nic.forward.messages import scripted
from tests.nic.forward.ports import FORWARDING, ports
from tests.nic.memory import latencies, reader, tracker
from tests.nic.send.test_sender import BASE, SEQUENCE, flits_of

S, RING = FORWARDING.submessage_flits, FORWARDING.forward_flits
DEPTH = 1 << FORWARDING.address_width
STALE = 8
"""Flits of the ring that are not read any more: positions are some cycles old."""
LATENCY = 3
"""From a position to its flit."""
WAVES = replace(FORWARDING, wave_width=3)


def drawn(rng, messages, number, sizes=(0, 1, 2, S, S + 1, 9, 40), needs=(0, 1)):
    """Jobs with a chunk each, and the messages that write those that need one."""
    jobs = []
    for k in range(number):
        size, port, op = rng.choice(sizes), rng.randrange(3), rng.randrange(2)
        job = {"row": k, "flow": k, "op": rng.randrange(2), "base": 41 * k, "size": size}
        job |= {"needs": rng.choice(needs), "need_port": port, "need_op": op}
        if job["needs"]:
            add(rng, messages, job)
        jobs.append(job)
    return jobs


def add(rng, messages, job):
    """The message that a job's chunk waits for."""
    names = {"port": job["need_port"], "op": job["need_op"], "flow": job["flow"]}
    flits = [rng.getrandbits(64) for _ in range(job["size"])]
    messages.add(flits, **names, base=BASE + job["base"], wave=job.get("wave", 0))


def simulate(jobs, messages, *, seed=0, at=None, writes="seldom", acks="often", **given):
    """All that is seen of a sender until the last flit of its jobs has left.

    Ports write at random, or `at` given places. `shown` holds per cycle and port how many flits
    are written and acknowledged.
    """
    stalls, latency = given.pop("stalls", ("never",) * 4), given.pop("latency", None)
    late, config = given.pop("late", 0), messages.config
    block, rng = ForwardingSender(config), seeded(seed)
    memory = [rng.getrandbits(64) for _ in range(DEPTH)]
    seen = SimpleNamespace(got=[], times=[], reads=[], shown=[], forwarded=0, idle=[], errors=0)
    whole = messages.written_into(memory)
    packets = given.get("packets", 0)
    seen.flits = [flit for job in jobs for flit in flits_of(job, whole, packets)]
    settings = {"window_base": BASE, "sequence": SEQUENCE, "cut_through": 1, "last_wave": 7}

    async def give(ctx):
        start(ctx, block, **settings | given)
        await ctx.tick().repeat(late) if late else None
        await send(ctx, block.jobs, jobs, go(stalls[0], f"{seed} jobs"))

    async def take(ctx):
        moves = go(stalls[1], f"{seed} flits")
        got = await receive(ctx, block.flits, len(seen.flits), moves, seen.times)
        seen.got = [plain(flit) for flit in got]
        for _ in range(12):
            seen.idle.append(ctx.get(block.idle))
            await ctx.tick()

    async def watch(ctx):
        pairs = zip(block.forward.written, block.forward.acknowledged, strict=True)
        signals = [signal for pair in pairs for signal in pair]
        while True:
            _, _, taken, error, *now = await ctx.tick().sample(
                block.forwarded, block.state_error, *signals
            )
            seen.shown.append(list(zip(now[::2], now[1::2], strict=True)))
            seen.forwarded += taken
            seen.errors += error

    end = block.forward, messages.models, memory
    written = scripted(*end, at) if at else ports(*end, writes=writes, acks=acks, seed=seed)
    read = {"latency": latency or latencies(rng, 20), "stall": stalls[2], "seed": seed}
    background = [
        written,
        watch,
        reader(block.memory, memory, taken=seen.reads, **read),
        tracker(block.beginning, messages.begins, stall=stalls[3], seed=f"{seed} begins"),
        tracker(block.query, messages.counts, stall=stalls[3], seed=f"{seed} counts"),
    ]
    run(block, give, take, background=background)
    assert all(seen.idle) and not seen.errors
    assert seen.got == seen.flits
    assert_read_once_or_forwarded(seen, jobs, messages)
    return seen


def assert_read_once_or_forwarded(seen, jobs, messages):
    """Each flit is read once, when memory has it, or is counted as forwarded."""
    chunks = {BASE + job["base"] + k for job in jobs for k in range(job["size"])}
    addresses = [address for _, address in seen.reads]
    assert len(set(addresses)) == len(addresses) and set(addresses) <= chunks
    assert seen.forwarded == len(chunks) - len(addresses)
    for cycle, address in seen.reads:
        place = messages.position_of(address)
        if place:
            port, position = place
            assert seen.shown[cycle][port][1] > position, "a read before its acknowledgement"


def first(seen, port, number, *, acknowledged=0):
    """The first cycle that shows so many flits of a port written, or acknowledged."""
    return next(c for c in count() if seen.shown[c][port][acknowledged] >= number)


def places_of(jobs, messages):
    """Of each payload flit, in their order: its port and position, if a port writes it."""
    addresses = (BASE + job["base"] + k for job in jobs for k in range(job["size"]))
    return [messages.position_of(address) for address in addresses]


def payload_times(seen):
    """The cycle of each payload flit."""
    body = (Kind.BODY.value, Kind.TAIL.value)
    return [t for t, flit in zip(seen.times, seen.got, strict=True) if flit["kind"] in body]


def bound(rng, messages, sizes, *, port=1, flow=0, **fields):
    """Jobs that need one message each, of one port and of flows from `flow` on."""
    jobs, base = [], 40 * flow
    for k, size in enumerate(sizes, flow):
        job = {"row": k, "flow": k, "op": k % 2, "base": base, "size": size}
        job |= {"needs": 1, "need_port": port, "need_op": 1} | fields
        add(rng, messages, job)
        jobs.append(job)
        base += size
    return jobs
