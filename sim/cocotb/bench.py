"""Whole benches: one interface between driven links, or a whole network."""

import random
from collections.abc import Sequence
from typing import Any, Required, TypedDict, Unpack

import cocotb
import numpy as np
import numpy.typing as npt
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge

from multitree.nic.driver.config import Config
from multitree.sim.cocotb.case import LEVELS, worst
from multitree.sim.cocotb.coverage import BOUNDARIES, LENGTHS, Coverage, bench_bins
from multitree.sim.cocotb.partner import PartnerNetwork
from multitree.sim.cocotb.pins import Model, located, run_models, until
from multitree.sim.cocotb.rank import Rank
from multitree.sim.cocotb.reference import collective_of, expected
from multitree.sim.rtl.loads import Load, Loader, Upcoming
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.topology.collectives import DTYPES, Op
from multitree.topology.lowering import lowered
from multitree.topology.schedules.schedule import Schedule

__all__ = ["BenchOptions", "InterfaceBench", "NetworkBench"]

Buffers = npt.NDArray[Any]

_CLOCK_NS, _LINK_CLOCK_NS = 2, 3
_RESET_CYCLES = 8
_LINKS_UP_CYCLES = 2000
_LATE_START_CYCLES = 200
# More than a host takes to load a table, by which ranks get apart.
_LOADING_CYCLES = 20_000
_FALL_CHANCE = 0.5
# More than what `Rank` and link ends draw of their stalls, on an average.
_TIMINGS = {
    "none": MemoryTiming(extra_cycles=1),
    "light": MemoryTiming(extra_cycles=20, stall_percent=50),
    "heavy": MemoryTiming(extra_cycles=100, stall_percent=90),
}


class BenchOptions(TypedDict, total=False):
    """Options of both benches: `seed` of all draws, `stalls` from `LEVELS` ("light" by default),
    `memory_flits` of a rank (4096 by default, at most what the interface addresses), and `coverage`
    with the groups of `bench_bins`."""

    seed: Required[int]
    stalls: str
    memory_flits: int
    coverage: Coverage


class _Bench:
    """Clocks, reset, loads and data of both benches; `cycle` counts from the end of reset."""

    def __init__(
        self, dut: Any, schedule: Schedule, config: Config, **options: Unpack[BenchOptions]
    ) -> None:
        self.dut, self.schedule, self.config = dut, schedule, config
        seed = options["seed"]
        self.rng, self.data_rng = random.Random(seed), np.random.default_rng(seed)
        self.level, self.cycle = options.get("stalls", "light"), 0
        self.coverage = options.get("coverage") or bench_bins(config, self.level)
        self._memory_flits = min(options.get("memory_flits", 4096), 1 << config.address_width)
        model = LinkModel(
            flit_bytes=config.flit_bytes,
            buffer_flits=config.buffer_flits,
            submessage_flits=config.submessage_flits,
        )
        topology = lowered(schedule).topology
        self._loader = Loader(topology, config, model, _TIMINGS[self.level])

    def _rank(self, rank: int, prefix: str = "") -> Rank:
        """Host and memory of a rank, made before the clock runs."""
        return Rank(
            self.dut,
            prefix,
            rank,
            self.config,
            self.rng,
            stalls=self.level,
            memory_flits=self._memory_flits,
        )

    def step(self) -> None:
        self.cycle += 1

    def load_of(self, upcoming: Upcoming, **modes: Any) -> Load:
        """Load of all ranks for a collective, with time limits that stalls do not reach."""
        return self._loader.load(upcoming, **{"max_skew_cycles": _LATE_START_CYCLES} | modes)

    async def _start(self, *models: Model) -> None:
        """Start clocks, reset, and step `models` from the end of reset on."""
        dut, crossed = self.dut, hasattr(self.dut, "link_clk")
        dut.rst.value = 1
        Clock(dut.clk, _CLOCK_NS, "ns").start()
        if crossed:
            dut.link_rst.value = 1
            Clock(dut.link_clk, _LINK_CLOCK_NS, "ns").start()
        await ClockCycles(dut.clk, _RESET_CYCLES)
        if crossed:
            await FallingEdge(dut.link_clk)
            dut.link_rst.value = 0
        await FallingEdge(dut.clk)
        dut.rst.value = 0
        cocotb.start_soon(run_models(dut.clk, self, *models))

    def _count(self, upcoming: Upcoming) -> None:
        """Count length, type and reduction of a collective."""
        num_bytes = upcoming.num_elements * DTYPES[upcoming.dtype].itemsize
        is_part = num_bytes % self.config.flit_bytes > 0
        length = LENGTHS[is_part if num_bytes else 2]
        self.coverage.hit("length", length=length)
        self.coverage.hit("type x reduction", dtype=upcoming.dtype, reduction=upcoming.op)


