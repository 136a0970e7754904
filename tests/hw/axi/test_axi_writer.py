"""Tests of the AXI4 manager that writes."""

import pytest

from multitree.hw.axi.bursts import AxiWriter
from tests.hw.axi.axi import DECERR, SLVERR, client, write_slave
from tests.hw.axi.test_axi_reader import PAGE_FLITS, SIZES, addresses
from tests.hw.streams import PATTERNS, accepted, assert_refused, put, run, simulation_of


def word(number):
    """The data of the write of that number."""
    return number << 64 | 0xC0DE


def write(writer, memory, wanted, *others, asks="never", seed=0, acks=None, **slave):
    """Write to a slave, beside other testbenches, and hold each acknowledgement against memory."""
    channel, taken = writer.channel, []
    writes = [{"address": address, "data": word(k)} for k, address in enumerate(wanted)]
    ask = client(channel, writes, stall=asks, seed=seed, taken=taken)

    async def check(ctx):
        cycle, acked = 0, 0
        while acked < len(wanted):
            _, _, ack = await ctx.tick().sample(channel.ack)
            if ack:
                assert acked < len(taken), "acknowledged before it was taken"
                # A later write to the same place may have come over it already.
                assert memory[wanted[acked]] >= word(acked)
                acked += 1
                if acks is not None:
                    acks.append(cycle)
            cycle += 1

    behind = write_slave(writer.bus, memory, flit_bytes=16, seed=seed, **slave)
    run(writer, ask, check, *others, background=[behind])


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("asks", PATTERNS)
@pytest.mark.parametrize("bus", PATTERNS)
@pytest.mark.parametrize(
    ("gather_cycles", "latency", "waits_for"), [(0, 1, None), (3, 5, "aw"), (15, 40, "w")]
)
def test_every_write_is_in_memory_when_it_is_acknowledged(
    asks, bus, gather_cycles, latency, waits_for
):
    seed = f"{asks} {bus} {gather_cycles}"
    wanted, memory, bursts = addresses(seed), {}, []
    writer = AxiWriter(**SIZES, depth=24, gather_cycles=gather_cycles)
    slave = {"latency": latency, "stall": bus, "waits_for": waits_for, "bursts": bursts}
    write(writer, memory, wanted, asks=asks, seed=seed, **slave)
    assert memory == {address: word(number) for number, address in enumerate(wanted)}
    assert [flit for _, flits in bursts for flit in flits] == wanted


def stream(count, *, depth, gather_cycles, **slave):
    """Bursts, cycles of beats and of acknowledgements of consecutive writes without a pause."""
    bursts, beats, acks = [], [], []
    writer = AxiWriter(**SIZES, depth=depth, gather_cycles=gather_cycles)
    write(writer, {}, range(count), acks=acks, bursts=bursts, beats=beats, **slave)
    return bursts, beats, acks


@pytest.mark.parametrize(("gather_cycles", "beats"), [(0, 1), (1, 2), (3, 4), (15, 16)])
@pytest.mark.parametrize("latency", [1, 20])
def test_a_flit_per_cycle_after_three_cycles_and_those_it_gathers(gather_cycles, beats, latency):
    depth = latency + 2 * gather_cycles + 4
    bursts, cycles, acks = stream(96, depth=depth, latency=latency, gather_cycles=gather_cycles)
    assert bursts[0][0] == 2 + gather_cycles
    assert {len(flits) for _, flits in bursts} == {beats}
    assert cycles == [3 + gather_cycles + k for k in range(96)]
    assert acks == [cycles[beats - 1] + latency + 1 + k for k in range(96)]


def test_a_slave_that_takes_few_bursts_gets_long_ones_up_to_a_page():
    count = PAGE_FLITS + 40
    bursts, _, _ = stream(count, depth=64, latency=3, gather_cycles=0, stall="bursts")
    assert max(len(flits) for _, flits in bursts) == 16
    assert PAGE_FLITS in {flits[0] for _, flits in bursts}


@pytest.mark.parametrize("depth", [3, 5, 40])
@simulation_of(lambda depth: AxiWriter(**SIZES, depth=depth))
async def test_never_more_writes_are_in_flight_than_the_depth(ctx, writer, depth):
    put(ctx, writer.bus, awready=1, wready=1)
    taken = await accepted(ctx, writer.channel, 80, "address")
    assert taken == [1] * depth + [0] * (80 - depth)


@pytest.mark.parametrize("response", [1, SLVERR, DECERR])
def test_an_error_comes_before_the_first_acknowledgement_of_its_burst(response):
    writer, errors = AxiWriter(**SIZES, depth=24, gather_cycles=3), []
    memory = {address: word(99) for address in range(24)}

    async def watch(ctx):
        acks = 0
        for _ in range(120):
            values = writer.channel.error, writer.channel.ack
            _, _, error, ack = await ctx.tick().sample(*values)
            acks += ack
            errors.extend([acks] if error else [])
        assert acks == 24

    write(writer, memory, range(24), watch, wrong={8: response}, latency=6)
    assert errors == [8]
    assert {flit for flit, data in memory.items() if data == word(99)} == {8, 9, 10, 11}


@simulation_of(lambda: AxiWriter(**SIZES, depth=9))
async def test_a_response_to_nothing_is_an_error_and_no_acknowledgement(ctx, writer):
    ctx.set(writer.bus.bvalid, 1)
    await ctx.delay(1e-8)
    assert ctx.get(writer.channel.error) == 1
    await ctx.tick()
    assert ctx.get(writer.channel.ack) == 0


def test_wrong_sizes_are_named():
    for wrong, message in (
        ({"depth": 2}, "Depth must be at least 3"),
        ({"depth": 4, "gather_cycles": -1}, "Gather cycles must be"),
    ):
        assert_refused(AxiWriter, ValueError, message, **SIZES, **wrong)
