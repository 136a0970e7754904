"""The AXI4-Lite subordinate against a manager that stalls on every channel."""

import itertools
import logging
import random

import cocotb
from cocotb.triggers import FallingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from tests.cocotb.models.driving import reset

NUM_REGISTERS, NUM_ACCESSES = 16, 300
REFUSED = 4 * (NUM_REGISTERS - 1)


class Registers:
    """What stands behind the subordinate: words, one of which refuses every access."""

    def __init__(self, dut):
        self._dut = dut
        self.words = [0] * NUM_REGISTERS
        self.accesses = 0

    async def serve(self):
        """Answer each request after a random time, in the middle of a cycle."""
        dut = self._dut
        while True:
            await FallingEdge(dut.clk)
            dut.response_done.value = 0
            # The strobe of the cycle before has been seen only by now.
            if not dut.request_valid.value or random.random() < 0.5:
                continue
            address = int(dut.request_address.value)
            dut.response_done.value = 1
            dut.response_error.value = int(address == REFUSED)
            dut.response_data.value = self.words[address // 4]
            self.accesses += 1
            if dut.request_write.value and address != REFUSED:
                self.words[address // 4] = int(dut.request_data.value)
            # Valid falls at the next edge: do not answer the same request twice.
            await FallingEdge(dut.clk)
            dut.response_done.value = 0


def pauses():
    """A manager's pauses, without end."""
    while True:
        yield random.random() < 0.4


async def start(dut, *, pausing):
    """Clock, reset, registers and manager."""
    logging.getLogger("cocotb.dut").setLevel(logging.WARNING)
    registers = Registers(dut)
    cocotb.start_soon(registers.serve())
    manager = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "bus"), dut.clk, dut.rst)
    if pausing:
        write, read = manager.write_if, manager.read_if
        channels = write.aw_channel, write.w_channel, write.b_channel
        for channel in (*channels, read.ar_channel, read.r_channel):
            channel.set_pause_generator(pauses())
    await reset(dut, response_done=0)
    return registers, manager


@cocotb.test()
async def what_was_written_is_read_whatever_stalls(dut):
    registers, manager = await start(dut, pausing=True)
    model = [0] * NUM_REGISTERS
    for _ in range(NUM_ACCESSES):
        index = random.randrange(NUM_REGISTERS - 1)
        if random.random() < 0.5:
            model[index] = random.getrandbits(32)
            reply = await manager.write(4 * index, model[index].to_bytes(4, "little"))
        else:
            reply = await manager.read(4 * index, 4)
            assert int.from_bytes(reply.data, "little") == model[index]
        assert reply.resp == AxiResp.OKAY
    assert registers.accesses == NUM_ACCESSES
    assert registers.words == model


@cocotb.test()
async def reads_and_writes_in_flight_together_are_all_answered(dut):
    registers, manager = await start(dut, pausing=True)
    operations = []
    for index, _ in itertools.product(range(NUM_REGISTERS - 1), range(4)):
        operations.append(manager.init_write(4 * index, index.to_bytes(4, "little")))
        operations.append(manager.init_read(4 * index, 4))
    for operation in operations:
        await operation.wait()
        assert operation.data.resp == AxiResp.OKAY
    assert registers.accesses == len(operations)
    assert registers.words[:-1] == list(range(NUM_REGISTERS - 1))


@cocotb.test()
async def what_the_registers_do_not_do_is_an_error_on_the_bus(dut):
    registers, manager = await start(dut, pausing=False)
    assert (await manager.write(REFUSED, bytes(4))).resp == AxiResp.SLVERR
    assert (await manager.read(REFUSED, 4)).resp == AxiResp.SLVERR
    assert registers.accesses == 2
    # Less than a whole word never becomes an access.
    assert (await manager.write(4, b"\xff")).resp == AxiResp.SLVERR
    assert (await manager.write(5, b"\xff\xff\xff")).resp == AxiResp.SLVERR
    assert registers.accesses == 2
    assert (await manager.read(4, 4)).data == bytes(4)
