"""What the interfaces of a network execute, as the arrays that the model reads."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.nic.driver.routed_rows import places_in_sums
from multitree.sim.exact.structs import HOP, NONE, ROW, TRANSFER
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = ["NetworkTables", "tables_of"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NetworkTables:
    """Tables of all ranks, the rows of each from its entry of `row_offsets` on.

    `transfers` has a row of the schedule each, `hops` the switches of their routes, `expected` the
    messages that come in at each rank in one wave.
    """

    row_offsets: IntArray
    rows: npt.NDArray[Any]
    transfers: npt.NDArray[Any]
    hops: npt.NDArray[Any]
    expected: IntArray


def tables_of(
    schedule: Schedule,
    num_flits: int,
    *,
    lockstep: bool = False,
    header_only: Collection[Op] = (),
) -> NetworkTables:
    """Tables of all ranks at once, as `compile_table` makes them rank by rank.

    In lockstep a rank has a row without a transfer for every step in which it sends nothing;
    messages of `header_only` ops have no payload. O(num_transfers log num_transfers).
    """
    topology, ports = schedule.topology, schedule.topology.link_ports
    row_offsets, rows = _rows(schedule, lockstep)
    transfers = np.zeros(schedule.num_transfers, TRANSFER)
    first, last = schedule.route_offsets[:-1], schedule.route_offsets[1:] - 1
    size = np.diff(schedule.chunks(num_flits))[schedule.flow]
    transfers["size"] = np.where(np.isin(schedule.op, list(header_only)), 0, size)
    transfers["need"], transfers["before"], transfers["last"] = _dependencies(schedule)
    transfers["dst_port"] = ports[topology.reverse[schedule.route_links[last]]]
    transfers["replaces"] = schedule.op == Op.GATHER
    transfers["order"], transfers["step"] = places_in_sums(schedule), schedule.step
    transfers["vc_class"] = schedule.route_classes[first]
    # A hop for each link but the first: the switch before it.
    behind = np.ones(len(schedule.route_links), bool)
    behind[first] = False
    transfers["hops"] = first - np.arange(len(first))
    hops = np.zeros(behind.sum(), HOP)
    hops["port"], hops["vc_class"] = (
        ports[schedule.route_links][behind],
        schedule.route_classes[behind],
    )
    expected = np.bincount(schedule.dst, minlength=topology.num_ranks).astype(np.int64)
    return NetworkTables(row_offsets, rows, transfers, hops, expected)


def _rows(schedule: Schedule, lockstep: bool) -> tuple[IntArray, npt.NDArray[Any]]:
    """Offsets of each rank's rows, and the rows: by step in the period, earlier waves first."""
    count, num_ranks = schedule.num_transfers, schedule.topology.num_ranks
    first = schedule.route_links[schedule.route_offsets[:-1]]
    rank, step = schedule.src.astype(np.int64), schedule.step.astype(np.int64)
    transfer, port = np.arange(count), schedule.topology.link_ports[first].astype(np.int64)
    if lockstep:
        sends = np.zeros((num_ranks, schedule.num_steps), bool)
        sends[rank, step] = True
        idle = np.argwhere(~sends)
        rank, step = np.r_[rank, idle[:, 0]], np.r_[step, idle[:, 1]]
        nothing = np.full(len(idle), NONE)
        transfer, port = np.r_[transfer, nothing], np.r_[port, nothing]
    stage = np.zeros(len(step), np.int64)
    if schedule.num_waves > 1:
        stage, step = np.divmod(step, schedule.period)
    # The sort is stable: equal rows stay in the schedule's order.
    order = np.lexsort((-stage, step, rank))
    rows = np.zeros(len(order), ROW)
    for name, column in zip(ROW.names or (), (transfer, port, step, stage), strict=True):
        rows[name] = column[order]
    return np.r_[0, np.cumsum(np.bincount(rank, minlength=num_ranks))], rows


def _dependencies(schedule: Schedule) -> tuple[IntArray, IntArray, IntArray]:
    """Per transfer what it waits for, what is written before it, and the last one of its sum.

    A REDUCE and a root's GATHER wait for the last contribution at their source, another GATHER for
    that of the parent. A contribution is added to the one before it, a GATHER replaces the last.
    """
    num_flows, op = schedule.num_flows, schedule.op
    here = schedule.src.astype(np.int64) * num_flows + schedule.flow
    there = schedule.dst.astype(np.int64) * num_flows + schedule.flow
    adds, gathers = np.flatnonzero(op == Op.REDUCE), np.flatnonzero(op == Op.GATHER)
    keys = (schedule.src[adds], schedule.order[adds], schedule.step[adds], there[adds])
    adds = adds[np.lexsort(keys)]
    same = there[adds[1:]] == there[adds[:-1]]
    before = np.full(schedule.num_transfers, NONE, np.int64)
    before[adds[1:]] = np.where(same, adds[:-1], NONE)
    ends = adds[np.r_[~same, np.ones(min(len(adds), 1), bool)]]
    last = np.where(op == Op.REDUCE, _found(there, there[ends], ends), np.arange(len(op)))
    before[gathers] = _found(there[gathers], there[ends], ends)
    parents = gathers[np.argsort(there[gathers], kind="stable")]
    need = _found(here, there[ends], ends)
    of_parent = _found(here, there[parents], parents)
    return np.where((op == Op.GATHER) & (of_parent != NONE), of_parent, need), before, last


def _found(wanted: IntArray, keys: IntArray, values: IntArray) -> IntArray:
    """Value of each wanted key, of keys in ascending order; NONE where there is none."""
    if not len(keys):
        return np.full(len(wanted), NONE, np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], NONE)
