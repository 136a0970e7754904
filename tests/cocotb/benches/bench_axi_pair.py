"""Two interfaces with AXI4 memories that pause and fail, loaded over AXI4-Lite."""

import random

import cocotb
from cocotb.triggers import ClockCycles

from multitree.nic.driver.commands import RESET, START
from multitree.nic.driver.faults import Awaited, FaultCode
from tests.cocotb.models.axi_network import NUM_FLITS, AxiNetwork
from tests.cocotb.models.driving import at_once, cleared
from tests.cocotb.models.network import PAIR_CONFIG, PAIR_SCHEDULE

BASE = 230
"""First flit of the buffer: it lies over the end of a page."""


async def started(dut, dtype, *, pause_chance, watchdog_cycles=2000, first_arrival_cycles=5000):
    """The pair after its reset."""
    limits = {"watchdog_cycles": watchdog_cycles, "first_arrival_cycles": first_arrival_cycles}
    how = {"base": BASE, "num_cycles": 30_000, "dtype": dtype, **limits}
    pair = AxiNetwork(dut, PAIR_SCHEDULE, PAIR_CONFIG, pause_chance=pause_chance, **how)
    await pair.start()
    return pair


@cocotb.test()
@cocotb.parametrize(dtype=["float32", "int32"], pause_chance=[0.0, 0.3, 0.7])
async def all_reduces_give_the_bits_of_execute_whatever_the_buses_do(dut, dtype, pause_chance):
    pair = await started(dut, dtype, pause_chance=pause_chance)
    for host, done in zip(pair.hosts, await pair.run(None), strict=True):
        assert done, await host.fault()
    cycles = [await host.read("CYCLES") for host in pair.hosts]
    dut._log.warning("%s, pauses %s: %s cycles", dtype, pause_chance, cycles)
    pair.check()


@cocotb.test()
@cocotb.parametrize(after_cycles=[20, 45, 70, 110])
async def a_reset_lasts_until_the_buses_have_answered_and_leaves_nothing_behind(dut, after_cycles):
    """Memory stands still around the reset: the links run empty, and accesses stay in flight."""
    pair = await started(dut, "int32", pause_chance=0.1)
    await pair.load()
    await at_once(host.write(*START) for host in pair.hosts)
    await ClockCycles(dut.clk, after_cycles)
    pair.pause(1.0)
    await ClockCycles(dut.clk, 100)
    await at_once(host.write(*RESET) for host in pair.hosts)
    await ClockCycles(dut.clk, 100)
    assert [await host.status("busy") for host in pair.hosts] == [1, 1]
    pair.pause(0.5)
    for host in pair.hosts:
        await cleared(host, "busy")
    pair.fill()
    assert await pair.run(None) == [True, True]
    pair.check()


@cocotb.test()
async def a_place_that_memory_refuses_ends_in_the_fault_of_that_name(dut):
    limits = {"watchdog_cycles": 400, "first_arrival_cycles": 600}
    pair = await started(dut, "int32", pause_chance=0.2, **limits)
    place = PAIR_CONFIG.flit_bytes * (BASE + random.randrange(NUM_FLITS))
    memory = pair.memories[0]
    memory.broken_reads = memory.broken_writes = range(place, place + 1)
    assert not (await pair.run(None))[0]
    fault = await pair.hosts[0].fault()
    assert (fault.code, fault.at_port) == (FaultCode.MEMORY_ERROR, 0)
    # A read of the place comes before any write to it.
    assert fault.awaited == Awaited.MEMORY_READ
