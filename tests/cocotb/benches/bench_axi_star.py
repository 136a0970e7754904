"""Four interfaces with AXI4 memories behind a switch, one of which starts late."""

import random

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge

from multitree.cocotb import RegisterHost, as_flits, draw_buffers
from multitree.nic.driver.commands import RESET, START, RunSettings, origin_of
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.table import compile_table
from multitree.topology.collectives import Op
from multitree.topology.schedules.execute import execute
from tests.cocotb.benches.bench_axi_pair import NUM_ELEMENTS, NUM_FLITS
from tests.cocotb.models.driving import at_once, axi_memories, cleared, reset
from tests.cocotb.models.network import LATENCY_CYCLES, STAR_CONFIG, STAR_SCHEDULE

NUM_RANKS = STAR_SCHEDULE.topology.num_ranks
TABLES = [compile_table(STAR_SCHEDULE, rank, NUM_FLITS, STAR_CONFIG) for rank in range(NUM_RANKS)]
FLIT_BYTES = STAR_CONFIG.flit_bytes
BASE = 175
"""First flit of the buffer: a slot behind it lies over the end of a page."""
LATE_CYCLES = 400
"""By then all contributions of others are in."""
WATCHDOG_CYCLES = 4 * LATE_CYCLES
NUM_CYCLES = 10 * LATE_CYCLES


def kept_waiting(late):
    """The rank whose own sum begins with a contribution of `late`, so that the others' wait."""
    first = (STAR_SCHEDULE.op == Op.REDUCE) & (STAR_SCHEDULE.step == 0)
    return int(STAR_SCHEDULE.dst[first & (STAR_SCHEDULE.src == late)][0])


def slots_of_later(rank):
    """The flits where contributions to the rank's own sum wait for its first one."""
    first, size = BASE + int(TABLES[rank].slots[rank]), int(TABLES[rank].size[rank])
    return range(first + size, first + (NUM_RANKS - 1) * size)


class Star:
    """The design under test: a host and a memory for each rank."""

    def __init__(self, dut, *, pause_chance):
        self.dut = dut
        self.hosts = [RegisterHost(dut, f"rank_{r}_", rank=r) for r in range(NUM_RANKS)]
        self.buffers = draw_buffers(
            (NUM_RANKS, NUM_ELEMENTS), "float32", np.random.default_rng(random.getrandbits(32))
        )
        nothing = [bytes(FLIT_BYTES * (BASE + table.end_flits + 1)) for table in TABLES]
        self.memories = axi_memories(dut, nothing, pause_chance=pause_chance)
        self.fill()

    def fill(self):
        """Put the buffers into the memories."""
        for memory, row in zip(self.memories, self.buffers, strict=True):
            data = as_flits(row, NUM_FLITS, FLIT_BYTES).tobytes()
            memory.image[FLIT_BYTES * BASE : FLIT_BYTES * BASE + len(data)] = data

    async def start(self):
        """Clock, and reset until the links are empty."""
        resets = ("rst", "switch_4_rst")
        await reset(self.dut, cycles=2 * LATENCY_CYCLES, resets=resets, switch_4_number=NUM_RANKS)
        await FallingEdge(self.dut.clk)

    async def load(self):
        """Load and commit all tables."""
        limits = {"watchdog_cycles": WATCHDOG_CYCLES, "first_arrival_cycles": WATCHDOG_CYCLES}
        hows = [RunSettings("float32", BASE, table.end_flits, **limits) for table in TABLES]
        await at_once(map(RegisterHost.load, self.hosts, TABLES, hows))

    async def run(self, *late):
        """One collective for each of `late`, the rank that starts late; who is done at the end."""
        await self.load()

        async def script(rank, host):
            for last in late:
                await ClockCycles(self.dut.clk, LATE_CYCLES if rank == last else 1)
                if not await host.run(NUM_CYCLES):
                    return False
                await host.acknowledge()
            return True

        return await at_once(script(rank, host) for rank, host in enumerate(self.hosts))

    async def stand_still(self, rank, bus):
        """Stop all memories when a rank has asked for something in a slot."""
        valid, ready, place = (
            getattr(self.dut, f"rank_{rank}_m_axi_0_{bus}{name}")
            for name in ("valid", "ready", "addr")
        )
        slots = slots_of_later(rank)
        for _ in range(NUM_CYCLES):
            await FallingEdge(self.dut.clk)
            if valid.value == ready.value == 1 and int(place.value) // FLIT_BYTES in slots:
                for memory in self.memories:
                    memory.pause_chance = 1.0
                return
        raise AssertionError(f"no slot was accessed within {NUM_CYCLES} cycles")

    async def reset(self):
        """All as new, the switch too, when all interfaces have heard from their memories."""
        self.dut.switch_4_rst.value = 1
        await at_once(host.write(*RESET) for host in self.hosts)
        busy = [await host.status("busy") for host in self.hosts]
        for host, memory in zip(self.hosts, self.memories, strict=True):
            memory.pause_chance = 0.3
            memory.broken_reads = memory.broken_writes = range(0)
            await cleared(host, "busy")
        self.dut.switch_4_rst.value = 0
        self.fill()
        return busy

    def check(self, times):
        """Hold the memories against the definition; only slots may hold something else."""
        right = self.buffers
        for _ in range(times):
            right = execute(STAR_SCHEDULE, right, flit_bytes=FLIT_BYTES)
        for table, memory, row in zip(TABLES, self.memories, right, strict=True):
            start, end = FLIT_BYTES * BASE, FLIT_BYTES * (BASE + table.end_flits)
            data = as_flits(row, NUM_FLITS, FLIT_BYTES).tobytes()
            assert bytes(memory.image[: start + len(data)]) == bytes(start) + data
            assert not any(memory.image[end:])


