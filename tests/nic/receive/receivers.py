"""A receiver with its flow memory, for tests: messages in, all that leaves it out."""

from functools import cache
from types import SimpleNamespace

from amaranth import Elaboratable, Module
from amaranth.lib import wiring

from multitree.hw.lanes import DType
from multitree.hw.link.link import Kind
from multitree.nic.control.memories import FlowMemory
from multitree.nic.driver.formats import sequence_width
from multitree.nic.layouts import FLOW_ENTRY
from multitree.nic.receive.receiver import Receiver
from tests.hw.streams import go, run, seeded, send
from tests.nic.blocks import SMALL, entry, head, load, start
from tests.nic.memory import latencies, reader, tracker, writer
from tests.nic.reduce.test_reducer import combine

S, PORT, BASE = SMALL.submessage_flits, 1, 5
NUMBERS = 1 << sequence_width(SMALL)
SEQUENCE = NUMBERS - 1
DEPTH = 1 << SMALL.address_width
REDUCE, GATHER = 0, 1
FIRST = {"base": 0, "size": 10, "children": [PORT], "parent": 0}
SECOND = {"base": 100, "size": 11, "children": [2, PORT, 0]}
BELOW = {"base": 200, "size": S, "children": [0], "parent": PORT}
EMPTY = {"base": 300, "size": 0, "children": [0, PORT], "parent": PORT}
FLOWS = [FIRST, SECOND, BELOW, EMPTY]


class Bench(Elaboratable):
    """A receiver and the flow memory, which another client may hold up."""

    def __init__(self, config):
        self.receiver = Receiver(config)
        self.flows = FlowMemory(config, num_clients=2)

    def elaborate(self, platform):
        m = Module()
        m.submodules += [self.receiver, self.flows]
        m.d.comb += self.receiver.port.eq(PORT)
        wiring.connect(m, self.receiver.lookup, self.flows.lookups[0])
        return m


the_bench = cache(Bench)
"""One for all runs, of which most take less time than elaborating it."""


def packets(number, op, rng=None, *, wave=0):
    """Flits of a flow's message in packets: a head before every sub-message."""
    first, *payload = message(number, op, rng, wave=wave)
    flits = []
    for k, flit in enumerate(payload):
        if k % S == 0:
            fields = {"flow": number, "op": op, "sequence": SEQUENCE, "continued": int(k > 0)}
            fields |= {"size": FLOWS[number]["size"], "wave": wave}
            flits.append(first | {"payload": head(**fields)})
        is_tail = k % S == S - 1 or k == len(payload) - 1
        flits.append(flit | {"kind": Kind.TAIL if is_tail else Kind.BODY})
    return flits or [first]


def message(number, op, rng=None, *, size=None, **fields):
    """Flits of a flow's message as a sender makes them, but for the fields of its head given."""
    size = FLOWS[number]["size"] if size is None else size
    first = head(**{"flow": number, "op": op, "sequence": SEQUENCE, "size": size} | fields)
    if size == 0:
        return [{"kind": Kind.SINGLE, "payload": first}]
    payload = [rng.getrandbits(64) if rng else k for k in range(size)]
    kinds = [Kind.BODY] * (size - 1) + [Kind.TAIL]
    body = [{"kind": k, "payload": p} for k, p in zip(kinds, payload, strict=True)]
    return [{"kind": Kind.HEAD, "payload": first}, *body]


