"""Schedules lowered onto hardware that lacks something they use.

Each function takes a `Schedule` and returns another that does the same: with a router attached to
every rank, with a header-only phase, or with its waves written out as flows.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from multitree.topology.arrays import (
    Int64Array,
    int32s,
    positions_in_group,
    reordered_routes,
    rows_of_entries,
)
from multitree.topology.checks.verify import verify
from multitree.topology.collectives import OPS_OF, ROOTED, Op
from multitree.topology.errors import TopologyError
from multitree.topology.networks.topology import Topology
from multitree.topology.routing.default_routes import routes
from multitree.topology.schedules.columns import ROW_FIELDS
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "as_sent",
    "header_only_ops",
    "lowered",
    "through_switches",
    "unrolled",
    "with_header_only_phase",
    "with_switches",
]

LOCAL_LATENCY_NS = 0.1
"""Between a rank and its switch: the least that a link can take, a cycle."""
# Results of a function, for commands that lower one schedule several times.
_KEPT = 8


def lowered(schedule: Schedule) -> Schedule:
    """The schedule as hardware carries it: through switches where routes lead through ranks.

    Row for row the same transfers. The schedule itself where no rank has to pass on what is not its
    own; a TopologyError where a link that joins a rank has no reverse.
    """
    is_last = np.zeros(len(schedule.route_links), bool)
    is_last[schedule.route_offsets[1:] - 1] = True
    passed = schedule.topology.links[schedule.route_links[~is_last], 1]
    leads_through_ranks = bool((passed < schedule.topology.num_ranks).any())
    return through_switches(schedule) if leads_through_ranks else schedule


@lru_cache(_KEPT)
def through_switches(schedule: Schedule) -> Schedule:
    """The same transfers on `with_switches` of the topology, each route two links longer.

    A message leaves its rank by the local link that belongs to the first link of its route, and
    enters the other by that of the last, in the same virtual-channel class: ports keep their share
    of the traffic. O(num_hops log num_hops).
    """
    topology = schedule.topology
    leaving = _leaving(topology)
    place = np.zeros(topology.num_links, np.int64)
    place[leaving] = np.arange(len(leaving))
    offsets = schedule.route_offsets
    first, last = offsets[:-1], offsets[1:] - 1
    out = topology.num_links + place[schedule.route_links[first]]
    back = topology.reverse[schedule.route_links[last]]
    into = topology.num_links + len(leaving) + place[back]
    rows = np.arange(schedule.num_transfers)
    # Entries of the new routes, keyed by row, in it first, between or last. Local links begin or
    # end a route, so that no new circle of waiting messages can close over them.
    row = np.r_[rows, rows_of_entries(offsets), rows]
    by_row = np.argsort(row, kind="stable")
    classes = schedule.route_classes
    return replace(
        schedule,
        topology=with_switches(topology),
        route_offsets=offsets + 2 * np.arange(len(offsets)),
        route_links=np.r_[out, schedule.route_links, into][by_row],
        route_classes=np.r_[classes[first], classes, classes[last]][by_row],
    )


def with_switches(topology: Topology) -> Topology:
    """A switch attached to each rank, from where the rank's links leave.

    Links keep their ids, speed, latency and ports, and join switches. Behind them come links from
    ranks to their switches, then back, as fast and of the least latency. A rank's link at port p is
    that of the switch at port n + p, where the rank has n ports. A TopologyError says that a link
    has no reverse.
    """
    leaving = _leaving(topology)
    back = topology.reverse[leaving]
    if (back < 0).any():
        link = int(leaving[back < 0][0])
        raise TopologyError(f"{topology.name}: link {link} must have a reverse link, not none")
    links = topology.links.astype(np.int64)
    ranks = links[leaving, 0]
    routers = topology.num_nodes + ranks
    between = np.where(links < topology.num_ranks, topology.num_nodes + links, links)
    local = [np.stack(ends, axis=1) for ends in ((ranks, routers), (routers, ranks))]
    speeds, ports, port_counts = (
        topology.bandwidth_gbytes_per_s,
        topology.link_ports,
        topology.num_ports,
    )
    of_ranks = port_counts[: topology.num_ranks]
    return Topology(
        f"{topology.name} with switches",
        topology.num_ranks,
        topology.num_switches + topology.num_ranks,
        int32s("Links", np.concatenate([between, *local])),
        np.r_[speeds, speeds[leaving], speeds[back]],
        np.r_[topology.latency_ns, np.full(2 * len(leaving), LOCAL_LATENCY_NS)],
        source_ports=np.r_[ports, ports[leaving], port_counts[ranks] + ports[leaving]],
        port_counts=np.r_[port_counts, 2 * of_ranks],
    )


def _leaving(topology: Topology) -> Int64Array:
    """Links that leave a rank, by id."""
    return np.flatnonzero(topology.links[:, 0] < topology.num_ranks)


def header_only_ops(collective: str) -> tuple[Op, ...]:
    """The op, if any, whose messages of a collective carry nothing over shared links."""
    if collective not in ROOTED:
        return ()
    return tuple(op for op in OPS_OF["all_reduce"] if op not in OPS_OF[collective])


def as_sent(schedule: Schedule) -> Schedule:
    """What interfaces send for a schedule: on shared links with its header-only phase.

    `lowered` of `with_header_only_phase` of it where the network that carries it has switches, else
    the schedule itself.
    """
    on_shared_links = lowered(schedule).topology.num_switches
    return lowered(with_header_only_phase(schedule)) if on_shared_links else schedule


@lru_cache(_KEPT)
def with_header_only_phase(schedule: Schedule) -> Schedule:
    """Both phases of a broadcast or a reduce, of which the added one carries nothing: heads alone.

    On shared links two collectives may be in flight, so no rank may end one that another has not
    begun. The added rows are the same trees the other way round, on default routes. A ScheduleError
    says that both phases together could wait in a circle. O(num_transfers log num_transfers).
    """
    # Where each rank gets a part from every other one, none can end before all have begun.
    if schedule.collective not in ROOTED:
        return schedule
    (added,), steps = header_only_ops(schedule.collective), schedule.num_steps
    back = np.full(schedule.num_transfers, added, np.int32)
    # Heads come first in a broadcast, so that no result arrives before all ranks have begun; in a
    # reduce they come last, so that no rank ends before all contributions are in.
    own_begin, header_only_end = (steps, steps) if added == Op.REDUCE else (0, 2 * steps)
    columns = {
        "step": (own_begin + schedule.step, header_only_end - 1 - schedule.step),
        "op": (schedule.op, back),
        "flow": (schedule.flow, schedule.flow),
        "src": (schedule.src, schedule.dst),
        "dst": (schedule.dst, schedule.src),
        "order": (schedule.order, _orders(schedule)),
    }
    joined = {field: np.concatenate(columns[field]) for field in ROW_FIELDS}
    by_step = np.lexsort([joined[field] for field in ("dst", "src", "flow", "step")])
    fields: dict[str, Any] = {field: column[by_step] for field, column in joined.items()}
    names = ("route_offsets", "route_links", "route_classes")
    fields |= zip(names, reordered_routes(_both_routes(schedule), by_step), strict=True)
    whole = replace(schedule, collective="all_reduce", root=None, **fields)
    verify(whole)
    return whole


def _both_routes(schedule: Schedule) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, links and classes of the schedule's routes, and of those from dst to src."""
    offsets, links, classes = routes(schedule.topology, schedule.dst, schedule.src)
    return (
        np.r_[schedule.route_offsets, schedule.route_offsets[-1] + offsets[1:]],
        np.r_[schedule.route_links, links],
        np.r_[schedule.route_classes, classes],
    )


