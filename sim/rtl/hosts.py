"""The hosts of a network in RTL: load tables, start collectives, wait."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.nic.faults import DeviceError
from multitree.nic.program import (
    ACKNOWLEDGE,
    COMMIT,
    RESET,
    START,
    PortCounts,
    RunSettings,
    count_addresses,
    counts_of,
    reset_writes,
    run_writes,
    table_writes,
)
from multitree.nic.registers import ADDRESS, register_field
from multitree.nic.table import Table
from multitree.sim.emulator.native import OpKind
from multitree.sim.emulator.network import HostOp, Network, await_links
from multitree.sim.faults.diagnosis import check_responses, check_status
from multitree.sim.faults.injection import Injection, flipped, inject, resets_of
from multitree.sim.rtl.loads import Load

__all__ = ["RtlHost"]

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_CYCLES_PER_ACCESS = 32
_CYCLES_PER_ENTRY = 9
_POLL_CYCLES = 32
_MOST_DRAIN_READS = 1000


class RtlHost:
    """Does on every rank's register bus what a driver does, all ranks at the same time.

    Parameters
    ----------
    network : Network

    Attributes
    ----------
    loading_cycles : int
        What the last `load` took: to write tables and settings, until all ranks had checked them.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self.loading_cycles = 0
        # What the active or, when it was loaded ahead, the next bank and the registers hold.
        self._tables: Sequence[Table] | None = None
        self._settings: RunSettings | None = None

    def load(self, load: Load, faults: Collection[Injection] = ()) -> None:
        """Load and commit the ranks' tables, or only what is not there yet.

        Parameters
        ----------
        load : Load
            The same tables object as the last time stands for the same tables.
        faults : collection of Injection
            Of which flipped writes strike here.

        Raises
        ------
        DeviceError
            If an interface refuses its table; names row or flow. If a link does not come up;
            names rank and port.
        """
        network, first_cycle = self._network, self._network.cycle
        num_ranks, scripts = len(load.tables), self._writes(load, faults)
        # What was loaded ahead may still be checked, its collective's predecessor being over early.
        locked, committed = self._write_checked([[]] * num_ranks, load)
        self.loading_cycles = 0
        if scripts[0]:
            locked, committed = self._write_checked(scripts, load)
            self.loading_cycles = network.cycle - first_cycle
        if (locked | ~committed).any():
            # A fault from before the load raised no interrupt during it.
            check_status(network, finished=True, first_cycle=first_cycle, running=False)
        for rank in np.flatnonzero(locked | ~committed):
            raise DeviceError(f"Rank {rank}: table is not accepted")
        await_links(network)

    def _check_cycles(self, load: Load) -> int:
        """Bound on a commit: it checks every row and flow, and clears a count per flow and op."""
        entries = max(table.num_rows + table.num_flows for table in load.tables)
        return _CYCLES_PER_ENTRY * (entries + 2 * self._network.config.num_flows)

    def reset(self, ranks: Collection[int] | None = None, sequence: int = 0) -> None:
        """Reset ranks by their hosts, and forget what was loaded.

        All of them unless it is said which ones; the number is that of their next collective.

        Raises
        ------
        DeviceError
            If an interface is still busy when memory must have answered; names rank.
        """
        self._tables = self._settings = None
        ranks = range(self._network.topology.num_ranks) if ranks is None else ranks
        writes = reset_writes(sequence)
        for _ in range(_MOST_DRAIN_READS):
            words = self._read_after(writes, ranks, "STATUS")
            if not any(register_field("STATUS", "busy", word) for word in words.values()):
                return
            writes = []
        rank = next(rank for rank, word in words.items() if register_field("STATUS", "busy", word))
        raise DeviceError(f"Rank {rank}: still busy after a reset, memory has not answered")

    def rejoin(self, rank: int) -> None:
        """Reset one rank between collectives, to go on with the number that it has.

        Raises
        ------
        DeviceError
            If something was not delivered, so that it would be lost; names a rank.
        """
        ranks = range(self._network.topology.num_ranks)
        for other, word in self._read_after([], ranks, "STATUS").items():
            if not register_field("STATUS", "delivered", word):
                raise DeviceError(f"Rank {other}: must have delivered what it sent before a rejoin")
        self.reset([rank], self._read_after([], [rank], "SEQUENCE")[rank])

    def _read_after(
        self, writes: Sequence[tuple[int, int]], ranks: Collection[int], name: str
    ) -> dict[int, int]:
        """Let some ranks' hosts write, wait for as long as an access takes, and read a register."""
        network = self._network
        read = [HostOp.wait(_CYCLES_PER_ACCESS), HostOp.read(ADDRESS[name])]
        for rank in range(network.topology.num_ranks):
            ops = [HostOp.write(*write) for write in writes] + read
            network.set_script(rank, ops if rank in ranks else [])
        network.run((4 + len(writes)) * _CYCLES_PER_ACCESS)
        return {rank: int(network.results(rank)["value"][-1]) for rank in ranks}

    def _writes(
        self, load: Load, faults: Collection[Injection] = ()
    ) -> list[list[tuple[int, int]]]:
        """What each rank lacks: nothing, other settings, or tables with them, and a commit."""
        held, writes = self._settings, run_writes(load.settings)
        loaded = self._tables is load.tables
        self._tables, self._settings = load.tables, load.settings
        if held is None or held.window_flits != load.settings.window_flits or not loaded:
            tables = [
                flipped(table_writes(table), rank, faults) for rank, table in enumerate(load.tables)
            ]
            return [[*table, *writes, COMMIT] for table in tables]
        changed = [new for new, old in zip(writes, run_writes(held), strict=True) if new != old]
        return [changed] * len(load.tables)

    def _write_checked(
        self, writes: Sequence[Sequence[tuple[int, int]]], load: Load
    ) -> tuple[BoolArray, BoolArray]:
        """Write registers on every rank, and read STATUS until no commit is waiting."""
        locked, committed = self._write_all(writes, 0)
        until = self._network.cycle + self._check_cycles(load)
        while locked.any() and self._network.cycle < until:
            locked, committed = self._write_all([[]] * len(writes), _POLL_CYCLES)
        return locked, committed

    def _write_all(
        self, writes: Sequence[Sequence[tuple[int, int]]], then_cycles: int
    ) -> tuple[BoolArray, BoolArray]:
        """Write registers on every rank, wait, and see which are claimed and committed then."""
        network, first_cycle = self._network, self._network.cycle
        then = [HostOp.wait(then_cycles), HostOp.read(ADDRESS["STATUS"])]
        for rank, rank_writes in enumerate(writes):
            ops = [HostOp.write(address, value) for address, value in rank_writes]
            network.set_script(rank, [*ops, *then])
        accesses = max(len(rank_writes) for rank_writes in writes) + len(then)
        finished = network.run(_CYCLES_PER_ACCESS * accesses + then_cycles)
        check_responses(network)
        # With nothing running an interrupt can only be a fault.
        if not finished or (network.irq_cycles() >= first_cycle).any():
            check_status(network, finished=finished, first_cycle=first_cycle, running=False)
        words = [int(network.results(rank)["value"][-1]) for rank in range(len(writes))]
        locked, committed = (
            np.array([register_field("STATUS", name, word) != 0 for word in words])
            for name in ("locked", "committed")
        )
        return locked, committed

    def run(
        self,
        loads: Sequence[Load],
        *,
        skews: Sequence[int],
        idle_ranks: Collection[int],
        max_cycles: int,
        then: Load | None,
        faults: Collection[Injection],
        progress: Callable[[int], None] | None,
    ) -> tuple[IntArray, IntArray]:
        """Start one collective after the other, the first of them loaded; every rank on its own.

        Another table is loaded while the collective before it runs, and started at once, to begin
        two cycles after that one; the same table is started when that one is done.

        Parameters
        ----------
        loads : sequence of Load
            What runs; their windows lie in memory one behind the other.
        skews : sequence of int
            Cycles that each rank waits before its first start.
        idle_ranks : collection of int
            Ranks that never start.
        max_cycles : int
            When to give up, without what it takes to load other tables.
        then : Load or None
            Loaded and committed while the last collective runs.
        faults : collection of Injection
            What goes wrong from now on.
        progress : callable or None
            Called with the cycles run, now and then.

        Returns
        -------
        start, done : int64 arrays, shape (num_collectives, num_ranks)
            Cycle in which the host began to write the start, and the first in which it saw the
            interrupt.

        Raises
        ------
        DeviceError
            For the earliest fault, or for a rank that is not done in time.
        """
        network, first_cycle = self._network, self._network.cycle
        scripts, loading_cycles = self._scripts(loads, then, faults)
        inject(network, faults)
        resets = resets_of(faults)
        for rank, skew in enumerate(skews):
            ops = [HostOp.wait(skew)] if skew else []
            if rank in resets:
                ops += [HostOp.write(*START), HostOp.wait(max(resets[rank] - skew, 0))]
                ops.append(HostOp.write(*RESET))
            else:
                ops += scripts[rank]
            network.set_script(rank, [] if rank in idle_ranks else ops)
        finished = network.run(max_cycles + loading_cycles, progress=progress)
        check_responses(network)
        ran = [(network.script(rank), network.results(rank)) for rank in range(len(skews))]
        check_status(network, finished=finished, first_cycle=first_cycle, running=True)
        for rank in resets:
            raise DeviceError(f"Rank {rank}: its host reset it before it was done")
        return self._times(ran, len(loads))

    def _scripts(
        self, loads: Sequence[Load], then: Load | None, faults: Collection[Injection]
    ) -> tuple[list[list[HostOp]], int]:
        """What every host does from its first start on; cycles it may take to load tables."""
        start, end = HostOp.write(*START), [HostOp.wait_irq(), HostOp.write(*ACKNOWLEDGE)]
        scripts = [[start] for _ in loads[0].tables]
        loading_cycles = checking_cycles = 0
        for number, load in enumerate([*loads[1:], then], start=1):
            writes = [[]] * len(scripts) if load is None else self._writes(load, faults)
            begins, commits = number < len(loads), COMMIT in writes[0]
            # What is queued behind another collective may still be checked when that is done.
            wait = [HostOp.wait(checking_cycles)] if checking_cycles and writes[0] else []
            for script, of_rank in zip(scripts, writes, strict=True):
                ops = [HostOp.write(*write) for write in of_rank] + [start] * begins
                script += end + ops if begins and not commits else wait + ops + end
            if commits:
                loading_cycles += _CYCLES_PER_ACCESS * max(map(len, writes)) + checking_cycles
            checking_cycles = self._check_cycles(load) if load and begins and commits else 0
        return scripts, loading_cycles

    def _times(
        self, scripts: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]], num_collectives: int
    ) -> tuple[IntArray, IntArray]:
        """Starts and interrupts of all ranks, out of what their hosts did and when."""
        start = np.zeros((num_collectives, len(scripts)), dtype=np.int64)
        done = np.zeros_like(start)
        for rank, (script, result) in enumerate(scripts):
            begun = np.flatnonzero((script["address"] == START[0]) & (script["value"] == START[1]))
            if len(begun) != num_collectives:
                raise DeviceError(f"Rank {rank}: was not started, and nobody missed it")
            start[:, rank] = result["begin"][begun]
            waits = np.flatnonzero(script["kind"] == OpKind.WAIT_IRQ)
            done[:, rank] = result["end"][waits]
        # A host that was still loading came too late to see the last interrupt go up.
        done[-1] = self._network.irq_cycles()
        return start, done

    def counts(self) -> tuple[tuple[PortCounts, ...], ...]:
        """Read what every rank's ports that have a link counted in the last collective."""
        network, topology = self._network, self._network.topology
        addresses = [
            count_addresses(topology.link_ports[topology.ports(rank)].tolist())
            for rank in range(topology.num_ranks)
        ]
        for rank, places in enumerate(addresses):
            network.set_script(rank, [HostOp.read(place) for place in places])
        finished = network.run(_CYCLES_PER_ACCESS * max(map(len, addresses)))
        check_responses(network)
        if not finished:
            raise DeviceError("Interfaces must answer on their register bus, but one does not")
        return tuple(
            counts_of([int(value) for value in network.results(rank)["value"]])
            for rank in range(topology.num_ranks)
        )
