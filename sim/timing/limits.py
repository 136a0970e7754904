"""Bounds on the cycles of one collective, and the watchdogs that follow."""

import math
from dataclasses import dataclass

from multitree.nic.driver.commands import RunSettings
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.topology.checks.verify import termination_cycles
from multitree.topology.schedules.schedule import Schedule

__all__ = ["MAX_WATCHDOG_CYCLES", "Limits", "limits_of"]

# How wide these bounds are is measured: docs/verification.md has the worst time over bound of the
# fault campaign.
_PER_MESSAGE_CYCLES = 128
_PER_COLLECTIVE_CYCLES = 512
# The registers WATCHDOG_CYCLES and FIRST_ARRIVAL_CYCLES have 32 bits.
MAX_WATCHDOG_CYCLES = 2**32 - 1


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
    return Limits(collective, min(collective, MAX_WATCHDOG_CYCLES), step_cycles)
