"""Tests of a receiver that forwards: what is refused is not written or reported."""

import pytest

from multitree.hw.link.link import Kind
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import UNKNOWN
from tests.hw.streams import seeded
from tests.nic.blocks import head
from tests.nic.forward.messages import Messages
from tests.nic.receive.forwarding_receivers import (
    FLOWS,
    LONG,
    add_sibling,
    framed,
    initial,
    simulate,
)
from tests.nic.receive.receivers import (
    BASE,
    FIRST,
    GATHER,
    REDUCE,
    SEQUENCE,
    S,
    packets,
)
from tests.nic.receive.test_forwarding_receiver import WAVES

BELOW = 2
PAUSE = 60
"""Cycles in which what came before a fault is written."""


def of(number, op, frame=None, **fields):
    given = {"frame": frame} if frame else {}
    return framed(number, op, seeded(f"{number} {op}"), **given, **fields)


def assert_faulted(flits, code, flow, written=0, *, begun=None, **settings):
    """The fault is this one, and only so many flits of a message of flow 0 were written.

    A message before it is received as ever. The message is reported if it is refused behind its
    head.
    """
    messages, before = Messages(), initial(0)
    add_sibling(messages, before, seeded(0), BELOW, port=0)
    good = (BELOW, GATHER, 0, of(BELOW, GATHER, packets if settings.get("packets") else None))
    sent = [good, (0, REDUCE, 0, flits)]
    given = {"cycles": 200, "slow": 3, "script": {0: settings}}
    seen = simulate(sent, messages, at=lambda cycle, port: (S * (port == 0),) * 2, **given)
    assert seen.faults == [(code, flow)]
    places = [BASE + FLOWS[BELOW]["base"] + k for k in range(S)]
    places += [BASE + FIRST["base"] + k for k in range(written)]
    # Of the message that is refused behind its head, what was in hand is written or not.
    touched = [address for _, address in seen.written]
    assert touched == places[: len(touched)] and len(touched) >= S
    begun = written > 0 if begun is None else begun
    reports = [(GATHER, BELOW, 0, 0)] + [(REDUCE, 0, S, 0)] * begun
    assert [report for _, *report in seen.reports] == [list(report) for report in reports]
    assert [each[1:3] for each in seen.arrivals][1:] == [(REDUCE, 0)] * (len(seen.arrivals) - 1)
    assert len(seen.arrivals) <= 1 + written // S
    for place, (old, new) in enumerate(zip(seen.before, seen.after, strict=True)):
        assert old == new or place in places


def test_a_message_that_comes_twice_is_a_fault_and_nothing_of_it_is_reported_again():
    assert_faulted(of(BELOW, GATHER), FaultCode.DUPLICATE_MESSAGE, BELOW)


@pytest.mark.parametrize("kind", [Kind.BODY, Kind.TAIL, Kind.HEAD])
@pytest.mark.parametrize("packets_on", [0, 1])
@pytest.mark.parametrize("follows", [False, True])
def test_a_flit_between_two_messages_is_a_fault_and_no_flit_of_either(kind, packets_on, follows):
    """Whether the head of the next message was read before it is found, or not."""
    frame = packets if packets_on else None
    stray = {"kind": kind, "payload": head(flow=4, sequence=SEQUENCE, continued=1)}
    last = [(2, GATHER, 0, of(2, GATHER, frame))] if follows else []
    sent = [(0, REDUCE, 0, [*of(0, REDUCE, frame), stray]), *last]
    seen = simulate(sent, cycles=200, slow=3, script={0: {"packets": packets_on}})
    # Where the next message is in hand already, it is the one with a wrong flit in front.
    named = 4 if kind == Kind.HEAD else UNKNOWN
    assert seen.faults in ([(FaultCode.FRAMING, named)], [(FaultCode.FRAMING, 2)] * follows)
    places = [BASE + FIRST["base"] + k for k in range(FIRST["size"])]
    assert [address for _, address in seen.written] == places[: len(seen.written)]


@pytest.mark.parametrize("kind", [Kind.BODY, Kind.TAIL])
def test_a_flit_in_front_of_an_empty_message_that_was_read_ahead_is_a_fault(kind):
    """The message before them waits for a sibling, so that the empty one's head was looked up."""
    messages = Messages()
    add_sibling(messages, initial(0), seeded(0), 4, port=2)
    messages.add([], port=0, op=REDUCE, flow=3, base=305)
    stray = {"kind": kind, "payload": 77}
    sent = [(4, REDUCE, 0, [*of(4, REDUCE), stray]), (3, REDUCE, 0, of(3, REDUCE))]
    late = LONG["size"]

    def at(cycle, port):
        return (late * (port == 2 and cycle > 80),) * 2

    seen = simulate(sent, messages, cycles=260, slow=3, at=at)
    assert seen.faults == [(FaultCode.FRAMING, UNKNOWN)]
    assert {arrival[2] for arrival in seen.arrivals} <= {4}


