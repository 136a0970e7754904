"""What the hosts of a network load for a collective: tables, settings, limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from multitree.nic.driver.commands import RunSettings
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import Table, compile_table
from multitree.sim.timing.inputs import (
    Buffers,
    check_buffers,
    check_store_and_forward,
    lowered_onto,
)
from multitree.sim.timing.limits import MAX_WATCHDOG_CYCLES, Limits, limits_of
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.topology.collectives import DTYPES, Op
from multitree.topology.lowering import header_only_ops, with_header_only_phase
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Load", "Loader", "Upcoming", "check_queue"]

_KEPT = 4


@dataclass(frozen=True, eq=False)
class Upcoming:
    """Collective that runs next, so that it can be loaded while another one runs.

    Parameters
    ----------
    schedule : Schedule
        One that `verify` accepts.
    num_elements : int
        Of one rank's buffer.
    dtype : str
        "int32", "float32" or "bfloat16".
    op : str
        "sum" or "max".
    dependency : str, optional
        Replaces the link model's.
    """

    schedule: Schedule
    num_elements: int
    dtype: str
    op: str = "sum"
    dependency: str | None = None


@dataclass(frozen=True, eq=False)
class Load:
    """Tables and settings of all ranks' interfaces for a collective.

    Parameters
    ----------
    schedule : Schedule
        On the network's topology, with the header-only phase on shared links.
    tables : sequence of Table
        One per rank; the same object stands for the same tables.
    settings : RunSettings
        Equal on all ranks.
    limits : Limits
    num_flits : int
        Of one rank's buffer; on shared links the window holds slots behind it.
    """

    schedule: Schedule
    tables: Sequence[Table]
    settings: RunSettings
    limits: Limits
    num_flits: int


class Loader:
    """Compiler of loads for one network, which keeps the last four schedules' tables.

    Parameters
    ----------
    topology : Topology
    config : Config
        The interfaces.
    link_model : LinkModel
    timing : MemoryTiming
        Of memory beyond its latency.
    """

    def __init__(
        self, topology: Topology, config: Config, link_model: LinkModel, timing: MemoryTiming
    ) -> None:
        self._topology = topology
        self._config = config
        self._link_model = link_model
        self._timing = timing
        self._tables: dict[tuple[str, int, bool], Sequence[Table]] = {}

    def load(
        self,
        upcoming: Upcoming,
        *,
        max_skew_cycles: int = 0,
        lockstep: bool = False,
        tables: Sequence[Table] | None = None,
    ) -> Load:
        """Compile what a collective needs, or return the tables that were compiled before.

        Parameters
        ----------
        upcoming : Upcoming
        max_skew_cycles : int
            Between the first and the last start, at most.
        lockstep : bool
            Steps take their estimated time at least.
        tables : sequence of Table, optional
            In place of the schedule's own.

        Returns
        -------
        Load

        Raises
        ------
        ScheduleError, TopologyError
            If the interfaces cannot hold it, or on shared links must not send whole messages.
        ValueError
            If it is for another network.
        """
        schedule, dtype = upcoming.schedule, upcoming.dtype
        model = replace(
            self._link_model, dependency=upcoming.dependency or self._link_model.dependency
        )
        header_only: tuple[Op, ...] = ()
        if self._config.shared:
            check_store_and_forward(schedule, model)
            header_only, schedule = (
                header_only_ops(schedule.collective),
                with_header_only_phase(schedule),
            )
        schedule = lowered_onto(schedule, self._topology)
        num_flits = model.num_flits(upcoming.num_elements, DTYPES[dtype].itemsize)
        limits = limits_of(
            schedule,
            num_flits,
            model,
            memory_timing=self._timing,
            queue_flits=self._config.memory_queue_flits,
            max_skew_cycles=max_skew_cycles,
            lockstep=lockstep,
        )
        held = tables or self._tables_of(schedule, num_flits, lockstep)
        window = max(table.end_flits for table in held)
        settings = limits.settings(dtype, window, model, upcoming.op)
        settings = replace(settings, header_only=header_only, num_waves=schedule.num_waves)
        return Load(schedule, held, settings, limits, num_flits)

    def load_all(
        self, queue: Sequence[Upcoming], *, max_skew_cycles: int = 0, **modes: Any
    ) -> list[Load]:
        """Compile what collectives need that run one after the other.

        Parameters
        ----------
        queue : sequence of Upcoming
        max_skew_cycles : int
            Between the first and the last start of the first one, at most.
        **modes
            As for `load`.

        Returns
        -------
        list of Load
            With windows one behind the other, and time limits that allow for ranks still at the
            collective before.
        """
        # `Upcoming` compares by identity: what is queued twice is compiled once.
        different = dict.fromkeys(queue)
        loads = {
            upcoming: self.load(upcoming, max_skew_cycles=max_skew_cycles, **modes)
            for upcoming in different
        }
        longest = max(load.settings.window_flits for load in loads.values())
        # A rank may wait for a neighbour that is still at the first collective of the queue.
        together = sum(load.limits.watchdog_cycles for load in loads.values())
        limit_cycles = min(together, MAX_WATCHDOG_CYCLES)
        return [
            replace(
                loads[upcoming],
                settings=replace(
                    loads[upcoming].settings,
                    # `memory_of` lays the buffers out at this distance.
                    window_base=k * longest,
                    watchdog_cycles=limit_cycles,
                    first_arrival_cycles=limit_cycles,
                ),
            )
            for k, upcoming in enumerate(queue)
        ]

    def _tables_of(self, schedule: Schedule, num_flits: int, lockstep: bool) -> Sequence[Table]:
        """Tables of all ranks; the same objects for an equal schedule and size."""
        key = schedule.hash, num_flits, lockstep
        if key not in self._tables:
            compiled = [
                compile_table(schedule, rank, num_flits, self._config, lockstep=lockstep)
                for rank in range(schedule.topology.num_ranks)
            ]
            # A dict keeps the order of insertion: the oldest goes first.
            while len(self._tables) >= _KEPT:
                del self._tables[next(iter(self._tables))]
            self._tables[key] = compiled
        return self._tables[key]


def check_queue(
    queue: Sequence[Upcoming], buffers: Sequence[Buffers], dtypes: Sequence[str]
) -> None:
    """Raise TypeError or ValueError unless each collective has buffers of its length and type."""
    if len(queue) != len(buffers):
        raise ValueError(f"Buffers must be one per collective, {len(queue)}, not {len(buffers)}")
    for upcoming, buffer in zip(queue, buffers, strict=True):
        check_buffers(upcoming.schedule, [buffer], dtypes)
        wanted = upcoming.num_elements, upcoming.dtype
        found = buffer.shape[1], buffer.dtype.name
        if wanted != found:
            raise ValueError(f"Buffers must be of length and type {wanted}, not {found}")
