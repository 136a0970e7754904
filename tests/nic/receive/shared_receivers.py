"""Receivers on shared links with sequencer, staging and flow memory, for tests."""

from functools import cache
from itertools import chain
from types import SimpleNamespace

import numpy as np
from amaranth import Elaboratable, Module
from amaranth.lib import data, wiring

from multitree.hw.link.link import Kind
from multitree.hw.memory_channel import ReadShare
from multitree.nic.control.memories import FlowMemory
from multitree.nic.driver.config import Config
from multitree.nic.layouts import FLOW_ENTRY, SHARED_FLOW, head_layout
from multitree.nic.receive.shared_receiver import SharedReceiver
from multitree.nic.reduce.reorder_buffer import ReorderBuffer
from multitree.nic.reduce.sequencer import ReductionSequencer
from tests.hw.streams import go, put, run, seeded, send
from tests.nic.blocks import load
from tests.nic.memory import latencies, reader, writer

CONFIG = Config(
    num_ports=2,
    num_flows=4,
    memory_queue_flits=8,
    submessage_flits=4,
    address_width=10,
    num_classes=2,
    max_children=5,
    dtypes=("float32",),
)
LANES = CONFIG.flit_bytes // 4
BASE, SEQUENCE = 7, 4
REDUCE, GATHER = 0, 1
FP32 = 1


