"""The CRC on a link: what is stamped, what is verified, what never leaves."""

import random
import zlib

import pytest

from multitree.hw.link.link import Kind
from tests.hw.link.test_link import DATA, FLIT_BYTES, SUBMESSAGE, a_receiver, a_transmitter
from tests.hw.streams import run

SIDEBAND = ("kind", "vc", "sequence", "epoch", "check", "payload")


def message(rng, size):
    """Kinds and payloads of a message with so many payload flits."""
    kinds = [Kind.HEAD, *[Kind.BODY] * (size - 1), Kind.TAIL] if size else [Kind.SINGLE]
    return [{"kind": kind, "payload": rng.getrandbits(8 * FLIT_BYTES)} for kind in kinds]


def stamped(flits):
    """What the contract says of each flit's check, by zlib."""
    content, place, checks = b"", 0, []
    for flit in flits:
        kind = flit["kind"]
        begins = kind in (Kind.HEAD, Kind.SINGLE)
        content = b"" if begins else content
        content += flit["payload"].to_bytes(FLIT_BYTES, "little") + bytes([kind.value])
        place = 0 if begins else place + 1
        ends = kind in (Kind.TAIL, Kind.SINGLE) or (kind == Kind.BODY and place % SUBMESSAGE == 0)
        checks.append(zlib.crc32(content) if ends else 0)
    return checks


def on_the_link(flits, controls=()):
    """Flits as a transmitter puts them on a link; a control flit goes before those numbered."""
    transmitter, seen, controls = a_transmitter(200), [], dict(controls)

    async def drive(ctx):
        ctx.set(transmitter.open, 1)
        ctx.set(transmitter.control.epoch, 1)
        for number, flit in enumerate(flits):
            if number in controls:
                ctx.set(transmitter.control.kind, controls[number]["kind"])
                ctx.set(transmitter.control.payload, controls[number]["payload"])
                ctx.set(transmitter.control.valid, 1)
                ctx.set(transmitter.i.valid, 0)
                await ctx.tick()
                ctx.set(transmitter.control.valid, 0)
            ctx.set(transmitter.i.payload, flit)
            ctx.set(transmitter.i.valid, 1)
            await ctx.tick().until(transmitter.i.ready)
        ctx.set(transmitter.i.valid, 0)
        await ctx.tick().repeat(3)

    async def monitor(ctx):
        link = transmitter.link
        values = [getattr(link, name) for name in SIDEBAND]
        async for _, _, valid, *now in ctx.tick().sample(link.valid, *values):
            if valid:
                seen.append(dict(zip(SIDEBAND, now, strict=True)))

    run(transmitter, drive, background=[monitor])
    return seen


def received(units, *, epoch=1, up=None):
    """What a receiver delivers of flits, one per cycle; shows as control; and counts as errors."""
    receiver, got, shown = a_receiver(200), [], []
    errors = dict.fromkeys(
        ("sequence_error", "epoch_error", "check_error", "overflow", "credit"), 0
    )

    async def drive(ctx):
        ctx.set(receiver.epoch, epoch)
        ctx.set(receiver.o.ready, 1)
        for cycle, unit in enumerate([*units, *[None] * 8]):
            ctx.set(receiver.up, 1 if up is None else up(cycle))
            ctx.set(receiver.link.valid, unit is not None)
            for name, value in (unit or {}).items():
                ctx.set(getattr(receiver.link, name), value)
            await ctx.tick()

    async def monitor(ctx):
        o, control = receiver.o, receiver.control
        strobes = [getattr(receiver, name) for name in list(errors)[:-1]] + [receiver.link.credit]
        values = (o.valid, o.payload, control.valid, control.kind, control.epoch, control.payload)
        async for _, _, valid, unit, *payload in ctx.tick().sample(*values, *strobes):
            if valid:
                got.append({"kind": unit.kind, "payload": unit.payload})
            if payload[0]:
                shown.append(tuple(payload[1:4]))
            for name, value in zip(errors, payload[4:], strict=True):
                errors[name] += value

    run(receiver, drive, background=[monitor])
    return got, shown, {name: count for name, count in errors.items() if count}


@pytest.mark.parametrize("seed", range(3))
def test_the_end_of_every_submessage_carries_the_crc_of_the_message_so_far(seed):
    rng = random.Random(seed)
    flits = [flit for size in (0, 1, 4, 5, 13, 0, 8) for flit in message(rng, size)]
    rng.shuffle(flits) if seed == 2 else None
    seen = on_the_link(flits)
    assert [unit["check"] for unit in seen] == stamped(flits)
    assert [unit["sequence"] for unit in seen] == [k % 8 for k in range(len(flits))]
    assert {unit["epoch"] for unit in seen} == {1} and {unit["vc"] for unit in seen} == {0}
    got, _, errors = received(seen)
    assert got == flits and errors == {"credit": len(flits)}


