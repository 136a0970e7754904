"""What rows need on shared links: a place in their sum, a route, slots to wait in."""

import numpy as np
import numpy.typing as npt

from multitree.hw.codes import HOP_WIDTH
from multitree.nic.driver.config import Config
from multitree.topology.arrays import positions_in_group
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError
from multitree.topology.schedules.schedule import Schedule

__all__ = ["places_in_sums", "routes_of", "slots_of"]

IntArray = npt.NDArray[np.int64]


def places_in_sums(schedule: Schedule) -> IntArray:
    """Place of each contribution in the order of summation at its destination, from 0, shape
    (num_transfers,); 0 for a GATHER. O(num_transfers log num_transfers).
    """
    place = np.zeros(schedule.num_transfers, np.int64)
    adds = np.flatnonzero(schedule.op == Op.REDUCE)
    columns = (schedule.src, schedule.order, schedule.step)
    by_turn = adds[np.lexsort([column[adds] for column in columns])]
    sums = schedule.flow.astype(np.int64) * schedule.topology.num_ranks + schedule.dst
    place[by_turn] = positions_in_group(sums[by_turn])
    return place


def routes_of(
    schedule: Schedule, rows: npt.NDArray[np.intp], config: Config
) -> tuple[IntArray, IntArray]:
    """Virtual-channel class of the first link and route behind it, for some rows of a schedule.

    A hop is the switch's output port, its lowest 5 bits, and the class of the link there; the first
    one is lowest. Raises ScheduleError if a route leads through a rank, or the interface lacks a
    class; `check_switches` is expected to have passed.
    """
    topology = schedule.topology
    vc_class, route = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for place, row in enumerate(rows.tolist()):
        entries = slice(schedule.route_offsets[row], schedule.route_offsets[row + 1])
        links = schedule.route_links[entries].tolist()
        classes = schedule.route_classes[entries].tolist()
        ports = [topology.port_of_link(link) for link in links[1:]]
        passed = min(topology.links[links[:-1], 1].tolist(), default=topology.num_ranks)
        if passed < topology.num_ranks:
            raise ScheduleError(
                f"{schedule.describe(row)}: route must lead through switches, not rank {passed}"
            )
        if max(classes) >= config.num_classes:
            raise ScheduleError(
                f"{schedule.describe(row)}: virtual-channel class must be at most "
                f"{config.num_classes - 1}, not {max(classes)}"
            )
        vc_class[place] = classes[0]
        hops = zip(ports, classes[1:], strict=True)
        route[place] = sum(
            (port | hop_class << HOP_WIDTH - 1) << HOP_WIDTH * k
            for k, (port, hop_class) in enumerate(hops)
        )
    return vc_class, route


def slots_of(size: IntArray, num_children: IntArray, num_flits: int) -> IntArray:
    """Begin of each flow's slots behind a buffer of `num_flits` flits, one slot per child, and
    their end, shape (num_flows + 1,).

    >>> slots_of(np.array([3, 2]), np.array([2, 1]), 10).tolist()
    [10, 16, 18]
    """
    return num_flits + np.r_[0, np.cumsum(size * num_children)]
