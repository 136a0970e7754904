"""Ends and wires of links, drivers and monitors, for the simulator."""

import random
from collections import Counter

from amaranth import Module, ResetInserter, Signal
from amaranth.lib import wiring

from multitree.hw.codes import PERIOD_CYCLES
from multitree.hw.link.link import Kind
from multitree.hw.link.port import LinkPort
from multitree.hw.link.receiver import LinkReceiver
from multitree.hw.link.transmitter import LinkTransmitter
from tests.hw.streams import go, process, put, receive, run, simulation

FLIT_BYTES, SUBMESSAGE = 2, 4
SIZES = {"flit_bytes": FLIT_BYTES, "submessage_flits": SUBMESSAGE}
FORWARD = ("valid", "kind", "vc", "sequence", "epoch", "check", "payload")
ERRORS = ("sequence_error", "epoch_error", "check_error", "overflow")
FAULTS = (*ERRORS, "fault_credit")


def a_transmitter(num_vcs, credits):
    return LinkTransmitter(num_vcs=num_vcs, credits=credits, **SIZES)


def a_receiver(num_vcs, depth):
    return LinkReceiver(num_vcs=num_vcs, depth=depth, **SIZES)


def delay(m, source, target, cycles):
    """Wires of some cycles."""
    for _ in range(cycles):
        later = Signal.like(source)
        m.d.sync += later.eq(source)
        source = later
    m.d.comb += target.eq(source)


def join(m, near, far, cycles, *, back_cycles=None, flips=0):
    """Wires of some cycles from one transmitting end to a receiving one, and back for credits.

    What flips is exclusive-ored to the payload.
    """
    for name in FORWARD:
        sent = near.payload ^ flips if name == "payload" else getattr(near, name)
        delay(m, sent, getattr(far, name), cycles)
    delay(m, far.credit, near.credit, cycles if back_cycles is None else back_cycles)


class Link(wiring.Component):
    """Transmitter, wires of some cycles, and receiver: a link that is up."""

    def __init__(self, *, num_vcs, depth, latency_cycles, credits=None):
        self._latency_cycles = latency_cycles
        self.transmitter = a_transmitter(num_vcs, credits or depth)
        self.receiver = a_receiver(num_vcs, depth)
        self.o = self.receiver.o
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.transmitter = tx = self.transmitter
        m.submodules.receiver = rx = self.receiver
        join(m, tx.link, rx.link, self._latency_cycles)
        m.d.comb += [tx.open.eq(1), rx.up.eq(1)]
        return m


class Line(wiring.Component):
    """Two ports, wires of some cycles each way, and a reset for each port."""

    def __init__(self, *latencies, num_vcs=1, depth=6):
        self.latencies = latencies
        self.ends = [LinkPort(num_vcs=num_vcs, depth=depth, **SIZES) for _ in range(2)]
        self.resets = [Signal(), Signal()]
        self.come_up_cycles = 3 * sum(latencies) + 6 * PERIOD_CYCLES
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        for k, (end, reset) in enumerate(zip(self.ends, self.resets, strict=True)):
            m.submodules[f"end_{k}"] = ResetInserter(reset)(end)
        for k, latency in enumerate(self.latencies):
            near, far = self.ends[k].tx, self.ends[1 - k].rx
            join(m, near, far, latency, back_cycles=min(self.latencies))
        return m


def message(rng, size, *, flit_bytes=FLIT_BYTES, head=None):
    """Kinds and payloads of a message with so many payload flits, all random but a given head."""
    kinds = [Kind.HEAD, *[Kind.BODY] * (size - 1), Kind.TAIL] if size else [Kind.SINGLE]
    flits = [{"kind": kind, "payload": rng.getrandbits(8 * flit_bytes)} for kind in kinds]
    if head is not None:
        flits[0]["payload"] = head
    return flits


def plain(units):
    """Kind and payload of flits."""
    return [{"kind": unit.kind, "payload": unit.payload} for unit in units]


async def take(ctx, streams, ready, *others, domain="sync"):
    """For a cycle be ready for some streams: flits of each, one or none, and what others were."""
    for o, is_ready in zip(streams, ready, strict=True):
        ctx.set(o.ready, is_ready)
    offered = [value for o in streams for value in (o.valid, o.payload)]
    _, _, *now = await ctx.tick(domain).sample(*offered, *others)
    offers = zip(now[0::2], now[1::2], ready, strict=False)
    return [[flit] if valid and taken else [] for valid, flit, taken in offers], now[len(offered) :]


async def offer(ctx, port, flits, moves, seed=0, times=None, domain="sync"):
    """Send each virtual channel's flits in order, in turns drawn at random.

    A flit may be offered in the cycles of `moves`; `times` gets (cycle, virtual channel) of each.
    """
    rng, left, cycle = random.Random(f"turns {seed}"), [list(f) for f in flits], 0
    while any(left):
        may_send = ctx.get(port.may_send)
        ready = [vc for vc, queue in enumerate(left) if queue and may_send >> vc & 1]
        if next(moves) and ready:
            vc = rng.choice(ready)
            put(ctx, port, flit={"vc": vc, **left[vc].pop(0)}, take=1)
            if times is not None:
                times.append((cycle, vc))
        await ctx.tick(domain)
        ctx.set(port.take, 0)
        cycle += 1


