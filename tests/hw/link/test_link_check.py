"""The CRC on a link: what is stamped, what is verified, what never leaves."""

import random
import zlib

import pytest

from multitree.hw.link.link import Kind
from tests.hw.link.wires import (
    FLIT_BYTES,
    SUBMESSAGE,
    a_receiver,
    a_transmitter,
    message,
    on_the_link,
)
from tests.hw.link.wires import received as received_on
from tests.hw.streams import put, simulation_of


def received(units, **given):
    """What a receiver of one channel delivers, shows, and counts as errors, and its credits."""
    (got,), shown, errors, (credits,) = received_on(a_receiver(1, 200), units, **given)
    return got, shown, errors, credits


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


def assert_stamped(seen):
    """Flits on a link carry their CRCs, and numbers in order."""
    flits = [(unit["vc"], unit["kind"], unit["payload"]) for unit in seen]
    assert [unit["check"] for unit in seen] == stamped(flits)
    assert [unit["sequence"] for unit in seen] == [k % 8 for k in range(len(seen))]


@pytest.mark.parametrize("num_vcs", [1, 2, 3, 8])
@pytest.mark.parametrize("shuffled", [False, True])
def test_the_end_of_every_submessage_carries_the_crc_of_the_message_so_far(num_vcs, shuffled):
    """Each channel has a CRC of its own, and all share the number on the link."""
    rng, sizes = random.Random(num_vcs), (0, 1, 4, 5, 13, 0, 8)
    sent = [[flit for size in sizes for flit in message(rng, size)] for _ in range(num_vcs)]
    for flits in sent if shuffled else ():
        rng.shuffle(flits)
    seen = on_the_link(sent)
    assert_stamped(seen)
    assert {unit["epoch"] for unit in seen} == {1}
    assert {unit["vc"] for unit in seen} == {*range(num_vcs)}
    for late in (False, True):
        got, _, errors, credits = received_on(a_receiver(num_vcs, 200), seen, late=late)
        assert got == sent and not errors and credits == [len(flits) for flits in sent]


@pytest.mark.parametrize("kind", [Kind.DOWN, Kind.INIT, Kind.UP, Kind.FAULT])
@pytest.mark.parametrize("cycle", [1, 5, 11])
def test_a_control_flit_goes_first_carries_its_own_crc_and_changes_nothing_else(kind, cycle):
    flits = message(random.Random(cycle), 9)
    seen = on_the_link([flits], {cycle: (kind, 0xBEEF)})
    got, shown, errors, credits = received(seen)
    assert got == flits and not errors and credits == len(flits)
    assert shown == [(kind, 1, 0xBEEF)]
    (control,) = [unit for unit in seen if unit["kind"] == kind]
    content = (0xBEEF).to_bytes(FLIT_BYTES, "little") + bytes([kind.value])
    wanted = {"kind": kind, "sequence": 0, "check": zlib.crc32(content), "payload": 0xBEEF}
    assert control == control | wanted
    seen.remove(control)
    assert_stamped(seen)


SIZE = 9
ENDS = (4, 8, 9)
"""Flits of a message of that size that carry a CRC."""


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SIZE + 1))
@pytest.mark.parametrize("bit", [0, 15])
def test_a_flipped_bit_of_payload_is_an_error_and_the_end_of_its_submessage_never_leaves(
    number, bit
):
    rng = random.Random(number)
    flits = message(rng, SIZE) + message(rng, 1)
    seen = on_the_link([flits])
    seen[number]["payload"] ^= 1 << bit
    got, _, errors, credits = received(seen)
    end = next(end for end in ENDS if end >= number)
    wanted = [{"kind": unit["kind"], "payload": unit["payload"]} for unit in seen[:end]]
    assert got == wanted
    assert errors["check_error"] >= 1 and credits == end


