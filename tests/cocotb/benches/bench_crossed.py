"""Four interfaces all-reduce over switches that are on a clock of their own."""

import logging
import random
from dataclasses import replace

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, Timer

from multitree import build, execute
from multitree.cocotb import NetworkBench, Upcoming, draw_buffers
from multitree.sim.cocotb.pins import run_models
from tests.cocotb.models.crossed import CROSSED
from tests.cocotb.models.driving import at_once

TOPOLOGY, CONFIG = CROSSED["fat_tree"]
SCHEDULE = build(TOPOLOGY, "multitree")
NUM_ELEMENTS = 244
NUM_CYCLES = 20000
TIMES = 2


async def count_losses(dut, clock, name, losses):
    """Note every word that a crossing had no place for."""
    strobes = [getattr(dut, f"rank_{rank}_{name}") for rank in range(TOPOLOGY.num_ranks)]
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
    logging.getLogger("cocotb.network").setLevel(logging.WARNING)
    bench, losses = NetworkBench(dut, SCHEDULE, CONFIG, seed=random.getrandbits(32)), []
    load = bench.load_of(Upcoming(SCHEDULE, NUM_ELEMENTS, "int32"))
    limits = {"watchdog_cycles": 4000, "first_arrival_cycles": 9000}
    load = replace(load, settings=replace(load.settings, **limits))
    buffers = draw_buffers((TOPOLOGY.num_ranks, NUM_ELEMENTS), "int32", bench.data_rng)
    cocotb.start_soon(run_models(dut.clk, bench, *bench.ranks))
    await start(dut, switch_period_ps, losses)

    async def run(rank):
        await rank.load(load, buffers[rank.rank])
        for _ in range(TIMES):
            await ClockCycles(dut.clk, random.randrange(1, 500))
            await rank.run(NUM_CYCLES)

    await at_once(map(run, bench.ranks))
    wanted = buffers
    for _ in range(TIMES):
        wanted = execute(SCHEDULE, wanted, flit_bytes=CONFIG.flit_bytes)
    for rank in bench.ranks:
        rank.check(load, wanted[rank.rank])
    for switch in range(TOPOLOGY.num_ranks, TOPOLOGY.num_nodes):
        up, fault = (getattr(dut, f"switch_{switch}_{name}").value for name in ("up", "fault"))
        assert int(up) == (1 << int(TOPOLOGY.degree[switch])) - 1 and int(fault) == 0
    assert not losses