def test_a_packet_of_another_wave_does_not_continue_its_message():
    flits = of(0, REDUCE, packets, wave=0)
    named = {"flow": 0, "op": REDUCE, "sequence": SEQUENCE, "continued": 1, "wave": 1}
    [second] = [place for place, flit in enumerate(flits) if flit["kind"] == Kind.HEAD][1:2]
    flits[second] = {"kind": Kind.HEAD, "payload": head(**named)}
    script = {0: {"last_wave": 2, "packets": 1}}
    sent = [(0, REDUCE, 0, flits)]
    seen = simulate(sent, Messages(WAVES), script=script, stride=32, cycles=200)
    assert seen.faults == [(FaultCode.FRAMING, 0)]


def test_a_message_that_is_wrong_is_a_fault_only_behind_those_before_it():
    """Its head is read while the flits of the one before it still wait for the link."""
    wrong = framed(0, REDUCE, seeded(1), flow=len(FLOWS))
    sent = [(0, REDUCE, 0, of(0, REDUCE)), (0, REDUCE, 0, wrong)]
    seen = simulate(sent, slow=3, cycles=200)
    assert seen.faults == [(FaultCode.UNEXPECTED_MESSAGE, len(FLOWS))]
    assert [position for *_, position, _ in seen.reports] == [0]
    cut = [(0, REDUCE, 0, of(0, REDUCE)[:-1]), (0, REDUCE, 0, wrong)]
    assert simulate(cut, slow=3, cycles=200).faults == [(FaultCode.FRAMING, 0)]


@pytest.mark.parametrize("bit", range(0, 165, 41))
@pytest.mark.parametrize(("flow", "op"), [(0, REDUCE), (2, GATHER), (3, GATHER)])
def test_a_flipped_bit_of_a_flows_entry_is_a_fault_before_anything_is_reported(bit, flow, op):
    sent = [(flow, op, 0, of(flow, op))]
    seen = simulate(sent, cycles=60, flips=[(flow, bit)])
    assert seen.faults == [(FaultCode.TABLE_PARITY, flow)]
    assert not seen.reports and not seen.written and not seen.arrivals and not seen.reads


@pytest.mark.parametrize("at", range(5, 40, 3))
def test_in_a_fault_everything_is_taken_and_nothing_more_is_written_or_reported(at):
    """The links drain at one flit per cycle, whatever state the receiver is in."""
    sent = [(number, REDUCE, 0, of(number, REDUCE)) for number in (0, 1, 4)]
    script = {at: {"running": 0, "faulted": 1}}
    seen = simulate(sent, script=script, cycles=200, slow=4, at=lambda *_: (0, 0))
    assert len(seen.times) == sum(len(flits) for *_, flits in sent)
    late = [cycle for cycle in seen.times if cycle > at]
    assert late == list(range(late[0], late[0] + len(late)))
    assert not seen.faults
    stop = seen.times[0] + 30 + at
    assert all(cycle <= stop + 1 for cycle, *_ in seen.reports)
    assert all(cycle < stop + 20 for cycle, _ in seen.acked)
    assert len({address for _, address in seen.written}) == len(seen.written)


def test_a_fault_names_its_own_message_while_another_one_waits_for_a_sibling():
    sent = [(1, REDUCE, 0, of(1, REDUCE)), (0, GATHER, 0, of(0, GATHER))]
    seen = simulate(sent, at=lambda *_: (0, 0), cycles=200)
    assert seen.faults == [(FaultCode.UNEXPECTED_MESSAGE, 0)]


def test_a_wave_beyond_all_addresses_is_not_reported():
    messages = Messages(WAVES)
    for wave in range(2):
        add_sibling(messages, initial(0), seeded(0), 2, port=0, wave=wave, stride=462)
    sent = [(2, GATHER, wave, of(2, GATHER, wave=wave)) for wave in range(3)]
    given = {"stride": 462, "cycles": 250, "script": {0: {"last_wave": 2}}}
    seen = simulate(sent, messages, at=lambda cycle, port: (8 * (port == 0),) * 2, **given)
    assert seen.faults == [(FaultCode.OUT_OF_WINDOW, 2)] and len(seen.reports) == 2