@pytest.mark.parametrize("number", range(SIZE + 1))
def test_a_flipped_bit_of_the_crc_is_an_error_where_it_means_something(number):
    flits = message(random.Random(1), SIZE)
    seen = on_the_link([flits])
    seen[number]["check"] ^= 1 << 31
    got, _, errors, _ = received(seen)
    assert got == (flits[:number] if number in ENDS else flits)
    assert errors["check_error"] == (number in ENDS)


@pytest.mark.slow
@pytest.mark.parametrize("bit", [0, 1, 2])
@pytest.mark.parametrize("number", range(SIZE + 1))
def test_a_flipped_bit_of_the_kind_is_never_the_message_that_was_sent(number, bit):
    """What is delivered shows it, or it is not all delivered: header check or a CRC finds out."""
    flits = message(random.Random(1), SIZE)
    seen = on_the_link([flits])
    seen[number]["kind"] = Kind(seen[number]["kind"].value ^ 1 << bit)
    got, shown, errors, _ = received(seen)
    assert not shown
    assert got != flits
    reported = any(errors[f"{name}_error"] for name in ("sequence", "check"))
    wrong = [unit["kind"] for unit in got] != [flit["kind"] for flit in flits][: len(got)]
    assert reported or wrong


def test_a_flit_of_another_epoch_is_an_error_of_its_own_and_is_not_delivered():
    flits = message(random.Random(1), SIZE)
    seen = on_the_link([flits])
    got, _, errors, _ = received(seen, epoch=0)
    assert (got, errors) == ([], {"epoch_error": len(flits)})
    seen[3]["epoch"] = 0
    got, _, errors, _ = received(seen)
    assert got == flits[:3]
    assert (errors["epoch_error"], errors["sequence_error"]) == (1, SIZE + 1 - 4)


@pytest.mark.parametrize("up", [0, 1])
def test_a_control_flit_with_a_wrong_crc_is_not_shown_and_is_an_error_only_while_up(up):
    control = {"kind": Kind.UP, "payload": 1, "epoch": 0, "sequence": 0, "vc": 0}
    wrong = zlib.crc32(b"\x01\x00\x06") ^ 1
    got, shown, errors, _ = received([control | {"check": wrong}], up=lambda _: up)
    assert not got and not shown and errors == ({"check_error": 1} if up else {})
    _, shown, errors, _ = received([control | {"check": wrong ^ 1}], up=lambda _: up)
    assert shown == [(Kind.UP, 0, 1)] and not errors


@pytest.mark.parametrize("when", range(1, 20))
def test_going_down_empties_the_buffer_without_a_credit_and_forgets_numbers_and_crc(when):
    """Down in any cycle of a stream whose CRC goes wrong half-way, then a new message."""
    rng = random.Random(when)
    before = on_the_link([[flit for _ in range(2) for flit in message(rng, SIZE)]])
    before[SIZE]["check"] ^= 1
    again = message(rng, 5)
    units = [*before[:when], None, None, None, None, *on_the_link([again])]
    got, _, errors, credits = received(units, up=lambda cycle: not when <= cycle < when + 3)
    assert got[-len(again) :] == again
    assert credits <= len(got) <= credits + 1
    assert not errors["sequence_error"]


@pytest.mark.parametrize("credits", [3, 6])
@simulation_of(lambda credits: a_transmitter(1, credits))
async def test_a_transmitter_that_is_not_open_takes_nothing_and_begins_anew_with_all_credits(
    ctx, transmitter, credits
):
    link, numbers = transmitter.link, []
    ctx.set(transmitter.flit, {"kind": Kind.BODY, "payload": 3})
    for opened, credit in [(1, 0)] * 20 + [(0, 1)] * 20 + [(0, 0)] + [(1, 0)] * 20:
        put(ctx, transmitter, open=opened, take=ctx.get(transmitter.may_send))
        ctx.set(link.credit, credit)
        values = link.valid, link.sequence, transmitter.fault_credit
        _, _, valid, number, fault = await ctx.tick().sample(*values)
        assert not fault
        numbers += [number] if valid else []
    assert numbers == [*range(credits)] * 2
