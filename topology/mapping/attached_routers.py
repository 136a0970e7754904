"""A switch attached to every rank, for schedules whose routes lead through ranks."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from multitree.topology.arrays import Int64Array, int32s
from multitree.topology.errors import TopologyError
from multitree.topology.networks.topology import Topology
from multitree.topology.routing.routes import rows_of_entries
from multitree.topology.schedules.schedule import Schedule

LOCAL_LATENCY_NS = 0.1
"""Between a rank and its switch: the least that a link can take, a cycle."""
_KEPT = 8


def lowered(schedule: Schedule) -> Schedule:
    """The schedule as hardware carries it: through switches where routes lead through ranks.

    Parameters
    ----------
    schedule : Schedule

    Returns
    -------
    Schedule
        The same where no rank has to pass on what is not its own, else `through_switches` of it.
        Row for row the same transfers, on a topology that may have more switches.

    Raises
    ------
    TopologyError
        As `with_switches`.

    Examples
    --------
    >>> from multitree.topology.families.direct import torus
    >>> from multitree.topology.algorithms.rings import build_ring
    >>> from multitree.topology.algorithms.swing import build_swing
    >>> one_hop, far = build_ring(torus(4, 4)), build_swing(torus(8))
    >>> lowered(one_hop) is one_hop, lowered(far).topology.num_switches
    (True, 8)
    """
    is_last = np.zeros(len(schedule.route_links), bool)
    is_last[schedule.route_offsets[1:] - 1] = True
    passed = schedule.topology.links[schedule.route_links[~is_last], 1]
    leads_through_ranks = bool((passed < schedule.topology.num_ranks).any())
    return through_switches(schedule) if leads_through_ranks else schedule


@lru_cache(_KEPT)
def through_switches(schedule: Schedule) -> Schedule:
    """The same transfers on `with_switches` of the topology.

    A message leaves its rank by the local link that belongs to the first link of its route, and
    enters the other by that of the last, in the virtual-channel class it has there: ports and
    their shares of the traffic stay what they were. Local links begin or end a route, so that
    no new circle of waiting messages can close over them.

    Parameters
    ----------
    schedule : Schedule

    Returns
    -------
    Schedule
        Row for row the same but for the routes, each two links longer.

    Raises
    ------
    TopologyError
        As `with_switches`.

    Notes
    -----
    O(num_hops log num_hops); the last few results are kept.

    Examples
    --------
    >>> from multitree.topology.families.direct import ring
    >>> from multitree.topology.algorithms.rings import build_ring
    >>> schedule = through_switches(build_ring(ring(3)))
    >>> schedule.topology.links[schedule.route_links[:3]].tolist()
    [[1, 4], [4, 5], [5, 2]]
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
    # Entries of the new routes, keyed by row, in it first, between or last.
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

    Parameters
    ----------
    topology : Topology
        One in which every link that joins a rank has a reverse.

    Returns
    -------
    Topology
        Switch num_nodes + r is attached to rank r. Links of the topology keep their ids, speed,
        latency and ports, and join switches. Behind them come, for each that left a rank, a link
        from the rank to its switch, then one back for each: of equal speed and the least latency.
        Port p of a rank is still that of its link at p; of the switch attached to a rank with n
        ports it is port n + p. So where links were lost, those left stay where they are plugged.

    Raises
    ------
    TopologyError
        If a rank's link has no reverse.

    Examples
    --------
    >>> from multitree.topology.families.direct import ring
    >>> with_switches(ring(2)).links.tolist()
    [[2, 3], [3, 2], [0, 2], [1, 3], [2, 0], [3, 1]]
    >>> wired = with_switches(ring(4).without(links=[1]))  # by port 1 of rank 0, port 0 of rank 1
    >>> wired.ports(4).tolist(), wired.link_ports[wired.ports(4)].tolist()
    ([0, 12], [0, 2])
    >>> wired.ports(5).tolist(), wired.link_ports[wired.ports(5)].tolist()
    ([1, 13], [1, 3])
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
