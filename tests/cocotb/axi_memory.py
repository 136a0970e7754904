"""cocotbext-axi memories with random pauses, and with places that fail."""

import logging
import random

from cocotbext.axi import AxiBus, AxiReadBus, AxiSlaveRead, AxiSlaveWrite

__all__ = ["AxiMemory"]


class AxiMemory:
    """Bytes behind any number of AXI4 buses; what lies in `broken` answers SLVERR.

    Parameters
    ----------
    dut : handle
        The design.
    contents : bytes-like
        Contents, copied.
    pause_chance : float
        Share of the cycles in which a channel pauses; may be changed at any time.
    """

    def __init__(self, dut, contents, *, pause_chance=0.0):
        logging.getLogger(f"cocotb.{dut._name}").setLevel(logging.WARNING)
        self._dut, self.pause_chance = dut, pause_chance
        self.image = bytearray(contents)
        self.broken = range(0)
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

    def _check(self, address, length):
        assert address + length <= len(self.image), f"access at {address:#x}"
        if address in self.broken:
            raise OSError(f"{address:#x} is broken")

    async def read(self, address, length):
        """Called by the slave."""
        self.num_reads += 1
        self._check(address, length)
        return bytes(self.image[address : address + length])

    async def write(self, address, data):
        """Called by the slave."""
        self.num_writes += 1
        self._check(address, len(data))
        self.image[address : address + len(data)] = data
