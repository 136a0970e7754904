"""Tests of the two ends of a credited link."""

import itertools
import random

import pytest
from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.link.check import RunningCheck
from multitree.hw.link.link import Kind, LinkSignature, fault_record_width, flit_layout
from tests.hw.link.one_channel import StreamReceiver, StreamTransmitter
from tests.hw.link.wires import FORWARD, join
from tests.hw.streams import (
    PATTERNS,
    assert_no_path,
    assert_refused,
    go,
    receive,
    run,
    send,
    transport,
)

FLIT_BYTES, SUBMESSAGE = 2, 4
DATA = (Kind.HEAD, Kind.BODY, Kind.TAIL, Kind.SINGLE)


def a_transmitter(credits):
    return StreamTransmitter(flit_bytes=FLIT_BYTES, credits=credits, submessage_flits=SUBMESSAGE)


def a_receiver(depth):
    return StreamReceiver(flit_bytes=FLIT_BYTES, depth=depth, submessage_flits=SUBMESSAGE)


class Link(wiring.Component):
    """Transmitter, wires of some cycles, and receiver: a link that is up."""

    def __init__(self, *, credits, depth, latency_cycles):
        self._latency_cycles = latency_cycles
        self.transmitter = a_transmitter(credits)
        self.receiver = a_receiver(depth)
        flits = stream.Signature(self.transmitter.i.payload.shape())
        super().__init__({"i": In(flits), "o": Out(flits)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.transmitter = tx = self.transmitter
        m.submodules.receiver = rx = self.receiver
        wiring.connect(m, wiring.flipped(self.i), tx.i)
        wiring.connect(m, rx.o, wiring.flipped(self.o))
        join(m, tx.link, rx.link, self._latency_cycles)
        m.d.comb += [tx.open.eq(1), rx.up.eq(1)]
        return m


def flits(count, seed=0):
    rng = random.Random(seed)
    return [
        {"kind": rng.choice(DATA), "payload": rng.getrandbits(8 * FLIT_BYTES)} for _ in range(count)
    ]


def plain(got):
    return [{"kind": flit.kind, "payload": flit.payload} for flit in got]


@pytest.mark.slow
@pytest.mark.parametrize(("stall_i", "stall_o"), list(itertools.product(PATTERNS, PATTERNS)))
@pytest.mark.parametrize(("depth", "latency_cycles"), [(3, 0), (4, 7), (20, 5)])
def test_every_flit_arrives_once_and_in_order(stall_i, stall_o, depth, latency_cycles):
    link = Link(credits=depth, depth=depth, latency_cycles=latency_cycles)
    sent = flits(80)
    assert plain(transport(link, sent, stall_i=stall_i, stall_o=stall_o)) == sent


def watch(link, strobes, stall_o="never", count=60, cycles=1500):
    """How often each strobe was high while flits went over a link; and what was delivered."""
    seen, got = dict.fromkeys(strobes, 0), []

    async def producer(ctx):
        await send(ctx, link.i, flits(count), go("never", 0))

    async def consumer(ctx):
        moves = go(stall_o, 0)
        while True:
            got.extend(await receive(ctx, link.o, 1, moves))

    async def monitor(ctx):
        for _ in range(cycles):
            _, _, *values = await ctx.tick().sample(*strobes.values())
            for name, value in zip(strobes, values, strict=True):
                seen[name] += value

    run(link, monitor, background=[producer, consumer])
    return seen, plain(got)


def faults(link):
    return {
        "sequence_error": link.receiver.sequence_error,
        "epoch_error": link.receiver.epoch_error,
        "check_error": link.receiver.check_error,
        "overflow": link.receiver.overflow,
        "fault_credit": link.transmitter.fault_credit,
    }


@pytest.mark.parametrize("stall_o", PATTERNS)
def test_a_sound_link_has_no_faults(stall_o):
    link = Link(credits=5, depth=5, latency_cycles=3)
    seen, got = watch(link, faults(link), stall_o=stall_o)
    assert set(seen.values()) == {0}
    assert got == flits(60)


@pytest.mark.parametrize(("latency_cycles", "line_rate"), [(0, True), (4, True), (5, False)])
def test_line_rate_needs_credits_for_the_round_trip(latency_cycles, line_rate):
    # A credit is back after 6 cycles and twice the wires' latency.
    link = Link(credits=15, depth=15, latency_cycles=latency_cycles)
    times = []

    async def producer(ctx):
        await send(ctx, link.i, flits(100), go("never", 0), times=times)

    async def consumer(ctx):
        await receive(ctx, link.o, 100, go("never", 0))

    run(link, producer, consumer)
    assert (times == list(range(times[0], times[0] + 100))) is line_rate


def test_latency_is_as_documented():
    link = Link(credits=8, depth=8, latency_cycles=0)
    went, times = [], []

    async def producer(ctx):
        await send(ctx, link.i, flits(1), go("never", 0), times=went)

    async def consumer(ctx):
        await receive(ctx, link.o, 1, go("never", 0), times=times)

    run(link, producer, consumer)
    assert times == [went[0] + 1 + 3]


def test_a_transmitter_spends_no_more_credits_than_it_has():
    transmitter = a_transmitter(5)
    seen = {"valid": 0, "stalled": 0}

    async def drive(ctx):
        ctx.set(transmitter.open, 1)
        ctx.set(transmitter.i.valid, 1)
        link = transmitter.link
        for _ in range(20):
            _, _, valid, stalled = await ctx.tick().sample(link.valid, transmitter.stalled)
            seen["valid"] += valid
            seen["stalled"] += stalled
        ctx.set(link.credit, 1)
        await ctx.tick()
        ctx.set(link.credit, 0)
        for _ in range(20):
            _, _, valid = await ctx.tick().sample(link.valid)
            seen["valid"] += valid

    run(transmitter, drive)
    assert seen == {"valid": 6, "stalled": 15}


def test_only_a_flit_can_be_stalled():
    transmitter = a_transmitter(1)

    async def drive(ctx):
        ctx.set(transmitter.open, 1)
        ctx.set(transmitter.i.valid, 1)
        # Ready in the cycle behind, the only credit is spent in the next one.
        await ctx.tick().repeat(2)
        assert ctx.get(transmitter.stalled)
        ctx.set(transmitter.i.valid, 0)
        assert not ctx.get(transmitter.stalled)

    run(transmitter, drive)


@pytest.mark.parametrize("sending", [False, True])
def test_a_credit_that_no_flit_had_spent_is_a_fault_and_changes_nothing(sending):
    transmitter = a_transmitter(2)
    strobes, valid = [], []

    async def drive(ctx):
        ctx.set(transmitter.open, 1)
        ctx.set(transmitter.link.credit, 1)
        ctx.set(transmitter.i.valid, sending)
        await ctx.tick()
        ctx.set(transmitter.link.credit, 0)
        ctx.set(transmitter.i.valid, 1)
        for _ in range(8):
            values = transmitter.fault_credit, transmitter.link.valid
            _, _, fault, flit = await ctx.tick().sample(*values)
            strobes.append(fault)
            valid.append(flit)

    run(transmitter, drive)
    assert strobes == [1] + [0] * 7
    assert sum(valid) == 2


def offer(receiver, units):
    """Put flits on the link, one per cycle; returns payloads delivered and counts of strobes."""
    names = ("sequence_error", "epoch_error", "check_error", "overflow")
    got, seen = [], dict.fromkeys((*names, "credit"), 0)
    strobes = *(getattr(receiver, name) for name in names), receiver.link.credit

    async def drive(ctx):
        ctx.set(receiver.up, 1)
        for unit in units:
            for name, value in {"valid": 1, "vc": 0, **unit}.items():
                ctx.set(getattr(receiver.link, name), value)
            await ctx.tick()
        ctx.set(receiver.link.valid, 0)
        await ctx.tick().repeat(10)
        ctx.set(receiver.o.ready, 1)
        await ctx.tick().repeat(20)

    async def monitor(ctx):
        values = receiver.o.valid, receiver.o.ready, receiver.o.payload.payload, *strobes
        async for _, _, valid, ready, payload, *now in ctx.tick().sample(*values):
            if valid and ready:
                got.append(payload)
            for name, value in zip(seen, now, strict=True):
                seen[name] += value

    run(receiver, drive, background=[monitor])
    return got, seen


def numbered(*numbers):
    return [{"sequence": n % 8, "payload": n} for n in numbers]


@pytest.mark.parametrize(
    ("numbers", "delivered"),
    [
        (range(12), [*range(12)]),
        ((0, 1, 3, 4), [0, 1]),
        ((0, 1, 1, 2, 3), [0, 1, 2, 3]),
        ((0, 2, 1, 3), [0, 1]),
        ((1, 2), []),
    ],
    ids=["right", "dropped", "doubled", "swapped", "late"],
)
def test_a_flit_out_of_sequence_is_an_error_and_is_not_delivered(numbers, delivered):
    got, seen = offer(a_receiver(16), numbered(*numbers))
    assert got == delivered
    assert seen == dict.fromkeys(seen, 0) | {
        "sequence_error": len(numbers) - len(delivered),
        "credit": len(delivered),
    }


def test_a_flit_on_another_virtual_channel_is_an_error():
    units = numbered(0, 1, 2)
    units[1]["vc"] = 1
    got, seen = offer(a_receiver(16), units)
    assert got == [0]
    assert seen["sequence_error"] == 2


@pytest.mark.parametrize("depth", [3, 4, 9])
def test_a_buffer_holds_its_depth_and_one_more_flit_is_an_overflow(depth):
    receiver = a_receiver(depth)
    got, seen = offer(receiver, numbered(*range(depth)))
    assert got == [*range(depth)] and seen["overflow"] == 0
    receiver = a_receiver(depth)
    got, seen = offer(receiver, numbered(*range(depth + 1)))
    assert got == [*range(depth)] and seen["overflow"] == 1
    assert seen["credit"] == depth


def test_too_many_credits_end_in_an_overflow_and_nothing_wrong_is_delivered():
    link = Link(credits=7, depth=5, latency_cycles=1)
    seen, got = watch(link, faults(link), stall_o="often")
    assert seen["overflow"] > 0
    assert got == flits(60)[: len(got)]


def test_no_path_leads_through_either_end():
    transmitter = a_transmitter(4)
    i, link = transmitter.i, transmitter.link
    outputs = [transmitter.fault_credit, *(getattr(link, name) for name in FORWARD)]
    inputs = [i.valid, i.payload.payload, i.payload.kind.as_value(), link.credit]
    inputs += [transmitter.open, transmitter.control.valid]
    assert_no_path(transmitter, inputs, [value_of(output) for output in outputs])
    receiver = a_receiver(4)
    link, o = receiver.link, receiver.o
    outputs = [o.valid, o.payload, link.credit, receiver.sequence_error, receiver.overflow]
    outputs += [receiver.check_error, receiver.epoch_error, receiver.control.valid]
    inputs = [
        o.ready,
        receiver.up,
        receiver.epoch,
        *(value_of(getattr(link, name)) for name in FORWARD),
    ]
    assert_no_path(receiver, inputs, [value_of(output) for output in outputs])


def value_of(thing):
    return thing.as_value() if hasattr(thing, "as_value") else thing


def test_the_layout_of_a_flit_is_the_link_without_its_handshake():
    members = LinkSignature(flit_bytes=FLIT_BYTES).members
    layout = flit_layout(flit_bytes=FLIT_BYTES)
    assert {name for name, _ in layout} == set(members) - {"valid", "credit"}
    assert layout.size == 3 + 1 + 3 + 1 + 32 + 8 * FLIT_BYTES
    assert [kind.value for kind in DATA] == [0, 1, 2, 3]
    assert [kind.value for kind in Kind][4:] == [4, 5, 6, 7] and Kind.FAULT.value == 7
    assert (fault_record_width(8), fault_record_width(16)) == (64, 96)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: a_transmitter(0), "Credits must be at least 1, not 0"),
        (lambda: a_receiver(2), "Depth must be at least 3, not 2"),
        (lambda: LinkSignature(flit_bytes=0), "Flit bytes must be at least 1, not 0"),
        (
            lambda: RunningCheck(flit_bytes=0, submessage_flits=4),
            "Flit bytes must be at least 1, not 0",
        ),
        (
            lambda: RunningCheck(flit_bytes=4, submessage_flits=6),
            "Sub-message flits must be a power of two, not 6",
        ),
        (
            lambda: RunningCheck(flit_bytes=4, submessage_flits=1),
            "Sub-message flits must be at least 2, not 1",
        ),
    ],
)
def test_a_wrong_size_is_named(make, message):
    assert_refused(make, ValueError, message)
