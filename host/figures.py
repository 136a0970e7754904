"""Figures of one run, beside the bound that no schedule can beat."""

import numpy as np

from multitree.host.work import WorkReport
from multitree.nic.counts import PortCounts
from multitree.sim.link_limits import link_limits
from multitree.sim.link_model import LinkModel
from multitree.sim.sizing import wire_bits_per_flit
from multitree.topology.networks.bounds import bound_cycles
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["bound_of", "report_on"]


def bound_of(topology: Topology, size_bytes: int, link_model: LinkModel) -> float:
    """Cycles that no all-reduce of a buffer can beat on a topology.

    Parameters
    ----------
    topology : Topology
    size_bytes : int
        Bytes of one rank's buffer.
    link_model : LinkModel
        Clock and flits.

    Returns
    -------
    float
    """
    return bound_cycles(
        topology,
        link_model.num_flits(size_bytes, 1),
        latency_cycles=link_model.latency_cycles(topology).astype(np.float64),
        flits_per_cycle=topology.bandwidth_gbytes_per_s / link_model.link_gbytes_per_s,
    )


def report_on(
    schedule: Schedule,
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
) -> WorkReport:
    """Put figures beside what an engine counted.

    Parameters
    ----------
    schedule : Schedule
        What ran.
    engine : str
        What ran it.
    size_bytes : int
        Bytes of one rank's buffer.
    link_model : LinkModel
        Clock and flits, and what rows waited for.
    cycles, link_utilization, exact, wall_seconds, cpu_seconds, ports, loading_cycles
        As in `WorkReport`; without cycles there is no time, bandwidth, bound or ratio, and nothing
        is on wires.

    Returns
    -------
    WorkReport
        The bound is that of an all-reduce; other collectives have none yet.
    """
    time_us = bandwidth = bound = ratio = wire_bits = effective = None
    if cycles is not None:
        time_us = link_model.microseconds(cycles)
        bandwidth = size_bytes / time_us / 1000 if time_us else None
        wire_bits = wire_bits_per_flit(schedule, link_model)
        if bandwidth is not None:
            effective = bandwidth * 8 * link_model.flit_bytes / wire_bits
        if schedule.collective == "all_reduce":
            bound = bound_of(schedule.topology, size_bytes, link_model)
            ratio = cycles / bound
    return WorkReport(
        engine=engine,
        algorithm=schedule.algorithm,
        collective=schedule.collective,
        schedule_hash=schedule.hash,
        num_ranks=schedule.topology.num_ranks,
        size_bytes=size_bytes,
        dependency=None if cycles is None else link_model.dependency,
        cycles=cycles,
        time_us=time_us,
        bandwidth_gbytes_per_s=bandwidth,
        bound_cycles=bound,
        ratio_to_bound=ratio,
        link_utilization=link_utilization,
        exact=exact,
        wall_seconds=wall_seconds,
        cpu_seconds=cpu_seconds,
        wire_bits_per_flit=wire_bits,
        effective_bandwidth_gbytes_per_s=effective,
        loading_cycles=loading_cycles,
        ports=ports,
        limits=() if cycles is None else link_limits(schedule.topology, link_model),
    )
