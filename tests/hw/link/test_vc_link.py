"""Tests of the two ends of a credited link with virtual channels."""

import random
import zlib

import pytest
from amaranth import Module
from amaranth.lib import wiring

from multitree.hw.codes import vc_width
from multitree.hw.link.check import RunningCheck
from multitree.hw.link.link import Kind, LinkSignature, flit_layout
from multitree.hw.link.receiver import LinkReceiver
from multitree.hw.link.transmitter import LinkTransmitter
from tests.hw.link.wires import FORWARD, join, message, offer, taker
from tests.hw.streams import assert_no_path, assert_refused, go, run

FLIT_BYTES, SUBMESSAGE = 2, 4
ERRORS = ("sequence_error", "epoch_error", "check_error", "overflow")


def a_transmitter(num_vcs, credits):
    sizes = {"flit_bytes": FLIT_BYTES, "submessage_flits": SUBMESSAGE}
    return LinkTransmitter(num_vcs=num_vcs, credits=credits, **sizes)


def a_receiver(num_vcs, depth):
    sizes = {"flit_bytes": FLIT_BYTES, "submessage_flits": SUBMESSAGE}
    return LinkReceiver(num_vcs=num_vcs, depth=depth, **sizes)


class Link(wiring.Component):
    """Transmitter, wires of some cycles, and receiver: a link that is up."""

    def __init__(self, *, num_vcs, depth, latency_cycles):
        self._latency_cycles = latency_cycles
        self.transmitter = a_transmitter(num_vcs, depth)
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


def messages(seed, num_vcs, count=30):
    """At least so many flits of whole messages for each virtual channel."""
    print(f"seed {seed}")
    rng, flits = random.Random(seed), [[] for _ in range(num_vcs)]
    for queue in flits:
        while len(queue) < count:
            queue += message(rng, rng.choice([0, 1, 3, 4, 9]), flit_bytes=FLIT_BYTES)
    return flits


def transport(link, flits, *, stall_i="never", stall_o=("never",), blocked=(), times=None):
    """What comes out per virtual channel, those left out that nobody takes; and all faults seen."""
    num_vcs, went = len(flits), []
    got, seen = [[] for _ in flits], dict.fromkeys((*ERRORS, "fault_credit"), 0)
    stalls = [stall_o[vc % len(stall_o)] for vc in range(num_vcs)]
    takers = [
        taker(link, vc, len(flits[vc]), go(stalls[vc], vc), got, times)
        for vc in range(num_vcs)
        if vc not in blocked
    ]

    async def producer(ctx):
        await offer(ctx, link.transmitter, flits, go(stall_i, "i"), times=went)

    async def monitor(ctx):
        strobes = [getattr(link.receiver, name) for name in ERRORS]
        async for _, _, *now in ctx.tick().sample(*strobes, link.transmitter.fault_credit):
            for name, value in zip(seen, now, strict=True):
                seen[name] += value

    ends = ([], [producer, monitor]) if blocked else ([producer], [monitor])
    run(link, *ends[0], *takers, background=ends[1], deadline_cycles=4000)
    return got, {name for name, count in seen.items() if count}, went


