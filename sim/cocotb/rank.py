"""What stands around one interface of a design: a host, and a memory."""

import contextlib
import random
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import DeviceError
from multitree.sim.cocotb.case import LEVELS, Stall
from multitree.sim.cocotb.memory import CHANNELS, AxiMemory, Memory
from multitree.sim.cocotb.reference import as_flits, check_rank
from multitree.sim.cocotb.register_host import RegisterHost
from multitree.sim.rtl.loads import Load

__all__ = ["Rank"]

Buffers = npt.NDArray[Any]

_LATENCIES = {"none": (1, 1), "light": (1, 20), "heavy": (1, 60)}
_PAUSES = {"none": 0.0, "light": 0.2, "heavy": 0.6}


class Rank:
    """Host and memory of one interface.

    Parameters
    ----------
    dut : handle
        The design, with the interface's pins.
    prefix : str
        Of the interface's pins, such as ``rank_0_``.
    rank : int
        Whose interface it is.
    config : Config
        Of the interface.
    rng : random.Random
        Draws latencies and stalls.
    stalls : str
        One of `LEVELS`.
    memory_flits : int
        Size of the memory.
    clock, reset : handle, optional
        Of the interface; ``dut.clk`` and ``dut.rst`` by default.

    Attributes
    ----------
    host : RegisterHost
    memory : Memory or AxiMemory
        By the pins of the design.
    stalls : list of Stall
        Of the channels of a `Memory`; an `AxiMemory` pauses by itself.
    """

    def __init__(
        self,
        dut: Any,
        prefix: str,
        rank: int,
        config: Config,
        rng: random.Random,
        *,
        stalls: str,
        memory_flits: int,
        clock: Any = None,
        reset: Any = None,
    ) -> None:
        self.rank, self.prefix, self.config, self.level = rank, prefix, config, stalls
        self._rng = rng
        self.host = RegisterHost(dut, prefix, rank=rank, clock=clock, reset=reset)
        self.stalls: list[Stall] = []
        native = [f"{prefix}memory_{port}_" for port in range(config.num_ports)]
        if hasattr(dut, f"{native[0]}write_valid"):
            self.memory: Memory | AxiMemory = self._native_memory(dut, native, memory_flits)
        else:
            self.memory = AxiMemory(
                dut,
                bytes(memory_flits * config.flit_bytes),
                pause_chance=_PAUSES[stalls],
                flit_bytes=config.flit_bytes,
                clock=clock,
                reset=reset,
            )
            for port in range(config.num_ports):
                self.memory.serve(f"{prefix}m_axi_{port}_send")
                self.memory.serve(f"{prefix}m_axi_{port}_receive")

    def _native_memory(self, dut: Any, ports: list[str], memory_flits: int) -> Memory:
        self.stalls = [Stall(self._rng) for _ in range(len(CHANNELS) * len(ports))]
        self.choose_stalls()
        return Memory(
            dut,
            ports,
            np.zeros((memory_flits, self.config.flit_bytes), np.uint8),
            seed=self._rng.getrandbits(32),
            stalls=self.stalls,
            latencies=_LATENCIES[self.level],
        )

    def choose_stalls(self) -> None:
        """Draw a class of stalls for each channel."""
        for stall in self.stalls:
            stall.choose(self._rng.choice(LEVELS[self.level]))

    def step(self) -> None:
        """One cycle, in its middle."""
        # cocotbext-axi runs by itself.
        if isinstance(self.memory, Memory):
            self.memory.step()

    async def probe(self) -> None:
        """Check that the interface answers and has the sizes of its config, else AssertionError."""
        with _on_the_bus(self.prefix):
            found = await self.host.perform(self.host.driver.probe())
        for name, value in asdict(found).items():
            wanted = getattr(self.config, name)
            # The register has a bit for each type, and no order of types.
            same = set(value) == set(wanted) if name == "dtypes" else value == wanted
            assert same, f"{self.prefix}s_axil: {name} is {value} instead of {wanted}"

    async def load(self, load: Load, row: Buffers) -> None:
        """Put a buffer into memory, and load and commit the table for it.

        ValueError if memory is too small; AssertionError if the interface refuses the table, or a
        link is not up.
        """
        base, room = load.settings.window_base, len(self.memory.flits)
        end = base + load.settings.window_flits
        if end > room:
            raise ValueError(f"memory_flits must be at least {end} for this collective, not {room}")
        # Padding, and slots behind the buffer, hold what an earlier collective left.
        self.memory.flits[base:end] = 0
        flits = as_flits(row, load.num_flits, self.config.flit_bytes)
        self.memory.flits[base : base + load.num_flits] = flits
        with _on_the_bus(self.prefix):
            await self.host.load(load.tables[self.rank], load.settings)

    async def run(self, timeout_cycles: int) -> None:
        """Start the loaded collective, wait until it is done, and acknowledge it.

        AssertionError, with the fault, if the interface stops in one, or is not done in time.
        """
        if not await self.host.run(timeout_cycles):
            fault = await self.host.fault()
            port = "" if fault.at_port is None else f" for link_{fault.at_port}"
            raise AssertionError(f"{self.prefix}irq{port}: {fault.error(self.rank)}")
        await self.host.acknowledge()

    def check(self, load: Load, wanted: Buffers) -> None:
        """Compare the buffer in memory with the right one by `check_rank`."""
        base = load.settings.window_base
        right = as_flits(wanted, load.num_flits, self.config.flit_bytes)
        check_rank(load, self.rank, self.memory.flits[base : base + load.num_flits], right)


@contextlib.contextmanager
def _on_the_bus(prefix: str) -> Iterator[None]:
    """Errors of the driver as failed checks of the register bus."""
    try:
        yield
    except DeviceError as error:
        raise AssertionError(f"{prefix}s_axil: {error}") from error