@cocotb.test()
@cocotb.parametrize(pause_chance=[0.0, 0.6])
async def what_comes_before_its_turn_is_staged_and_the_bits_are_those_of_execute(dut, pause_chance):
    """Two collectives without a barrier, in each of which another rank is late."""
    star = Star(dut, pause_chance=pause_chance)
    await star.start()
    late = random.sample(range(NUM_RANKS), 2)
    for host, done in zip(star.hosts, await star.run(*late), strict=True):
        assert done, await host.fault()
    star.check(2)
    for rank in late:
        assert await star.hosts[kept_waiting(rank)].read("STAGED") >= NUM_RANKS - 2


@cocotb.test()
@cocotb.parametrize((("end", "late"), [("read", 0), ("write", 2)]))
async def a_slot_that_memory_refuses_stops_all_with_its_origin_until_a_reset(dut, end, late):
    star = Star(dut, pause_chance=0.3)
    await star.start()
    rank = kept_waiting(late)
    assert rank != 0, "an unknown origin reads as rank 0"
    place = FLIT_BYTES * random.choice(slots_of_later(rank))
    setattr(star.memories[rank], f"broken_{end}s", range(place, place + 1))
    assert await star.run(late) == [False] * NUM_RANKS
    fault = await star.hosts[rank].fault()
    assert (fault.code, fault.at_port) == (FaultCode.MEMORY_ERROR, 0)
    assert fault.awaited == {"read": Awaited.MEMORY_READ, "write": Awaited.MEMORY_WRITE}[end]
    for number, host in enumerate(star.hosts):
        origin = origin_of(await host.read("FAULT_ORIGIN"), NUM_RANKS)
        assert origin == f"origin rank {rank} (MEMORY_ERROR)"
        assert number == rank or (await host.fault()).code == FaultCode.PEER_FAULT
    await star.reset()
    assert await star.run(late) == [True] * NUM_RANKS
    star.check(1)


@cocotb.test()
@cocotb.parametrize(bus=["send_ar", "receive_aw"])
async def a_reset_lasts_until_what_was_asked_of_a_slot_is_answered(dut, bus):
    """A slot is read or written when memory stands still."""
    star = Star(dut, pause_chance=0.3)
    await star.start()
    late = random.randrange(NUM_RANKS)
    rank = kept_waiting(late)
    await star.load()
    for host in [*star.hosts[:late], *star.hosts[late + 1 :]]:
        await host.write(*START)
    if bus == "send_ar":
        await ClockCycles(dut.clk, LATE_CYCLES)
        await star.hosts[late].write(*START)
    await star.stand_still(rank, bus)
    busy = await star.reset()
    assert busy[rank]
    assert await star.run(late) == [True] * NUM_RANKS
    star.check(1)
