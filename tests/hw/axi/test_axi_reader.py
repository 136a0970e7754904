"""Tests of the AXI4 manager that reads, and of the bursts it makes."""

import random

import pytest

from multitree.hw.axi.bursts import AxiReader, BurstBuilder, byte_address_width
from multitree.hw.axi.channels import AxiReadSignature, AxiSignature, AxiWriteSignature
from tests.hw.axi.axi import DECERR, SLVERR, read_slave
from tests.hw.streams import PATTERNS, assert_refused, go, put, run, simulation_of

SIZES = {"address_width": 12, "flit_bytes": 16}
PAGE_FLITS = 256
MEMORY = {flit: 7 * flit + 1 for flit in range(1 << 12)}


def addresses(seed, count=150):
    """Runs of consecutive addresses of any length, and single ones, over pages and repeats."""
    print(f"seed {seed}")
    rng, result = random.Random(seed), []
    while len(result) < count:
        first = rng.choice([rng.randrange(4000), PAGE_FLITS * rng.randrange(1, 8) - 3])
        result += range(first, first + rng.choice([1, 1, 2, 5, 16, 17, 40]))
    return result[:count]


def read(reader, wanted, *, stall="never", seed=0, cycles=None):
    """Ask for flits; returns (data, error) of every answer, and its cycle in `cycles`."""
    channel, answers, moves = reader.channel, [], go(stall, f"{seed} client")

    async def ask(ctx):
        for address in wanted:
            while not next(moves):
                await ctx.tick()
            put(ctx, channel, valid=1, address=address)
            await ctx.tick().until(channel.ready)
            ctx.set(channel.valid, 0)

    async def take(ctx):
        cycle = 0
        while len(answers) < len(wanted):
            values = channel.data_valid, channel.data, channel.error
            _, _, valid, data, error = await ctx.tick().sample(*values)
            assert valid or not error
            if valid:
                answers.append((data, error))
                if cycles is not None:
                    cycles.append(cycle)
            cycle += 1

    return ask, take, answers


@pytest.mark.slow
@pytest.mark.parametrize("stall_client", PATTERNS)
@pytest.mark.parametrize("stall_bus", PATTERNS)
@pytest.mark.parametrize(("gather_cycles", "latency"), [(0, 1), (3, 5), (15, 40)])
def test_every_read_is_answered_in_order(stall_client, stall_bus, gather_cycles, latency):
    seed = f"{stall_client} {stall_bus} {gather_cycles}"
    wanted, bursts = addresses(seed), []
    reader = AxiReader(**SIZES, depth=9, gather_cycles=gather_cycles)
    ask, take, answers = read(reader, wanted, stall=stall_client, seed=seed)
    slave = {"latency": latency, "stall": stall_bus, "seed": seed, "bursts": bursts}
    run(reader, ask, take, background=[read_slave(reader.bus, MEMORY, flit_bytes=16, **slave)])
    assert answers == [(MEMORY[address], 0) for address in wanted]
    assert [flit for _, flits in bursts for flit in flits] == wanted


def stream(count, *, depth, latency, gather_cycles, stall="never"):
    """Cycles of the answers and bursts of consecutive reads without a pause."""
    cycles, bursts = [], []
    reader = AxiReader(**SIZES, depth=depth, gather_cycles=gather_cycles)
    ask, take, _ = read(reader, range(count), cycles=cycles)
    slave = {"latency": latency, "stall": stall, "bursts": bursts}
    run(reader, ask, take, background=[read_slave(reader.bus, MEMORY, flit_bytes=16, **slave)])
    return cycles, bursts


@pytest.mark.parametrize(("gather_cycles", "beats"), [(0, 1), (1, 2), (3, 4), (15, 16)])
@pytest.mark.parametrize("latency", [1, 20])
def test_a_read_waits_two_cycles_and_those_it_gathers(gather_cycles, beats, latency):
    depth = latency + gather_cycles + 3
    cycles, bursts = stream(96, depth=depth, latency=latency, gather_cycles=gather_cycles)
    assert bursts[0][0] == 2 + gather_cycles
    assert {len(flits) for _, flits in bursts} == {beats}
    assert cycles == [2 + gather_cycles + latency + k for k in range(96)]


def test_a_read_alone_waits_two_cycles_only():
    _, bursts = stream(1, depth=8, latency=3, gather_cycles=15)
    assert bursts == [(2, [0])]


