"""A receiver that forwards, for tests: messages and other ports in, all else out."""

from functools import cache
from types import SimpleNamespace

from amaranth import Elaboratable, Module
from amaranth.lib import wiring

from multitree.hw.lanes import DType
from multitree.hw.link.link import Kind
from multitree.nic.control.memories import FlowMemory
from multitree.nic.forward.positions import ForwardSignature, position_width
from multitree.nic.layouts import FLOW_ENTRY
from multitree.nic.receive.receiver import ForwardingReceiver
from tests.hw.streams import go, run, seeded, send
from tests.nic.blocks import entry, load, start
from tests.nic.forward.messages import Messages, scripted
from tests.nic.forward.ports import FORWARDING, encoded, ports
from tests.nic.memory import latencies, reader, tracker, writer
from tests.nic.receive import receivers
from tests.nic.receive.receivers import BASE, DEPTH, PORT, REDUCE, SEQUENCE
from tests.nic.reduce.test_reducer import combine, random_flit

__all__ = [
    "DEEP",
    "FLOWS",
    "LOADED",
    "LONG",
    "Bench",
    "add_sibling",
    "assert_received",
    "framed",
    "simulate",
]

LONG = {"base": 400, "size": 60, "children": [0, 2, PORT]}
DEEP = {"base": 500, "size": 40, "children": [0, 2], "parent": PORT}
FLOWS = [*receivers.FLOWS, LONG, DEEP]
BEGUN = 1 << position_width(FORWARDING)
LOADED = 5 * len(FLOWS)
"""The cycle from which on the flow memory is written."""
READER = 2 * PORT + 1
"""The receiver's own place among those that read what is kept."""


class Bench(Elaboratable):
    """A receiver and the flow memory; `forward` is what the other ports show."""

    def __init__(self, config):
        self.receiver = ForwardingReceiver(config)
        self.flows = FlowMemory(config, num_clients=2)
        self.forward = ForwardSignature(config).create()
        self.num_ports = config.num_ports

    def elaborate(self, platform):
        # As the core wires them: the receiver sees its own positions, too.
        m = Module()
        block, end = self.receiver, self.receiver.forward
        m.submodules += [block, self.flows]
        wiring.connect(m, block.lookup, self.flows.lookups[0])
        m.d.comb += [block.port.eq(PORT), self.forward.address.eq(end.address)]
        m.d.comb += block.addresses[READER].eq(end.address)
        for number in range(self.num_ports):
            own = number == PORT
            positions = block.positions
            written = positions.written if own else self.forward.written[number]
            in_memory = positions.acknowledged if own else self.forward.acknowledged[number]
            m.d.comb += [
                end.written[number].eq(written),
                end.acknowledged[number].eq(in_memory),
                end.kept[number].eq(block.kept[READER] if own else self.forward.kept[number]),
            ]
        return m


the_bench = cache(Bench)
"""One for all runs, of which most take less time than elaborating it."""


def framed(number, op, rng, frame=receivers.message, **fields):
    """Flits of a message whose payload are numbers, as a message or in packets."""
    if frame is receivers.message:
        fields = {"size": FLOWS[number]["size"]} | fields
    flits = frame(number, op, rng, **fields)
    body = (Kind.BODY, Kind.TAIL)
    return [
        flit | ({"payload": random_flit(rng)} if flit["kind"] in body else {}) for flit in flits
    ]


def add_sibling(messages, before, rng, number, *, port=None, wave=0, stride=0):
    """What the child before this port, or another one, makes of its contribution to a flow."""
    flow = FLOWS[number]
    children = flow["children"]
    port = children[children.index(PORT) - 1] if port is None else port
    base = BASE + flow["base"] + wave * stride
    own = before[base : base + flow["size"]]
    sums = [combine(local, random_flit(rng), DType.FP32, 0) for local in own]
    messages.add(sums, port=port, op=REDUCE, flow=number, base=base, wave=wave)


