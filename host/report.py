"""What a collective cost: cycles, time, bandwidth, and how near to the bound."""

import itertools
from dataclasses import dataclass

import numpy as np

from multitree.nic.driver.commands import PortCounts, sum_of
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.offload import Host
from multitree.sim.timing.sizing import (
    LinkLimit,
    driven_gbytes_per_s,
    link_limits,
    wire_bits_per_flit,
)
from multitree.topology.checks.implicit import AnySchedule, hash_of
from multitree.topology.networks.bounds import bound_cycles
from multitree.topology.networks.topology import Topology

__all__ = ["UNKNOWN_OFFLOAD", "WorkReport", "bound_of", "bounds_of", "report_on"]

UNKNOWN_OFFLOAD = "no interface can be built that holds its tables, so that an offload is unknown"
"""Of a model's run, which is timed all the same."""


@dataclass(frozen=True)
class WorkReport:
    """What ran, how long it took and how near it came to the bound; unknown is None.

    Parameters
    ----------
    engine, algorithm, collective : str
        What was asked for, and what ran: nothing is substituted.
    schedule_hash : str or None
        `Schedule.hash` of the schedule that ran; None where it has too many rows.
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
    driven_bound_cycles : float or None
        The same where links are no faster than they are driven, see `limits`.
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
        Cycles that hosts took before to load tables and settings, 0 where they were loaded; by
        `Host` for engines with a clock and without hosts, None without a clock.
    offload_us : float or None
        From a call to its return: loading, `time_us`, and what the host's own work takes.
    offload_bandwidth_gbytes_per_s : float or None
        `size_bytes` over `offload_us`, times payload over wire bits.
    ports : tuple of tuples of PortCounts, or None
        What interfaces counted, per rank and port that has a link; None without interfaces.
    limits : tuple of LinkLimit
        Links that interfaces cannot use at their speed, and why; empty without a clock.
    stages : tuple of WorkReport
        Reports of the integer collectives that an invariant sum is made of; else empty.
    """

    engine: str
    algorithm: str
    collective: str
    schedule_hash: str | None
    num_ranks: int
    size_bytes: int
    dependency: str | None
    cycles: int | None
    time_us: float | None
    bandwidth_gbytes_per_s: float | None
    bound_cycles: float | None
    driven_bound_cycles: float | None
    ratio_to_bound: float | None
    link_utilization: float | None
    exact: bool | None
    wall_seconds: float
    cpu_seconds: float
    wire_bits_per_flit: int | None = None
    effective_bandwidth_gbytes_per_s: float | None = None
    loading_cycles: int | None = None
    offload_us: float | None = None
    offload_bandwidth_gbytes_per_s: float | None = None
    ports: tuple[tuple[PortCounts, ...], ...] | None = None
    limits: tuple[LinkLimit, ...] = ()
    stages: "tuple[WorkReport, ...]" = ()

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
            lines.append(
                f"  {_bound(self)}, links used {_number(self.link_utilization, scale=100)} %"
            )
            lines.append(
                f"  {_number(self.effective_bandwidth_gbytes_per_s)} GB/s if the link's "
                f"rate is that of all {self.wire_bits_per_flit} wire bits of a flit"
                + _loading(self.loading_cycles, self.engine)
            )
            if self.offload_us is not None:
                lines.append(
                    f"  {_number(self.offload_us)} us from call to return, "
                    f"{_number(self.offload_bandwidth_gbytes_per_s)} GB/s with all of that"
                )
            lines += (f"  limited: {limit}" for limit in self.limits)
        else:
            lines.append("  cycles unknown: this engine has no clock")
        if self.stages:
            sizes = " and ".join(f"{s.collective} of {s.size_bytes} bytes" for s in self.stages)
            lines.append(f"  invariant: {sizes} of int32")
        if self.totals is not None:
            lines.append(f"  {_stalls(self.totals)}")
        verdict = {True: "yes, bit for bit", False: "NO", None: "not compared"}[self.exact]
        lines.append(f"  equal to execute: {verdict}")
        lines.append(
            f"  {self.wall_seconds:.3f} s on this machine ({self.cpu_seconds:.3f} CPU s), "
            f"schedule {(self.schedule_hash or 'without a hash')[:16]}"
        )
        return "\n".join(lines)


