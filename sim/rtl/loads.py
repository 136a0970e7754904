"""What the hosts of a network load for a collective: tables, settings, limits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from multitree.nic.config import Config
from multitree.nic.program import RunSettings
from multitree.nic.table import Table, compile_table
from multitree.sim.inputs import Buffers, check_buffers, check_store_and_forward, lowered_onto
from multitree.sim.link_model import LinkModel, MemoryTiming
from multitree.topology.checks.verify import termination_cycles
from multitree.topology.collectives import DTYPES, Op
from multitree.topology.lowering import header_only_ops, with_header_only_phase
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "Limits",
    "Load",
    "Loader",
    "Upcoming",
    "check_queue",
    "limits_of",
]

# How wide these bounds are is measured: docs/verification.md has the worst time over bound of the
# fault campaign.
_PER_MESSAGE_CYCLES = 128
_PER_COLLECTIVE_CYCLES = 512
# The registers WATCHDOG_CYCLES and FIRST_ARRIVAL_CYCLES have 32 bits.
_MAX_WATCHDOG_CYCLES = 2**32 - 1
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


@dataclass(frozen=True)
class Limits:
    """Bounds on one collective in cycles.

    They are for the time from the first rank's start to the last one's done, for any interface
    without progress, and in lockstep for a step.
    """

    collective_cycles: int
    watchdog_cycles: int
    step_cycles: int | None

    def settings(
        self, dtype: str, window_flits: int, link_model: LinkModel, op: str = "sum"
    ) -> RunSettings:
        """Settings of a collective at address 0, whose window has a rank's buffer and its slots."""
        return RunSettings(
            dtype=dtype,
            window_base=0,
            window_flits=window_flits,
            watchdog_cycles=self.watchdog_cycles,
            # The bound includes the skew of the starts, so that a late neighbour does not trip it.
            first_arrival_cycles=self.watchdog_cycles,
            lockstep=self.step_cycles is not None,
            step_cycles=self.step_cycles or 0,
            dependency=link_model.dependency,
            flow_control=link_model.flow_control,
            reduction=op,
        )

    def run_cycles(self, num_collectives: int) -> int:
        """Bound on a whole run, including a watchdog's fault and its diagnosis."""
        each = self.collective_cycles + _PER_COLLECTIVE_CYCLES
        return num_collectives * each + 2 * self.watchdog_cycles + _PER_COLLECTIVE_CYCLES


def limits_of(
    schedule: Schedule,
    num_flits: int,
    link_model: LinkModel,
    *,
    memory_timing: MemoryTiming,
    queue_flits: int,
    max_skew_cycles: int,
    lockstep: bool,
) -> Limits:
    """Bounds of a verified schedule, by `termination_cycles`.

    `memory_timing` is what memory takes beyond its latency, `queue_flits` bounds the flits that a
    channel has in flight there, and `max_skew_cycles` is between the first and the last start.
    """
    latency = int(link_model.latency_cycles(schedule.topology).max(initial=1))
    interval = math.ceil(link_model.cycles_per_flit(schedule.topology).max(initial=1.0))
    read = link_model.memory_read_cycles + memory_timing.extra_cycles
    write = link_model.memory_write_cycles + memory_timing.extra_cycles
    around = read + write + _PER_MESSAGE_CYCLES
    # A flit takes as long as the slowest of link, credits and memory with its bounded queues.
    by_credits = -(-(2 * latency + around) // link_model.buffer_flits_on(schedule.topology))
    by_memory = -(-around // queue_flits)
    # The channel draws anew in each cycle, so that this is the mean wait of a request, rounded up.
    stalls = (
        1 if memory_timing.stall_percent == 0 else 1 + 100 // (100 - memory_timing.stall_percent)
    )
    # A packet's head is a flit for at least one flit of payload.
    flits = 2 if link_model.flow_control == "packet" else 1
    bound = termination_cycles(
        schedule,
        num_flits=num_flits,
        latency_cycles=latency,
        overhead_cycles=around * stalls,
        max_skew_cycles=max_skew_cycles,
        cycles_per_flit=max(interval, by_credits, by_memory) * stalls * flits,
    )
    step_cycles = link_model.estimated_step_cycles(schedule, num_flits) if lockstep else None
    collective = bound + schedule.num_steps * (step_cycles or 0) + _PER_COLLECTIVE_CYCLES
    # No interface can wait longer for anything than the whole collective takes.
    return Limits(collective, min(collective, _MAX_WATCHDOG_CYCLES), step_cycles)


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
        limit_cycles = min(together, _MAX_WATCHDOG_CYCLES)
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
