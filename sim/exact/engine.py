"""The exact engine: the cycles that the RTL takes, without its data."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import head_format
from multitree.sim.exact.library import run_model
from multitree.sim.exact.structs import LINK, PARAMETERS
from multitree.sim.exact.tables import tables_of
from multitree.sim.timing.inputs import check_store_and_forward
from multitree.sim.timing.limits import Limits, limits_of
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.model import Run, Times
from multitree.sim.timing.sizing import beyond_interfaces, config_for, least_sizes
from multitree.sim.timing.trace import Trace
from multitree.topology.collectives import OPS_OF
from multitree.topology.errors import ScheduleError, TopologyError
from multitree.topology.lowering import as_sent, header_only_ops
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["exact"]


def exact(
    schedule: Schedule,
    num_flits: int,
    link_model: LinkModel | None = None,
    *,
    lockstep: bool = False,
    start: Sequence[int] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Trace:
    """Time every transfer of a schedule as the RTL does, cycle by cycle, without data.

    Every block of every interface, with its registers, queues and arbiters, goes through the same
    cycles as its Verilog, and so do links and memories. Left out is what has no influence on time
    where nothing fails: data, check bits, faults. Tables are loaded and links up before the first
    start, as in an `RtlSession` that is new.

    Parameters
    ----------
    schedule : Schedule
        One that `verify` accepts.
    num_flits : int
        Of one rank's padded buffer.
    link_model : LinkModel, optional
        Links, buffers and memory.
    lockstep : bool
        Interfaces wait out the estimated time of every step.
    start : sequence of int, optional
        Cycle of each rank's start; all 0 by default.
    progress : callable, optional
        Called with the cycles run, now and then.

    Returns
    -------
    Trace
        Equal to that of the rtl engine in every row.

    Raises
    ------
    TypeError
        If it is no schedule, but for example one tree of it, or the number of flits no integer.
    ScheduleError
        If no interface holds the schedule's tables, switches do not carry its routes, or on shared
        links messages are not sent whole.
    TopologyError
        If a rank or a switch has more ports than there can be, or a link has no reverse.
    ValueError
        If the number of flits or a start is negative, or a size is beyond an interface's range.
    DeviceError
        If the model cannot be compiled here.

    Notes
    -----
    Time grows with cycles times ports; blocks at rest are skipped. Compiled once, in some CPU
    seconds.

    Examples
    --------
    >>> from multitree.topology.families.direct import torus
    >>> from multitree.topology.algorithms.multitree import build_multitree
    >>> exact(build_multitree(torus(2, 2)), 16).cycles
    719
    """
    run = Run.of(schedule, num_flits, link_model, lockstep, start)
    sent_as, model = as_sent(schedule), run.model
    config = _config(run, sent_as)
    limits = limits_of(
        sent_as,
        run.num_flits,
        model,
        memory_timing=MemoryTiming(),
        queue_flits=config.memory_queue_flits,
        max_skew_cycles=int(run.start.max(initial=0)),
        lockstep=lockstep,
    )
    header_only = header_only_ops(schedule.collective) if config.shared else ()
    tables = tables_of(sent_as, run.num_flits, lockstep=lockstep, header_only=header_only)
    parameters = _parameters(sent_as, config, model, limits)
    links = _links(sent_as.topology, model)
    bound: dict[str, Any] = {"max_cycles": limits.run_cycles(1), "progress": progress}
    sent, arrived, done = run_model(parameters, tables, links, run.start, **bound)
    # Messages of a header-only phase are no transfers of the schedule.
    carries = np.isin(sent_as.op, OPS_OF[schedule.collective])
    return run.trace("exact", Times(sent[:, carries], arrived[:, carries], done))


def _config(run: Run, sent_as: Schedule) -> Config:
    """Interfaces that the rtl engine would be built of."""
    schedule, num_flits, model = run.schedule, run.num_flits, run.model
    topology = sent_as.topology
    if not topology.is_symmetric:
        link = int(np.flatnonzero(topology.reverse < 0)[0])
        raise TopologyError(f"{topology.name}: link {link} has no reverse link")
    sizes = least_sizes(schedule, num_flits, lockstep=run.lockstep)
    beyond = beyond_interfaces(schedule, sizes)
    if beyond is not None:
        raise ScheduleError(f"{schedule.topology.name}: {beyond}")
    config = config_for(topology, model, **sizes)
    if config.shared:
        check_store_and_forward(schedule, model)
        _check_heads(sent_as, config, num_flits)
    return config


def _check_heads(sent_as: Schedule, config: Config, num_flits: int) -> None:
    """Raise unless heads on shared links have room for sizes."""
    chunk, most = np.diff(sent_as.chunks(num_flits)).max(), head_format(config).mask("size")
    if chunk > most:
        name = sent_as.topology.name
        raise ScheduleError(f"{name}: flits of a chunk must be at most {most}, not {chunk}")


def _parameters(
    sent_as: Schedule, config: Config, model: LinkModel, limits: Limits
) -> npt.NDArray[np.void]:
    """Sizes and times of the model."""
    topology = sent_as.topology
    given = {
        "num_ranks": topology.num_ranks,
        "num_switches": topology.num_switches,
        "num_links": topology.num_links,
        "num_switch_ports": int(topology.num_ports[topology.num_ranks :].max(initial=0)),
        "num_transfers": sent_as.num_transfers,
        "num_waves": sent_as.num_waves,
        "repeats": int(config.wave_width > 0),
        "read_cycles": model.memory_read_cycles,
        "write_cycles": model.memory_write_cycles,
        "add_cycles": config.adder_stages,
        "cut_through": int(model.dependency == "submessage"),
        "packets": int(model.flow_control == "packet"),
        "lockstep": int(limits.step_cycles is not None),
        "step_cycles": limits.step_cycles or 0,
    }
    names = PARAMETERS.names or ()
    return np.array(tuple(given.get(name, getattr(config, name, 0)) for name in names), PARAMETERS)


def _links(topology: Topology, model: LinkModel) -> npt.NDArray[np.void]:
    """Ends of every link, and its times in cycles, as `Network` wires them."""
    latency, reverse = model.latency_cycles(topology), topology.reverse
    links = np.zeros(topology.num_links, LINK)
    links["src"], links["dst"] = topology.links.T
    links["src_port"] = topology.link_ports
    links["dst_port"] = topology.link_ports[reverse]
    links["latency"] = latency
    links["credit_latency"] = np.minimum(latency, latency[reverse])
    links["interval"] = np.round(model.cycles_per_flit(topology) * 65536)
    return links
