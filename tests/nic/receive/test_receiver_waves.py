"""Tests of the receiver where tables are repeated: waves in order, each once."""

from dataclasses import replace
from functools import partial

import pytest

from multitree.nic.driver.faults import Awaited, FaultCode
from tests.hw.streams import PATTERNS, seeded
from tests.nic.blocks import SMALL
from tests.nic.receive import receivers
from tests.nic.receive.receivers import BASE, FLOWS, GATHER, PORT, REDUCE, SECOND, message, packets

S, STRIDE, LAST = SMALL.submessage_flits, 310, 2
REPEATS = replace(SMALL, wave_width=3)
KINDS = [(0, REDUCE), (1, REDUCE), (2, GATHER), (3, REDUCE), (3, GATHER)]
simulate = partial(receivers.simulate, config=REPEATS, stride=STRIDE)


def counts(wave, number):
    return wave << REPEATS.part_width | number


def in_order(rng, last=LAST):
    """Each message of each wave, a flow's waves in order and the flows in any."""
    left = dict.fromkeys(KINDS, 0)
    while left:
        kind = rng.choice(list(left))
        yield *kind, left[kind]
        left[kind] += 1
        if left[kind] > last:
            del left[kind]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("framed", [message, packets], ids=["messages", "packets"])
def test_every_wave_is_written_to_its_own_place_and_reported_with_its_number(pattern, framed):
    rng = seeded(f"{pattern} {framed.__name__}")
    order = list(in_order(rng))
    messages = [framed(flow, op, rng, wave=wave) for flow, op, wave in order]
    script = {0: {"packets": int(framed is packets), "last_wave": LAST}}
    flits = [flit for flits in messages for flit in flits]
    seen = simulate(flits, cycles=3000, stalls=(pattern,) * 5, script=script, seed=pattern)
    sent = [(*each, part) for each, part in zip(order, messages, strict=True)]
    receivers.assert_received(seen, sent, stride=STRIDE, config=REPEATS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_wave_that_comes_before_the_one_before_it_is_a_fault_and_so_is_one_that_comes_again(kind):
    flow, op = kind
    for waves, code in (
        ([1], FaultCode.UNEXPECTED_MESSAGE),
        ([0, 2], FaultCode.UNEXPECTED_MESSAGE),
        ([0, 0], FaultCode.DUPLICATE_MESSAGE),
        ([0, 1, 0], FaultCode.DUPLICATE_MESSAGE),
        ([0, 1, 1], FaultCode.DUPLICATE_MESSAGE),
        ([0, 1, 2, 3], FaultCode.UNEXPECTED_MESSAGE),
        ([0, 1, 2, 8], FaultCode.UNEXPECTED_MESSAGE),
        ([0, 1, 2, 1 << 15], FaultCode.UNEXPECTED_MESSAGE),
    ):
        flits = [flit for wave in waves for flit in message(flow, op, wave=wave)]
        seen = simulate(flits, slow=4, script={0: {"last_wave": LAST}})
        assert [fault[1:] for fault in seen.faults] == [(code, flow)], waves
        assert seen.fault_waves == waves[-1:]
        right = len(waves) - 1
        assert len(seen.acked) == right * FLOWS[flow]["size"]


def test_the_waves_of_the_next_collective_begin_anew():
    both = [message(0, REDUCE, wave=wave) for wave in range(3)]
    both += [message(0, REDUCE, wave=wave, sequence=0) for wave in range(2)]
    flits = [flit for part in both for flit in part]
    script = {0: {"last_wave": 2}, 150: {"sequence": 0, "last_wave": 1}}
    seen = simulate(flits, slow=4, script=script)
    assert not seen.faults
    assert [count for *_, count, last in seen.arrivals if last] == [
        counts(wave, 3) for wave in (0, 1, 2, 0, 1)
    ]


def test_a_contribution_waits_for_the_same_wave_of_the_sibling_before_it():
    flits = [flit for wave in range(2) for flit in message(1, REDUCE, wave=wave)]
    late = 120

    def count(cycle, port, op, flow):
        return counts(0, 3) if cycle < late else counts(1, min((cycle - late) // 20, 3))

    seen = simulate(flits, count=count, slow=4, script={0: {"last_wave": 1}})
    assert not seen.faults and len(seen.acked) == 2 * SECOND["size"]
    for cycle, address in seen.reads:
        wave, place = divmod(address - SECOND["base"], STRIDE)
        if wave:
            assert count(cycle, *(0,) * 3) >= counts(1, place // S + 1)
        else:
            assert cycle < late
    stuck = simulate(flits, count=lambda *_: counts(1, 1), cycles=150, script={0: {"last_wave": 1}})
    assert stuck.waits[-1] == (Awaited.SIBLING, 1, SECOND["children"][0], REDUCE)
    assert stuck.wait_waves[-1] == 1
    empty = [flit for wave in range(2) for flit in message(3, REDUCE, wave=wave)]
    seen = simulate(empty, count=count, script={0: {"last_wave": 1}})
    assert [cycle > late for cycle, *_ in seen.arrivals] == [False, True]
    assert (Awaited.SIBLING, 3, 0, REDUCE) in seen.waits


def test_a_packet_of_another_wave_does_not_continue_its_message():
    for wave in (0, 2, 9):
        first, other = packets(0, REDUCE, wave=1), packets(0, REDUCE, wave=wave)
        flits = [*packets(0, REDUCE), *first[: 1 + S], *other[1 + S :]]
        script = {0: {"packets": 1, "last_wave": LAST}}
        seen = simulate(flits, slow=4, script=script)
        assert [fault[1:] for fault in seen.faults] == [(FaultCode.FRAMING, 0)]
        assert len(seen.acked) == FLOWS[0]["size"] + S


@pytest.mark.parametrize("stride", [512 - 50, 1023])
def test_a_wave_beyond_all_addresses_is_a_fault_and_does_not_wrap_around(stride):
    flits = [flit for wave in range(3) for flit in message(2, GATHER, wave=wave)]
    seen = simulate(flits, slow=4, stride=stride, script={0: {"last_wave": 2}})
    fits = 1 + (stride < 1024 - BASE - FLOWS[2]["base"])
    assert [fault[1] for fault in seen.faults] == [FaultCode.OUT_OF_WINDOW]
    assert len(seen.acked) == fits * S
    assert seen.faults[0][2] == 2 and FLOWS[2]["parent"] == PORT