class InterfaceBench(_Bench):
    """One interface as the top, its links driven by a model of the rest of the network.

    Parameters
    ----------
    dut : handle
        The interface.
    schedule : Schedule
    rank : int
        Whose interface it is.
    config : Config
        Of the interface.
    seed : int
        Of everything that is drawn.
    stalls : str, optional
        One of `LEVELS`; "light" by default.
    memory_flits : int, optional
        Size of a rank's memory; 4096 by default, at most what the interface addresses.
    coverage : Coverage, optional
        With the groups of `bench_bins`.
    """

    def __init__(
        self,
        dut: Any,
        schedule: Schedule,
        rank: int,
        config: Config,
        **options: Unpack[BenchOptions],
    ) -> None:
        super().__init__(dut, schedule, config, **options)
        self.number = 0
        topology = lowered(schedule).topology
        ports = [topology.port_of_link(int(link)) for link in topology.ports(rank)]
        self.network = PartnerNetwork(dut, config, self.rng, ports=ports)
        self.rank = self._rank(rank)

    async def start(self) -> None:
        """Clock, reset, and wait until all links are up."""
        await self._start(self.network, self.rank)
        with located(lambda: self.cycle):
            await self.rank.probe()
            await self._links_up()

    async def reset(self, first_sequence: int = 0) -> None:
        """Reset the interface by its register; the next collective has that number.

        Flits in flight are lost. The other ends of the links fall now and then, too.
        """
        self.network.meet(first_sequence)
        self.number = 0
        for end in self.network.ends.values():
            end.drop()
            end.tamper = None
            if self.rng.random() < _FALL_CHANCE:
                end.fall()
        with located(lambda: self.cycle):
            await self.rank.host.reset(first_sequence)
            await self._links_up()

    async def _links_up(self) -> None:
        # The interface first: an end that a reset of it has not reached yet is still open.
        last = self.cycle + _LINKS_UP_CYCLES
        while down := await self._down():
            assert self.cycle < last, (
                f"{down}: LINKS says that the link is not up within {_LINKS_UP_CYCLES} cycles"
            )
        await until(
            self.dut.clk,
            lambda: self.network.up,
            most_cycles=_LINKS_UP_CYCLES,
            what=lambda: f"{', '.join(self.network.down)}: link is up",
        )

    async def _down(self) -> str:
        """Links that are not up by the register LINKS."""
        links = await self.rank.host.read("LINKS")
        return ", ".join(f"link_{port}" for port in self.network.ends if not links >> port & 1)

    async def run(self, upcoming: Upcoming, buffers: Buffers, **modes: Any) -> Buffers:
        """Run one collective; the partners may begin before the start.

        Parameters
        ----------
        upcoming : Upcoming
        buffers : numpy.ndarray, shape (num_ranks, num_elements)
            Of all ranks.
        **modes
            As of `Loader.load`, such as `lockstep`.

        Returns
        -------
        numpy.ndarray
            All ranks' buffers afterwards.

        Raises
        ------
        AssertionError
            If a flit, a message or memory is not as defined, or nothing comes to an end.
        """
        # The result is computed, not read back: the other ranks exist only as messages.
        load, rank = self.load_of(upcoming, **modes), self.rank
        ends = self.network.ends.values()
        for stall in [stall for end in ends for stall in (end.data_stall, end.credit_stall)]:
            stall.choose(self.rng.choice(LEVELS[self.level]))
        rank.choose_stalls()
        most_cycles = load.limits.run_cycles(1)
        with located(lambda: self.cycle):
            await rank.load(load, buffers[rank.rank])
            played = collective_of(load, rank.rank, buffers, self.config, number=self.number)
            self.network.play(played)
            await ClockCycles(self.dut.clk, self.rng.randrange(1, _LATE_START_CYCLES))
            await rank.run(most_cycles)
            await until(
                self.dut.clk,
                lambda: self.network.idle,
                most_cycles=most_cycles,
                what=lambda: self.network.missing,
            )
            self.number += 1
            wanted = expected([upcoming], buffers, self.config.flit_bytes)
            rank.check(load, wanted[rank.rank])
        self._count(upcoming)
        for direction, messages in (("in", played.incoming), ("out", played.outgoing)):
            for message, flits in messages.items():
                kind = {"op": Op(message.op).name, "payload": "yes" if len(flits) else "no"}
                self.coverage.hit("message", direction=direction, **kind)
        self._count_stalls()
        return wanted

    def _count_stalls(self) -> None:
        """Count the class of stalls at each boundary."""
        ends = self.network.ends.values()
        held = ([e.credit_stall for e in ends], [e.data_stall for e in ends], self.rank.stalls)
        bins = self.coverage.groups["stall"].axes["stall"]
        for boundary, stalls in zip(BOUNDARIES, held, strict=True):
            kind = worst(stalls)
            if kind is not None and kind in bins:
                self.coverage.hit("stall", boundary=boundary, stall=kind)


