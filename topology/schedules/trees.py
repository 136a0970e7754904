"""Trees of a schedule: as they are grown, their shape, and the order of siblings."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s, positions_in_group
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology
from multitree.topology.routing.default_routes import Routes
from multitree.topology.routing.updown import up_down


def tree_roots(
    num_flows: int, num_ranks: int, columns: Mapping[str, Int32Array], op: Op
) -> Int32Array:
    """The root of each flow in the rows of one op, int32 (num_flows,): a parent that is no child.

    A ScheduleError says that a flow has no root or several.
    """
    first, parent, child = _edges(num_ranks, columns, columns["op"] == op, op)
    is_root = np.zeros(num_flows * num_ranks, bool)
    is_root[first + parent] = True
    is_root[first + child] = False
    flows, roots = np.nonzero(is_root.reshape(num_flows, num_ranks))
    wrong = np.flatnonzero(np.bincount(flows, minlength=num_flows) != 1)
    if wrong.size:
        several = roots[flows == wrong[0]].tolist()
        raise ScheduleError(
            f"{op.name} rows of flow {wrong[0]} must have one root, not {several or 'none'}"
        )
    return int32s("Roots", roots)


def tree_height(
    num_flows: int,
    num_ranks: int,
    columns: Mapping[str, Int32Array],
    op: Op,
    num_hops: Int64Array,
) -> int:
    """The most hops from a root to a node, in the rows of one op, which are sorted by step."""
    rows = np.flatnonzero(columns["op"] == op)
    # From the root outwards: a REDUCE tree is read from its last step.
    if op == Op.REDUCE:
        rows = rows[::-1]
    first, parent, child = _edges(num_ranks, columns, rows, op)
    above, below, hops = first + parent, first + child, num_hops[rows]
    depth = np.zeros(num_flows * num_ranks, np.int64)
    bounds = np.r_[0, np.flatnonzero(np.diff(columns["step"][rows])) + 1, len(rows)]
    # Steps ascend along a tree, so parents have their depth before their children's step.
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        depth[below[start:stop]] = depth[above[start:stop]] + hops[start:stop]
    return int(depth.max())


def _edges(
    num_ranks: int, columns: Mapping[str, Int32Array], rows: np.ndarray, op: Op
) -> tuple[Int64Array, Int32Array, Int32Array]:
    parent, child = ("dst", "src") if op == Op.REDUCE else ("src", "dst")
    first = columns["flow"][rows].astype(np.int64) * num_ranks
    return first, columns[parent][rows], columns[child][rows]


class GrownRoutes(NamedTuple):
    """Edges of trees, int32 (num_edges, 4) of step, tree, parent and child, as they were added.

    Edge i's route is entries off[i] to off[i+1] of links and classes.
    """

    edges: Int32Array
    offsets: Int64Array
    links: Int32Array
    classes: Int32Array


def with_direct_links(
    topology: Topology, step: Int32Array, tree: Int32Array, link: Int32Array
) -> GrownRoutes:
    """Edges that are one link each, from their steps, trees and links, int32 (num_edges,)."""
    edges = np.stack([step, tree, *topology.links[link].T], axis=1)
    return GrownRoutes(edges, np.arange(len(link) + 1), link, np.zeros_like(link))


def transposed(topology: Topology) -> Topology:
    """The same nodes and link ids, every link in the opposite direction."""
    counts = (topology.num_ranks, topology.num_switches)
    speeds = (topology.bandwidth_gbytes_per_s, topology.latency_ns)
    return Topology(topology.name, *counts, topology.links[:, ::-1], *speeds)


def farthest_first(grown: GrownRoutes, rest_steps: int) -> GrownRoutes:
    """The same edges with the steps that no later one needs at the end, longest routes first.

    So the last messages of an all-gather have the shortest routes, and in its reverse the first
    ones: what has a longer route leaves later. Steps change places as a whole, unless a rank would
    pass a chunk on less than `rest_steps` after it got it. O(num_edges).
    """
    step, tree, parent, child = grown.edges.T.astype(np.int64)
    joined = np.full((tree.max() + 1, child.max(initial=0) + parent.max() + 1), -1)
    joined[tree, child] = step
    before = joined[tree, parent]
    num_steps = int(step.max()) + 1
    longest = np.zeros(num_steps, np.int64)
    np.maximum.at(longest, step, np.diff(grown.offsets))
    needed = np.isin(np.arange(num_steps), before)
    place = np.empty(num_steps, np.int64)
    # lexsort is stable: steps that others need stay in order, in front.
    place[np.lexsort((np.where(needed, 0, -longest), ~needed))] = np.arange(num_steps)
    leads = before >= 0
    if (place[step[leads]] - place[before[leads]]).min(initial=rest_steps) < rest_steps:
        return grown
    edges = np.column_stack([place[step], grown.edges[:, 1:]]).astype(np.int32)
    return grown._replace(edges=edges)


def turned_around(topology: Topology, grown: GrownRoutes, *, mirrored: bool) -> GrownRoutes:
    """Edges from child to parent: over the reverse links if `mirrored`, else grown on `transposed`.

    Up becomes down: where the two have classes of their own, these change places.
    """
    num_hops = np.diff(grown.offsets)
    last = np.repeat(grown.offsets[:-1] + grown.offsets[1:] - 1, num_hops)
    backwards = last - np.arange(len(grown.links))
    edges, links = grown.edges[:, [0, 1, 3, 2]], grown.links[backwards]
    if mirrored:
        links = topology.reverse[links]
    classes = grown.classes
    if topology.num_switches:
        orders = up_down(topology)
        up, down = orders.classes[orders.group[np.repeat(edges[:, 2], num_hops)]].T
        classes = np.where(classes[backwards] == down, up, down)
    return GrownRoutes(edges, grown.offsets, links, classes)


def both_phases(
    topology: Topology,
    grow: Callable[[Topology], GrownRoutes],
    slots: Int64Array | None = None,
) -> tuple[Int32Array, Routes]:
    """An all-gather along grown trees, and before it the reduce-scatter in reverse.

    Rows are int (num_transfers, 5) of step, op, flow, src and dst, with their routes. Trees are
    grown on the `transposed` topology, too, where a link has no reverse that is as fast; `slots`
    are the steps that a chunk takes on each link, by default 1.
    """
    held = np.ones(topology.num_links, np.int64) if slots is None else slots
    mirrored = topology.is_symmetric and bool((held[topology.reverse] == held).all())
    outwards = grow(topology)
    inwards = outwards if mirrored else grow(transposed(topology))
    # Reversed in time, a transfer begins where it ended: on slow links several steps later.
    ends = inwards.edges[:, 0] + np.maximum.reduceat(held[inwards.links], inwards.offsets[:-1])
    inwards = turned_around(topology, inwards, mirrored=mirrored)
    steps = np.r_[ends.max() - ends, ends.max() + outwards.edges[:, 0]]
    ops = np.repeat([int(Op.REDUCE), int(Op.GATHER)], [len(inwards.edges), len(outwards.edges)])
    rest = np.concatenate([inwards.edges[:, 1:], outwards.edges[:, 1:]])
    offsets = np.r_[inwards.offsets, inwards.offsets[-1] + outwards.offsets[1:]]
    links, classes = np.r_[inwards.links, outwards.links], np.r_[inwards.classes, outwards.classes]
    return np.column_stack([steps, ops, rest]), (offsets, links, classes)


Times = tuple[int, int]
LARGE_CHUNKS: Times = (16, 1)
"""What a chunk takes of its link, and each link of a route beyond that: some thousand flits."""
SMALL_CHUNKS: Times = (1, 2)
"""For small buffers, where latency is most of the time of a chunk.

