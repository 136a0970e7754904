"""Memories behind native channels and AXI4 buses: late, uneven, partly broken."""

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiReadBus, AxiSlaveRead, AxiSlaveWrite

from multitree.sim.cocotb.case import Stall
from multitree.sim.cocotb.pins import Pins

__all__ = ["CHANNELS", "AxiMemory", "Memory"]

Flits = npt.NDArray[np.uint8]

CHANNELS = ("send", "fetch", "write")
"""Memory channels of a port: what it sends is read, what it adds to is fetched and written."""


class _Channel:
    """Channel that is ready now and then, and answers its requests in order, some cycles later."""

    def __init__(
        self,
        memory: "Memory",
        dut: Any,
        prefix: str,
        held: Callable[[bool], bool],
        latencies: tuple[int, int],
    ) -> None:
        self._memory, self._held, self._latencies = memory, held, latencies
        self._writes = prefix.endswith("write")
        outputs = ("valid", "address", "data") if self._writes else ("valid", "address")
        answers = ("ack",) if self._writes else ("data_valid", "data")
        inputs = ("ready", "error", *answers)
        self._pins = Pins(dut, f"{prefix}_", outputs=outputs, inputs=inputs)
        self._answer = answers[0]
        self._waiting: deque[tuple[int, int, Flits]] = deque()
        self._cycle = self.taken = 0
        self._gave = self._was_ready = False

    def reset(self) -> None:
        self._waiting.clear()
        self._gave = self._was_ready = False
        self._pins.drive(ready=0, error=0, **{self._answer: 0})

    def step(self) -> None:
        self._cycle += 1
        due = bool(self._waiting) and self._waiting[0][0] <= self._cycle
        failed = due and self._give(*self._waiting.popleft()[1:])
        # In most cycles of a large network most channels rest, and this is what they cost.
        if due or self._gave:
            self._pins.drive(error=int(failed), **{self._answer: int(due)})
        requested = self._pins.high("valid")
        ready = not self._held(requested)
        if ready != self._was_ready:
            self._pins.drive(ready=int(ready))
        self._gave, self._was_ready = due, ready
        if ready and requested:
            after = self._cycle + self._memory.draw_latency(self._latencies)
            if self._waiting:
                # Answers keep the order of requests, at most one per cycle.
                after = max(after, self._waiting[-1][0] + 1)
            self._waiting.append((after, *self._take()))
            self.taken += 1

    def _take(self) -> tuple[int, Flits]:
        """Address and data of a request."""
        address = self._pins.number("address")
        if not self._writes:
            return address, self._memory.flits[address].copy()
        data = self._pins.number("data").to_bytes(self._memory.flits.shape[1], "little")
        return address, np.frombuffer(data, dtype=np.uint8)

    def _give(self, address: int, data: Flits) -> bool:
        """Answer a request; returns True if it failed."""
        if self._writes:
            failed = address in self._memory.broken_writes
            if not failed:
                self._memory.flits[address] = data
            return failed
        self._pins.drive(data=int.from_bytes(data.tobytes(), "little"))
        return address in self._memory.broken_reads


class Memory:
    """Flits of one rank, read and written through the channels of its ports.

    A read returns what was acknowledged when it was taken. A write reaches the memory in the cycle
    of its acknowledgement, as late as the contract allows.

    Parameters
    ----------
    dut : handle
        The design.
    ports : sequence of str
        Prefixes of the ports' channels, such as ``rank_0_memory_1_``; ``send_``, ``fetch_`` and
        ``write_`` follow, as far as the design has them.
    flits : uint8 array, shape (num_flits, flit_bytes)
        Contents, changed in place.
    seed : int
        Of the latencies and of `ready`.
    ready_chance : float
        Share of the cycles in which a channel is ready.
    stalls : sequence of Stall, optional
        In its place, one for each channel of each port in their order.
    latencies : (int, int)
        Least and most cycles from a request to its answer.

    Attributes
    ----------
    broken_reads, broken_writes : range
        Addresses at which accesses fail.
    """

    def __init__(
        self,
        dut: Any,
        ports: Sequence[str],
        flits: Flits,
        *,
        seed: int,
        ready_chance: float = 0.8,
        stalls: Sequence[Stall] | None = None,
        latencies: tuple[int, int] = (1, 20),
    ) -> None:
        self.flits = flits
        self.broken_reads = self.broken_writes = range(0)
        self._rng = np.random.default_rng(seed)
        self._channels: list[_Channel] = []
        for prefix in (f"{port}{name}" for port in ports for name in CHANNELS):
            if not hasattr(dut, f"{prefix}_valid"):
                continue

            def held(requested: bool, number: int = len(self._channels)) -> bool:
                if stalls is None:
                    return bool(self._rng.random() >= ready_chance)
                return requested and stalls[number].held()

            self._channels.append(_Channel(self, dut, prefix, held, latencies))
        if not self._channels:
            raise ValueError(f"No memory channels begin with {' or '.join(ports)}")

    @property
    def accesses(self) -> int:
        """Reads and writes taken so far."""
        return sum(channel.taken for channel in self._channels)

    def draw_latency(self, latencies: tuple[int, int]) -> int:
        """Cycles from a request to its answer."""
        least, most = latencies
        return int(self._rng.integers(least, most + 1))

    def step(self) -> None:
        """Step in the middle of a cycle."""
        for channel in self._channels:
            channel.step()

    def reset(self) -> None:
        """Forget what is in flight."""
        for channel in self._channels:
            channel.reset()


class AxiMemory:
    """Bytes behind any number of AXI4 buses.

    A read of `broken_reads` or a write of `broken_writes` answers SLVERR. Data are in memory some
    cycles after they were taken, and before the response.

    Parameters
    ----------
    dut : handle
        The design.
    contents : bytes-like
        Contents, copied.
    pause_chance : float
        Share of the cycles in which a channel pauses, and in which an access is delayed; may be
        changed at any time.
    flit_bytes : int
    clock, reset : handle, optional
        Of the buses; ``dut.clk`` and ``dut.rst`` by default.

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
        self._reset = getattr(dut, "rst", None) if reset is None else reset
        self.image = bytearray(contents)
        whole = len(self.image) // flit_bytes * flit_bytes
        self.flits = np.frombuffer(self.image, np.uint8, whole).reshape(-1, flit_bytes)
        self.broken_reads = self.broken_writes = range(0)
        self.num_reads = self.num_writes = 0

    def serve(self, prefix: str) -> None:
        """Serve a bus, its write channels only if it has any; AttributeError if there is none."""
        # The bus of a port's sender only reads.
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
        """Wait some cycles, then raise unless the place exists and works."""
        assert address + length <= len(self.image), f"access at {address:#x}"
        while random.random() < self.pause_chance:
            await RisingEdge(self._clock)
        if address in broken:
            raise OSError(f"{address:#x} is broken")

    async def read(self, address: int, length: int) -> bytes:
        """Read for the bus model."""
        self.num_reads += 1
        await self._reach(address, length, self.broken_reads)
        return bytes(self.image[address : address + length])

    async def write(self, address: int, data: bytes) -> None:
        """Write for the bus model."""
        self.num_writes += 1
        await self._reach(address, len(data), self.broken_writes)
        self.image[address : address + len(data)] = data