def initial(seed):
    """Content of memory before a run."""
    rng = seeded(f"{seed} memory")
    return [random_flit(rng) for _ in range(DEPTH)]


def simulate(sent, messages=None, *, seed=0, cycles=None, script=(), **given):
    """Everything that leaves a receiver until all is in, or in so many cycles.

    `sent` are messages: flow, op, wave and flits of each. `script` changes settings of the
    collective: cycle after `LOADED`, settings. Other ports write at random, or `at` given places;
    `shown` holds per cycle and port how far each is. `flips` are flows and bits of their entries.
    """
    messages = messages or Messages()
    config, stalls = messages.config, given.get("stalls", ("never",) * 5)
    bench, rng, at = the_bench(config), seeded(seed), given.get("at")
    block, memory, script = bench.receiver, initial(seed), dict(script)
    flits = [flit for *_, part in sent for flit in part]
    arrivals = sum(max(1, -(-FLOWS[number]["size"] // receivers.S)) for number, *_ in sent)
    seen = SimpleNamespace(arrivals=[], faults=[], reads=[], acked=[], times=[], waits=[])
    seen.reports, seen.shown, seen.kept, seen.errors = [], [], [], 0
    seen.written, seen.begun, seen.came = [], {}, {}
    seen.before, seen.after = list(memory), memory

    async def drive(ctx):
        entries = [entry(**flow, stride=given.get("stride", 0)) for flow in FLOWS]
        await load(ctx, bench.flows, FLOW_ENTRY, entries)
        for number, bit in given.get("flips", ()):
            stored = bench.flows.content.banks[0][number]
            ctx.set(stored, ctx.get(stored) ^ 1 << bit)
        settings = {"window_base": BASE, "num_flows": len(FLOWS), "sequence": SEQUENCE}
        settings |= {"cut_through": 1, "dtype": DType.FP32, "last_wave": 0} | script.get(0, {})
        start(ctx, block, **settings)
        busy, quiet = go(stalls[1], f"{seed} lookups"), 0
        for cycle in range(cycles or 5000):
            if cycle in script:
                settings |= script[cycle]
                start(ctx, block, **settings)
            ctx.set(bench.flows.lookups[1].valid, not next(busy))
            _, _, fault, flow = await ctx.tick().sample(block.fault, block.wait.flow)
            if fault and not seen.faults:
                seen.faults.append((fault, flow))
                settings |= {"running": 0, "faulted": 1}
                start(ctx, block, **settings)
            quiet = quiet + 1 if len(seen.arrivals) >= arrivals else 0
            if quiet == 12 and not cycles:
                break

    async def give(ctx):
        await ctx.tick().repeat(LOADED)
        await send(ctx, block.flits, flits, go(stalls[0], f"{seed} flits"), seen.times)

    end = bench.forward, messages.models, memory
    writes, acks = given.get("writes", "seldom"), given.get("acks", "often")
    others = scripted(*end, at) if at else ports(*end, writes=writes, acks=acks, seed=seed)
    slow = given.get("slow")
    read, write = (latencies(rng, 12) if slow is None else latencies(None, slow) for _ in range(2))
    held = {"stall": stalls[4], "seed": seed}
    background = [
        others,
        lambda ctx: _watch(ctx, bench, seen),
        lambda ctx: _look(ctx, block, seen, rng),
        give,
        reader(block.fetch, memory, latency=read, stall=stalls[2], seed=seed, taken=seen.reads),
        writer(block.write, memory, latency=write, stall=stalls[3], seed=seed, acked=seen.acked),
        tracker(block.beginning, _either(seen.begun, messages.begins), **held),
        tracker(block.query, _either(seen.came, given.get("counts", messages.counts)), **held),
    ]
    run(bench, drive, background=background, keep=True)
    return seen


def _either(own, others):
    """What a tracker knows: of this port what it has reported, else what the others have."""

    def count(cycle, port, op, flow):
        return own.get((op, flow), 0) if port == PORT else others(cycle, port, op, flow)

    return count


async def _watch(ctx, bench, seen):
    """Note all that leaves, and how far the ports are, this one included."""
    block, config = bench.receiver, bench.receiver.config
    wait, arrival, report = block.wait, block.arrival, block.report
    names = ("op", "flow", "count")
    arrivals = [arrival.valid, *(getattr(arrival, n) for n in names), arrival.last]
    reports = [report.valid, *(getattr(report, n) for n in names)]
    waits = [wait.awaited, wait.flow, wait.port, wait.op]
    waits += [wait.wave] if config.wave_width else []
    written = [block.write.valid & block.write.ready, block.write.address]
    end = block.forward
    places = [signal for pair in zip(end.written, end.acknowledged, strict=True) for signal in pair]
    signals = [*arrivals, *reports, *waits, *written, block.state_error, *places]
    cycle = 0
    while True:
        _, _, *values = await ctx.tick().sample(*signals)
        parts = iter(values)
        came, begun, held, write, (error,), now = (
            [next(parts) for _ in part] for part in (arrivals, reports, waits, written, "e", places)
        )
        if came[0]:
            seen.arrivals.append((cycle, *came[1:]))
            seen.came[came[1], came[2]] = came[3]
        if begun[0]:
            position, wave = begun[3] % BEGUN, begun[3] >> position_width(config) + 1
            assert begun[3] & BEGUN
            seen.reports.append((cycle, *begun[1:3], position, wave))
            seen.begun[begun[1], begun[2]] = begun[3]
        if write[0]:
            seen.written.append((cycle, write[1]))
        seen.waits.append(tuple(held))
        seen.errors += error
        seen.shown.append(list(zip(now[::2], now[1::2], strict=True)))
        cycle += 1


async def _look(ctx, block, seen, rng):
    """Read what the receiver keeps, at positions that are kept still."""
    number, written, size = None, 0, block.config.forward_flits
    while True:
        if number is not None:
            seen.kept.append((number, ctx.get(block.kept[0])))
        # A position may be asked for in the cycle behind that in which it is seen.
        number = rng.randrange(max(written - size + 8, 0), written) if written else None
        ctx.set(block.addresses[0], (number or 0) % size)
        written = ctx.get(block.positions.written)
        await ctx.tick()


def assert_received(seen, sent, messages=None, *, stride=0):
    """Each of (flow, op, wave, flits) is in memory, reported where it begins, and kept.

    Reads are of what no other port writes, or of what it has written and memory acknowledged; a
    write comes when all that other ports have written at its address is in memory.
    """
    messages = messages or Messages()
    content, reports, begin = messages.written_into(seen.before), [], 0
    given = {"flows": FLOWS, "stride": stride, "config": messages.config}
    results, arrivals = receivers.outcome(content, sent, dtype=DType.FP32, **given)
    for number, op, wave, _ in sent:
        reports.append([op, number, begin, wave])
        begin += FLOWS[number]["size"]
    assert not seen.faults and not seen.errors
    assert seen.after == content
    assert [arrival for _, *arrival in seen.arrivals] == arrivals
    assert [report for _, *report in seen.reports] == reports
    assert [address for _, address in seen.written] == [place for place, _ in results]
    assert seen.kept or not results
    for number, kept in seen.kept:
        assert kept == encoded(results[number][1])
    assert seen.shown[-1][PORT] == (len(results),) * 2
    assert_in_order(seen, messages)


def assert_in_order(seen, messages):
    """Nothing is read or written before what other ports write there is in memory."""
    assert len({address for _, address in seen.reads}) == len(seen.reads)
    for cycle, address in [*seen.reads, *seen.written]:
        place = messages.position_of(address)
        if place:
            port, position = place
            assert seen.shown[cycle][port][1] > position
    for cycle, now in enumerate(seen.shown):
        written, acknowledged = now[PORT]
        assert acknowledged == sum(time < cycle for time, _ in seen.acked) <= written
