"""Whether steps leave the time that links of unequal speed take."""

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, largest_group
from multitree.topology.collectives import Op
from multitree.topology.networks.link_occupancy import link_occupancy
from multitree.topology.routing.routes import rows_of_entries
from multitree.topology.schedules.schedule import Schedule

__all__ = ["is_causal", "links_overlap", "overlaps"]


def is_causal(schedule: Schedule) -> bool:
    """Whether nothing is sent before it has come, a chunk taking each link's `link_occupancy`.

    Interfaces wait for what is missing, so a schedule that is not causal is late, not wrong.

    Parameters
    ----------
    schedule : Schedule
        One whose trees `verify` accepts.

    Returns
    -------
    bool
        Always so where all links are equally fast.

    Examples
    --------
    >>> from multitree.topology.algorithms.rings import build_ring
    >>> from multitree.topology.networks.topology import Topology
    >>> links = [[0, 1], [1, 0], [1, 2], [2, 1], [2, 0], [0, 2]]
    >>> uneven = Topology("uneven", 3, 0, links, [16, 16, 8, 8, 16, 16], 150.0)
    >>> is_causal(build_ring(uneven))
    False
    """
    slots = link_occupancy(schedule.topology)[schedule.route_links]
    done = schedule.step.astype(np.int64)
    done += np.maximum.reduceat(slots, schedule.route_offsets[:-1])
    num_ranks = schedule.topology.num_ranks
    reduces = schedule.op == Op.REDUCE
    leaves, enters = (
        schedule.flow.astype(np.int64) * num_ranks + ends for ends in (schedule.src, schedule.dst)
    )
    summed, got = (np.zeros(schedule.num_flows * num_ranks, np.int64) for _ in range(2))
    np.maximum.at(summed, enters[reduces], done[reduces])
    got[enters[~reduces]] = done[~reduces]
    # A root has the result when it has the sum; nobody else waits for sums to pass a result on.
    roots = np.arange(schedule.num_flows) * num_ranks + schedule.flow_roots
    got[roots] = summed[roots]
    ready = np.where(reduces, summed[leaves], got[leaves])
    return bool((schedule.step >= ready).all())


def overlaps(places: Int32Array, step: Int32Array, slots: Int64Array) -> bool:
    """Whether a place is taken again before it is free.

    Parameters
    ----------
    places, step : numpy.ndarray, int32 (n,)
        What is taken, and from when on.
    slots : numpy.ndarray, int64 (n,)
        For how many steps.

    Returns
    -------
    bool

    Examples
    --------
    >>> overlaps(np.array([3, 3, 4]), np.array([0, 2, 1]), np.array([2, 1, 5]))
    False
    >>> overlaps(np.array([3, 3, 4]), np.array([0, 1, 1]), np.array([2, 1, 5]))
    True
    """
    by_place = np.lexsort((step, places))
    place, begins = places[by_place], step[by_place]
    ends = begins + slots[by_place]
    return bool(((place[1:] == place[:-1]) & (begins[1:] < ends[:-1])).any())


def links_overlap(schedule: Schedule) -> bool:
    """Whether a link is taken again before a chunk has left it, by any wave."""
    links = schedule.route_links
    steps = schedule.step[rows_of_entries(schedule.route_offsets)]
    slots = link_occupancy(schedule.topology)[links]
    if schedule.num_waves == 1:
        return overlaps(links, steps, slots)
    # Every period is like the others: what reaches beyond its end is at the begin of it.
    entry = rows_of_entries(np.r_[0, np.cumsum(slots)])
    later = np.arange(len(entry)) - (np.cumsum(slots) - slots)[entry]
    place = links[entry].astype(np.int64) * schedule.period
    return largest_group(place + (steps[entry] + later) % schedule.period) > 1
