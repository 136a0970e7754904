"""The AXI4 managers against memories that pause on every channel, and that fail."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from multitree.sim.cocotb.memory import AxiMemory

SIZES = {"address_width": 10, "flit_bytes": 16, "depth": 64}
FLIT_BYTES, NUM_FLITS = SIZES["flit_bytes"], 1 << SIZES["address_width"]
SLOWEST_CYCLES = 20000


class Client:
    """Reads and writes through the two channels, and notes what comes back."""

    def __init__(self, dut):
        self._dut = dut
        self.data, self.read_errors = [], []
        self.num_acks = self.num_write_errors = 0

    async def watch(self):
        """Note the answers of every cycle, in its middle."""
        dut = self._dut
        while True:
            await FallingEdge(dut.clk)
            if dut.read_data_valid.value == 1:
                self.data.append(int(dut.read_data.value))
                self.read_errors.append(int(dut.read_error.value))
            self.num_acks += int(dut.write_ack.value)
            self.num_write_errors += int(dut.write_error.value)

    async def ask(self, name, requests, *, pause_chance):
        """Offer (address, data) pairs to a channel until all are taken; returns the cycles."""
        dut, cycles = self._dut, 0
        valid, ready = getattr(dut, f"{name}_valid"), getattr(dut, f"{name}_ready")
        for address, data in requests:
            while random.random() < pause_chance:
                valid.value = 0
                await FallingEdge(dut.clk)
            valid.value = 1
            getattr(dut, f"{name}_address").value = address
            if name == "write":
                dut.write_data.value = data
            taken = False
            while not taken:
                # Ready hangs on the address in the same cycle: look once it has settled.
                await ReadOnly()
                taken = ready.value == 1
                await FallingEdge(dut.clk)
                cycles += 1
        valid.value = 0
        return cycles

    async def until(self, condition):
        """Wait for something, not for ever."""
        for _ in range(SLOWEST_CYCLES):
            if condition():
                return
            await FallingEdge(self._dut.clk)
        raise AssertionError(f"nothing within {SLOWEST_CYCLES} cycles")


async def start(dut, *, pause_chance):
    """Clock, reset, memory, client."""
    memory = AxiMemory(dut, random.randbytes(FLIT_BYTES * NUM_FLITS), pause_chance=pause_chance)
    dut.rst.value = 1
    dut.read_valid.value = 0
    dut.write_valid.value = 0
    cocotb.start_soon(Clock(dut.clk, 2, "ns").start())
    memory.serve("m_axi")
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    client = Client(dut)
    cocotb.start_soon(client.watch())
    return memory, client


def flit(memory, address):
    """A flit of memory as an integer."""
    place = FLIT_BYTES * address
    return int.from_bytes(memory.image[place : place + FLIT_BYTES], "little")


def addresses(count):
    """Runs of consecutive flits, some over pages, and single ones."""
    found = []
    while len(found) < count:
        first = random.choice([random.randrange(NUM_FLITS - 40), 253, 509])
        found += range(first, first + random.choice([1, 2, 16, 17, 40]))
    return found[:count]


@cocotb.test()
@cocotb.parametrize(pause_bus=[0.0, 0.4, 0.9], pause_client=[0.0, 0.4])
async def what_was_written_is_read_whatever_stalls(dut, pause_bus, pause_client):
    _, client = await start(dut, pause_chance=pause_bus)
    places = addresses(150)
    writes = [(place, random.getrandbits(8 * FLIT_BYTES)) for place in places]
    await client.ask("write", writes, pause_chance=pause_client)
    await client.until(lambda: client.num_acks == len(writes))
    model = dict(writes)
    await client.ask("read", [(place, 0) for place in places], pause_chance=pause_client)
    await client.until(lambda: len(client.data) == len(places))
    assert client.data == [model[place] for place in places]
    assert not any(client.read_errors) and not client.num_write_errors


@cocotb.test()
async def both_directions_move_a_flit_per_cycle(dut):
    memory, client = await start(dut, pause_chance=0.0)
    right = [flit(memory, place) for place in range(400)]
    writes = [(512 + place, place) for place in range(400)]
    tasks = [
        cocotb.start_soon(client.ask("read", [(k, 0) for k in range(400)], pause_chance=0.0)),
        cocotb.start_soon(client.ask("write", writes, pause_chance=0.0)),
    ]
    cycles = [await task for task in tasks]
    await client.until(lambda: client.num_acks == len(client.data) == 400)
    dut._log.warning("cycles of 400 reads and 400 writes: %s", cycles)
    assert max(cycles) <= 404
    assert client.data == right
    assert [flit(memory, 512 + place) for place in range(400)] == list(range(400))


@cocotb.test()
async def what_memory_refuses_is_an_error_and_everything_else_is_done(dut):
    memory, client = await start(dut, pause_chance=0.2)
    memory.broken_reads = memory.broken_writes = range(100 * FLIT_BYTES, 120 * FLIT_BYTES)
    reads = [(place, 0) for place in range(90, 130)]
    await client.ask("read", reads, pause_chance=0.1)
    await client.until(lambda: len(client.data) == len(reads))
    assert client.read_errors == [int(100 <= place < 120) for place, _ in reads]
    await client.ask("write", [(110, 1), (300, 2)], pause_chance=0.0)
    # The refused one is acknowledged, too, behind its error.
    await client.until(lambda: client.num_acks == 2)
    assert (client.num_write_errors, flit(memory, 300)) == (1, 2)
