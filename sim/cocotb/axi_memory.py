"""Memory on AXI4 buses, late and with pauses, and with places that fail."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
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
    flit_bytes : int
        Of `flits`.
    clock, reset : handle, optional
        Of the buses; ``dut.clk`` and ``dut.rst`` unless they are given.

    Attributes
    ----------
    image : bytearray
        The contents.
    flits : uint8 array, shape (num_flits, flit_bytes)
        The same memory.
    broken_reads, broken_writes : range
        First bytes of accesses that fail.
    """

    def __init__(
        self,
        dut: Any,
        contents: bytes | bytearray,
        *,
        pause_chance: float = 0.0,
        flit_bytes: int = 16,
        clock: Any = None,
        reset: Any = None,
    ) -> None:
        self._dut, self.pause_chance = dut, pause_chance
        self._clock = dut.clk if clock is None else clock
        self._reset = dut.rst if reset is None else reset
        self.image = bytearray(contents)
        whole = len(self.image) // flit_bytes * flit_bytes
        self.flits = np.frombuffer(self.image, np.uint8, whole).reshape(-1, flit_bytes)
        self.broken_reads = self.broken_writes = range(0)
        self.num_reads = self.num_writes = 0

    def serve(self, prefix: str) -> None:
        """Serve the bus with that prefix: its read channels, and its write channels if it has any.

        Raises
        ------
        AttributeError
            If there is no such bus.
        """
        if not hasattr(self._dut, f"{prefix}_awvalid"):
            self._serve(AxiSlaveRead, AxiReadBus.from_prefix(self._dut, prefix), "ar", "r")
            return
        bus = AxiBus.from_prefix(self._dut, prefix)
        self._serve(AxiSlaveRead, bus.read, "ar", "r")
        self._serve(AxiSlaveWrite, bus.write, "aw", "w", "b")

    def _serve(self, kind: Any, bus: Any, *channels: str) -> None:
        subordinate = kind(bus, self._clock, self._reset, target=self)
        for name in channels:
            getattr(subordinate, f"{name}_channel").set_pause_generator(self._pauses())

    def _pauses(self) -> Iterator[bool]:
        while True:
            yield random.random() < self.pause_chance

    async def _reach(self, address: int, length: int, broken: range) -> None:
        """Take some time to get to a place, and find that it is there and whole."""
        assert address + length <= len(self.image), f"access at {address:#x}"
        while random.random() < self.pause_chance:
            await RisingEdge(self._clock)
        if address in broken:
            raise OSError(f"{address:#x} is broken")

    async def read(self, address: int, length: int) -> bytes:
        """Called by the subordinate."""
        self.num_reads += 1
        await self._reach(address, length, self.broken_reads)
        return bytes(self.image[address : address + length])

    async def write(self, address: int, data: bytes) -> None:
        """Called by the subordinate."""
        self.num_writes += 1
        await self._reach(address, len(data), self.broken_writes)
        self.image[address : address + len(data)] = data
