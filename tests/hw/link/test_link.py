"""Tests of both ends of a credited link, with one virtual channel and several."""

import itertools
import zlib

import pytest

from multitree.hw.codes import vc_width
from multitree.hw.link.check import RunningCheck
from multitree.hw.link.link import Kind, LinkSignature, fault_record_width, flit_layout
from tests.hw.link.wires import (
    ERRORS,
    FLIT_BYTES,
    FORWARD,
    Link,
    a_receiver,
    a_transmitter,
    message,
    on_the_link,
    received,
    transport,
)
from tests.hw.streams import PATTERNS, assert_no_path, assert_refused, put, seeded, simulation_of

ALIKE = [(pattern,) for pattern in PATTERNS]
DATA = (Kind.HEAD, Kind.BODY, Kind.TAIL, Kind.SINGLE)


def messages(seed, num_vcs, count=30):
    """At least so many flits of whole messages for each virtual channel."""
    rng, flits = seeded(seed), [[] for _ in range(num_vcs)]
    for queue in flits:
        while len(queue) < count:
            queue += message(rng, rng.choice([0, 1, 3, 4, 9]))
    return flits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stall_i", "stall_o", "sizes"),
    [
        *itertools.product(PATTERNS, ALIKE, [(1, 3, 0), (1, 4, 7), (1, 20, 5)]),
        *itertools.product(["never"], ALIKE, [(1, 5, 3)]),
        *itertools.product(
            ["never", "bursts"],
            [("never",), ("bursts", "seldom", "often")],
            [(2, 3, 0), (3, 4, 7), (8, 12, 3)],
        ),
    ],
)
def test_every_flit_arrives_once_on_its_channel_and_in_order(stall_i, stall_o, sizes):
    """Sizes are the virtual channels, their depth, and the latency of the wires in cycles."""
    num_vcs, depth, latency_cycles = sizes
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


@pytest.mark.parametrize(
    ("num_vcs", "depth", "latency_cycles", "line_rate"),
    [(1, 15, 0, True), (1, 15, 4, True), (1, 15, 5, False), (2, 14, 4, True), (2, 14, 5, False)],
)
def test_line_rate_of_one_channel_needs_credits_for_the_round_trip(
    num_vcs, depth, latency_cycles, line_rate
):
    # A credit is back after 6 cycles and twice the wires' latency.
    link = Link(num_vcs=num_vcs, depth=depth, latency_cycles=latency_cycles)
    sent = [messages(0, 1, count=100)[0], *[[]] * (num_vcs - 1)]
    _, _, went = transport(link, sent)
    assert ([cycle for cycle, _ in went] == [*range(1, len(went) + 1)]) is line_rate


def test_channels_share_the_link_and_their_credits_add_up():
    link = Link(num_vcs=2, depth=8, latency_cycles=4)
    _, _, went = transport(link, messages(0, 2, count=100))
    halves = [sum(vc == half for _, vc in went[20:120]) for half in range(2)]
    assert went[119][0] - went[20][0] <= 104 and min(halves) > 40


@pytest.mark.parametrize("num_vcs", [1, 2])
def test_latency_is_as_documented(num_vcs):
    link, times = Link(num_vcs=num_vcs, depth=8, latency_cycles=0), []
    flits = [*[[]] * (num_vcs - 1), messages(0, 1, count=1)[0][:1]]
    _, _, went = transport(link, flits, times=times)
    assert times == [went[0][0] + 1 + 3]


def test_too_many_credits_end_in_an_overflow_and_nothing_wrong_is_delivered():
    link, sent = Link(num_vcs=1, depth=5, credits=7, latency_cycles=1), messages(0, 1, count=60)
    (got,), faults, _ = transport(link, sent, stall_o=("often",), cycles=1500)
    assert "overflow" in faults and got == sent[0][: len(got)]


def test_control_flits_go_between_data_and_change_nothing_else():
    sent = messages(1, 2)
    seen = on_the_link(sent, dict.fromkeys((5, 6, 7, 20, 41), (Kind.FAULT, 0xBEEF)))
    controls = [unit for unit in seen if unit["kind"] == Kind.FAULT]
    wanted = {"vc": 0, "sequence": 0, "payload": 0xBEEF, "check": zlib.crc32(b"\xef\xbe\x07")}
    assert len(controls) == 5 and all(unit == unit | wanted for unit in controls)
    got, shown, errors, _ = received(a_receiver(2, 200), seen, late=True)
    assert got == sent and not errors and shown == [(Kind.FAULT, 1, 0xBEEF)] * 5


