"""The hosts of a network in RTL: load tables, start collectives, wait."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from multitree.nic.driver.commands import (
    ACKNOWLEDGE,
    COMMIT,
    RESET,
    START,
    HostOp,
    OpKind,
    PortCounts,
    RunSettings,
    Steps,
    run_writes,
)
from multitree.nic.driver.faults import DeviceError
from multitree.nic.driver.interface_driver import Counters, Driver
from multitree.nic.driver.table import Table, table_writes
from multitree.sim.emulator.accesses import await_idle_links, await_links
from multitree.sim.emulator.network import Network
from multitree.sim.faults.diagnosis import check_responses, check_status
from multitree.sim.faults.injection import Injection, flipped, inject, resets_of
from multitree.sim.rtl.loads import Load

__all__ = ["RtlHost"]

T = TypeVar("T")
IntArray = npt.NDArray[np.int64]

_CYCLES_PER_ACCESS = 32
# A check takes 5 or 7 cycles per row and 8 per flow (nic/control/checker.py).
_CYCLES_PER_ENTRY = 9
_POLL_CYCLES = 32
_MAX_POLLS = 5000
_MOST_CYCLES_BEHIND = 8
"""That accesses are taken to last longer than they do."""


class RtlHost:
    """Hosts of all ranks, which drive their register buses at the same time, as a driver does.

    `loading_cycles` is what the last `load` took: writes of tables and settings, until all ranks
    had checked them.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        ranks = range(network.topology.num_ranks)
        self._drivers = [
            Driver(rank, max_polls=_MAX_POLLS, poll_cycles=_POLL_CYCLES) for rank in ranks
        ]
        self.loading_cycles = 0
        # What the active or, when it was loaded ahead, the next bank and the registers hold.
        self._tables: Sequence[Table] | None = None
        self._settings: RunSettings | None = None

    def load(self, load: Load, faults: Collection[Injection] = ()) -> None:
        """Load and commit the ranks' tables, or only what changed since the last time.

        The same tables object stands for the same tables. DeviceError if an interface refuses its
        table, which names row or flow, or a link does not come up, which names rank and port.
        """
        network, first_cycle = self._network, self._network.cycle
        writes = self._writes(load, faults)

        def loaded(driver: Driver) -> Steps[None]:
            if writes[driver.rank]:
                # What was loaded ahead may still be checked: the collective before it ended early.
                yield from driver.await_unlocked()
                yield HostOp.writes(writes[driver.rank])
            yield from driver.await_check()

        try:
            self._perform(loaded)
        except DeviceError:
            # Perhaps another rank's fault was first.
            check_status(network, finished=True, first_cycle=first_cycle, running=False)
            raise
        self.loading_cycles = network.cycle - first_cycle if writes[0] else 0
        # What a handshake or the collective before left on a slow link would hold up data, or not,
        # by how long loading took: hosts start on idle links.
        await_links(network)
        await_idle_links(network)

    def _check_cycles(self, load: Load) -> int:
        """Bound on a commit, which checks every row and flow, and clears counts per flow and op."""
        entries = max(table.num_rows + table.num_flows for table in load.tables)
        # The tracker clears two counts per flow of the interface, also of flows not in use.
        return _CYCLES_PER_ENTRY * (entries + 2 * self._network.config.num_flows)

    def reset(self, ranks: Collection[int] | None = None, sequence: int = 0) -> None:
        """Reset ranks by their hosts, all by default; `sequence` numbers their next collective.

        DeviceError, with the rank, if an interface is still busy when memory must have answered.
        """
        self._tables = self._settings = None
        self._perform(lambda driver: driver.reset(sequence), ranks)

    def rejoin(self, rank: int) -> None:
        """Reset one rank between collectives, with the number that it has.

        DeviceError, with a rank, if something is not delivered and would be lost.
        """
        self._tables = self._settings = None
        self._perform(Driver.await_delivery)
        self._perform(Driver.rejoin, [rank])

    def _perform(
        self, method: Callable[[Driver], Steps[T]], ranks: Collection[int] | None = None
    ) -> dict[int, T]:
        """Perform a method of `Driver` on ranks at the same time; its results by rank."""
        drivers = self._drivers if ranks is None else [self._drivers[rank] for rank in ranks]
        steps = {driver.rank: method(driver) for driver in drivers}
        values: dict[int, Sequence[int]] = {}
        results: dict[int, T] = {}
        while steps:
            batches: dict[int, Sequence[HostOp]] = {}
            for rank, step in steps.items():
                try:
                    batches[rank] = step.send(values[rank]) if values else next(step)
                except StopIteration as end:
                    results[rank] = end.value
            steps = {rank: steps[rank] for rank in batches}
            if batches:
                values = self._accesses(batches)
        return results

    def _accesses(self, batches: Mapping[int, Sequence[HostOp]]) -> dict[int, Sequence[int]]:
        """Perform one list of operations per host; values read, by rank."""
        network = self._network
        for rank in range(network.topology.num_ranks):
            network.set_script(rank, batches.get(rank, ()))
        longest = max(map(len, batches.values()))
        # How long hosts take must not depend on the length of links, up to which nodes run apart.
        finished = network.run(
            _POLL_CYCLES + _CYCLES_PER_ACCESS * longest, slice_cycles=_MOST_CYCLES_BEHIND
        )
        check_responses(network)
        if not finished:
            raise DeviceError("Interfaces must answer on their register bus, but one does not")
        return {rank: network.results(rank)["value"].tolist() for rank in batches}

    def _writes(
        self, load: Load, faults: Collection[Injection] = ()
    ) -> list[list[tuple[int, int]]]:
        """Writes of each rank: none, other settings, or tables with them, and a commit."""
        # If loading fails, what is noted here is wrong until `reset`, which has to follow.
        held, writes = self._settings, run_writes(load.settings)
        loaded = self._tables is load.tables
        self._tables, self._settings = load.tables, load.settings
        if held is None or held.window_flits != load.settings.window_flits or not loaded:
            # WINDOW_FLITS takes effect with a commit, for which the other bank needs a whole table.
            tables = [table_writes(table) for table in load.tables]
            if faults:
                tables = [flipped(table, rank, faults) for rank, table in enumerate(tables)]
            return [[*table, *writes, COMMIT] for table in tables]
        changed = [new for new, old in zip(writes, run_writes(held), strict=True) if new != old]
        return [changed] * len(load.tables)

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
        """Run collectives one after the other, the first of them loaded; every rank on its own.

        Another table is loaded while the collective before it runs, and begins two cycles after
        that; the same table is started when that one is done. Returns the cycles in which each host
        began to write its start, and first saw the interrupt, of shape (num_collectives,
        num_ranks). DeviceError for the earliest fault, or a rank that is not done in time.
        """
        network, first_cycle = self._network, self._network.cycle
        scripts, loading_cycles = self._scripts(loads, then, faults)
        resets = resets_of(faults) if faults else {}
        if faults:
            inject(network, faults)
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
        """Operations of every host from its first start on, and the cycles of loading therein."""
        start, end = HostOp.write(*START), [HostOp.wait_irq(), HostOp.write(*ACKNOWLEDGE)]
        scripts = [[start] for _ in loads[0].tables]
        loading_cycles = checking_cycles = 0
        for number, load in enumerate([*loads[1:], then], start=1):
            writes = [[]] * len(scripts) if load is None else self._writes(load, faults)
            begins, commits = number < len(loads), COMMIT in writes[0]
            # What is queued behind another collective may still be checked when that is done. A
            # script cannot poll, so that it waits for as long as a check may take.
            wait = [HostOp.wait(checking_cycles)] if checking_cycles and writes[0] else []
            for script, of_rank in zip(scripts, writes, strict=True):
                ops = HostOp.writes(of_rank) + [start] * begins
                # Writes with a commit are made while the collective before runs, others behind it.
                script += end + ops if begins and not commits else wait + ops + end
            if commits:
                loading_cycles += _CYCLES_PER_ACCESS * max(map(len, writes)) + checking_cycles
            checking_cycles = self._check_cycles(load) if load and begins and commits else 0
        return scripts, loading_cycles

    def _times(
        self, scripts: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]], num_collectives: int
    ) -> tuple[IntArray, IntArray]:
        """Starts and interrupts of all ranks, by what their hosts did."""
        start = np.zeros((num_collectives, len(scripts)), dtype=np.int64)
        done = np.zeros_like(start)
        for rank, (script, result) in enumerate(scripts):
            begun = np.flatnonzero((script["address"] == START[0]) & (script["value"] == START[1]))
            if len(begun) != num_collectives:
                raise DeviceError(f"Rank {rank}: start command was never issued")
            start[:, rank] = result["begin"][begun]
            waits = np.flatnonzero(script["kind"] == OpKind.WAIT_IRQ)
            done[:, rank] = result["end"][waits]
        # A host that was still loading came too late to see the last interrupt go up.
        done[-1] = self._network.irq_cycles()
        return start, done

    def counts(self) -> tuple[tuple[PortCounts, ...], ...]:
        """Counters of every rank's ports with a link, of the last collective."""
        topology = self._network.topology

        def counted(driver: Driver) -> Steps[Counters]:
            return driver.counters(topology.link_ports[topology.ports(driver.rank)].tolist())

        return tuple(counters.ports for counters in self._perform(counted).values())