def _orders(schedule: Schedule) -> np.ndarray:
    """Numbers for the reversed rows that come to one rank in one step of one flow."""
    shape = schedule.num_steps, schedule.num_flows, schedule.topology.num_ranks
    return positions_in_group(
        np.ravel_multi_index((schedule.step, schedule.flow, schedule.src), shape)
    ).astype(np.int32)


def unrolled(schedule: Schedule, *, period: int | None = None) -> Schedule:
    """The ordinary schedule that does what a periodic one does in all its waves: the same bits.

    Wave w's flow f becomes flow w F + f of F num_waves, and its rows go at step + w * period.
    `period` may replace the schedule's own; with 0 all waves have the same steps. O(num_waves x
    num_transfers).
    """
    num_waves, num_flows = schedule.num_waves, schedule.num_flows
    if num_waves == 1:
        return schedule
    spacing = schedule.period if period is None else period
    wave = np.repeat(np.arange(num_waves), schedule.num_transfers)
    columns: dict[str, Any] = {
        field: np.tile(getattr(schedule, field), num_waves) for field in ROW_FIELDS
    }
    columns["step"] = int32s("Steps", columns["step"] + wave * spacing)
    # Each wave has flows of its own, since a flow has one chunk.
    columns["flow"] += (wave * num_flows).astype(np.int32)
    by_step = np.lexsort([columns[field] for field in ("dst", "src", "flow", "step")])
    whole = schedule.flow_offsets[-1]
    offsets = np.add.outer(whole * np.arange(num_waves), schedule.flow_offsets[:-1]).ravel()
    lengths = np.tile(np.diff(schedule.route_offsets), num_waves)
    links, classes = (
        np.tile(hops, num_waves) for hops in (schedule.route_links, schedule.route_classes)
    )
    routes = reordered_routes((np.r_[0, np.cumsum(lengths)], links, classes), by_step)
    changed = {field: columns[field][by_step] for field in ROW_FIELDS}
    changed |= zip(("route_offsets", "route_links", "route_classes"), routes, strict=True)
    return replace(
        schedule,
        flow_offsets=np.r_[offsets, whole * num_waves],
        **changed,
        num_waves=1,
        period=1,
    )
