"""Four interfaces on a 2x2 torus all-reduce random data, loaded over AXI4-Lite."""

import logging
import random
from dataclasses import replace

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge

from multitree.nic.faults import Awaited, DeviceError, FaultCode
from multitree.nic.program import RunSettings
from multitree.nic.registers import ADDRESS
from multitree.nic.table import compile_table
from multitree.sim.cocotb.clocking import run_models
from multitree.sim.cocotb.memory import Memory
from multitree.sim.cocotb.register_host import RegisterHost
from multitree.topology.schedules.execute import execute
from tests.cocotb.models.network import CONFIG, LATENCY_CYCLES, SCHEDULE

NUM_RANKS = SCHEDULE.topology.num_ranks
NUM_ELEMENTS = 203
LANES = CONFIG.flit_bytes // 4
NUM_FLITS = -(-NUM_ELEMENTS // LANES)
NUM_CYCLES = 20000


def draw(dtype, rng):
    """One buffer per rank: normal values with exponents spread over 2^±20, or any integers."""
    shape = (NUM_RANKS, NUM_ELEMENTS)
    if dtype == "int32":
        return rng.integers(-(1 << 31), 1 << 31, size=shape).astype(np.int32)
    return (rng.normal(size=shape) * 2.0 ** rng.integers(-20, 21, size=shape)).astype(np.float32)


def as_flits(row):
    """Bytes of a buffer, padded with zeros to whole flits."""
    padded = np.zeros(NUM_FLITS * LANES, dtype=row.dtype)
    padded[: len(row)] = row
    return padded.view(np.uint8).reshape(NUM_FLITS, CONFIG.flit_bytes)


class Network:
    """The design under test: a host and a memory for each rank."""

    def __init__(self, dut):
        logging.getLogger("cocotb.network").setLevel(logging.WARNING)
        self.dut = dut
        self.hosts = [RegisterHost(dut, f"rank_{r}_", rank=r) for r in range(NUM_RANKS)]
        self.memories = []

    async def start(self, contents):
        """Clock, and reset until the links are empty; `contents` is every rank's memory."""
        dut = self.dut
        dut.rst.value = 1
        cocotb.start_soon(Clock(dut.clk, 2, "ns").start())
        for rank, flits in enumerate(contents):
            ports = [f"rank_{rank}_memory_{port}_" for port in range(CONFIG.num_ports)]
            self.memories.append(Memory(dut, ports, flits, seed=random.getrandbits(32)))
        cocotb.start_soon(run_models(dut.clk, *self.memories))
        await ClockCycles(dut.clk, 2 * LATENCY_CYCLES)
        await FallingEdge(dut.clk)
        dut.rst.value = 0
        await FallingEdge(dut.clk)
        endings = ("valid", "ready", "credit", "irq")
        ports = [handle for handle in dut if handle._name.startswith("rank_")]
        controls = [handle for handle in ports if handle._name.endswith(endings)]
        unknown = [h._name for h in controls if not h.value.is_resolvable]
        assert controls and not unknown, f"unknown after reset: {unknown}"

    async def together(self, action):
        """Run `action(rank, host)` for all ranks at once; returns their results."""
        tasks = [cocotb.start_soon(action(rank, host)) for rank, host in enumerate(self.hosts)]
        return [await task for task in tasks]


def settings(dtype, base, **limits):
    """How to run on the buffer that begins at flit `base`."""
    limits = {"watchdog_cycles": 2000, "first_arrival_cycles": 5000, **limits}
    return RunSettings(dtype=dtype, window_base=base, window_flits=NUM_FLITS, **limits)


async def all_reduce_twice(dut, dtype, *, skew_cycles):
    """Two all-reduces back to back, every rank starting when it likes; returns the memories."""
    rng = np.random.default_rng(random.getrandbits(32))
    buffers = [draw(dtype, rng) for _ in range(2)]
    network = Network(dut)
    await network.start(
        [np.concatenate([as_flits(b[rank]) for b in buffers]) for rank in range(NUM_RANKS)]
    )

    async def run(rank, host):
        await host.load(compile_table(SCHEDULE, rank, NUM_FLITS, CONFIG), settings(dtype, 0))
        await ClockCycles(dut.clk, random.randrange(1, skew_cycles + 1))
        for number in range(2):
            await host.write(ADDRESS["WINDOW_BASE"], number * NUM_FLITS)
            assert await host.run(NUM_CYCLES), await host.fault()
            await host.acknowledge()
            assert await host.read("SEQUENCE") == number + 1

    await network.together(run)
    for number, buffer in enumerate(buffers):
        right = execute(SCHEDULE, buffer, flit_bytes=CONFIG.flit_bytes)
        for rank, memory in enumerate(network.memories):
            image = memory.flits[number * NUM_FLITS : (number + 1) * NUM_FLITS]
            assert np.array_equal(image, as_flits(right[rank])), f"rank {rank}, buffer {number}"


@cocotb.test()
async def the_data_show_the_order_of_additions(dut):
    buffers = draw("float32", np.random.default_rng(0))
    by_rank = np.add.accumulate(buffers)[-1]
    assert (by_rank != execute(SCHEDULE, buffers)[0]).any()


@cocotb.test()
async def fp32_all_reduces_without_a_barrier_give_the_bits_of_execute(dut):
    await all_reduce_twice(dut, "float32", skew_cycles=10)


@cocotb.test()
async def int32_all_reduces_of_ranks_started_far_apart_give_the_bits_of_execute(dut):
    await all_reduce_twice(dut, "int32", skew_cycles=1500)


@cocotb.test()
async def a_rank_that_never_starts_ends_in_a_named_fault_of_all_others(dut):
    network = Network(dut)
    zeros = np.zeros((NUM_FLITS, CONFIG.flit_bytes), dtype=np.uint8)
    await network.start([zeros.copy() for _ in range(NUM_RANKS)])
    limits = {"watchdog_cycles": 400, "first_arrival_cycles": 600}

    async def run(rank, host):
        table = compile_table(SCHEDULE, rank, NUM_FLITS, CONFIG)
        await host.load(table, settings("float32", 0, **limits))
        if rank == 0:
            return None
        assert not await host.run(5000)
        return await host.fault()

    faults = await network.together(run)
    limits_reached = (FaultCode.WATCHDOG, FaultCode.FIRST_ARRIVAL)
    assert all(f.code in (*limits_reached, FaultCode.PEER_FAULT) for f in faults[1:])
    faults = [fault for fault in faults if fault and fault.code in limits_reached]
    assert faults and all(fault.awaited != Awaited.NOTHING for fault in faults)


@cocotb.test()
async def an_illegal_row_is_named_and_nothing_is_sent(dut):
    network = Network(dut)
    zeros = np.zeros((NUM_FLITS, CONFIG.flit_bytes), dtype=np.uint8)
    await network.start([zeros.copy() for _ in range(NUM_RANKS)])
    host, bad = network.hosts[1], 2
    table = compile_table(SCHEDULE, 1, NUM_FLITS, CONFIG)
    port = table.port.copy()
    port[bad] = CONFIG.num_ports
    refused = ""
    try:
        await host.load(replace(table, port=port), settings("float32", 0))
    except DeviceError as error:
        refused = str(error)
    assert "ROW_ILLEGAL" in refused and f"row {bad}" in refused, refused
    fault = await host.fault()
    assert (fault.code, fault.row) == (FaultCode.ROW_ILLEGAL, bad)
    assert not await host.run(100) and not await host.status("committed")
    assert network.memories[1].accesses == 0