def test_a_slave_that_takes_few_bursts_gets_long_ones_up_to_a_page():
    cycles, bursts = stream(PAGE_FLITS + 40, depth=64, latency=3, gather_cycles=0, stall="bursts")
    assert max(len(flits) for _, flits in bursts) == 16
    assert PAGE_FLITS in {flits[0] for _, flits in bursts}
    assert len(bursts) < len(cycles)


@simulation_of(lambda: AxiReader(**SIZES, depth=5))
async def test_never_more_reads_are_in_flight_than_the_depth(ctx, reader):
    taken = []
    ctx.set(reader.channel.valid, 1)
    ctx.set(reader.bus.arready, 1)
    for address in range(30):
        ctx.set(reader.channel.address, address)
        _, _, ready = await ctx.tick().sample(reader.channel.ready)
        taken.append(ready)
    assert taken == [1] * 5 + [0] * 25


@pytest.mark.parametrize("response", [1, SLVERR, DECERR])
def test_a_response_that_is_not_okay_is_an_error_beside_its_data(response):
    reader = AxiReader(**SIZES, depth=9)
    ask, take, answers = read(reader, range(20, 40))
    wrong = {25: response, 39: response}
    run(
        reader,
        ask,
        take,
        background=[read_slave(reader.bus, MEMORY, flit_bytes=16, wrong=wrong.items())],
    )
    assert answers == [(MEMORY[flit], int(flit in wrong)) for flit in range(20, 40)]


@pytest.mark.parametrize("flit_bytes", [1, 16, 128])
@simulation_of(lambda flit_bytes: AxiReader(address_width=12, flit_bytes=flit_bytes, depth=9))
async def test_a_burst_asks_for_bytes_of_ordinary_memory_that_all_managers_see(
    ctx, reader, flit_bytes
):
    """Handbook IHI 0022: AxCACHE 0b0010 is Normal Non-cacheable Non-bufferable, AxPROT 0 data."""
    wide = byte_address_width(address_width=12, flit_bytes=flit_bytes)
    assert 1 << wide == (1 << 12) * flit_bytes and len(reader.bus.araddr) == wide
    put(ctx, reader.channel, address=4095, valid=1)
    bus = reader.bus
    reported = bus.araddr, bus.arcache, bus.arprot, bus.arid, bus.arburst, bus.arsize
    values = await ctx.tick().sample(*reported).until(bus.arvalid)
    assert list(values) == [4095 * flit_bytes, 0b0010, 0, 0, 1, flit_bytes.bit_length() - 1]


@simulation_of(lambda: AxiReader(**SIZES, depth=9))
async def test_a_beat_that_nobody_asked_for_is_an_error_and_no_answer(ctx, reader):
    ctx.set(reader.bus.rvalid, 1)
    await ctx.delay(1e-8)
    assert (ctx.get(reader.channel.error), ctx.get(reader.channel.data_valid)) == (1, 0)


@pytest.mark.slow
def test_wrong_sizes_are_named():
    for name, value, error in (
        ("gather_cycles", 16, ValueError),
        ("flit_bytes", "16", TypeError),
        ("address_width", 0, ValueError),
    ):
        sizes = {**SIZES, "gather_cycles": 3, name: value}
        label = name.replace("_", " ").capitalize()
        assert_refused(
            lambda sizes=sizes: BurstBuilder(**sizes), error, rf"{label} must be .*, not {value!r}"
        )
    assert_refused(lambda: AxiReader(**SIZES, depth=0), ValueError, "Depth must be")
    for signature in (AxiSignature, AxiReadSignature, AxiWriteSignature):
        for address_width, data_bytes, message in (
            (0, 16, "Address width must be from 1 to 64, not 0"),
            (65, 16, "Address width must be from 1 to 64, not 65"),
            (16, 129, "Data bytes must be from 1 to 128, not 129"),
            (16, 24, "Data bytes must be a power of two, not 24"),
        ):
            sizes = {"address_width": address_width, "data_bytes": data_bytes}
            assert_refused(lambda make=signature, sizes=sizes: make(**sizes), ValueError, message)
    odd = {**SIZES, "flit_bytes": 24}
    assert_refused(lambda: AxiReader(**odd, depth=4), ValueError, "Data bytes must be a power")