@pytest.mark.parametrize("kind", [Kind.DOWN, Kind.INIT, Kind.UP, Kind.FAULT])
@pytest.mark.parametrize("before", [0, 3, 9])
def test_a_control_flit_goes_first_carries_its_own_crc_and_changes_nothing_else(kind, before):
    flits = message(random.Random(before), 9)
    seen = on_the_link(flits, {before: {"kind": kind, "payload": 0xBEEF}})
    control = seen.pop(before)
    content = (0xBEEF).to_bytes(FLIT_BYTES, "little") + bytes([kind.value])
    wanted = {"kind": kind, "sequence": 0, "check": zlib.crc32(content), "payload": 0xBEEF}
    assert control == control | wanted
    assert [unit["check"] for unit in seen] == stamped(flits)
    got, shown, errors = received([*seen[:before], control, *seen[before:]])
    assert got == flits and errors == {"credit": len(flits)}
    assert shown == [(kind, 1, 0xBEEF)]


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
    seen = on_the_link(flits)
    seen[number]["payload"] ^= 1 << bit
    got, _, errors = received(seen)
    end = next(end for end in ENDS if end >= number)
    wanted = [{"kind": unit["kind"], "payload": unit["payload"]} for unit in seen[:end]]
    assert got == wanted
    assert errors["check_error"] >= 1 and errors.get("credit", 0) == end


@pytest.mark.parametrize("number", range(SIZE + 1))
def test_a_flipped_bit_of_the_crc_is_an_error_where_it_means_something(number):
    flits = message(random.Random(1), SIZE)
    seen = on_the_link(flits)
    seen[number]["check"] ^= 1 << 31
    got, _, errors = received(seen)
    assert got == (flits[:number] if number in ENDS else flits)
    assert errors.get("check_error", 0) == (number in ENDS)


@pytest.mark.slow
@pytest.mark.parametrize("bit", [0, 1, 2])
@pytest.mark.parametrize("number", range(SIZE + 1))
def test_a_flipped_bit_of_the_kind_is_never_the_message_that_was_sent(number, bit):
    """What is delivered shows it, or it is not all delivered: header check or a CRC finds out."""
    flits = message(random.Random(1), SIZE)
    seen = on_the_link(flits)
    seen[number]["kind"] = Kind(seen[number]["kind"].value ^ 1 << bit)
    got, shown, errors = received(seen)
    assert not shown
    assert got != flits
    reported = any(errors.get(f"{name}_error") for name in ("sequence", "check"))
    wrong = [unit["kind"] for unit in got] != [flit["kind"] for flit in flits][: len(got)]
    assert reported or wrong


def test_a_flit_of_another_epoch_is_an_error_of_its_own_and_is_not_delivered():
    flits = message(random.Random(1), SIZE)
    seen = on_the_link(flits)
    got, _, errors = received(seen, epoch=0)
    assert (got, errors) == ([], {"epoch_error": len(flits)})
    seen[3]["epoch"] = 0
    got, _, errors = received(seen)
    assert got == flits[:3]
    assert (errors["epoch_error"], errors["sequence_error"]) == (1, SIZE + 1 - 4)


@pytest.mark.parametrize("up", [0, 1])
def test_a_control_flit_with_a_wrong_crc_is_not_shown_and_is_an_error_only_while_up(up):
    control = {"kind": Kind.UP, "payload": 1, "epoch": 0, "sequence": 0, "vc": 0}
    wrong = zlib.crc32(b"\x01\x00\x06") ^ 1
    got, shown, errors = received([control | {"check": wrong}], up=lambda _: up)
    assert not got and not shown and errors == ({"check_error": 1} if up else {})
    _, shown, errors = received([control | {"check": wrong ^ 1}], up=lambda _: up)
    assert shown == [(Kind.UP, 0, 1)] and not errors


@pytest.mark.parametrize("when", range(1, 20))
def test_going_down_empties_the_buffer_without_a_credit_and_forgets_numbers_and_crc(when):
    """Down in any cycle of a stream whose CRC goes wrong half-way, then a new message."""
    rng = random.Random(when)
    before = on_the_link([flit for _ in range(2) for flit in message(rng, SIZE)])
    before[SIZE]["check"] ^= 1
    again = message(rng, 5)
    units = [*before[:when], None, None, None, None, *on_the_link(again)]
    got, _, errors = received(units, up=lambda cycle: not when <= cycle < when + 3)
    assert got[-len(again) :] == again
    assert errors["credit"] <= len(got) <= errors["credit"] + 1
    assert not errors.get("sequence_error")


@pytest.mark.parametrize("credits", [3, 6])
def test_a_transmitter_that_is_not_open_takes_nothing_and_begins_anew_with_all_credits(credits):
    transmitter, numbers, faults = a_transmitter(credits), [], []
    link = transmitter.link

    async def drive(ctx):
        ctx.set(transmitter.i.payload, {"kind": Kind.BODY, "payload": 3})
        ctx.set(transmitter.i.valid, 1)
        for opened, credit in [(1, 0)] * 20 + [(0, 1)] * 20 + [(0, 0)] + [(1, 0)] * 20:
            ctx.set(transmitter.open, opened)
            ctx.set(link.credit, credit)
            await ctx.tick()
        assert numbers == [*range(credits)] * 2 and not any(faults)

    async def monitor(ctx):
        values = (link.valid, link.sequence, transmitter.fault_credit)
        async for _, _, valid, number, fault in ctx.tick().sample(*values):
            faults.append(fault)
            if valid:
                numbers.append(number)

    run(transmitter, drive, background=[monitor])


def test_data_kinds_are_those_below_the_control_kinds():
    assert [kind for kind in Kind if kind.value < Kind.DOWN.value] == list(DATA)
