"""Tests of the receiver's faults: each is named, nothing wrong gets into memory."""

import pytest

from multitree.hw.link.link import Kind
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.formats import UNKNOWN
from tests.nic.blocks import SMALL, head
from tests.nic.receive.receivers import (
    FIRST,
    GATHER,
    NUMBERS,
    PORT,
    REDUCE,
    SECOND,
    SEQUENCE,
    message,
    packets,
    simulate,
)
from tests.nic.receive.test_forwarding_receiver_faults import assert_faulted as forwarding_faulted
from tests.nic.receive.test_forwarding_receiver_faults import of

CYCLES = 150
S = SMALL.submessage_flits


def assert_faulted(flits, code, flow, written=0, *, begun=None, **settings):
    """The fault is this one, and only so many flits of the message were written."""
    script = {0: settings}
    seen = simulate([*message(2, GATHER), *flits], cycles=CYCLES, slow=4, script=script)
    before = len(message(2, GATHER)) - 1
    assert [fault[1:] for fault in seen.faults] == [(code, flow)]
    assert len(seen.acked) == before + written
    assert len(seen.arrivals) <= 1 + written // 4


BOTH = {"plain": assert_faulted, "forwards": forwarding_faulted}
of_both = pytest.mark.parametrize("faulted", BOTH.values(), ids=BOTH)