class Bench(Elaboratable):
    """All that a message meets behind the links."""

    def __init__(self):
        self.ports = [SharedReceiver(CONFIG) for _ in range(CONFIG.num_ports)]
        self.sequencer = ReductionSequencer(CONFIG)
        self.staging = ReorderBuffer(CONFIG)
        self.flows = FlowMemory(CONFIG, num_clients=CONFIG.num_ports + 2)
        self.share = ReadShare(
            address_width=CONFIG.address_width, flit_bytes=CONFIG.flit_bytes, depth=16
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules += [*self.ports, self.sequencer, self.staging, self.flows, self.share]
        for number, port in enumerate(self.ports):
            m.d.comb += port.port.eq(number)
            wiring.connect(m, port.lookup, self.flows.lookups[number])
            wiring.connect(m, port.reservation, self.sequencer.reservations[number])
            for name in port.turn.signature.members:
                m.d.comb += getattr(port.turn, name).eq(getattr(self.sequencer.turn, name))
            wiring.connect(m, port.arrival, self.sequencer.arrivals[number])
        wiring.connect(m, self.staging.lookup, self.flows.lookups[CONFIG.num_ports])
        wiring.connect(m, self.sequencer.drains, self.staging.jobs)
        wiring.connect(m, self.staging.items, self.ports[0].staged)
        wiring.connect(m, self.staging.read, self.share.second)
        return m


the_bench = cache(Bench)
"""One for all runs, of which most take less time than elaborating it."""


def flow_entry(**fields):
    """A flow's words as the host writes them."""
    return data.Const(FLOW_ENTRY, SHARED_FLOW.const(fields).as_value().value)


def lay_out(flows):
    """Entries of flows given as (size, number of children, parent), one behind the other."""
    entries, place = [], 0
    for size, *_ in flows:
        entries.append({"base": place, "size": size})
        place += size
    for entry, (size, num_children, parent) in zip(entries, flows, strict=True):
        entry |= {"staging": place, "num_children": num_children, "parent": parent}
        place += size * num_children
    return entries, place


def head(**fields):
    """A head's payload."""
    return head_layout(CONFIG).const({"sequence": SEQUENCE} | fields).as_value().value


def message(op, flow, order, values, **fields):
    """Flits of a message whose payload is float32 (size, lanes); a SINGLE without any."""
    first = head(**{"op": op, "flow": flow, "order": order, "size": len(values)} | fields)
    if not len(values):
        return [{"kind": Kind.SINGLE, "payload": first}]
    payload = [int.from_bytes(flit.tobytes(), "little") for flit in values]
    kinds = [Kind.BODY] * (len(payload) - 1) + [Kind.TAIL]
    body = [{"kind": k, "payload": p} for k, p in zip(kinds, payload, strict=True)]
    return [{"kind": Kind.HEAD, "payload": first}, *body]


def simulate(
    streams,
    flows,
    memory,
    *,
    seed=0,
    stall="never",
    slow=3,
    settings=(),
    until=None,
    turns=None,
    pauses=(),
):
    """Let flits come in on (port, channel) and see what is reported; `memory` is changed in place.

    Over some cycles after `until` messages are counted, or when nothing has moved for long. The
    next collective begins when `turns` messages are counted; `pauses` says for (port, channel) how
    many cycles to wait before each flit.
    """
    rng = seeded(seed)
    bench = the_bench()
    words = [int.from_bytes(flit.tobytes(), "little") for flit in memory]
    seen = SimpleNamespace(counted=0, results=[], faults=[], taken=0)
    entries, end = lay_out(flows)

    async def drive(ctx):
        await load(ctx, bench.flows, FLOW_ENTRY, [flow_entry(**entry) for entry in entries])
        run_settings = {"running": 1, "window_base": BASE, "window_flits": end, "dtype": FP32}
        run_settings |= {"num_flows": len(flows), "sequence": SEQUENCE} | dict(settings)
        ctx.set(bench.sequencer.phase, run_settings["sequence"] & 1)
        for block in (*bench.ports, bench.staging):
            put(ctx, block.run, **run_settings)
        sequencer, quiet, taken = bench.sequencer, 0, 0
        while quiet < (30 if seen.counted == until else 300) and not seen.faults:
            _, _, counted, valid, op, flow, *faults = await ctx.tick().sample(
                sequencer.counted,
                sequencer.arrival.valid,
                sequencer.arrival.op,
                sequencer.arrival.flow,
                *(port.fault for port in bench.ports),
                bench.staging.fault,
            )
            seen.counted += counted
            seen.results += [(op, flow)] if valid else []
            seen.faults += [code for code in faults if code]
            if counted and seen.counted == turns:
                ctx.set(sequencer.phase, ~run_settings["sequence"] & 1)
                for block in (*bench.ports, bench.staging):
                    put(ctx, block.run, running=0, sequence=run_settings["sequence"] + 1)
                await ctx.tick()
                for block in (*bench.ports, bench.staging):
                    ctx.set(block.run.running, 1)
            quiet = 0 if counted or seen.taken != taken else quiet + 1
            taken = seen.taken

    def source(port, vc, flits):
        async def feed(ctx):
            times = Taken(seen)
            moves = go(stall, f"{seed} {vc}")
            if (port, vc) in pauses:
                moves = chain.from_iterable([False] * n + [True] for n in pauses[port, vc])
            await send(ctx, bench.ports[port].flits[vc], flits, moves, times)

        return feed

    behind = []
    slowness = [latencies(rng, slow) for _ in range(5)]
    channels = [bench.share.channel, *(port.fetch for port in bench.ports)]
    behind += [
        reader(channel, words, latency=next_, stall=stall, seed=f"{seed} {k}")
        for k, (channel, next_) in enumerate(zip(channels, slowness, strict=False))
    ]
    behind += [
        writer(port.write, words, latency=slowness[3 + k], stall=stall, seed=f"{seed} w{k}")
        for k, port in enumerate(bench.ports)
    ]
    feeds = [source(port, vc, flits) for (port, vc), flits in streams.items()]
    run(bench, drive, background=[*behind, *feeds], keep=True)
    for place, word in enumerate(words):
        memory[place] = np.frombuffer(word.to_bytes(CONFIG.flit_bytes, "little"), np.float32)
    return seen


class Taken(list):
    """Counts what was taken, for whoever waits until all is."""

    def __init__(self, seen):
        super().__init__()
        self._seen = seen

    def append(self, cycle):
        """One more flit was taken."""
        super().append(cycle)
        self._seen.taken += 1