On direct links, where siblings of large chunks come in one after the other by their steps anyway:
the 8x8 torus takes 3 to 5 % fewer cycles at 32 KiB with these, and 0.1 % more or less at 1 MiB.
"""


class Journeys(NamedTuple):
    """What is known of transfers, sorted by (step, flow, src, dst), before they are timed."""

    columns: Mapping[str, Int32Array]  # step, op, flow, src and dst
    first_link: Int32Array  # by which each transfer leaves its source
    num_hops: Int64Array
    num_ranks: int
    num_flows: int
    num_links: int


def expected_order(journeys: Journeys, times: Times = LARGE_CHUNKS) -> Int32Array:
    """Number the siblings of a step by when they are expected to arrive, int32 (num_transfers,).

    Siblings are REDUCE transfers of one flow to one rank in one step. Sums take them in this order,
    and hardware waits for the first, so the first had better be the earliest. Equal times go by
    `src`. O(num_transfers log num_transfers).
    """
    names = ("step", "op", "flow", "src", "dst")
    step, op, flow, src, dst = (journeys.columns[name] for name in names)
    order = np.zeros(len(step), np.int32)
    reduces = np.flatnonzero(op == 0)
    arrival = expected_arrivals(journeys, times)[reduces]
    by_arrival = reduces[np.lexsort((src[reduces], arrival))]
    siblings = sibling_groups(journeys.num_ranks, journeys.num_flows, step, flow, dst)
    order[by_arrival] = positions_in_group(siblings[by_arrival])
    return int32s("Order", order)


def expected_arrivals(journeys: Journeys, times: Times) -> Int64Array:
    """When each transfer is expected to have arrived, int64 (num_transfers,), in units of `times`.

    Chunks have one length, ports send their rows in order, and a row leaves as soon as its port is
    free and its flow's arrivals of earlier steps are in. Whole numbers: every platform finds the
    same.
    """
    columns, link, num_hops, num_ranks, num_flows, num_links = journeys
    step, flow = columns["step"], columns["flow"].astype(np.int64)
    chunk_time, hop_time = times
    leaves, enters = (flow * num_ranks + columns[end] for end in ("src", "dst"))
    duration = chunk_time + hop_time * num_hops
    ready = np.zeros(num_ranks * num_flows, np.int64)
    free = np.zeros(num_links, np.int64)
    arrival = np.zeros(len(step), np.int64)
    # Rows of one turn are on different links, so that assigning by index loses none of them.
    turn = positions_in_group(step.astype(np.int64) * num_links + link)
    bounds = np.r_[0, np.flatnonzero(np.diff(step)) + 1, len(step)]
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        for wave in range(int(turn[first:last].max(initial=-1)) + 1):
            rows = first + np.flatnonzero(turn[first:last] == wave)
            start = np.maximum(ready[leaves[rows]], free[link[rows]])
            free[link[rows]] = start + chunk_time
            arrival[rows] = start + duration[rows]
        np.maximum.at(ready, enters[first:last], arrival[first:last])
    return arrival


def sibling_groups(
    num_ranks: int, num_flows: int, step: Int32Array, flow: Int32Array, dst: Int32Array
) -> Int64Array:
    """A number for each row, equal for rows of equal step, flow and destination, int64."""
    # Steps are numbered without gaps, so that the product of all three fits 64 bits.
    step_index = np.unique(step, return_inverse=True)[1].astype(np.int64)
    return (step_index * num_flows + flow) * num_ranks + dst
