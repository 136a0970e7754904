"""cocotbext-axi memories, late and with pauses, and with places that fail."""

import logging
import random

from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiReadBus, AxiSlaveRead, AxiSlaveWrite

__all__ = ["AxiMemory"]


class AxiMemory:
    """Bytes behind any number of AXI4 buses.

    What is read in `broken_reads` or written in `broken_writes` answers SLVERR. Data that were
    taken are in memory some cycles later, but before the response.

    Parameters
    ----------
    dut : handle
        The design.
    contents : bytes-like
        Contents, copied.
    pause_chance : float
        Share of the cycles in which a channel pauses, and in which an access goes on waiting; may
        be changed at any time.
    """

    def __init__(self, dut, contents, *, pause_chance=0.0):
        logging.getLogger(f"cocotb.{dut._name}").setLevel(logging.WARNING)
        self._dut, self.pause_chance = dut, pause_chance
        self.image = bytearray(contents)
        self.broken_reads = self.broken_writes = range(0)
        self.num_reads = self.num_writes = 0

    def serve_reads(self, prefix):
        """Serve the read channels of the bus with that prefix."""
        bus = AxiReadBus.from_prefix(self._dut, prefix)
        self._pause(AxiSlaveRead(bus, self._dut.clk, self._dut.rst, target=self), "ar", "r")

    def serve(self, prefix):
        """Serve all channels of the bus with that prefix."""
        bus = AxiBus.from_prefix(self._dut, prefix)
        self._pause(AxiSlaveRead(bus.read, self._dut.clk, self._dut.rst, target=self), "ar", "r")
        self.serve_writes(bus.write)

    def serve_writes(self, bus):
        """Serve the write channels of a bus."""
        slave = AxiSlaveWrite(bus, self._dut.clk, self._dut.rst, target=self)
        self._pause(slave, "aw", "w", "b")

    def _pause(self, slave, *channels):
        for name in channels:
            getattr(slave, f"{name}_channel").set_pause_generator(self._pauses())

    def _pauses(self):
        while True:
            yield random.random() < self.pause_chance

    async def _reach(self, address, length, broken):
        """Take some time to get to a place, and find that it is there and whole."""
        assert address + length <= len(self.image), f"access at {address:#x}"
        while random.random() < self.pause_chance:
            await RisingEdge(self._dut.clk)
        if address in broken:
            raise OSError(f"{address:#x} is broken")

    async def read(self, address, length):
        """Called by the slave."""
        self.num_reads += 1
        await self._reach(address, length, self.broken_reads)
        return bytes(self.image[address : address + length])

    async def write(self, address, data):
        """Called by the slave."""
        self.num_writes += 1
        await self._reach(address, len(data), self.broken_writes)
        self.image[address : address + len(data)] = data
