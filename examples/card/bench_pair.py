"""Two cards with AXI memory on three clocks are exact, or name a fault."""

import random

import cocotb
import numpy as np
from card import CONFIG
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles

from multitree import build, ring
from multitree.cocotb import Loader, Rank, Upcoming, draw_buffers, expected
from multitree.nic.driver.faults import FaultCode
from multitree.sim.timing.link_model import LinkModel, MemoryTiming

SCHEDULE = build(ring(2), "multitree")
CORE_NS, LINK_NS = (2.0, 2.6), 3.2
MEMORY_FLITS = 1024
MOST_CYCLES = 20_000


def loader():
    """What compiles the cards' tables, with time limits for memory that pauses."""
    timing = MemoryTiming(extra_cycles=100, stall_percent=50)
    model = LinkModel(flit_bytes=CONFIG.flit_bytes, buffer_flits=CONFIG.buffer_flits)
    return Loader(SCHEDULE.topology, CONFIG, model, timing)


async def two_cards(dut):
    """Hosts and memories of two cards that come out of reset."""
    rng, ranks = random.Random(random.getrandbits(32)), []
    dut.link_clk.value = 0
    for number, period in enumerate(CORE_NS):
        getattr(dut, f"card_{number}_rst_n").value = 0
        clock = getattr(dut, f"card_{number}_core_clk")
        Clock(clock, period, "ns").start()
        options = {"stalls": "light", "memory_flits": MEMORY_FLITS, "clock": clock}
        ranks.append(Rank(dut, f"card_{number}_", number, CONFIG, rng, **options))
    Clock(dut.link_clk, LINK_NS, "ns").start()
    await ClockCycles(dut.link_clk, 10)
    for number in range(len(CORE_NS)):
        getattr(dut, f"card_{number}_rst_n").value = 1
    # Each clock takes some cycles to come out of reset.
    await ClockCycles(dut.link_clk, 10)
    return ranks


async def at_once(coroutines):
    """Wait for all of them."""
    for task in [cocotb.start_soon(coroutine) for coroutine in coroutines]:
        await task


@cocotb.test()
@cocotb.parametrize(dtype=["int32", "float32"])
async def all_reduces_of_two_cards_are_exact(dut, dtype):
    ranks, loads = await two_cards(dut), loader()
    data = np.random.default_rng(random.getrandbits(32))
    for num_elements in (300, 1, 0):
        upcoming = Upcoming(SCHEDULE, num_elements, dtype)
        buffers = draw_buffers((2, num_elements), dtype, data)
        load = loads.load(upcoming, max_skew_cycles=MOST_CYCLES)
        await at_once(rank.load(load, buffers[rank.rank]) for rank in ranks)
        await at_once(rank.run(MOST_CYCLES) for rank in ranks)
        for rank, wanted in zip(
            ranks, expected([upcoming], buffers, CONFIG.flit_bytes), strict=True
        ):
            rank.check(load, wanted)


@cocotb.test()
@cocotb.parametrize(access=["reads", "writes"])
async def a_memory_that_refuses_stops_both_cards_with_its_name(dut, access):
    ranks, loads = await two_cards(dut), loader()
    data = np.random.default_rng(random.getrandbits(32))
    upcoming = Upcoming(SCHEDULE, 300, "int32")
    buffers = draw_buffers((2, 300), "int32", data)
    load = loads.load(upcoming, max_skew_cycles=MOST_CYCLES)
    await at_once(rank.load(load, buffers[rank.rank]) for rank in ranks)
    setattr(ranks[0].memory, f"broken_{access}", range(ranks[0].memory.flits.size))

    async def stopped(rank):
        assert not await rank.host.run(MOST_CYCLES)

    await at_once(stopped(rank) for rank in ranks)
    codes = [(await rank.host.fault()).code for rank in ranks]
    assert codes == [FaultCode.MEMORY_ERROR, FaultCode.PEER_FAULT], codes
