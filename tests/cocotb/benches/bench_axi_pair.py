"""Two interfaces with AXI4 memories that pause and fail, loaded over AXI4-Lite."""

import random

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge

from multitree.cocotb import RegisterHost, as_flits, draw_buffers
from multitree.nic.driver.commands import RESET, START, RunSettings
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.table import compile_table
from multitree.topology.schedules.execute import execute
from tests.cocotb.models.driving import at_once, axi_memories, cleared, reset
from tests.cocotb.models.network import LATENCY_CYCLES, PAIR_CONFIG, PAIR_SCHEDULE

NUM_ELEMENTS = 203
NUM_FLITS = -(-NUM_ELEMENTS * 4 // PAIR_CONFIG.flit_bytes)
BASE = 230
"""First flit of the buffer: it lies over the end of a page."""
NUM_CYCLES = 30000


async def start(dut, buffers, *, pause_chance):
    """Clock, reset until the links are empty, hosts, memories; returns the last two."""
    hosts = [RegisterHost(dut, f"rank_{rank}_", rank=rank) for rank in range(2)]
    memories = axi_memories(dut, map(image_of, buffers), pause_chance=pause_chance)
    await reset(dut, cycles=2 * LATENCY_CYCLES)
    await FallingEdge(dut.clk)
    return hosts, memories


def draw(dtype, seed):
    """Buffers of both ranks."""
    return draw_buffers((2, NUM_ELEMENTS), dtype, np.random.default_rng(seed))


def image_of(row):
    """Bytes of a memory with a buffer."""
    flits = as_flits(row, NUM_FLITS, PAIR_CONFIG.flit_bytes)
    return bytes(BASE * PAIR_CONFIG.flit_bytes) + flits.tobytes()


def settings(dtype, **limits):
    """How to run on the buffer that begins at `BASE`."""
    limits = {"watchdog_cycles": 2000, "first_arrival_cycles": 5000, **limits}
    return RunSettings(dtype=dtype, window_base=BASE, window_flits=NUM_FLITS, **limits)


async def run_both(hosts, how):
    """Load and run both ranks at once; returns who is done."""

    async def run(rank, host):
        await host.load(compile_table(PAIR_SCHEDULE, rank, NUM_FLITS, PAIR_CONFIG), how)
        return await host.run(NUM_CYCLES)

    return await at_once(run(rank, host) for rank, host in enumerate(hosts))


def check(memories, buffers):
    """Hold both memories, whole, against the definition."""
    right = execute(PAIR_SCHEDULE, buffers, flit_bytes=PAIR_CONFIG.flit_bytes)
    for row, memory in zip(right, memories, strict=True):
        assert bytes(memory.image) == image_of(row)


@cocotb.test()
@cocotb.parametrize(dtype=["float32", "int32"], pause_chance=[0.0, 0.3, 0.7])
async def all_reduces_give_the_bits_of_execute_whatever_the_buses_do(dut, dtype, pause_chance):
    buffers = draw(dtype, random.getrandbits(32))
    hosts, memories = await start(dut, buffers, pause_chance=pause_chance)
    for host, done in zip(hosts, await run_both(hosts, settings(dtype)), strict=True):
        assert done, await host.fault()
    cycles = [await host.read("CYCLES") for host in hosts]
    dut._log.warning("%s, pauses %s: %s cycles", dtype, pause_chance, cycles)
    check(memories, buffers)


@cocotb.test()
@cocotb.parametrize(after_cycles=[20, 45, 70, 110])
async def a_reset_lasts_until_the_buses_have_answered_and_leaves_nothing_behind(dut, after_cycles):
    """Memory stands still around the reset: the links run empty, and accesses stay in flight."""
    buffers = draw("int32", after_cycles)
    hosts, memories = await start(dut, buffers, pause_chance=0.1)
    contents = [bytes(memory.image) for memory in memories]
    for rank, host in enumerate(hosts):
        table = compile_table(PAIR_SCHEDULE, rank, NUM_FLITS, PAIR_CONFIG)
        await host.load(table, settings("int32"))
    await at_once(host.write(*START) for host in hosts)
    await ClockCycles(dut.clk, after_cycles)
    for memory in memories:
        memory.pause_chance = 1.0
    await ClockCycles(dut.clk, 100)
    await at_once(host.write(*RESET) for host in hosts)
    await ClockCycles(dut.clk, 100)
    assert [await host.status("busy") for host in hosts] == [1, 1]
    for memory in memories:
        memory.pause_chance = 0.5
    for host, memory, content in zip(hosts, memories, contents, strict=True):
        await cleared(host, "busy")
        memory.image[:] = content
    assert await run_both(hosts, settings("int32")) == [True, True]
    check(memories, buffers)


@cocotb.test()
async def a_place_that_memory_refuses_ends_in_the_fault_of_that_name(dut):
    buffers = draw("int32", 1)
    hosts, memories = await start(dut, buffers, pause_chance=0.2)
    place = PAIR_CONFIG.flit_bytes * (BASE + random.randrange(NUM_FLITS))
    memories[0].broken_reads = memories[0].broken_writes = range(place, place + 1)
    limits = {"watchdog_cycles": 400, "first_arrival_cycles": 600}
    assert not (await run_both(hosts, settings("int32", **limits)))[0]
    fault = await hosts[0].fault()
    assert (fault.code, fault.at_port) == (FaultCode.MEMORY_ERROR, 0)
    # A read of the place comes before any write to it.
    assert fault.awaited == Awaited.MEMORY_READ