@pytest.mark.slow
@pytest.mark.parametrize("stall_i", ["never", "bursts"])
@pytest.mark.parametrize("stall_o", [("never",), ("bursts", "seldom", "often")])
@pytest.mark.parametrize(("num_vcs", "depth", "latency_cycles"), [(2, 3, 0), (3, 4, 7), (8, 12, 3)])
def test_every_flit_arrives_once_on_its_channel_and_in_order(
    stall_i, stall_o, num_vcs, depth, latency_cycles
):
    link = Link(num_vcs=num_vcs, depth=depth, latency_cycles=latency_cycles)
    sent = messages(depth, num_vcs, count=80 // num_vcs)
    got, faults, _ = transport(link, sent, stall_i=stall_i, stall_o=stall_o)
    assert got == sent and not faults


@pytest.mark.parametrize("blocked", [(0,), (1,), (0, 2)])
def test_a_channel_that_nobody_takes_blocks_no_other(blocked):
    link, sent = Link(num_vcs=3, depth=16, latency_cycles=2), messages(0, 3, count=100)
    got, faults, went = transport(link, sent, blocked=blocked)
    assert got == [[] if vc in blocked else sent[vc] for vc in range(3)] and not faults
    for vc in blocked:
        assert sum(1 for _, other in went if other == vc) == 16
    others = [cycle for cycle, vc in went if vc not in blocked]
    # Once the blocked ones have no credits left the others have the link to themselves.
    last = max(cycle for cycle, vc in went if vc in blocked)
    behind = [cycle for cycle in others if cycle > last]
    assert len(behind) > 20 and behind == [*range(behind[0], behind[0] + len(behind))]


@pytest.mark.parametrize(("num_vcs", "latency_cycles", "line_rate"), [(1, 4, True), (1, 5, False)])
def test_line_rate_of_one_channel_needs_credits_for_the_round_trip(
    num_vcs, latency_cycles, line_rate
):
    # A credit is back after 6 cycles and twice the wires' latency.
    link = Link(num_vcs=2, depth=14, latency_cycles=latency_cycles)
    sent = [messages(0, 1, count=100)[0], []]
    _, _, went = transport(link, sent)
    assert ([cycle for cycle, _ in went] == [*range(1, len(went) + 1)]) is line_rate


def test_channels_share_the_link_and_their_credits_add_up():
    link = Link(num_vcs=2, depth=8, latency_cycles=4)
    sent = messages(0, 2, count=100)
    _, _, went = transport(link, sent)
    halves = [sum(vc == half for _, vc in went[20:120]) for half in range(2)]
    assert went[119][0] - went[20][0] <= 104 and min(halves) > 40


def test_latency_is_as_documented():
    link, times = Link(num_vcs=2, depth=8, latency_cycles=0), []
    _, _, went = transport(link, [[], messages(0, 1, count=1)[0][:1]], times=times)
    assert times == [went[0][0] + 1 + 3]


def stamped(flits):
    """What the contract says of each flit's check, by zlib; flits are (vc, kind, payload)."""
    content, place, checks = {}, {}, []
    for vc, kind, payload in flits:
        begins = kind in (Kind.HEAD, Kind.SINGLE)
        last = bytes([kind.value | vc << 3])
        content[vc] = b"" if begins else content.get(vc, b"")
        content[vc] += payload.to_bytes(FLIT_BYTES, "little") + last
        place[vc] = 0 if begins else place.get(vc, 0) + 1
        inside = kind == Kind.BODY and place[vc] % SUBMESSAGE == 0
        ends = kind in (Kind.TAIL, Kind.SINGLE) or inside
        checks.append(zlib.crc32(content[vc]) if ends else 0)
    return checks


def on_the_link(flits, num_vcs, control_at=()):
    """What a transmitter makes of flits of all channels in turns; a control flit now and then."""
    transmitter, seen = a_transmitter(num_vcs, 200), []

    async def drive(ctx):
        ctx.set(transmitter.open, 1)
        ctx.set(transmitter.control.epoch, 1)
        await ctx.tick()
        await offer(ctx, transmitter, flits, go("seldom", 0))
        await ctx.tick().repeat(4)

    async def interrupt(ctx):
        ctx.set(transmitter.control.kind, Kind.FAULT)
        ctx.set(transmitter.control.payload, 0xBEEF)
        for cycle in range(1000):
            ctx.set(transmitter.control.valid, cycle in control_at)
            await ctx.tick()

    async def monitor(ctx):
        values = [getattr(transmitter.link, name) for name in FORWARD]
        async for _, _, *now in ctx.tick().sample(*values):
            if now[0]:
                seen.append(dict(zip(FORWARD, now, strict=True)))

    run(transmitter, drive, background=[monitor, interrupt])
    return seen


def received(units, num_vcs, depth=200, epoch=1):
    """What a receiver delivers per channel of flits, one per cycle; counts of strobes, credits."""
    receiver, got = a_receiver(num_vcs, depth), [[] for _ in range(num_vcs)]
    seen, shown, credits = dict.fromkeys(ERRORS, 0), [], [0] * num_vcs

    async def drive(ctx):
        ctx.set(receiver.epoch, epoch)
        ctx.set(receiver.up, 1)
        for unit in units:
            for name, value in {"valid": 1, **unit}.items():
                ctx.set(getattr(receiver.link, name), value)
            await ctx.tick()
        ctx.set(receiver.link.valid, 0)
        await ctx.tick().repeat(4)
        for o in receiver.o:
            ctx.set(o.ready, 1)
        await ctx.tick().repeat(2 * len(units) + 4)

    async def monitor(ctx):
        link, control = receiver.link, receiver.control
        streams = [value for o in receiver.o for value in (o.valid, o.ready, o.payload)]
        values = [link.credit, control.valid, control.kind, control.payload]
        values += [getattr(receiver, name) for name in ERRORS]
        async for _, _, *now in ctx.tick().sample(*values, *streams):
            credit, valid, *reported = now[:4]
            shown.extend([tuple(reported)] if valid else [])
            for vc in range(num_vcs):
                credits[vc] += credit >> vc & 1
                valid, ready, unit = now[4 + len(ERRORS) + 3 * vc :][:3]
                if valid and ready:
                    got[vc].append({"kind": unit.kind, "payload": unit.payload})
            for name, value in zip(seen, now[4:], strict=False):
                seen[name] += value

    run(receiver, drive, background=[monitor])
    errors = {name: count for name, count in seen.items() if count}
    return got, errors, credits, shown


@pytest.mark.parametrize("num_vcs", [2, 3, 8])
def test_each_channel_has_a_crc_and_all_share_the_number_on_the_link(num_vcs):
    sent = messages(num_vcs, num_vcs)
    seen = on_the_link(sent, num_vcs)
    assert [unit["check"] for unit in seen] == stamped(
        [(unit["vc"], unit["kind"], unit["payload"]) for unit in seen]
    )
    assert [unit["sequence"] for unit in seen] == [k % 8 for k in range(len(seen))]
    got, errors, credits, _ = received(seen, num_vcs)
    assert got == sent and not errors and credits == [len(queue) for queue in sent]


def test_control_flits_go_between_data_and_change_nothing_else():
    sent = messages(1, 2)
    seen = on_the_link(sent, 2, control_at=(5, 6, 7, 20, 41))
    controls = [unit for unit in seen if unit["kind"] == Kind.FAULT]
    wanted = {"vc": 0, "sequence": 0, "payload": 0xBEEF, "check": zlib.crc32(b"\xef\xbe\x07")}
    assert len(controls) == 5 and all(unit == unit | wanted for unit in controls)
    got, errors, _, shown = received(seen, 2)
    assert got == sent and not errors and shown == [(Kind.FAULT, 0xBEEF)] * 5


def heads(*vcs):
    return [
        {"kind": Kind.HEAD, "vc": vc, "sequence": k % 8, "payload": k, "epoch": 1}
        for k, vc in enumerate(vcs)
    ]


@pytest.mark.parametrize(
    ("numbers", "delivered"),
    [
        ((0, 1, 3, 4), [0, 1]),
        ((0, 1, 1, 2), [0, 1, 2]),
        ((0, 2, 1, 3), [0, 1]),
    ],
    ids=["dropped", "doubled", "swapped"],
)
def test_a_flit_out_of_sequence_is_an_error_whatever_its_channel(numbers, delivered):
    units = heads(*[0, 1] * 3)
    got, errors, credits, _ = received([units[number] for number in numbers], 2)
    assert sorted(flit["payload"] for queue in got for flit in queue) == delivered
    assert errors == {"sequence_error": len(numbers) - len(delivered)}
    assert sum(credits) == len(delivered)


def test_a_channel_that_does_not_exist_is_an_error():
    got, errors, _, _ = received(heads(0, 3, 1), 3)
    assert [len(queue) for queue in got] == [1, 0, 0] and errors == {"sequence_error": 2}


def test_a_flit_of_another_epoch_is_an_error():
    got, errors, _, _ = received(heads(0, 1), 2, epoch=0)
    assert got == [[], []] and errors == {"epoch_error": 2}


@pytest.mark.parametrize("depth", [3, 5])
def test_each_channel_has_all_places_and_one_more_flit_is_an_overflow(depth):
    got, errors, credits, _ = received(heads(*[1] * depth, *[0] * depth), 2, depth)
    assert credits == [depth] * 2 and not errors
    got, errors, credits, _ = received(heads(*[1] * depth, 0, 1), 2, depth)
    assert [len(queue) for queue in got] == [1, depth] and errors == {"overflow": 1}


def test_behind_a_wrong_crc_nothing_leaves_on_any_channel():
    seen = on_the_link(messages(3, 2), 2)
    wrong = next(k for k, unit in enumerate(seen) if unit["check"] and k > 10)
    seen[wrong]["check"] ^= 1
    got, errors, credits, _ = received(seen, 2)
    before = [[], []]
    for unit in seen[:wrong]:
        before[unit["vc"]].append({"kind": unit["kind"], "payload": unit["payload"]})
    # None of them was taken before the wrong one came: nothing is ready until all are in.
    assert got == [[], []] and errors == {"check_error": 1} and credits == [0, 0]
    got, errors, credits, _ = received(seen[:wrong], 2)
    assert got == before and not errors


@pytest.mark.parametrize("vc", [0, 1])
def test_a_credit_that_no_flit_of_its_channel_had_spent_is_a_fault_and_changes_nothing(vc):
    transmitter, faults, went = a_transmitter(2, 2), [], []

    async def drive(ctx):
        ctx.set(transmitter.open, 1)
        await ctx.tick()
        ctx.set(transmitter.link.credit, 1 << vc)
        await ctx.tick()
        ctx.set(transmitter.link.credit, 0)
        for _ in range(10):
            may_send = ctx.get(transmitter.may_send)
            ctx.set(transmitter.take, may_send >> vc & 1)
            ctx.set(transmitter.flit, {"kind": Kind.BODY, "vc": vc})
            went.append(may_send >> vc & 1)
            _, _, fault = await ctx.tick().sample(transmitter.fault_credit)
            faults.append(fault)
        assert ctx.get(transmitter.may_send) == 1 << (1 - vc)
        assert [ctx.get(left) for left in transmitter.available] == [2 * vc, 2 - 2 * vc]

    run(transmitter, drive)
    assert sum(faults) == 1 and sum(went) == 2


def test_no_path_leads_through_either_end():
    transmitter, receiver = a_transmitter(2, 4), a_receiver(2, 4)
    link = transmitter.link
    outputs = [getattr(link, name) for name in FORWARD]
    outputs += [transmitter.may_send, transmitter.fault_credit]
    inputs = [transmitter.take, transmitter.flit, link.credit, transmitter.open]
    inputs += [transmitter.control.valid]
    assert_no_path(transmitter, [*map(bits, inputs)], [*map(bits, outputs)])
    link = receiver.link
    outputs = [link.credit, *(getattr(receiver, name) for name in ERRORS), receiver.control.valid]
    outputs += [value for o in receiver.o for value in (o.valid, o.payload)]
    inputs = [getattr(link, name) for name in FORWARD] + [receiver.up, receiver.epoch]
    inputs += [o.ready for o in receiver.o]
    assert_no_path(receiver, [*map(bits, inputs)], [*map(bits, outputs)])


def bits(thing):
    return thing.as_value() if hasattr(thing, "as_value") else thing


def test_a_link_of_one_channel_has_the_wires_it_always_had():
    assert [vc_width(count) for count in (1, 2, 3, 4, 8)] == [1, 1, 2, 2, 3]
    assert LinkSignature(flit_bytes=2, num_vcs=1).members == LinkSignature(flit_bytes=2).members
    assert flit_layout(flit_bytes=2, num_vcs=8).size == flit_layout(flit_bytes=2).size + 2
    assert LinkSignature(flit_bytes=2, num_vcs=5).members["credit"].shape == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: a_transmitter(0, 4), "VCs must be from 1 to 8, not 0"),
        (lambda: a_receiver(9, 4), "VCs must be from 1 to 8, not 9"),
        (lambda: a_transmitter(2, 0), "Credits must be at least 1, not 0"),
        (lambda: a_receiver(2, 2), "Depth must be at least 3, not 2"),
        (lambda: LinkSignature(flit_bytes=1, num_vcs=0), "VCs must be from 1 to 8, not 0"),
        (
            lambda: RunningCheck(num_vcs=2, flit_bytes=4, submessage_flits=6),
            "Sub-message flits must be a power of two, not 6",
        ),
    ],
)
def test_a_wrong_size_is_named(make, message):
    assert_refused(make, ValueError, message)