@of_both
@pytest.mark.parametrize("behind", [1, 2, 128, 256, NUMBERS // 2])
def test_a_message_of_an_earlier_collective_is_a_fault(behind, faulted):
    flits = message(0, REDUCE, sequence=(SEQUENCE - behind) % NUMBERS)
    faulted(flits, FaultCode.STALE_SEQUENCE, 0)


@pytest.mark.parametrize("cycle", [1, 2, 3])
def test_a_head_whose_collective_ends_while_it_is_looked_up_is_a_fault(cycle):
    script = {cycle: {"sequence": (SEQUENCE + 1) % NUMBERS}}
    seen = simulate(message(0, REDUCE), cycles=CYCLES, script=script)
    assert [fault[1:] for fault in seen.faults] == [(FaultCode.STALE_SEQUENCE, 0)]
    assert not seen.acked


UNEXPECTED = {
    "from a child instead of the parent": message(0, GATHER),
    "from the parent instead of a child": message(2, REDUCE),
    "a gather at the root": message(1, GATHER),
    "a flow that is not in use": message(0, REDUCE, flow=4),
    "a flow that no memory holds": message(0, REDUCE, flow=0x8000),
    "a wave": message(0, REDUCE, wave=1),
    "empty, and its flow is not": message(0, REDUCE, size=0),
    "a contribution to an empty flow": message(3, REDUCE, size=1),
    "the sum of an empty flow": message(3, GATHER, size=1),
}


@of_both
@pytest.mark.parametrize("flits", UNEXPECTED.values(), ids=UNEXPECTED)
def test_a_message_that_the_flow_memory_does_not_expect_is_a_fault(flits, faulted):
    flow = flits[0]["payload"] & 0xFFFF
    faulted(flits, FaultCode.UNEXPECTED_MESSAGE, flow, num_flows=4)


@pytest.mark.parametrize(("flow", "op"), [(0, REDUCE), (1, REDUCE), (3, REDUCE), (3, GATHER)])
@pytest.mark.parametrize("between", [(), message(3, GATHER), message(0, REDUCE)])
def test_a_message_that_comes_twice_is_a_fault_at_once_and_nothing_of_it_is_written(
    flow, op, between
):
    once = message(flow, op)
    between = () if between in (once, ()) else between
    written = len(once) + len(between) - 1 - bool(between)
    seen = simulate([*once, *between, *once], cycles=CYCLES, slow=40, count=lambda *_: 999)
    assert [fault[1:] for fault in seen.faults] == [(FaultCode.DUPLICATE_MESSAGE, flow)]
    assert len(seen.acked) == written


def test_the_same_message_is_welcome_in_the_next_collective_and_a_third_time_in_neither():
    once, following = message(0, REDUCE), message(0, REDUCE, sequence=0)
    script = {60: {"sequence": 0}}
    seen = simulate([*once, *following], cycles=200, slow=4, script=script)
    assert not seen.faults and len(seen.acked) == 2 * FIRST["size"]
    seen = simulate([*once, *following, *following], cycles=200, slow=4, script=script)
    assert [fault[1:] for fault in seen.faults] == [(FaultCode.DUPLICATE_MESSAGE, 0)]
    assert len(seen.acked) == 2 * FIRST["size"]


@pytest.mark.slow
@pytest.mark.parametrize("bit", range(0, 165, 12))
def test_a_flipped_bit_of_a_flows_entry_is_a_fault_before_anything_is_written(bit):
    for flow, op in ((0, REDUCE), (2, GATHER), (3, GATHER)):
        seen = simulate(message(flow, op), cycles=40, slow=4, flip=(flow, bit))
        assert [fault[1:] for fault in seen.faults] == [(FaultCode.TABLE_PARITY, flow)]
        assert not seen.acked and not seen.arrivals


def replaced(flits, index, kind):
    return [*flits[:index], flits[index] | {"kind": kind}, *flits[index + 1 :]]


@pytest.mark.slow
@of_both
@pytest.mark.parametrize("index", [1, 4, 5, FIRST["size"] - 1])
@pytest.mark.parametrize("kind", [Kind.HEAD, Kind.TAIL, Kind.SINGLE])
def test_a_message_that_ends_too_early_is_a_fault_and_its_end_is_not_written(index, kind, faulted):
    # Its payload is drawn: what looks like the head of a later collective would wait for it.
    flits = replaced(of(0, REDUCE), index, kind)
    faulted(flits, FaultCode.FRAMING, 0, index - 1, begun=True)


@of_both
@pytest.mark.parametrize(
    "fields",
    [
        {"flow": 1},
        {"op": GATHER},
        {"sequence": SEQUENCE - 1},
        {"sequence": SEQUENCE ^ NUMBERS // 2},
        {"continued": 0},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_packet_that_does_not_continue_its_message_is_a_fault(fields, faulted):
    flits = packets(0, REDUCE)
    named = {"flow": 0, "op": REDUCE, "sequence": SEQUENCE, "continued": 1}
    flits[1 + S] = {"kind": Kind.HEAD, "payload": head(**named | fields)}
    faulted(flits, FaultCode.FRAMING, 0, S, packets=1)


def test_a_packet_that_continues_nothing_is_a_fault():
    assert_faulted(message(0, REDUCE, continued=1), FaultCode.FRAMING, 0, 0)


@pytest.mark.parametrize("framed", [message, packets])
def test_packets_for_a_message_and_a_message_for_packets_are_faults(framed):
    other = int(framed is message)
    assert_faulted(framed(0, REDUCE), FaultCode.FRAMING, 0, S - 1, packets=other)


@pytest.mark.parametrize("kind", [Kind.HEAD, Kind.BODY, Kind.SINGLE])
def test_a_message_that_does_not_end_where_it_must_is_a_fault(kind):
    flits = replaced(message(0, REDUCE), FIRST["size"], kind)
    assert_faulted(flits, FaultCode.FRAMING, 0, FIRST["size"] - 1)


@pytest.mark.parametrize(
    ("faulted", "framed"),
    [(assert_faulted, message), (assert_faulted, packets), (forwarding_faulted, message)],
)
@pytest.mark.parametrize("change", [1, 2, 1 << 7])
def test_a_head_of_another_size_than_its_flow_is_a_fault_before_anything_is_written(
    change, faulted, framed
):
    first, *payload = framed(0, REDUCE)
    named = {"flow": 0, "op": REDUCE, "sequence": SEQUENCE, "size": FIRST["size"] ^ change}
    flits = [first | {"payload": head(**named)}, *payload]
    faulted(flits, FaultCode.LENGTH, 0)


@of_both
@pytest.mark.parametrize("kind", [Kind.BODY, Kind.TAIL])
def test_a_payload_flit_without_a_head_is_a_fault_of_no_known_flow(kind, faulted):
    flits = [{"kind": kind, "payload": 0}, *message(0, REDUCE)]
    faulted(flits, FaultCode.FRAMING, UNKNOWN)


@pytest.mark.slow
@pytest.mark.parametrize("at", range(8, 40, 3))
def test_in_a_fault_everything_is_taken_and_nothing_more_is_written(at):
    """The links drain at one flit per cycle, whatever state the receiver is in."""
    flits = [*message(0, REDUCE), *message(1, REDUCE), *message(3, REDUCE), *message(2, GATHER)]
    flits += [{"kind": Kind.BODY, "payload": 1}] * 20
    fault = {"running": 0, "faulted": 1}
    seen = simulate(flits, cycles=CYCLES, slow=4, script={at: fault}, count=lambda *_: 1)
    assert len(seen.times) == len(flits)
    # The first flit is offered when the flow memory is loaded, 20 cycles after the clock began.
    taken = [cycle - seen.times[0] for cycle in seen.times]
    late = [cycle for cycle in taken if cycle > at]
    assert late == list(range(late[0], late[0] + len(late)))
    assert not seen.faults
    # Reads and writes of what was taken before may end; the pipeline is 20 cycles long.
    assert all(cycle < at + 30 for cycle, _ in seen.acked)


def test_a_receiver_in_the_middle_of_a_message_says_what_it_waits_for():
    cut = message(0, REDUCE)[:5]
    assert simulate(cut, cycles=80).waits[-1] == (Awaited.FLIT, 0, PORT, REDUCE)
    cut = message(2, GATHER)[:2]
    assert simulate(cut, cycles=80).waits[-1] == (Awaited.FLIT, 2, PORT, GATHER)
    between = packets(0, REDUCE)[: 1 + S]
    seen = simulate(between, cycles=80, script={0: {"packets": 1}})
    assert seen.waits[-1] == (Awaited.FLIT, 0, PORT, REDUCE)
    behind = simulate(message(1, REDUCE), cycles=80, count=lambda *_: 1)
    assert behind.waits[-1] == (Awaited.SIBLING, 1, SECOND["children"][0], REDUCE)
    assert simulate([], cycles=40).waits[-1][0] == Awaited.NOTHING
    assert simulate(message(0, REDUCE), cycles=80).waits[-1][0] == Awaited.NOTHING
