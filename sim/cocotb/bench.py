"""Whole benches: one interface between driven links, or a whole network."""

import random
from collections.abc import Sequence
from typing import Any

import cocotb
import numpy as np
import numpy.typing as npt
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge

from multitree.nic.config import Config
from multitree.sim.cocotb.axi_memory import AxiMemory
from multitree.sim.cocotb.clocking import run_models, until
from multitree.sim.cocotb.memory import CHANNELS, Memory
from multitree.sim.cocotb.partner import PartnerNetwork
from multitree.sim.cocotb.register_host import RegisterHost
from multitree.sim.cocotb.scoreboard import as_flits, check_rank, expected
from multitree.sim.cocotb.stalls import LEVELS, Stall
from multitree.sim.cocotb.traffic import collective_of
from multitree.sim.link_model import LinkModel, MemoryTiming
from multitree.sim.rtl.loads import Load, Loader, Upcoming
from multitree.topology.collectives import DTYPES
from multitree.topology.lowering import lowered
from multitree.topology.schedules.schedule import Schedule

__all__ = ["InterfaceBench", "NetworkBench", "draw_buffers"]

Buffers = npt.NDArray[Any]

_RESET_CYCLES = 8
_MOST_CYCLES = 200_000
_LATENCIES = {"none": (1, 1), "light": (1, 20), "heavy": (1, 60)}
_PAUSES = {"none": 0.0, "light": 0.2, "heavy": 0.6}
_SPREAD = 20
_MEMORY_FLITS = 4096


def draw_buffers(shape: tuple[int, int], dtype: str, rng: np.random.Generator) -> Buffers:
    """Buffers whose sums show the order of additions.

    Parameters
    ----------
    shape : (int, int)
        Ranks, and elements of one of them.
    dtype : str
        "int32", any integers; or "float32" or "bfloat16", numbers spread over 2^-20 to 2^20.
    rng : numpy.random.Generator

    Returns
    -------
    numpy.ndarray, of that shape and type
    """
    if dtype == "int32":
        return rng.integers(-(1 << 31), 1 << 31, size=shape).astype(np.int32)
    numbers = rng.normal(size=shape) * 2.0 ** rng.integers(-_SPREAD, _SPREAD + 1, size=shape)
    return numbers.astype(DTYPES[dtype])


class _Rank:
    """Host and memory of one interface of a design."""

    def __init__(
        self, dut: Any, prefix: str, rank: int, config: Config, rng: random.Random, stalls: str
    ) -> None:
        self.config, self.rank = config, rank
        self._dut, self._prefix, self._rng, self._level = dut, prefix, rng, stalls
        self.host = RegisterHost(dut, prefix, rank=rank)
        self.memory: Memory | AxiMemory | None = None
        self.stalls: list[Stall] = []

    def attach(self, num_flits: int) -> Memory | None:
        """Put a memory of that size behind the interface; returns it if it is to be stepped."""
        flits = np.zeros((num_flits, self.config.flit_bytes), np.uint8)
        ports = range(self.config.num_ports)
        native = [f"{self._prefix}memory_{port}_" for port in ports]
        if hasattr(self._dut, f"{native[0]}write_valid"):
            self.stalls = [Stall(self._rng) for _ in range(len(CHANNELS) * len(ports))]
            self.choose_stalls()
            memory = Memory(
                self._dut,
                native,
                flits,
                seed=self._rng.getrandbits(32),
                stalls=self.stalls,
                latencies=_LATENCIES[self._level],
            )
            self.memory = memory
            return memory
        axi = AxiMemory(
            self._dut,
            flits.tobytes(),
            pause_chance=_PAUSES[self._level],
            flit_bytes=self.config.flit_bytes,
        )
        for port in ports:
            axi.serve(f"{self._prefix}m_axi_{port}_send")
            axi.serve(f"{self._prefix}m_axi_{port}_receive")
        self.memory = axi
        return None

    def choose_stalls(self) -> None:
        """Draw a class of stalls for each channel."""
        for stall in self.stalls:
            stall.choose(self._rng.choice(LEVELS[self._level]))

    async def load(self, load: Load, row: Buffers) -> None:
        """Put a buffer into memory, and load and commit the table for it."""
        assert self.memory is not None
        base, room = load.settings.window_base, len(self.memory.flits)
        end = base + load.settings.window_flits
        if end > room:
            raise ValueError(f"memory_flits must be at least {end} for this collective, not {room}")
        self.memory.flits[base:end] = 0
        flits = as_flits(row, load.num_flits, self.config.flit_bytes)
        self.memory.flits[base : base + load.num_flits] = flits
        await self.host.load(load.tables[self.rank], load.settings)

    def check(self, load: Load, wanted: Buffers) -> None:
        """Hold the buffer in memory against what it should be."""
        assert self.memory is not None
        base = load.settings.window_base
        right = as_flits(wanted, load.num_flits, self.config.flit_bytes)
        check_rank(load, self.rank, self.memory.flits[base : base + load.num_flits], right)