def heads(*vcs):
    return [
        {"kind": Kind.HEAD, "vc": vc, "sequence": k % 8, "payload": k, "epoch": 1}
        for k, vc in enumerate(vcs)
    ]


@pytest.mark.parametrize("num_vcs", [1, 2])
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
def test_a_flit_out_of_sequence_is_an_error_whatever_its_channel(numbers, delivered, num_vcs):
    units = heads(*[k % num_vcs for k in range(12)])
    receiver = a_receiver(num_vcs, 16)
    got, _, errors, credits = received(receiver, [units[k] for k in numbers], late=True)
    assert [[flit["payload"] for flit in queue] for queue in got] == [
        [k for k in delivered if k % num_vcs == vc] for vc in range(num_vcs)
    ]
    assert errors["sequence_error"] == errors.total() == len(numbers) - len(delivered)
    assert sum(credits) == len(delivered)


@pytest.mark.parametrize(("num_vcs", "vcs"), [(1, (0, 1, 0)), (3, (0, 3, 1))])
def test_a_channel_that_does_not_exist_is_an_error(num_vcs, vcs):
    got, _, errors, _ = received(a_receiver(num_vcs, 16), heads(*vcs), late=True)
    assert [flit["payload"] for queue in got for flit in queue] == [0]
    assert errors == {"sequence_error": 2}


def test_a_flit_of_another_epoch_is_an_error():
    got, _, errors, _ = received(a_receiver(2, 200), heads(0, 1), epoch=0, late=True)
    assert got == [[], []] and errors == {"epoch_error": 2}


@pytest.mark.parametrize(("num_vcs", "depth"), [(1, 3), (1, 4), (1, 9), (2, 3), (2, 5)])
def test_each_channel_has_all_places_and_one_more_flit_is_an_overflow(num_vcs, depth):
    full = [vc for vc in reversed(range(num_vcs)) for _ in range(depth)]
    got, _, errors, credits = received(a_receiver(num_vcs, depth), heads(*full), late=True)
    assert credits == [depth] * num_vcs and not errors
    assert [len(queue) for queue in got] == credits
    vcs = [*full[:depth], *[0] * (num_vcs - 1), num_vcs - 1]
    got, _, errors, credits = received(a_receiver(num_vcs, depth), heads(*vcs), late=True)
    assert [len(queue) for queue in got] == credits == [*[1] * (num_vcs - 1), depth]
    assert [flit["payload"] for flit in got[-1]] == [*range(depth)]
    assert errors == {"overflow": 1}


def test_behind_a_wrong_crc_nothing_leaves_on_any_channel():
    seen = on_the_link(messages(3, 2))
    wrong = next(k for k, unit in enumerate(seen) if unit["check"] and k > 10)
    seen[wrong]["check"] ^= 1
    got, _, errors, credits = received(a_receiver(2, 200), seen, late=True)
    before = [[], []]
    for unit in seen[:wrong]:
        before[unit["vc"]].append({"kind": unit["kind"], "payload": unit["payload"]})
    # None of them was taken before the wrong one came: nothing is ready until all are in.
    assert got == [[], []] and errors == {"check_error": 1} and credits == [0, 0]
    got, _, errors, credits = received(a_receiver(2, 200), seen[:wrong], late=True)
    assert got == before and not errors


@simulation_of(lambda: a_transmitter(1, 5))
async def test_a_transmitter_spends_no_more_credits_than_it_has(ctx, transmitter):
    may_send, valid = [], 0
    ctx.set(transmitter.open, 1)
    for cycle in range(41):
        may_send.append(ctx.get(transmitter.may_send))
        ctx.set(transmitter.take, may_send[-1])
        ctx.set(transmitter.link.credit, cycle == 20)
        _, _, sent = await ctx.tick().sample(transmitter.link.valid)
        valid += sent
    assert sum(may_send[:20]) == 5 and sum(may_send) == valid == 6


@pytest.mark.parametrize(("num_vcs", "vc"), [(1, 0), (2, 0), (2, 1)])
@pytest.mark.parametrize("sending", [False, True])
@simulation_of(lambda num_vcs: a_transmitter(num_vcs, 2))
async def test_a_credit_that_no_flit_of_its_channel_had_spent_is_a_fault_and_changes_nothing(
    ctx, transmitter, vc, sending
):
    faults, went = [], []
    ctx.set(transmitter.open, 1)
    await ctx.tick()
    for cycle in range(11):
        goes = ctx.get(transmitter.may_send) >> vc & 1 and (sending or cycle > 0)
        put(ctx, transmitter, take=goes, flit={"kind": Kind.BODY, "vc": vc})
        ctx.set(transmitter.link.credit, (cycle == 0) << vc)
        _, _, fault = await ctx.tick().sample(transmitter.fault_credit)
        went.append(goes)
        faults.append(fault)
    others = [k for k in range(transmitter.num_vcs) if k != vc]
    assert ctx.get(transmitter.may_send) == sum(1 << k for k in others)
    left = [ctx.get(available) for available in transmitter.available]
    assert left == [2 * (k in others) for k in range(transmitter.num_vcs)]
    assert faults == [0, 1] + [0] * 9 and sum(went) == 2


