"""Direct reduce-scatter and all-gather over switch planes and rails of boxes."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from multitree.topology.algorithms.multitree import MOST_CONTRIBUTIONS
from multitree.topology.algorithms.switch_planes import BoxedPlanes, boxed_planes, plane_routes
from multitree.topology.arrays import Int64Array, chosen_routes
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.errors import ScheduleError, report
from multitree.topology.networks.cost_model import CostModel, usual_cost_model
from multitree.topology.networks.topology import Topology
from multitree.topology.routing.default_routes import Routes
from multitree.topology.schedules.schedule import Schedule

__all__ = ["build_direct"]

MOST_COPIES = 16
"""Parts of a flow's chunk that are pipelined over planes and rails."""
MOST_EXCESS = 1.01
"""Of the fewest cycles, which more copies would take: each is a row more for every message."""
MOST_FLOWS = 4096
"""Flows that an interface holds."""


def build_direct(
    topology: Topology, *, roots: Sequence[int] | None = None, cost_model: CostModel | None = None
) -> Schedule:
    """Build the all-reduce in which every rank sends each root its part straight.

    Each pair of root and switch plane has a flow of its own; in step s rank r sends to rank r + s.
    So a port adds one contribution at a time, and no two ports of a rank add to one sum at once,
    which would have to be staged: N-1 steps per phase on K planes, of a chunk of 1/(NK). Boxes send
    partial sums over rails, in as many copies of each flow as suit `cost_model`.

    E. Chan et al., "Collective communication: theory, practice, and experience", 2007; "direct" in
    S. Rashidi et al., "ASTRA-SIM", ISPASS 2020; shifts on fat trees: E. Zahavi et al., 2010.
    """
    chosen = np.array(chosen_roots(roots, topology.num_ranks))
    boxed = boxed_planes(topology, "direct")
    _check_contributions(topology, boxed)
    cost_model = cost_model or usual_cost_model(topology)
    table = _RouteTable(topology, boxed)
    timeline = _best_timeline(boxed, table, cost_model, len(chosen))
    rows = _rows(boxed, table, timeline, chosen)
    return Schedule.from_rows(
        topology,
        algorithm="direct",
        collective="all_reduce",
        flow_offsets=np.arange(len(chosen) * timeline.reduce.size // len(boxed.boxes) + 1),
        rows=rows[:, :5],
        routes=chosen_routes(table.routes, rows[:, 5]),
    )


def _check_contributions(topology: Topology, boxed: BoxedPlanes) -> None:
    """Raise if more ranks of a box, and other boxes, send to a root than it can tell apart."""
    contributions = sum(boxed.boxes.shape) - 2
    if contributions > MOST_CONTRIBUTIONS:
        raise ScheduleError(
            f"{topology.name!r}: direct must have at most {MOST_CONTRIBUTIONS} contributions to "
            f"a sum, not {contributions}"
        )


class _RouteTable:
    """Routes of all pairs of a box over each of its planes, and of boxes over each rail.

    Planes come first, box by box, then rails; over a rail only ranks of the same place send.
    """

    def __init__(self, topology: Topology, boxed: BoxedPlanes) -> None:
        self._num_boxes, self._box_ranks = boxed.boxes.shape
        self._num_planes = len(boxed.planes[0])
        src, dst = _pairs(self._box_ranks)
        tables = [
            plane_routes(topology, plane, src, dst, algorithm="direct")
            for planes in boxed.planes
            for plane in planes
        ]
        self._first_of_rails = len(tables) * len(src)
        self.num_plane_hops = sum(len(links) for _, links, _ in tables)
        from_box, to_box = _pairs(self._num_boxes)
        for rail in boxed.rails:
            ends = (boxed.boxes[box].T.ravel() for box in (from_box, to_box))
            # A rail joins all ranks, so a rank's place among its ranks is its number.
            tables.append(plane_routes(topology, rail, *ends, algorithm="direct"))
        offsets, links, classes = zip(*tables, strict=True)
        lengths = np.concatenate([np.diff(each) for each in offsets])
        joined = np.concatenate([[0], np.cumsum(lengths)])
        self.routes: Routes = joined, np.concatenate(links), np.concatenate(classes)

    def over_plane(
        self, box: Int64Array, plane: Int64Array, src: Int64Array, dst: Int64Array
    ) -> Int64Array:
        """Numbers of the routes from place to place of a box over one of its planes."""
        size = self._box_ranks
        first = (box * self._num_planes + plane) * (size * (size - 1))
        return np.asarray(first + _pair_number(size, src, dst))

    def over_rail(
        self, rail: Int64Array, place: Int64Array, src: Int64Array, dst: Int64Array
    ) -> Int64Array:
        """Numbers of the routes from box to box between ranks of one place over a rail."""
        size = self._num_boxes
        first = (rail * self._box_ranks + place) * (size * (size - 1))
        return np.asarray(self._first_of_rails + first + _pair_number(size, src, dst))

    def costs(self, cost_model: CostModel, *, rails: bool) -> tuple[float, float]:
        """The most cycles per flit of a link on the routes, and the most latency of a route."""
        offsets, links, _ = self.routes
        of_rails = np.arange(len(links)) >= self.num_plane_hops
        used = of_rails if rails else ~of_rails
        latencies = np.add.reduceat(cost_model.latency_cycles[links], offsets[:-1])
        kind = used[offsets[:-1]]
        return float(cost_model.cycles_per_flit[links][used].max()), float(latencies[kind].max())


def _pairs(size: int) -> tuple[Int64Array, Int64Array]:
    """All ordered pairs of different numbers below a size, ascending."""
    src, dst = np.nonzero(~np.eye(size, dtype=bool))
    return src, dst


def _pair_number(size: int, src: Int64Array, dst: Int64Array) -> Int64Array:
    """Where a pair stands among `_pairs`."""
    return np.asarray(src * (size - 1) + dst - (dst > src))


class _Timeline(NamedTuple):
    """First slots of what each rank does, int64 (num_planes, copies, num_boxes).

    The last index is how many boxes away from the root: 0 is its own. `reduce` and `gather` are
    those of the slots in which a box's ranks send over a plane, one after the other; the two of
    rails those of one message, unused for the root's box.
    """

    reduce: Int64Array
    reduce_rail: Int64Array
    gather_rail: Int64Array
    gather: Int64Array
    num_slots: int


class _Slots(NamedTuple):
    """Slots of a message over a rail, and from arrival to use behind a plane and behind a rail."""

    rail: int
    plane_latency: int
    rail_latency: int


class _Port:
    """When a port is busy: slots from `starts` up to `ends`, both ascending."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def place(self, ready: int, length: int) -> int:
        """Take the first gap of some slots from a slot on; returns where it begins."""
        at, index = ready, bisect_right(self.ends, ready)
        while index < len(self.starts) and self.starts[index] - at < length:
            at = max(at, self.ends[index])
            index += 1
        self.starts.insert(index, at)
        self.ends.insert(index, at + length)
        return at


def _best_timeline(
    boxed: BoxedPlanes, table: _RouteTable, cost_model: CostModel, num_roots: int
) -> _Timeline:
    """The timeline of the fewest copies with which it takes hardly more cycles than it can."""
    num_planes = len(boxed.planes[0])
    if not boxed.rails:
        return _timeline(boxed, 1, _Slots(1, 0, 0))
    interval, plane_latency = table.costs(cost_model, rails=False)
    rail_interval, rail_latency = table.costs(cost_model, rails=True)
    found: list[tuple[float, _Timeline]] = []
    most = min(MOST_COPIES, max(MOST_FLOWS // (num_roots * num_planes), 1))
    for copies in range(1, most + 1):
        report("filling slots, numbers of copies tried", copies - 1, most)
        chunk = cost_model.num_flits / (num_roots * num_planes * copies)
        slot_cycles = (chunk + cost_model.message_cycles) * interval
        slots = _Slots(
            rail=max(math.ceil(rail_interval / interval), 1),
            plane_latency=math.ceil(plane_latency / slot_cycles),
            rail_latency=math.ceil(rail_latency / slot_cycles),
        )
        timeline = _timeline(boxed, copies, slots)
        found.append((timeline.num_slots * slot_cycles, timeline))
    enough = MOST_EXCESS * min(cycles for cycles, _ in found)
    return next(timeline for cycles, timeline in found if cycles <= enough)


def _timeline(boxed: BoxedPlanes, copies: int, slots: _Slots) -> _Timeline:
    """List scheduling of one rank's ports: sums copy by copy, then results where ports are free."""
    (num_boxes, box_ranks), num_planes = boxed.boxes.shape, len(boxed.planes[0])
    num_rails, star = len(boxed.rails), box_ranks - 1
    planes, rails = ([_Port() for _ in range(many)] for many in (num_planes, num_rails))
    shape = (num_planes, copies, num_boxes)
    # The root's own box first: one late arrival over a rail would have all that come after it in
    # the order of the sum staged.
    reduce = np.broadcast_to(np.arange(copies * num_boxes).reshape(shape[1:]) * star, shape)
    reduce_rail, gather_rail, gather = (np.zeros(shape, np.int64) for _ in range(3))
    for port in planes:
        port.place(0, copies * num_boxes * star)
    whole = reduce[:, :, 0] + star + slots.plane_latency
    # By copy, then by box, then by plane: what is ready first goes first.
    messages = [(k, c, q) for c, q, k in np.ndindex(copies, num_boxes, num_planes) if q]
    for k, c, q in messages:
        ready = int(reduce[k, c, q]) + star + slots.plane_latency
        reduce_rail[k, c, q] = rails[k % num_rails].place(ready, slots.rail)
        arrived = reduce_rail[k, c, q] + slots.rail + slots.rail_latency
        whole[k, c] = max(whole[k, c], arrived)
    for k, c, q in messages:
        gather_rail[k, c, q] = rails[k % num_rails].place(int(whole[k, c]), slots.rail)
    ready_at = gather_rail + slots.rail + slots.rail_latency
    ready_at[:, :, 0] = whole
    for k, port in enumerate(planes):
        for flat in np.argsort(ready_at[k], axis=None, kind="stable").tolist():
            at = np.unravel_index(flat, shape[1:])
            gather[k][at] = port.place(int(ready_at[k][at]), star)
    return _Timeline(reduce, reduce_rail, gather_rail, gather, max(p.ends[-1] for p in planes))


def _rows(
    boxed: BoxedPlanes, table: _RouteTable, timeline: _Timeline, roots: Int64Array
) -> Int64Array:
    """Step, op, flow, src, dst and the number of its route of each row."""
    boxes, num_rails = boxed.boxes, len(boxed.rails)
    num_boxes, size = boxes.shape
    num_planes, copies, _ = timeline.reduce.shape
    # Every rank is in one box, so these are the box and the place of each.
    box_of, place_of = np.empty((2, boxes.size), np.int64)
    box_of[boxes], place_of[boxes] = np.indices(boxes.shape)
    i, k, c, q, s = np.ogrid[: len(roots), :num_planes, :copies, :num_boxes, 1:size]
    flow, place = (i * num_planes + k) * copies + c, place_of[roots[i]]
    box = (box_of[roots[i]] + q) % num_boxes
    centre, before, after = boxes[box, place], (place - s) % size, (place + s) % size
    to_centre = table.over_plane(box, k, before, place)
    from_centre = table.over_plane(box, k, place, after)
    sums = timeline.reduce[k, c, q] + s - 1, Op.REDUCE, flow, boxes[box, before], centre, to_centre
    results = timeline.gather[k, c, q] + s - 1, Op.GATHER, flow, centre, boxes[box, after]
    blocks = [_block(*sums), _block(*results, from_centre)]
    if num_rails:
        k, c, q, i = np.ogrid[:num_planes, :copies, 1:num_boxes, : len(roots)]
        flow, place = (i * num_planes + k) * copies + c, place_of[roots[i]]
        own, rail = box_of[roots[i]], k % num_rails
        box = (own + q) % num_boxes
        root, centre = np.broadcast_to(roots[i], box.shape), boxes[box, place]
        inwards = table.over_rail(rail, place, box, own)
        outwards = table.over_rail(rail, place, own, box)
        blocks += [
            _block(timeline.reduce_rail[k, c, q], Op.REDUCE, flow, centre, root, inwards),
            _block(timeline.gather_rail[k, c, q], Op.GATHER, flow, root, centre, outwards),
        ]
    return np.concatenate(blocks)


def _block(*columns: Int64Array | int) -> Int64Array:
    """Rows of columns that are broadcast against each other."""
    return np.stack([each.ravel() for each in np.broadcast_arrays(*columns)], axis=1)