def outcome(content, sent, *, dtype=DType.INT32, flows=FLOWS, stride=0, config=SMALL):
    """Put what messages (flow, op, wave, flits) do into memory's content.

    Returns (place, flit) of each write in order, and the reports of sub-messages.
    """
    writes, reports = [], []
    for number, op, wave, flits in sent:
        payload = [flit["payload"] for flit in flits if flit["kind"] in (Kind.BODY, Kind.TAIL)]
        for place, flit in enumerate(payload, BASE + flows[number]["base"] + wave * stride):
            content[place] = flit if op == GATHER else combine(content[place], flit, dtype, 0)
            writes.append((place, content[place]))
        most, part = max(1, -(-len(payload) // S)), wave << config.part_width
        reports += [[op, number, part | k, int(k == most)] for k in range(1, most + 1)]
    return writes, reports


def assert_received(seen, sent, **given):
    """Each of (flow, op, wave, flits) is in memory and reported, sub-message by sub-message."""
    expected = list(seen.before)
    _, reports = outcome(expected, sent, **given)
    assert not seen.faults
    assert [report for _, *report in seen.arrivals] == reports
    assert seen.after == expected


def simulate(
    flits,
    *,
    cycles=600,
    seed=0,
    count=None,
    stalls=("never",) * 5,
    slow=None,
    script=(),
    flip=None,
    config=SMALL,
    stride=0,
):
    """Everything that leaves a receiver in so many cycles after its flows were written.

    `script` changes settings of the collective: cycle, settings. A `flip` is a flow and a bit of
    its entry. Each flow's waves are `stride` flits apart.
    """
    rng = seeded(seed)
    bench = the_bench(config)
    block = bench.receiver
    memory = [rng.getrandbits(64) for _ in range(DEPTH)]
    seen = SimpleNamespace(arrivals=[], faults=[], reads=[], acked=[], times=[], waits=[])
    seen.fault_waves, seen.wait_waves, seen.before, seen.after = [], [], list(memory), memory
    script = dict(script)

    async def drive(ctx):
        entries = [entry(**flow, stride=stride) for flow in FLOWS]
        await load(ctx, bench.flows, FLOW_ENTRY, entries)
        if flip is not None:
            stored = bench.flows.content.banks[0][flip[0]]
            ctx.set(stored, ctx.get(stored) ^ 1 << flip[1])
        settings = {"window_base": BASE, "num_flows": len(FLOWS), "sequence": SEQUENCE}
        start(ctx, block, **settings | script.get(0, {}))
        busy = go(stalls[1], f"{seed} lookups")
        arrival, wait = block.arrival, block.wait
        outputs = [arrival.op, arrival.flow, arrival.count, arrival.last, block.fault]
        outputs += [wait.awaited, wait.flow, wait.port, wait.op]
        outputs += [wait.wave] if config.wave_width else []
        busy_until = max(script, default=0)
        for cycle in range(cycles):
            if cycle > busy_until + 160 and len(seen.times) == len(flits):
                break
            if cycle in script:
                settings |= script[cycle]
                start(ctx, block, **settings)
            ctx.set(bench.flows.lookups[1].valid, not next(busy))
            _, _, valid, *values = await ctx.tick().sample(arrival.valid, *outputs)
            if valid or len(seen.times) < len(flits):
                busy_until = max(busy_until, cycle)
            if valid:
                seen.arrivals.append((cycle, *values[:4]))
            if values[4] and not seen.faults:
                seen.faults.append((cycle, values[4], values[6]))
                seen.fault_waves += values[9:]
                settings |= {"running": 0, "faulted": 1}
                start(ctx, block, **settings)
            seen.waits.append(tuple(values[5:9]))
            seen.wait_waves += values[9:]

    async def give(ctx):
        await ctx.tick().repeat(5 * len(FLOWS))
        await send(ctx, block.flits, flits, go(stalls[0], f"{seed} flits"), seen.times)

    read, write = (latencies(rng, 12) if slow is None else latencies(None, slow) for _ in range(2))
    late = 5 * len(FLOWS)
    counts = count or (lambda *_: (1 << config.count_width) - 1)
    background = [
        give,
        reader(block.fetch, memory, latency=read, stall=stalls[2], seed=seed, taken=seen.reads),
        writer(block.write, memory, latency=write, stall=stalls[3], seed=seed, acked=seen.acked),
        tracker(block.query, lambda c, *q: counts(c - late, *q), stall=stalls[4], seed=seed),
    ]
    run(bench, drive, background=background, keep=True)
    for name in ("reads", "acked"):
        setattr(seen, name, [(cycle - late, a - BASE) for cycle, a in getattr(seen, name)])
    return seen
