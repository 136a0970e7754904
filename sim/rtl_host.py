"""The hosts of a network in RTL: load tables, start collectives, wait."""

from collections.abc import Callable, Collection, Sequence

import numpy as np
import numpy.typing as npt

from multitree.nic.counts import PortCounts, count_addresses, counts_of
from multitree.nic.faults import DeviceError
from multitree.nic.program import ACKNOWLEDGE, COMMIT, START, RunSettings, run_writes, table_writes
from multitree.nic.registers import ADDRESS, register_field
from multitree.nic.table import Table
from multitree.sim.diagnosis import check_responses, check_status
from multitree.sim.host_op import HostOp
from multitree.sim.network import Network

__all__ = ["RtlHost"]

IntArray = npt.NDArray[np.int64]

_CYCLES_PER_ACCESS = 32
_CYCLES_PER_ENTRY = 8


class RtlHost:
    """Does on every rank's register bus what a driver does, all ranks at the same time.

    Parameters
    ----------
    network : Network
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._tables: Sequence[Table] | None = None
        self._settings: RunSettings | None = None

    def load(self, tables: Sequence[Table], settings: RunSettings) -> None:
        """Load and commit the ranks' tables, or only write the settings where they stay.

        Parameters
        ----------
        tables : sequence of Table
            One per rank; the same object as the last time stands for the same tables.
        settings : RunSettings

        Raises
        ------
        DeviceError
            If an interface refuses its table; names row or flow.
        """
        writes = run_writes(settings)
        known = self._settings is not None and self._settings.window_flits == settings.window_flits
        if known and tables is self._tables:
            self._write_all([writes] * len(tables))
            self._settings = settings
            return
        # A commit checks every row and flow, and clears a count per flow and op.
        entries = max(table.num_rows + table.num_flows for table in tables)
        check_cycles = _CYCLES_PER_ENTRY * (entries + 2 * self._network.config.num_flows)
        self._write_all(
            [[*table_writes(table), *writes, COMMIT] for table in tables],
            then=[HostOp.wait(check_cycles), HostOp.read(ADDRESS["STATUS"])],
            then_cycles=check_cycles,
        )
        for rank in range(len(tables)):
            status = int(self._network.results(rank)["value"][-1])
            claimed = register_field("STATUS", "claimed", status)
            if claimed or not register_field("STATUS", "committed", status):
                raise DeviceError(f"Rank {rank}: table is not accepted, status {status:#x}")
        self._tables, self._settings = tables, settings

    def _write_all(
        self,
        writes: Sequence[Sequence[tuple[int, int]]],
        then: Sequence[HostOp] = (),
        then_cycles: int = 0,
    ) -> None:
        """Write registers on every rank, do something more, and see that all is well."""
        network, first_cycle = self._network, self._network.cycle
        for rank, rank_writes in enumerate(writes):
            ops = [HostOp.write(address, value) for address, value in rank_writes]
            network.set_script(rank, [*ops, *then])
        accesses = max(len(rank_writes) for rank_writes in writes) + len(then)
        finished = network.run(_CYCLES_PER_ACCESS * accesses + then_cycles)
        check_responses(network)
        # With nothing running an interrupt can only be a fault.
        if not finished or (network.irq_cycles() >= first_cycle).any():
            check_status(network, finished=finished, first_cycle=first_cycle, running=False)

    def run(
        self,
        num_collectives: int,
        *,
        skews: Sequence[int],
        idle_ranks: Collection[int],
        max_cycles: int,
        progress: Callable[[int], None] | None,
    ) -> tuple[IntArray, IntArray]:
        """Start the loaded table on one window after the other; every rank on its own.

        Parameters
        ----------
        num_collectives : int
            Windows, one behind the other from address 0.
        skews : sequence of int
            Cycles that each rank waits before its first start.
        idle_ranks : collection of int
            Ranks that never start.
        max_cycles : int
            When to give up.
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
        for rank, skew in enumerate(skews):
            ops = [HostOp.wait(skew)] if skew else []
            for k in range(num_collectives):
                ops += self._collective(k)
            network.set_script(rank, [] if rank in idle_ranks else ops)
        finished = network.run(max_cycles, progress=progress)
        check_responses(network)
        results = [network.results(rank) for rank in range(len(skews))]
        scripts = [network.script(rank) for rank in range(len(skews))]
        check_status(network, finished=finished, first_cycle=first_cycle, running=True)
        start = np.zeros((num_collectives, len(skews)), dtype=np.int64)
        done = np.zeros_like(start)
        for rank, (script, result) in enumerate(zip(scripts, results, strict=True)):
            starts = np.flatnonzero((script["address"] == START[0]) & (script["value"] == START[1]))
            if len(starts) != num_collectives:
                raise DeviceError(f"Rank {rank}: was not started, and nobody missed it")
            start[:, rank] = result["begin"][starts]
            done[:, rank] = result["end"][starts + 1]
        return start, done

    def counts(self) -> tuple[tuple[PortCounts, ...], ...]:
        """Read what every rank's ports that have a link counted in the last collective."""
        network, topology = self._network, self._network.topology
        addresses = [
            count_addresses(len(topology.ports(rank))) for rank in range(topology.num_ranks)
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

    def _collective(self, k: int) -> list[HostOp]:
        """What a host does for one collective."""
        ops = [HostOp.write(*START), HostOp.wait_irq(), HostOp.write(*ACKNOWLEDGE)]
        if k and self._settings is not None:
            base = self._settings.window_base + k * self._settings.window_flits
            ops.insert(0, HostOp.write(ADDRESS["WINDOW_BASE"], base))
        return ops