@pytest.mark.parametrize("num_vcs", [1, 2])
def test_no_path_leads_through_either_end(num_vcs):
    transmitter, receiver = a_transmitter(num_vcs, 4), a_receiver(num_vcs, 4)
    link = transmitter.link
    outputs = [getattr(link, name) for name in FORWARD]
    outputs += [transmitter.may_send, transmitter.fault_credit]
    inputs = [transmitter.take, transmitter.flit, link.credit, transmitter.open]
    inputs += [transmitter.control.valid]
    assert_no_path(transmitter, [*map(bits, inputs)], [*map(bits, outputs)])
    link = receiver.link
    inputs = [receiver.epoch, *(o.ready for o in receiver.o)]
    inputs += [bits(getattr(link, name)) for name in FORWARD]
    outputs = [link.credit, *(getattr(receiver, name) for name in ERRORS), receiver.control.valid]
    outputs += [bits(o.payload) for o in receiver.o]
    assert_no_path(receiver, [receiver.up, *inputs], outputs, cycles=100)
    # A port that goes down offers nothing in the very cycle; all else reaches it by registers.
    offered = [o.valid for o in receiver.o]
    assert_no_path(receiver, inputs, [*outputs, *offered], held=[receiver.up], cycles=100)


def bits(thing):
    return thing.as_value() if hasattr(thing, "as_value") else thing


def test_the_layout_of_a_flit_is_the_link_without_its_handshake():
    members = LinkSignature(flit_bytes=FLIT_BYTES).members
    layout = flit_layout(flit_bytes=FLIT_BYTES)
    assert {name for name, _ in layout} == set(members) - {"valid", "credit"}
    assert layout.size == 3 + 1 + 3 + 1 + 32 + 8 * FLIT_BYTES
    assert [kind.value for kind in DATA] == [0, 1, 2, 3]
    assert [kind.value for kind in Kind][4:] == [4, 5, 6, 7] and Kind.FAULT.value == 7
    assert [kind for kind in Kind if kind.value < Kind.DOWN.value] == list(DATA)
    assert (fault_record_width(8), fault_record_width(16)) == (64, 96)


def test_a_link_of_one_channel_has_the_wires_it_always_had():
    assert [vc_width(count) for count in (1, 2, 3, 4, 8)] == [1, 1, 2, 2, 3]
    assert LinkSignature(flit_bytes=2, num_vcs=1).members == LinkSignature(flit_bytes=2).members
    assert flit_layout(flit_bytes=2, num_vcs=8).size == flit_layout(flit_bytes=2).size + 2
    assert LinkSignature(flit_bytes=2, num_vcs=5).members["credit"].shape == 5


def a_check(**sizes):
    return RunningCheck(**{"flit_bytes": 4, "submessage_flits": 4} | sizes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: a_transmitter(0, 4), "VCs must be from 1 to 8, not 0"),
        (lambda: a_receiver(9, 4), "VCs must be from 1 to 8, not 9"),
        (lambda: a_transmitter(1, 0), "Credits must be at least 1, not 0"),
        (lambda: a_transmitter(2, 0), "Credits must be at least 1, not 0"),
        (lambda: a_receiver(1, 2), "Depth must be at least 3, not 2"),
        (lambda: a_receiver(2, 2), "Depth must be at least 3, not 2"),
        (lambda: LinkSignature(flit_bytes=0), "Flit bytes must be at least 1, not 0"),
        (lambda: LinkSignature(flit_bytes=1, num_vcs=0), "VCs must be from 1 to 8, not 0"),
        (lambda: a_check(flit_bytes=0), "Flit bytes must be at least 1, not 0"),
        (lambda: a_check(submessage_flits=6), "Sub-message flits must be a power of two, not 6"),
        (
            lambda: a_check(num_vcs=2, submessage_flits=6),
            "Sub-message flits must be a power of two, not 6",
        ),
        (lambda: a_check(submessage_flits=1), "Sub-message flits must be at least 2, not 1"),
    ],
)
def test_a_wrong_size_is_named(make, message):
    assert_refused(make, ValueError, message)