def _bound(report: WorkReport) -> str:
    """How near a run came to the bound, and to that of links as they are driven."""
    if report.bound_cycles is None:
        return "no bound is known for this collective"
    ratio, cycles = _number(report.ratio_to_bound), _number(report.bound_cycles, digits=8)
    text = f"{ratio} x the bound of {cycles} cycles"
    if report.limits and report.cycles and report.driven_bound_cycles:
        ratio = _number(report.cycles / report.driven_bound_cycles)
        cycles = _number(report.driven_bound_cycles, digits=8)
        text += f", {ratio} x the {cycles} at the speed that links are driven at"
    return text


def _loading(cycles: int | None, engine: str) -> str:
    """What came before the collective, and is not in its cycles."""
    if cycles is None:
        # Models time what is beyond interfaces; RTL has no time of loading through the backdoor.
        backdoor = "tables are loaded in no time of hosts, so that an offload is unknown"
        return f"; {backdoor if engine == 'rtl' else UNKNOWN_OFFLOAD}"
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


def bound_of(
    topology: Topology, size_bytes: int, link_model: LinkModel, *, driven: bool = False
) -> float:
    """Cycles that no all-reduce of a buffer, its size in bytes, can beat on a topology, by the
    speeds of its links or by those that they are `driven` at.
    """
    speed = topology.bandwidth_gbytes_per_s
    if driven:
        speed = driven_gbytes_per_s(topology, link_model)
    return bound_cycles(
        topology,
        link_model.num_flits(size_bytes, 1),
        latency_cycles=link_model.latency_cycles(topology).astype(np.float64),
        flits_per_cycle=speed / link_model.link_gbytes_per_s,
    )


def bounds_of(topology: Topology, size_bytes: int, link_model: LinkModel) -> dict[str, float]:
    """Both bounds on an all-reduce, by their keys in reports."""
    given = driven = bound_of(topology, size_bytes, link_model)
    # The bound of an irregular network takes seconds.
    if (driven_gbytes_per_s(topology, link_model) != topology.bandwidth_gbytes_per_s).any():
        driven = bound_of(topology, size_bytes, link_model, driven=True)
    return {"bound_cycles": given, "driven_bound_cycles": driven}


def report_on(
    schedule: AnySchedule,
    *,
    engine: str,
    size_bytes: int,
    link_model: LinkModel,
    cycles: int | None,
    link_utilization: float | None,
    exact: bool | None,
    wall_seconds: float,
    cpu_seconds: float,
    ports: tuple[tuple[PortCounts, ...], ...] | None = None,
    loading_cycles: int | None = None,
    host: Host | None = None,
) -> WorkReport:
    """Relate the cycles that an engine counted to time, bandwidth and bound.

    Only an all-reduce has a bound. Without cycles there are no figures of time. The host says what
    its calls take, by default nothing.
    """
    time_us = bandwidth = bound = driven = ratio = None
    wire_bits = effective = offload = offloaded = None
    if cycles is not None:
        time_us = link_model.microseconds(cycles)
        bandwidth = size_bytes / time_us / 1000 if time_us else None
        wire_bits = wire_bits_per_flit(schedule.tree, link_model)
        if bandwidth is not None:
            effective = bandwidth * 8 * link_model.flit_bytes / wire_bits
        if effective is not None and loading_cycles is not None:
            offload = (host or Host()).offload_us(cycles, loading_cycles, link_model)
            offloaded = effective * time_us / offload
        if schedule.collective == "all_reduce":
            bound, driven = bounds_of(schedule.topology, size_bytes, link_model).values()
            ratio = cycles / bound
    return WorkReport(
        engine=engine,
        algorithm=schedule.algorithm,
        collective=schedule.collective,
        schedule_hash=hash_of(schedule),
        num_ranks=schedule.topology.num_ranks,
        size_bytes=size_bytes,
        dependency=None if cycles is None else link_model.dependency,
        cycles=cycles,
        time_us=time_us,
        bandwidth_gbytes_per_s=bandwidth,
        bound_cycles=bound,
        driven_bound_cycles=driven,
        ratio_to_bound=ratio,
        link_utilization=link_utilization,
        exact=exact,
        wall_seconds=wall_seconds,
        cpu_seconds=cpu_seconds,
        wire_bits_per_flit=wire_bits,
        effective_bandwidth_gbytes_per_s=effective,
        loading_cycles=loading_cycles,
        offload_us=offload,
        offload_bandwidth_gbytes_per_s=offloaded,
        ports=ports,
        limits=() if cycles is None else link_limits(schedule.topology, link_model),
    )
