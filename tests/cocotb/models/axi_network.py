"""Interfaces with AXI4 memories, each with a host, and a collective's buffers."""

import random

import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge

from multitree.cocotb import RegisterHost, as_flits, draw_buffers
from multitree.nic.driver.commands import RunSettings
from multitree.nic.driver.table import compile_table
from multitree.sim.cocotb.memory import AxiMemory
from multitree.topology.schedules.execute import execute
from tests.cocotb.models.driving import at_once, reset
from tests.cocotb.models.network import LATENCY_CYCLES

__all__ = ["LATE_CYCLES", "NUM_FLITS", "AxiNetwork"]

NUM_ELEMENTS, NUM_FLITS = 203, 51  # of four elements, the last one of three
LATE_CYCLES = 400
"""By then all contributions of others are in."""


class AxiNetwork:
    """The design under test: a host and a memory for each rank, with a buffer from `base` on.

    `limits` are the time limits of the interfaces; hosts wait `num_cycles` for a collective.
    """

    def __init__(
        self, dut, schedule, config, *, base, num_cycles, pause_chance, dtype="float32", **limits
    ):
        self.dut, self.schedule, self.flit_bytes = dut, schedule, config.flit_bytes
        self.num_cycles, self._start = num_cycles, self.flit_bytes * base
        ranks = range(schedule.topology.num_ranks)
        self.tables = [compile_table(schedule, rank, NUM_FLITS, config) for rank in ranks]
        self._hows = [RunSettings(dtype, base, table.end_flits, **limits) for table in self.tables]
        self.hosts = [RegisterHost(dut, f"rank_{rank}_", rank=rank) for rank in ranks]
        rng = np.random.default_rng(random.getrandbits(32))
        self.buffers = draw_buffers((len(ranks), NUM_ELEMENTS), dtype, rng)
        self.memories = []
        for rank, table in enumerate(self.tables):
            empty = bytes(self._end(table) + self.flit_bytes)
            self.memories.append(AxiMemory(dut, empty, pause_chance=pause_chance))
            for bus in ("send", "receive"):
                self.memories[-1].serve(f"rank_{rank}_m_axi_0_{bus}")
        self.fill()

    def _end(self, table):
        return self._start + self.flit_bytes * table.end_flits

    def _data(self, row):
        return as_flits(row, NUM_FLITS, self.flit_bytes).tobytes()

    def fill(self):
        """Put the buffers into the memories."""
        for memory, row in zip(self.memories, self.buffers, strict=True):
            data = self._data(row)
            memory.image[self._start : self._start + len(data)] = data

    async def start(self, **inputs):
        """Clock, and reset until the links are empty."""
        await reset(self.dut, cycles=2 * LATENCY_CYCLES, **inputs)
        await FallingEdge(self.dut.clk)

    async def load(self):
        """Load and commit all tables."""
        await at_once(map(RegisterHost.load, self.hosts, self.tables, self._hows))

    async def run(self, *late):
        """One collective for each of `late`, the rank that starts late; who is done at the end."""
        await self.load()

        async def script(rank, host):
            for last in late:
                await ClockCycles(self.dut.clk, LATE_CYCLES if rank == last else 1)
                if not await host.run(self.num_cycles):
                    return False
                await host.acknowledge()
            return True

        return await at_once(script(rank, host) for rank, host in enumerate(self.hosts))

    def pause(self, chance):
        """Let memories pause more or less often; with 1 they stand still."""
        for memory in self.memories:
            memory.pause_chance = chance

    def check(self, times=1):
        """Hold the memories against the definition; only slots may hold something else."""
        right = self.buffers
        for _ in range(times):
            right = execute(self.schedule, right, flit_bytes=self.flit_bytes)
        for table, memory, row in zip(self.tables, self.memories, right, strict=True):
            before = bytes(self._start) + self._data(row)
            assert bytes(memory.image[: len(before)]) == before
            assert not any(memory.image[self._end(table) :])
