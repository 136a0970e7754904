"""Tests of the AXI4-Lite subordinate against a memory of registers."""

import itertools
import random

import pytest
from amaranth.lib.wiring import Out

from multitree.hw.axi.lite import AxiLiteSignature, AxiLiteSubordinate
from tests.hw.streams import (
    PATTERNS,
    assert_no_path,
    assert_refused,
    go,
    hand_over,
    process,
    put,
    run,
)

WIDTH = 6
FORBIDDEN = 0x3C  # The address that the registers of these tests refuse.
OKAY, SLVERR = 0, 2


async def response(ctx, bus, channel, names, moves):
    """Take one transfer of a channel that the subordinate drives; it must not change."""
    offered, signals = None, [getattr(bus, name) for name in (f"{channel}valid", *names)]
    while True:
        ready = next(moves)
        ctx.set(getattr(bus, f"{channel}ready"), ready)
        _, _, valid, *values = await ctx.tick().sample(*signals)
        assert offered is None or (valid and values == offered)
        offered = values if valid else None
        if valid and ready:
            ctx.set(getattr(bus, f"{channel}ready"), 0)
            return values


@process
async def registers_of(ctx, block, memory, log, moves):
    """Background process that answers requests out of a dictionary, at once or later."""
    request, answer = block.request, block.response
    asked = request.write, request.address, request.data
    while True:
        while not ctx.get(request.valid):
            await ctx.tick()
        write, address, value = held = [*map(ctx.get, asked)]
        while not next(moves):
            await ctx.tick()
            now = [*map(ctx.get, asked)]
            assert ctx.get(request.valid) and now == held, "a request changed"
        refused = address == FORBIDDEN
        if write and not refused:
            memory[address] = value
        log.append((write, address))
        put(ctx, answer, done=1, error=refused, data=memory.get(address, 0))
        await ctx.tick()
        ctx.set(answer.done, 0)


def reference(accesses):
    """Responses to (write, address, data, strobe) by an ideal memory, and what reaches it."""
    memory, responses, log = {}, [], []
    for write, address, value, strobe in accesses:
        legal = address % 4 == 0 and (not write or strobe == 0xF)
        if legal:
            log.append((write, address))
        okay = legal and address != FORBIDDEN
        if write and okay:
            memory[address] = value
        shown = [] if write else [memory.get(address, 0) if okay else 0]
        responses.append([OKAY if okay else SLVERR, *shown])
    return responses, log


def simulate(accesses, *, manager="never", bus="never", registers="never", order=("aw", "w")):
    """The same of the block, one access after the other, with stalls; write channels in order."""
    block, responses, log = AxiLiteSubordinate(address_width=WIDTH), [], []
    sends, takes = go(manager, "manager"), go(bus, "bus")

    async def drive(ctx):
        for write, address, value, strobe in accesses:
            if not write:
                await hand_over(ctx, block.bus, sends, "ar", araddr=address)
                data, code = await response(ctx, block.bus, "r", ["rdata", "rresp"], takes)
                responses.append([code, data])
                continue
            channels = {"aw": {"awaddr": address}, "w": {"wdata": value, "wstrb": strobe}}
            for channel in order:
                await hand_over(ctx, block.bus, sends, channel, **channels[channel])
            responses.append(await response(ctx, block.bus, "b", ["bresp"], takes))

    behind = registers_of(block, {}, log, go(registers, "registers"))
    run(block, drive, background=[behind])
    return responses, log


@pytest.mark.slow
@pytest.mark.parametrize(("manager", "bus"), list(itertools.product(PATTERNS, PATTERNS)))
@pytest.mark.parametrize("registers", ["never", "often"])
@pytest.mark.parametrize("order", [("aw", "w"), ("w", "aw")], ids=" ".join)
def test_accesses_behave_as_on_an_ideal_memory(manager, bus, registers, order):
    rng = random.Random(5)
    accesses = [
        (
            rng.getrandbits(1),
            rng.choice([4 * rng.randrange(16), rng.randrange(64), FORBIDDEN]),
            rng.getrandbits(32),
            rng.choice([0xF, 0xF, 0xF, rng.randrange(16)]),
        )
        for _ in range(40)
    ]
    got = simulate(accesses, manager=manager, bus=bus, registers=registers, order=order)
    # The dictionary shows what it holds at the forbidden address: nothing, as the reference.
    assert got == reference(accesses)


def simulate_both(count, stall):
    """Order of accesses of a manager that always wants to read and to write."""
    block, log, memory = AxiLiteSubordinate(address_width=WIDTH), [], {}
    bus, moves = block.bus, {name: go(stall, name) for name in ("aw", "w", "b", "ar", "r")}

    @process
    async def sends(ctx, channel, values):
        for number in range(count):
            await hand_over(ctx, bus, moves[channel], channel, **values(number))

    @process
    async def takes(ctx, channel, *names):
        for _ in range(count):
            *_, code = await response(ctx, bus, channel, names, moves[channel])
            assert code == OKAY

    benches = [
        sends("aw", lambda number: {"awaddr": 4 * (number % 8)}),
        sends("w", lambda number: {"wdata": number, "wstrb": 0xF}),
        sends("ar", lambda number: {"araddr": 4 * (number % 8)}),
        *(takes("b", "bresp"), takes("r", "rdata", "rresp")),
    ]
    run(block, *benches, background=[registers_of(block, memory, log, go("never", 0))])
    return log, memory


@pytest.mark.parametrize("stall", PATTERNS)
def test_the_channels_are_independent_and_nothing_is_lost(stall):
    log, memory = simulate_both(50, stall)
    assert [address for write, address in log if write] == [4 * (n % 8) for n in range(50)]
    assert [address for write, address in log if not write] == [4 * (n % 8) for n in range(50)]
    assert memory == {4 * (n % 8): n for n in range(50)}


def test_reads_and_writes_take_turns():
    log, _ = simulate_both(30, "never")
    kinds = [write for write, _ in log]
    # Both wait all the time, but in the first two accesses and when one kind comes to its end.
    assert all(a != b for a, b in itertools.pairwise(kinds[2:-2]))


def test_a_write_to_part_of_a_register_reaches_nobody():
    for strobe in range(15):
        accesses = [(1, 8, 0x12345678, strobe), (0, 8, 0, 0xF)]
        assert simulate(accesses) == ([[SLVERR], [OKAY, 0]], [(0, 8)])


def test_no_path_leads_through_the_block():
    block = AxiLiteSubordinate(address_width=WIDTH)
    members = AxiLiteSignature(address_width=WIDTH).members
    from_manager = [name for name, member in members.items() if member.flow is Out]
    inputs = [getattr(block.bus, name) for name in from_manager]
    outputs = [getattr(block.bus, name) for name in members if name not in from_manager]
    inputs += [block.response.done, block.response.data, block.response.error]
    outputs += [block.request.valid, block.request.write, block.request.address, block.request.data]
    assert len(inputs) == 11 + 3 and len(outputs) == 8 + 4
    assert_no_path(block, inputs, outputs)


@pytest.mark.parametrize(("width", "error"), [(2, ValueError), ("20", TypeError)])
def test_a_wrong_width_is_named(width, error):
    message = rf"Address width must be .*, not {width!r}"
    assert_refused(AxiLiteSubordinate, error, message, address_width=width)