class _Bench:
    """What both benches share: clock, reset, loads and data."""

    def __init__(
        self,
        dut: Any,
        schedule: Schedule,
        config: Config,
        seed: int,
        stalls: str,
        memory_flits: int,
    ) -> None:
        self.dut, self.schedule, self.config = dut, schedule, config
        self._memory_flits = min(memory_flits, 1 << config.address_width)
        self.rng, self.data_rng = random.Random(seed), np.random.default_rng(seed)
        self.level = stalls
        self._loader = Loader(
            lowered(schedule).topology,
            config,
            LinkModel(
                flit_bytes=config.flit_bytes,
                buffer_flits=config.buffer_flits,
                submessage_flits=config.submessage_flits,
            ),
            MemoryTiming(),
        )

    def load_of(self, upcoming: Upcoming, **modes: Any) -> Load:
        """What all ranks load for a collective, with time limits that stalls do not reach.

        Parameters
        ----------
        upcoming : Upcoming
        **modes
            As for `sim.rtl.loads.Loader.load`, such as `lockstep`.
        """
        return self._loader.load(upcoming, max_skew_cycles=_MOST_CYCLES, **modes)

    async def _start(self, models: Sequence[Any], ranks: Sequence[_Rank]) -> None:
        """Clock and reset; `models` do their part from now on."""
        dut = self.dut
        dut.rst.value = 1
        Clock(dut.clk, 2, "ns").start()
        memories = [rank.attach(self._memory_flits) for rank in ranks]
        await ClockCycles(dut.clk, _RESET_CYCLES)
        await FallingEdge(dut.clk)
        dut.rst.value = 0
        stepped = [model for model in (*models, *memories) if model is not None]
        cocotb.start_soon(run_models(dut.clk, *stepped))