def transport(
    link, flits, *, stall_i="never", stall_o=("never",), blocked=(), times=None, cycles=None
):
    """What comes out per virtual channel, names of faults seen, and (cycle, channel) of each sent.

    Until all is through, but on channels that are blocked, or for so many cycles.
    """
    went, got, seen = [], [[] for _ in flits], Counter()

    @process
    async def taker(ctx, vc):
        moves = go(stall_o[vc % len(stall_o)], vc)
        await receive(ctx, link.o[vc], len(flits[vc]), moves, times, into=got[vc])

    async def producer(ctx):
        await offer(ctx, link.transmitter, flits, go(stall_i, "i"), times=went)

    async def monitor(ctx):
        strobes = [getattr(link.receiver, name) for name in ERRORS]
        async for _, _, *now in ctx.tick().sample(*strobes, link.transmitter.fault_credit):
            seen.update(name for name, strobe in zip(FAULTS, now, strict=True) if strobe)

    async def wait(ctx):
        await ctx.tick().repeat(cycles)

    takers = [taker(vc) for vc in range(len(flits)) if vc not in blocked]
    ends = [wait] if cycles else takers if blocked else [producer, *takers]
    others = [each for each in (producer, *takers, monitor) if each not in ends]
    run(link, *ends, background=others, deadline_cycles=4000)
    return [plain(units) for units in got], set(seen), went


def on_the_link(flits, controls=()):
    """What a transmitter makes of each channel's flits, in turns; control flits come at cycles."""
    transmitter, seen, controls = a_transmitter(len(flits), 200), [], dict(controls)

    async def drive(ctx):
        put(ctx, transmitter, open=1)
        ctx.set(transmitter.control.epoch, 1)
        await ctx.tick()
        await offer(ctx, transmitter, flits, go("seldom", 0))
        await ctx.tick().repeat(4)

    async def interrupt(ctx):
        for cycle in range(1000):
            kind, payload = controls.get(cycle, (Kind.FAULT, 0))
            put(ctx, transmitter.control, valid=cycle in controls, kind=kind, payload=payload)
            await ctx.tick()

    async def monitor(ctx):
        values = [getattr(transmitter.link, name) for name in FORWARD]
        async for _, _, *now in ctx.tick().sample(*values):
            if now[0]:
                seen.append(dict(zip(FORWARD, now, strict=True)))

    run(transmitter, drive, background=[monitor, interrupt])
    return seen


@simulation
async def received(ctx, receiver, units, *, epoch=1, up=lambda cycle: 1, late=False):
    """What a receiver delivers per channel of flits, one or none per cycle; control flits shown;
    counts of errors; credits per channel.

    All is taken at once, or `late`: when all flits are in.
    """
    got, credits, errors, shown = [[] for _ in receiver.o], [0] * len(receiver.o), Counter(), []
    link, control = receiver.link, receiver.control
    values = [link.credit, control.valid, control.kind, control.epoch, control.payload]
    values += [getattr(receiver, name) for name in ERRORS]
    ctx.set(receiver.epoch, epoch)
    for cycle, unit in enumerate([*units, *[None] * (2 * len(units) + 8 if late else 8)]):
        ctx.set(receiver.up, up(cycle))
        put(ctx, link, **{"valid": unit is not None} | (unit or {}))
        ready = [not late or cycle >= len(units) + 4] * len(receiver.o)
        flits, (credit, valid, *now) = await take(ctx, receiver.o, ready, *values)
        shown += [tuple(now[:3])] if valid else []
        errors.update(name for name, strobe in zip(ERRORS, now[3:], strict=True) if strobe)
        for vc, queue in enumerate(got):
            credits[vc] += credit >> vc & 1
            queue += plain(flits[vc])
    return got, shown, errors, credits


@process
async def talker(ctx, line, k, rng, sent):
    """Sends numbered flits on all channels for ever; `sent` has one list per time it was up."""
    end, num_vcs = line.ends[k], line.ends[k].num_vcs
    numbers, was_up = [0] * num_vcs, 0
    while True:
        vc = rng.randrange(num_vcs)
        # As a flit is taken in the cycle in which the link fails, a session begins with `up`.
        if ctx.get(end.up) and not was_up:
            numbers = [0] * num_vcs
            sent[k].append([0] * num_vcs)
        was_up = ctx.get(end.up)
        goes = ctx.get(end.may_send) >> vc & 1 and rng.random() < 0.8
        flit = {"kind": Kind.HEAD, "vc": vc, "payload": len(sent[k]) << 10 | numbers[vc]}
        put(ctx, end, flit=flit, take=goes)
        numbers[vc] += goes
        if sent[k]:
            sent[k][-1][vc] += goes
        await ctx.tick()


@process
async def listener(ctx, line, k, rng, got):
    """Takes flits now and then: (channel, session of the sender, number) of each.

    `got` has one list more than the times that the end fell.
    """
    end = line.ends[k]
    got[k].append([])
    was_up, chance = 0, 0.7
    faults = [getattr(end, name) for name in FAULTS]
    while True:
        ready = [rng.random() < chance for _ in end.o]
        flits, (up, *now) = await take(ctx, end.o, ready, end.up, *faults)
        assert not any(now), "a fault on sound wires"
        if was_up and not up:
            got[k].append([])
            chance = rng.choice([0.1, 0.7, 1.0])
        for vc, taken in enumerate(flits):
            got[k][-1] += [(vc, flit.payload >> 10, flit.payload & 0x3FF) for flit in taken]
        was_up = up
