"""A collective under way, and the report of what it cost."""

import itertools
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from multitree.nic.counts import PortCounts, sum_of
from multitree.sim.link_limits import LinkLimit

__all__ = ["Result", "Work", "WorkReport"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class WorkReport:
    """What ran, how long it took and how near it came to the bound; unknown is None.

    Parameters
    ----------
    engine, algorithm, collective : str
        What was asked for, and what ran: nothing is substituted.
    schedule_hash : str
        `Schedule.hash` of the schedule that ran.
    num_ranks : int
        Ranks that took part.
    size_bytes : int
        Bytes of one rank's buffer, without padding.
    dependency : str or None
        What rows waited for: "chunk" or "submessage"; None without a clock.
    cycles : int or None
        From the first rank's start to the last rank's done, table load excluded.
    time_us : float or None
        `cycles` at the link model's clock.
    bandwidth_gbytes_per_s : float or None
        `size_bytes` over `time_us`.
    bound_cycles : float or None
        Cycles that no schedule on this topology can beat.
    ratio_to_bound : float or None
        `cycles` over `bound_cycles`.
    link_utilization : float or None
        Payload flits over links x cycles.
    exact : bool or None
        Whether every rank's memory equals `execute` bit for bit; None if it was not compared.
    wall_seconds, cpu_seconds : float
        Time the engine took on this machine, without the build of a simulator.
    wire_bits_per_flit : int or None
        Bits of a flit on a link: its payload and all that travels with it.
    effective_bandwidth_gbytes_per_s : float or None
        `bandwidth_gbytes_per_s` times payload over wire bits: what is left of it where a link's
        speed is that of all its wires, not of the payload alone.
    loading_cycles : int or None
        Cycles that hosts took before to load tables and settings, 0 where they were loaded;
        None without interfaces.
    ports : tuple of tuples of PortCounts, or None
        What interfaces counted, per rank and port that has a link; None without interfaces.
    limits : tuple of LinkLimit
        Links that interfaces cannot use at their speed, and why; empty without a clock.
    """

    engine: str
    algorithm: str
    collective: str
    schedule_hash: str
    num_ranks: int
    size_bytes: int
    dependency: str | None
    cycles: int | None
    time_us: float | None
    bandwidth_gbytes_per_s: float | None
    bound_cycles: float | None
    ratio_to_bound: float | None
    link_utilization: float | None
    exact: bool | None
    wall_seconds: float
    cpu_seconds: float
    wire_bits_per_flit: int | None = None
    effective_bandwidth_gbytes_per_s: float | None = None
    loading_cycles: int | None = None
    ports: tuple[tuple[PortCounts, ...], ...] | None = None
    limits: tuple[LinkLimit, ...] = ()

    @property
    def totals(self) -> PortCounts | None:
        """Counters of all ports of all ranks together: sums, and the least credits left."""
        return None if self.ports is None else sum_of(itertools.chain(*self.ports))

    def __str__(self) -> str:
        """The report as a few lines for people, with units."""
        lines = [
            f"{self.collective} of {self.size_bytes} bytes per rank on {self.num_ranks} ranks: "
            f"{self.algorithm}, engine {self.engine}"
            + ("" if self.dependency is None else f", dependency {self.dependency}"),
        ]
        if self.cycles is not None:
            lines.append(
                f"  {self.cycles} cycles = {_number(self.time_us)} us, "
                f"{_number(self.bandwidth_gbytes_per_s)} GB/s"
            )
            bound = "no bound is known for this collective"
            if self.bound_cycles is not None:
                ratio = _number(self.ratio_to_bound)
                bound = f"{ratio} x the bound of {_number(self.bound_cycles, digits=8)} cycles"
            lines.append(f"  {bound}, links used {_number(self.link_utilization, scale=100)} %")
            lines.append(
                f"  {_number(self.effective_bandwidth_gbytes_per_s)} GB/s were all "
                f"{self.wire_bits_per_flit} wire bits of a flit paid for"
                + ("" if self.loading_cycles is None else _loading(self.loading_cycles))
            )
            lines += (f"  limited: {limit}" for limit in self.limits)
        else:
            lines.append("  cycles unknown: this engine has no clock")
        if self.totals is not None:
            lines.append(f"  {_stalls(self.totals)}")
        verdict = {True: "yes, bit for bit", False: "NO", None: "not compared"}[self.exact]
        lines.append(f"  equal to execute: {verdict}")
        lines.append(
            f"  {self.wall_seconds:.3f} s on this machine ({self.cpu_seconds:.3f} CPU s), "
            f"schedule {self.schedule_hash[:16]}"
        )
        return "\n".join(lines)


def _loading(cycles: int) -> str:
    """What came before the collective, and is not in its cycles."""
    return f"; tables and settings loaded before in {cycles} cycles"


def _stalls(totals: PortCounts) -> str:
    """How long ports waited for what, and how near they came to be without a credit."""
    return (
        f"port-cycles waited: dependency {totals.stall_dependency_cycles}, "
        f"credit {totals.stall_credit_cycles}, memory {totals.stall_memory_cycles}, "
        f"sibling {totals.stall_sibling_cycles}; least credits left {totals.credits_low}"
    )


def _number(value: float | None, *, scale: float = 1, digits: int = 4) -> str:
    """Some significant digits, or the word unknown."""
    return "unknown" if value is None else f"{value * scale:.{digits}g}"


class Work(Generic[Result]):
    """A collective that was started: wait for its result, then read its report.

    Made by a `Communicator`. Errors of the engine come up in `wait` and in `report`, with the
    rank, port and flow they name.
    """

    def __init__(self, future: Future[tuple[Result, WorkReport]]) -> None:
        self._future = future

    def wait(self, timeout_seconds: float | None = None) -> Result:
        """Wait for the end and return the result.

        Parameters
        ----------
        timeout_seconds : float, optional
            Longest time to wait; without it, until the engine ends. Engines end by themselves,
            with a fault where something hangs.

        Returns
        -------
        array, tensor or list of them
            In the form of the collective's input, of which type checkers know.

        Raises
        ------
        TimeoutError
            If `timeout_seconds` pass first; the collective goes on.
        DeviceError, ScheduleError, TopologyError
            What the engine raised.
        """
        return self._future.result(timeout_seconds)[0]

    def done(self) -> bool:
        """Whether `wait` would return at once."""
        return self._future.done()

    @property
    def report(self) -> WorkReport:
        """The report; waits for the end of the collective."""
        return self._future.result()[1]
