"""The AXI4 managers against memories that pause on every channel, and that fail."""

import random

import cocotb
from cocotb.triggers import FallingEdge

from multitree.sim.cocotb.memory import AxiMemory
from multitree.sim.cocotb.pins import until
from tests.cocotb.models.driving import at_once, offer, reset

SIZES = {"address_width": 10, "flit_bytes": 16, "depth": 64}
FLIT_BYTES, NUM_FLITS = SIZES["flit_bytes"], 1 << SIZES["address_width"]
SLOWEST_CYCLES = 20000


class Client:
    """Notes what comes back through the two channels."""

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

    async def until(self, condition):
        """Wait for something, not for ever."""
        await until(self._dut.clk, condition, most_cycles=SLOWEST_CYCLES, what="nothing")


async def start(dut, *, pause_chance):
    """Clock, reset, memory, client."""
    memory = AxiMemory(dut, random.randbytes(FLIT_BYTES * NUM_FLITS), pause_chance=pause_chance)
    memory.serve("m_axi")
    await reset(dut, read_valid=0, write_valid=0)
    client = Client(dut)
    cocotb.start_soon(client.watch())
    return memory, client


def flit(memory, address):
    """A flit of memory as an integer."""
    place = FLIT_BYTES * address
    return int.from_bytes(memory.image[place : place + FLIT_BYTES], "little")


def reads_of(places):
    """Requests to read."""
    return [{"address": place} for place in places]


def writes_of(model):
    """Requests to write what is given by address."""
    return [{"address": place, "data": data} for place, data in model]


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
    await offer(dut, "write", writes_of(writes), pause_chance=pause_client)
    await client.until(lambda: client.num_acks == len(writes))
    model = dict(writes)
    await offer(dut, "read", reads_of(places), pause_chance=pause_client)
    await client.until(lambda: len(client.data) == len(places))
    assert client.data == [model[place] for place in places]
    assert not any(client.read_errors) and not client.num_write_errors


@cocotb.test()
async def both_directions_move_a_flit_per_cycle(dut):
    memory, client = await start(dut, pause_chance=0.0)
    right = [flit(memory, place) for place in range(400)]
    writes = writes_of((512 + place, place) for place in range(400))
    cycles = await at_once([offer(dut, "read", reads_of(range(400))), offer(dut, "write", writes)])
    await client.until(lambda: client.num_acks == len(client.data) == 400)
    dut._log.warning("cycles of 400 reads and 400 writes: %s", cycles)
    assert max(cycles) <= 404
    assert client.data == right
    assert [flit(memory, 512 + place) for place in range(400)] == list(range(400))


@cocotb.test()
async def what_memory_refuses_is_an_error_and_everything_else_is_done(dut):
    memory, client = await start(dut, pause_chance=0.2)
    memory.broken_reads = memory.broken_writes = range(100 * FLIT_BYTES, 120 * FLIT_BYTES)
    places = range(90, 130)
    await offer(dut, "read", reads_of(places), pause_chance=0.1)
    await client.until(lambda: len(client.data) == len(places))
    assert client.read_errors == [int(100 <= place < 120) for place in places]
    await offer(dut, "write", writes_of([(110, 1), (300, 2)]))
    # The refused one is acknowledged, too, behind its error.
    await client.until(lambda: client.num_acks == 2)
    assert (client.num_write_errors, flit(memory, 300)) == (1, 2)
