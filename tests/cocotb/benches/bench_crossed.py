"""Four interfaces all-reduce over switches that are on a clock of their own."""

import logging
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, Timer

from multitree import build, execute
from multitree.nic.driver.commands import RunSettings
from multitree.nic.driver.table import compile_table
from multitree.sim.cocotb.memory import Memory
from multitree.sim.cocotb.pins import run_models
from multitree.sim.cocotb.reference import as_flits, draw_buffers
from multitree.sim.cocotb.register_host import RegisterHost
from tests.cocotb.models.crossed import CROSSED
from tests.cocotb.models.driving import at_once

TOPOLOGY, CONFIG = CROSSED["fat_tree"]
SCHEDULE = build(TOPOLOGY, "multitree")
NUM_RANKS = TOPOLOGY.num_ranks
NUM_FLITS = 61
NUM_CYCLES = 20000
TIMES = 2


async def count_losses(dut, clock, name, losses):
    """Note every word that a crossing had no place for."""
    strobes = [getattr(dut, f"rank_{rank}_{name}") for rank in range(NUM_RANKS)]
    while True:
        await FallingEdge(clock)
        losses.extend(strobe._name for strobe in strobes if strobe.value != 0)


async def start(dut, switch_period_ps, losses):
    """Clock both sides, reset them together, and watch the crossings."""
    dut.rst_n.value = 0
    cocotb.start_soon(Clock(dut.clk, 2000, "ps").start())
    await Timer(random.randrange(1, 2000), "ps")
    cocotb.start_soon(Clock(dut.switch_clk, switch_period_ps, "ps").start())
    for clock in (dut.clk, dut.switch_clk):
        await ClockCycles(clock, 4)
    dut.rst_n.value = 1
    for clock in (dut.clk, dut.switch_clk):
        await ClockCycles(clock, 4)
    cocotb.start_soon(count_losses(dut, dut.clk, "tx_lost", losses))
    cocotb.start_soon(count_losses(dut, dut.switch_clk, "link_rx_lost", losses))


@cocotb.test()
@cocotb.parametrize(switch_period_ps=[4602, 1186])
async def switches_on_a_slower_or_faster_clock_give_the_bits_of_execute(dut, switch_period_ps):
    """In all-reduces without a barrier, ranks starting when they like; nothing fails or is lost."""
    rng = np.random.default_rng(random.getrandbits(32))
    buffers = draw_buffers((NUM_RANKS, NUM_FLITS * CONFIG.flit_bytes // 4), "int32", rng)
    tables = [compile_table(SCHEDULE, rank, NUM_FLITS, CONFIG) for rank in range(NUM_RANKS)]
    logging.getLogger("cocotb.network").setLevel(logging.WARNING)
    losses, memories = [], []
    hosts = [RegisterHost(dut, f"rank_{rank}_", rank=rank) for rank in range(NUM_RANKS)]
    for rank, table in enumerate(tables):
        flits = as_flits(buffers[rank], table.end_flits, CONFIG.flit_bytes)
        seed = random.getrandbits(32)
        memories.append(Memory(dut, [f"rank_{rank}_memory_0_"], flits, seed=seed))
    cocotb.start_soon(run_models(dut.clk, *memories))
    await start(dut, switch_period_ps, losses)

    async def run(rank):
        host, table = hosts[rank], tables[rank]
        limits = {"watchdog_cycles": 4000, "first_arrival_cycles": 9000}
        await host.load(table, RunSettings("int32", 0, table.end_flits, **limits))
        for _ in range(TIMES):
            await ClockCycles(dut.clk, random.randrange(1, 500))
            assert await host.run(NUM_CYCLES), await host.fault()
            await host.acknowledge()

    await at_once(map(run, range(NUM_RANKS)))
    wanted = buffers
    for _ in range(TIMES):
        wanted = execute(SCHEDULE, wanted, flit_bytes=CONFIG.flit_bytes)
    for rank, memory in enumerate(memories):
        flits = as_flits(wanted[rank], NUM_FLITS, CONFIG.flit_bytes)
        assert np.array_equal(memory.flits[:NUM_FLITS], flits), f"rank {rank}"
    for switch in range(NUM_RANKS, TOPOLOGY.num_nodes):
        up, fault = (getattr(dut, f"switch_{switch}_{name}").value for name in ("up", "fault"))
        assert int(up) == (1 << int(TOPOLOGY.degree[switch])) - 1 and int(fault) == 0
    assert not losses
