"""Interfaces large enough for a schedule, and the links that they hold back."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.hw.codes import flit_fields
from multitree.nic.driver.config import LIMITS, MOST_SHARED_ROWS, Config
from multitree.nic.driver.table import MOST_STEPS
from multitree.sim.timing.inputs import check_private
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.arrays import largest_group
from multitree.topology.checks.proofs import check_switch_ports
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError, TopologyError
from multitree.topology.lowering import as_sent
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "MAX_PORTS",
    "LinkLimit",
    "beyond_interfaces",
    "config_for",
    "driven_gbytes_per_s",
    "emulated_dtypes",
    "least_sizes",
    "link_limits",
    "rows_per_rank",
    "wire_bits_per_flit",
]

# It is that of `LIMITS`: a flow entry has fields for eight child ports.
MAX_PORTS = 8
_DEFAULTS = Config()


def config_for(
    topology: Topology,
    link_model: LinkModel,
    *,
    num_rows: int = 0,
    num_flows: int = 0,
    memory_flits: int = 0,
    num_classes: int = 0,
    max_children: int = 1,
    num_waves: int = 1,
    dtypes: tuple[str, ...] = _DEFAULTS.dtypes,
    modes: tuple[str, ...] = _DEFAULTS.modes,
) -> Config:
    """Sizes of an interface for every rank of a topology.

    Ports are rounded up to 2, 4 or 8, the rest to powers of two from the defaults on, so that most
    networks share one compiled interface. Interfaces that repeat tables do so for as many waves as
    their counts have room for. Raises TopologyError, ScheduleError or ValueError for what no
    interface can be built for.
    """
    most = int(topology.num_ports[: topology.num_ranks].max(initial=0))
    shared = num_classes > 0 or topology.num_switches > 0
    _check_network(topology, most, num_waves, shared)
    if shared:
        check_private(topology, link_model)
    queue_flits, most_flits = link_model.memory_queue_flits, LIMITS["memory_queue_flits"][1]
    if queue_flits > most_flits:
        raise ValueError(
            f"Memory must answer within the {most_flits} cycles that interfaces have queues for, "
            f"reads and writes together, not {link_model.memory_read_cycles} and "
            f"{link_model.memory_write_cycles}"
        )
    config = Config(
        num_ports=_power_of_two(most, 2),
        flit_bytes=link_model.flit_bytes,
        table_depth=_power_of_two(num_rows, _DEFAULTS.table_depth),
        num_flows=_power_of_two(num_flows, _DEFAULTS.num_flows),
        buffer_flits=link_model.buffer_flits_on(topology),
        submessage_flits=link_model.submessage_flits,
        memory_queue_flits=queue_flits,
        # The window's length has to fit, not only the last address (`SettingsCheck`).
        address_width=max(_DEFAULTS.address_width, memory_flits.bit_length()),
        dtypes=dtypes,
        # Links are shared wherever there is a switch, even if no route of the schedule takes it.
        num_classes=max(num_classes, min(topology.num_switches, 1)),
        max_children=_power_of_two(max_children, _DEFAULTS.max_children),
        forward_flits=link_model.forward_flits,
        adder_stages=link_model.add_cycles,
        modes=modes,
    )
    if num_waves == 1:
        return config
    return replace(config, wave_width=max(config.most_wave_width, (num_waves - 1).bit_length()))


def _check_network(topology: Topology, most_ports: int, num_waves: int, shared: bool) -> None:
    """Raise if no interface suits the ranks of a network."""
    if most_ports > MAX_PORTS:
        raise TopologyError(
            f"{topology.name}: a rank has {most_ports} links, an interface at most {MAX_PORTS} "
            "ports"
        )
    check_switch_ports(topology)
    if num_waves > 1 and shared:
        raise ScheduleError(
            f"{topology.name}: waves must be one in interfaces on shared links, not {num_waves}; "
            "in Python `lowering.unrolled` writes them out"
        )


def wire_bits_per_flit(schedule: Schedule, link_model: LinkModel) -> int:
    """Bits that a link carries in a cycle: a flit's payload and its sideband, for as many virtual
    channels as the schedule has. `valid` and the credits that come back are not counted: coding and
    idle words of a physical layer stand in their place.
    """
    sent = as_sent(schedule)
    num_classes = 0
    if sent.topology.num_switches:
        num_classes = int(sent.route_classes.max(initial=0)) + 1
    num_vcs = Config(num_classes=num_classes).num_vcs
    return sum(flit_fields(flit_bytes=link_model.flit_bytes, num_vcs=num_vcs).values())


def rows_per_rank(schedule: Schedule, *, lockstep: bool = False) -> npt.NDArray[np.int64]:
    """Rows of each rank's table, int64 of shape (num_ranks,), of a schedule `as_sent`; in lockstep
    with one for each step in which the rank sends nothing.
    """
    num_rows = np.bincount(schedule.src, minlength=schedule.topology.num_ranks)
    if lockstep:
        src, _ = np.unique(np.stack([schedule.src, schedule.step]), axis=1)
        num_rows += schedule.num_steps - np.bincount(src, minlength=len(num_rows))
    return num_rows


def least_sizes(schedule: Schedule, num_flits: int, *, lockstep: bool = False) -> dict[str, Any]:
    """Sizes that a schedule needs of `config_for`, all but the types of elements, for the
    interfaces of the network that `as_sent` asks for; `num_flits` is that of one rank's buffer.
    """
    schedule = as_sent(schedule)
    sizes = {
        "num_rows": int(rows_per_rank(schedule, lockstep=lockstep).max(initial=0)),
        "num_flows": schedule.num_flows,
        "memory_flits": num_flits,
        "num_classes": 0,
        "max_children": 1,
        "num_waves": 1,
    }
    if schedule.num_waves > 1:
        num_stages = (schedule.num_steps - 1) // schedule.period + 1
        sizes["num_waves"] = max(schedule.num_waves, num_stages)
        sizes["memory_flits"] = schedule.padded(num_flits)
    if schedule.topology.num_switches:
        flow, dst = (column[schedule.op == Op.REDUCE] for column in (schedule.flow, schedule.dst))
        adds = flow.astype(np.int64) * schedule.topology.num_ranks + dst
        # What comes out of order waits behind the buffer.
        slots = np.bincount(dst, np.diff(schedule.chunks(num_flits))[flow])
        sizes["memory_flits"] = num_flits + int(slots.max(initial=0))
        sizes["num_classes"] = int(schedule.route_classes.max(initial=0)) + 1
        sizes["max_children"] = max(1, largest_group(adds))
    return sizes


def beyond_interfaces(schedule: Schedule, sizes: Mapping[str, int]) -> str | None:
    """Why no interface holds a schedule's tables of some `least_sizes`, however large it is built:
    sizes and limits; None where one does.
    """
    most_rows = MOST_SHARED_ROWS if sizes["num_classes"] else LIMITS["table_depth"][1]
    most = {
        "rows": (sizes["num_rows"], most_rows),
        "flows": (sizes["num_flows"], LIMITS["num_flows"][1]),
        "steps": (schedule.num_steps, MOST_STEPS),
        "waves": (sizes["num_waves"], _most_waves(sizes)),
        "flits of memory": (sizes["memory_flits"], (1 << LIMITS["address_width"][1]) - 1),
    }
    return (
        "; ".join(
            f"{what} must be at most {limit}, not {number}"
            for what, (number, limit) in most.items()
            if number > limit
        )
        or None
    )


def _most_waves(sizes: Mapping[str, int]) -> int:
    """Most waves that a table can be repeated for, by the width of counts; one over switches."""
    if sizes["num_classes"]:
        return 1
    needed = max(_DEFAULTS.address_width, int(sizes["memory_flits"]).bit_length())
    address_width = min(needed, LIMITS["address_width"][1])
    return 1 << replace(_DEFAULTS, address_width=address_width).most_wave_width


def emulated_dtypes(dtype: str) -> tuple[str, ...]:
    """Types that an emulated interface is built with, so that few are compiled: int32 and float32
    without bfloat16, whose adders cost the emulator a quarter more time, or all where it is asked
    for.
    """
    without = tuple(name for name in _DEFAULTS.dtypes if name != "bfloat16")
    return without if dtype in without else _DEFAULTS.dtypes


def _power_of_two(number: int, least: int) -> int:
    """The least power of two that is neither below `number` nor below `least`."""
    return max(least, 1 << max(number - 1, 0).bit_length())


# Speeds are quotients of floats: closer than this they are equal.
_ALIKE = 1 + 1e-9


@dataclass(frozen=True)
class LinkLimit:
    """Links of equal speed and latency that carry less than they could."""

    link: int  # the first of them, and its ends
    src: int
    dst: int
    num_links: int
    bandwidth_gbytes_per_s: float
    latency_ns: float
    reached_gbytes_per_s: float  # at most
    # "interface": a port sends at most one flit per cycle; "buffer": at most a buffer of flits is
    # in flight in the round trip of a credit.
    by: str
    buffer_flits: int
    needed_flits: int  # of a buffer that would be no limit

    def __str__(self) -> str:
        """A sentence for people."""
        which = f"link {self.link} ({self.src} -> {self.dst})"
        if self.num_links > 1:
            which += f" and {self.num_links - 1} more like it"
        text = (
            f"{which}: {self.reached_gbytes_per_s:.4g} of {self.bandwidth_gbytes_per_s:.4g} GB/s "
            "is the most that is used, since "
        )
        if self.by == "interface":
            return text + "ports send at most a flit per cycle (--clock-ghz, --flit-bytes)"
        most = LIMITS["buffer_flits"][1]
        more = "there is none larger" if self.needed_flits > most else "--buffer-flits"
        return text + (
            f"a buffer of {self.buffer_flits} flits is less than the {self.needed_flits} of a "
            f"round trip of {self.latency_ns:.4g} ns each way ({more})"
        )


def driven_gbytes_per_s(topology: Topology, link_model: LinkModel) -> npt.NDArray[np.float64]:
    """The most that interfaces drive each link at, float64 (num_links,): a flit per cycle, and a
    buffer of flits in a round trip; no more than the link's speed.
    """
    by_credits = link_model.buffer_flits_on(topology) / link_model.round_trip_cycles(topology)
    reached = link_model.link_gbytes_per_s * np.minimum(by_credits, 1.0)
    return np.minimum(topology.bandwidth_gbytes_per_s, reached)


def link_limits(topology: Topology, link_model: LinkModel) -> tuple[LinkLimit, ...]:
    """Links that interfaces cannot keep busy, by speed and latency, the lowest link first.

    >>> from multitree.topology.families.direct import ring
    >>> link_limits(ring(4), LinkModel())
    ()
    """
    port = link_model.link_gbytes_per_s
    depth = link_model.buffer_flits_on(topology)
    around = link_model.round_trip_cycles(topology)
    asked = topology.bandwidth_gbytes_per_s
    by_credits = port * depth / around
    reached = np.minimum(port, by_credits)
    short = np.flatnonzero(asked > reached * _ALIKE)
    kinds = np.stack([asked, topology.latency_ns], axis=1)[short]
    _, first, count = np.unique(kinds, axis=0, return_index=True, return_counts=True)
    found = []
    for at, num_links in sorted(zip(first.tolist(), count.tolist(), strict=True)):
        link = int(short[at])
        fed = min(asked[link], port)
        found.append(
            LinkLimit(
                link=link,
                src=int(topology.links[link, 0]),
                dst=int(topology.links[link, 1]),
                num_links=num_links,
                bandwidth_gbytes_per_s=float(asked[link]),
                latency_ns=float(topology.latency_ns[link]),
                reached_gbytes_per_s=float(reached[link]),
                by="buffer" if by_credits[link] < port else "interface",
                buffer_flits=depth,
                # A rounding error is subtracted, for which `ceil` would ask for one flit more.
                needed_flits=int(np.ceil(around[link] * fed / port - 1e-9)),
            )
        )
    return tuple(found)
