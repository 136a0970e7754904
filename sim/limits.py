"""How long a collective may take in RTL before something must be wrong."""

import math
from dataclasses import dataclass

import numpy as np

from multitree.nic.program import RunSettings
from multitree.sim.link_model import LinkModel, MemoryTiming
from multitree.topology.checks.verify import termination_cycles
from multitree.topology.networks.bounds import link_occupancy
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Limits", "estimated_step_cycles", "limits_of"]

# How wide these bounds are is measured: docs/verification.md has the worst time over bound of the
# fault campaign.
_PER_MESSAGE_CYCLES = 128
_PER_COLLECTIVE_CYCLES = 512
# The registers WATCHDOG_CYCLES and FIRST_ARRIVAL_CYCLES have 32 bits.
_MAX_WATCHDOG_CYCLES = 2**32 - 1


@dataclass(frozen=True)
class Limits:
    """Bounds on one collective.

    Parameters
    ----------
    collective_cycles : int
        From the first rank's start to the last rank's done, if nothing fails.
    watchdog_cycles : int
        Longest time that any interface may go without progress.
    step_cycles : int or None
        In lockstep, what a step is estimated to take.
    """

    collective_cycles: int
    watchdog_cycles: int
    step_cycles: int | None

    def settings(
        self, dtype: str, window_flits: int, link_model: LinkModel, op: str = "sum"
    ) -> RunSettings:
        """The settings of a collective whose first buffer lies at address 0.

        Parameters
        ----------
        dtype : str
            "int32", "float32" or "bfloat16".
        window_flits : int
            Of one rank's buffer, and of its slots on shared links.
        link_model : LinkModel
            Its `dependency` and `flow_control`.
        op : str
            "sum" or "max".
        """
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
        """Bound on a whole run, a fault of the watchdog and what it reads included."""
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
    """Bounds that follow from the schedule, by `termination_cycles`.

    Parameters
    ----------
    schedule : Schedule
        One that `verify` accepts.
    num_flits : int
        Of one rank's buffer.
    link_model : LinkModel
        Links, buffers and memory.
    memory_timing : MemoryTiming
        What memory may take beyond its latency.
    queue_flits : int
        Flits a channel may have in flight in memory.
    max_skew_cycles : int
        The most that one rank starts after another.
    lockstep : bool
        Steps take their estimated time at least.

    Returns
    -------
    Limits
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
    step_cycles = estimated_step_cycles(schedule, num_flits, link_model) if lockstep else None
    collective = bound + schedule.num_steps * (step_cycles or 0) + _PER_COLLECTIVE_CYCLES
    # No interface can wait longer for anything than the whole collective takes.
    return Limits(collective, min(collective, _MAX_WATCHDOG_CYCLES), step_cycles)


def estimated_step_cycles(schedule: Schedule, num_flits: int, link_model: LinkModel) -> int:
    """What a step of lockstep lasts: a slot of the longest chunk, and a link's latency.

    A slot is what a chunk takes of a link, divided by the steps for which builders hold that link:
    the slower it is, the more, see `link_occupancy`.

    Parameters
    ----------
    schedule : Schedule
    num_flits : int
        Of one rank's buffer.
    link_model : LinkModel
    """
    longest = int(np.diff(schedule.chunks(num_flits)).max(initial=0))
    slots = link_occupancy(schedule.topology)
    interval = float((link_model.cycles_per_flit(schedule.topology) / slots).max(initial=0))
    latency = int(link_model.latency_cycles(schedule.topology).max(initial=1))
    return math.ceil((longest + 1) * interval) + latency