class InterfaceBench(_Bench):
    """One interface as the top: its links are driven by the rest of the network, in Python.

    Parameters
    ----------
    dut : handle
        The interface.
    schedule : Schedule
        What is run.
    rank : int
        Whose interface it is.
    config : Config
        Of the interface.
    seed : int
        Of everything that is drawn.
    stalls : str
        One of `stalls.LEVELS`.
    memory_flits : int
        Size of a rank's memory, where its interface can address as much.
    """

    def __init__(
        self,
        dut: Any,
        schedule: Schedule,
        rank: int,
        config: Config,
        *,
        seed: int,
        stalls: str = "light",
        memory_flits: int = _MEMORY_FLITS,
    ) -> None:
        super().__init__(dut, schedule, config, seed, stalls, memory_flits)
        self.number = 0
        topology = lowered(schedule).topology
        ports = [topology.port_of_link(int(link)) for link in topology.ports(rank)]
        self.network = PartnerNetwork(dut, config, self.rng, ports=ports)
        self.rank = _Rank(dut, "", rank, config, self.rng, stalls)

    async def start(self) -> None:
        """Clock, reset, and wait until all links are up."""
        await self._start([self.network], [self.rank])
        await until(
            self.dut.clk, lambda: self.network.up, most_cycles=_MOST_CYCLES, what="links are up"
        )

    async def run(self, upcoming: Upcoming, buffers: Buffers, **modes: Any) -> Buffers:
        """Run one collective; the partners begin when they like, before the start, too.

        Parameters
        ----------
        upcoming : Upcoming
        buffers : numpy.ndarray, shape (num_ranks, num_elements)
            What all ranks have.
        **modes
            As for `load_of`.

        Returns
        -------
        numpy.ndarray
            What all ranks have then.

        Raises
        ------
        AssertionError
            If a flit, a message or memory is not as defined, or nothing comes to an end.
        """
        load, rank = self.load_of(upcoming, **modes), self.rank
        for end in self.network.ends.values():
            end.data_stall.choose(self.rng.choice(LEVELS[self.level]))
            end.credit_stall.choose(self.rng.choice(LEVELS[self.level]))
        rank.choose_stalls()
        await rank.load(load, buffers[rank.rank])
        self.network.play(collective_of(load, rank.rank, buffers, self.config, number=self.number))
        await ClockCycles(self.dut.clk, self.rng.randrange(1, 200))
        assert await rank.host.run(_MOST_CYCLES), await rank.host.fault()
        await until(
            self.dut.clk,
            lambda: self.network.idle,
            most_cycles=_MOST_CYCLES,
            what="all messages are out",
        )
        self.number += 1
        wanted = expected([upcoming], buffers, self.config.flit_bytes)
        rank.check(load, wanted[rank.rank])
        await rank.host.acknowledge()
        return wanted


class NetworkBench(_Bench):
    """Every interface of a network: the design's pins begin with ``rank_0_`` and so on.

    Parameters
    ----------
    dut : handle
        The network.
    schedule : Schedule
    config : Config
        Of the interfaces.
    seed : int
        Of everything that is drawn.
    stalls : str
        One of `stalls.LEVELS`.
    memory_flits : int
        Size of a rank's memory, where its interface can address as much.
    """

    def __init__(
        self,
        dut: Any,
        schedule: Schedule,
        config: Config,
        *,
        seed: int,
        stalls: str = "light",
        memory_flits: int = _MEMORY_FLITS,
    ) -> None:
        super().__init__(dut, schedule, config, seed, stalls, memory_flits)
        self.ranks = [
            _Rank(dut, f"rank_{rank}_", rank, config, self.rng, stalls)
            for rank in range(schedule.topology.num_ranks)
        ]

    async def start(self) -> None:
        """Clock and reset."""
        await self._start([], self.ranks)

    async def run(
        self, upcoming: Upcoming, buffers: Buffers, *, most_skew_cycles: int = 500, **modes: Any
    ) -> Buffers:
        """Run one collective on all ranks, each of which starts when it likes.

        Parameters
        ----------
        upcoming : Upcoming
        buffers : numpy.ndarray, shape (num_ranks, num_elements)
        most_skew_cycles : int
            From the first start to the last, at most.
        **modes
            As for `load_of`.

        Returns
        -------
        numpy.ndarray
            What all ranks have then.

        Raises
        ------
        AssertionError
            If a rank's memory is not as defined, or nothing comes to an end.
        """
        load = self.load_of(upcoming, **modes)

        async def script(rank: _Rank) -> None:
            rank.choose_stalls()
            await rank.load(load, buffers[rank.rank])
            await ClockCycles(self.dut.clk, self.rng.randrange(1, most_skew_cycles + 2))
            assert await rank.host.run(_MOST_CYCLES), (rank.rank, await rank.host.fault())
            await rank.host.acknowledge()

        for task in [cocotb.start_soon(script(rank)) for rank in self.ranks]:
            await task
        wanted = expected([upcoming], buffers, self.config.flit_bytes)
        for rank in self.ranks:
            rank.check(load, wanted[rank.rank])
        return wanted
