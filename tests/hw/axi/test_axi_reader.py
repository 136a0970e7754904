"""Tests of the AXI4 manager that reads, and of the bursts it makes."""

import pytest

from multitree.hw.axi.bursts import AxiReader, BurstBuilder, byte_address_width
from multitree.hw.axi.channels import AxiReadSignature, AxiSignature, AxiWriteSignature
from tests.hw.axi.axi import DECERR, SLVERR, client, read_slave
from tests.hw.streams import PATTERNS, accepted, assert_refused, put, run, seeded, simulation_of

SIZES = {"address_width": 12, "flit_bytes": 16}
PAGE_FLITS = 256
MEMORY = {flit: 7 * flit + 1 for flit in range(1 << 12)}


def addresses(seed, count=150):
    """Runs of consecutive addresses of any length, and single ones, over pages and repeats."""
    rng, result = seeded(seed), []
    while len(result) < count:
        first = rng.choice([rng.randrange(4000), PAGE_FLITS * rng.randrange(1, 8) - 3])
        result += range(first, first + rng.choice([1, 1, 2, 5, 16, 17, 40]))
    return result[:count]


def read(reader, wanted, *, asks="never", seed=0, cycles=None, **slave):
    """Ask for flits of a slave; returns (data, error) of every answer, its cycle in `cycles`."""
    channel, answers = reader.channel, []
    ask = client(channel, [{"address": a} for a in wanted], stall=asks, seed=seed, taken=[])

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

    behind = read_slave(reader.bus, MEMORY, flit_bytes=16, seed=seed, **slave)
    run(reader, ask, take, background=[behind])
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("asks", PATTERNS)
@pytest.mark.parametrize("bus", PATTERNS)
@pytest.mark.parametrize(("gather_cycles", "latency"), [(0, 1), (3, 5), (15, 40)])
def test_every_read_is_answered_in_order(asks, bus, gather_cycles, latency):
    seed = f"{asks} {bus} {gather_cycles}"
    wanted, bursts = addresses(seed), []
    reader = AxiReader(**SIZES, depth=9, gather_cycles=gather_cycles)
    slave = {"latency": latency, "stall": bus, "bursts": bursts}
    answers = read(reader, wanted, asks=asks, seed=seed, **slave)
    assert answers == [(MEMORY[address], 0) for address in wanted]
    assert [flit for _, flits in bursts for flit in flits] == wanted


def stream(count, *, depth, gather_cycles, **slave):
    """Cycles of the answers and bursts of consecutive reads without a pause."""
    cycles, bursts = [], []
    reader = AxiReader(**SIZES, depth=depth, gather_cycles=gather_cycles)
    read(reader, range(count), cycles=cycles, bursts=bursts, **slave)
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
    ctx.set(reader.bus.arready, 1)
    assert await accepted(ctx, reader.channel, 30, "address") == [1] * 5 + [0] * 25


@pytest.mark.parametrize("response", [1, SLVERR, DECERR])
def test_a_response_that_is_not_okay_is_an_error_beside_its_data(response):
    wrong = {25: response, 39: response}
    answers = read(AxiReader(**SIZES, depth=9), range(20, 40), wrong=wrong)
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
        message = rf"{name.replace('_', ' ').capitalize()} must be .*, not {value!r}"
        sizes = SIZES | {"gather_cycles": 3, name: value}
        assert_refused(BurstBuilder, error, message, **sizes)
    assert_refused(AxiReader, ValueError, "Depth must be", **SIZES, depth=0)
    odd = SIZES | {"flit_bytes": 24, "depth": 4}
    assert_refused(AxiReader, ValueError, "Data bytes must be a power", **odd)
    for signature in (AxiSignature, AxiReadSignature, AxiWriteSignature):
        for address_width, data_bytes, message in (
            (0, 16, "Address width must be from 1 to 64, not 0"),
            (65, 16, "Address width must be from 1 to 64, not 65"),
            (16, 129, "Data bytes must be from 1 to 128, not 129"),
            (16, 24, "Data bytes must be a power of two, not 24"),
        ):
            sizes = {"address_width": address_width, "data_bytes": data_bytes}
            assert_refused(signature, ValueError, message, **sizes)