class NetworkBench(_Bench):
    """Every interface of a network; pins of the design begin with ``rank_0_`` and so on.

    Parameters
    ----------
    dut : handle
        The network.
    schedule : Schedule
    config : Config
        Of the interfaces.
    **options
        As of `InterfaceBench`.
    """

    def __init__(
        self, dut: Any, schedule: Schedule, config: Config, **options: Unpack[BenchOptions]
    ) -> None:
        super().__init__(dut, schedule, config, **options)
        num_ranks = schedule.topology.num_ranks
        self.ranks = [self._rank(rank, f"rank_{rank}_") for rank in range(num_ranks)]

    async def start(self) -> None:
        """Start clocks, and reset."""
        await self._start(*self.ranks)
        with located(lambda: self.cycle):
            await _together([rank.probe() for rank in self.ranks])

    async def run(
        self, upcoming: Upcoming, buffers: Buffers, *, most_skew_cycles: int = 500, **modes: Any
    ) -> Buffers:
        """Run one collective on all ranks, each of which starts at a random cycle.

        Parameters
        ----------
        upcoming : Upcoming
        buffers : numpy.ndarray, shape (num_ranks, num_elements)
        most_skew_cycles : int
            From the first start to the last, at most.
        **modes
            As of `Loader.load`, such as `lockstep`.

        Returns
        -------
        numpy.ndarray
            All ranks' buffers afterwards.

        Raises
        ------
        AssertionError
            If a rank's memory is not as defined, or nothing comes to an end.
        """
        starts = [self.rng.randrange(1, most_skew_cycles + 2) for _ in self.ranks]
        (found,) = await self.run_each([upcoming], [buffers], starts, **modes)
        return found

    async def run_each(
        self,
        queue: Sequence[Upcoming],
        buffers: Sequence[Buffers],
        start_cycles: Sequence[int],
        **modes: Any,
    ) -> list[Buffers]:
        """Run collectives of any kind one after the other, without a barrier between them.

        Each rank's host loads the next one when the one before is done. Buffers, errors and `modes`
        are those of `run`, for each collective; `start_cycles` are cycles from now, at least 1,
        after which each rank begins to load the first one.
        """
        most_skew_cycles = max(start_cycles) + _LOADING_CYCLES * (len(queue) > 1)
        loads = self._loader.load_all(queue, max_skew_cycles=most_skew_cycles, **modes)
        most_cycles = max(load.limits.run_cycles(len(loads)) for load in loads)
        wanted = [
            expected([each], buffer, self.config.flit_bytes)
            for each, buffer in zip(queue, buffers, strict=True)
        ]

        async def run(rank: Rank) -> None:
            await ClockCycles(self.dut.clk, start_cycles[rank.rank])
            for load, buffer, right in zip(loads, buffers, wanted, strict=True):
                await rank.load(load, buffer[rank.rank])
                await rank.run(most_cycles)
                rank.check(load, right[rank.rank])

        for rank in self.ranks:
            rank.choose_stalls()
        with located(lambda: self.cycle):
            await _together([run(rank) for rank in self.ranks])
        for each in queue:
            self._count(each)
        return wanted


async def _together(coroutines: Sequence[Any]) -> None:
    """Wait for all coroutines; the first that fails ends the wait."""
    for task in [cocotb.start_soon(coroutine) for coroutine in coroutines]:
        await task
