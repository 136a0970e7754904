"""Four interfaces with AXI4 memories behind a switch, one of which starts late."""

import random

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge

from multitree.nic.driver.commands import RESET, START, origin_of
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.topology.collectives import Op
from tests.cocotb.models.axi_network import LATE_CYCLES, AxiNetwork
from tests.cocotb.models.driving import at_once, cleared
from tests.cocotb.models.network import STAR_CONFIG, STAR_SCHEDULE

NUM_RANKS = STAR_SCHEDULE.topology.num_ranks
FLIT_BYTES = STAR_CONFIG.flit_bytes
BASE = 175
"""First flit of the buffer: a slot behind it lies over the end of a page."""
LIMITS = dict.fromkeys(("watchdog_cycles", "first_arrival_cycles"), 4 * LATE_CYCLES)


def kept_waiting(late):
    """The rank whose own sum begins with a contribution of `late`, so that the others' wait."""
    first = (STAR_SCHEDULE.op == Op.REDUCE) & (STAR_SCHEDULE.step == 0)
    return int(STAR_SCHEDULE.dst[first & (STAR_SCHEDULE.src == late)][0])


class Star(AxiNetwork):
    """Four interfaces and their switch, which has a reset of its own."""

    def __init__(self, dut, *, pause_chance):
        how = {"base": BASE, "num_cycles": 10 * LATE_CYCLES, **LIMITS}
        super().__init__(dut, STAR_SCHEDULE, STAR_CONFIG, pause_chance=pause_chance, **how)

    async def start(self):
        await super().start(resets=("rst", "switch_4_rst"), switch_4_number=NUM_RANKS)

    def slots_of_later(self, rank):
        """The flits where contributions to the rank's own sum wait for its first one."""
        table = self.tables[rank]
        first, size = BASE + int(table.slots[rank]), int(table.size[rank])
        return range(first + size, first + (NUM_RANKS - 1) * size)

    async def stand_still(self, rank, bus):
        """Stop all memories when a rank has asked for something in a slot."""
        valid, ready, place = (
            getattr(self.dut, f"rank_{rank}_m_axi_0_{bus}{name}")
            for name in ("valid", "ready", "addr")
        )
        slots = self.slots_of_later(rank)
        for _ in range(self.num_cycles):
            await FallingEdge(self.dut.clk)
            if valid.value == ready.value == 1 and int(place.value) // FLIT_BYTES in slots:
                self.pause(1.0)
                return
        raise AssertionError(f"no slot was accessed within {self.num_cycles} cycles")

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
    place = FLIT_BYTES * random.choice(star.slots_of_later(rank))
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
    star.check()


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
    star.check()
