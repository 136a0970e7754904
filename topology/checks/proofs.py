"""The proofs that `verify` is made of, one property of a schedule each."""

from array import array

import numpy as np

from multitree.topology.arrays import BoolArray, Int64Array, positions_in_group, rows_of_entries
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError, TopologyError, shown
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.columns import MAX_CLASSES
from multitree.topology.schedules.schedule import Schedule
from multitree.topology.schedules.trees import sibling_groups

MOST_LISTED = 8
MOST_SWITCH_PORTS, MOST_SWITCHES, MOST_SWITCH_CLASSES = 32, 9, 2
"""Ports of a switch, switches on a route, which heads have room for, and classes on a link."""


def check_deadlock(schedule: Schedule, row_of: Int64Array, is_first: BoolArray) -> None:
    """No circle of messages can wait on links, each for a (link, class) that the next one holds.

    `row_of` has the row of each hop, `is_first` says whether it begins a route. The ScheduleError
    lists at most `MOST_LISTED` waits of a circle. O(num_hops log num_hops).
    """
    # Dally and Seitz: there is no deadlock if the dependencies between
    # channels have no cycle. Routes of one link have no dependencies.
    if is_first.all():
        return
    resource = schedule.route_links.astype(np.int64) * MAX_CLASSES + schedule.route_classes
    onward = np.flatnonzero(~is_first)
    # Channels in use are numbered without gaps, so that a pair of them fits 64 bits.
    names, place = np.unique(resource, return_inverse=True)
    held, wanted = place[onward - 1], place[onward]
    edges, first = np.unique(held * len(names) + wanted, return_index=True)
    circle = circle_among(*np.divmod(edges, len(names)), len(names))
    if not circle:
        return
    rows = row_of[onward[first[circle]]].tolist()
    goals = names[edges[circle] % len(names)].tolist()
    waits = [
        f"row {row} for link {goal // MAX_CLASSES} class {goal % MAX_CLASSES}"
        for row, goal in zip(rows[:MOST_LISTED], goals, strict=False)
    ]
    if len(rows) > MOST_LISTED:
        waits.append(f"and {len(rows) - MOST_LISTED} more")
    raise ScheduleError(
        f"{schedule.describe(rows[0])}: route must not close a circle of waiting messages, "
        f"not wait as here, each for a link that the next one holds: {', '.join(waits)}"
    )


def circle_among(source: Int64Array, target: Int64Array, num_nodes: int) -> list[int]:
    """The edges of a circle in a directed graph, ascending by source; empty where there is none.

    Nodes that nothing leads to are taken away until there are none. If nodes are left, something
    that is left leads to each; so who goes backwards comes round. O(num_nodes + num_edges).
    """
    starts = np.searchsorted(source, np.arange(num_nodes + 1)).tolist()
    # An array holds 8 bytes for each edge; a list would hold several times that.
    targets = array("q", target.tobytes())
    waiting = np.bincount(target, minlength=num_nodes).tolist()
    free = [node for node, number in enumerate(waiting) if not number]
    # Kahn's topological sort: what it cannot remove is on cycles, or behind them.
    while free:
        node = free.pop()
        for after in targets[starts[node] : starts[node + 1]]:
            waiting[after] -= 1
            if not waiting[after]:
                free.append(after)
    left = np.array(waiting) > 0
    kept = np.flatnonzero(left[source] & left[target])
    if not kept.size:
        return []
    before = np.zeros(num_nodes, np.int64)
    # Of several edges into a node the last one assigned stays; any of them will do.
    before[target[kept]] = kept
    node = int(target[kept[0]])
    seen: dict[int, int] = {}
    path: list[int] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(int(before[node]))
        node = int(source[path[-1]])
    return path[seen[node] :][::-1]


def check_sorted(schedule: Schedule) -> None:
    """Rows ascend by (step, flow, src, dst), no two alike."""
    above = np.zeros(max(schedule.num_transfers - 1, 0), bool)
    equal = ~above
    for field in (schedule.step, schedule.flow, schedule.src, schedule.dst):
        # Lexicographic order for all rows at once: above by this field, equal in all fields so far.
        above |= equal & (field[1:] > field[:-1])
        equal &= field[1:] == field[:-1]
    wrong = np.flatnonzero(~above)
    if wrong.size:
        row = int(wrong[0]) + 1
        raise ScheduleError(
            f"{schedule.describe(row)}: rows must ascend by (step, flow, src, dst), "
            f"not follow {schedule.describe(row - 1)}"
        )


def check_flow_offsets(schedule: Schedule) -> None:
    """Flow offsets rise from 0, so that every element belongs to exactly one flow."""
    offsets = schedule.flow_offsets
    if offsets[0] != 0 or offsets[-1] <= 0:
        raise ScheduleError(
            f"Flow offsets must run from 0 to a positive number, not from {offsets[0]} "
            f"to {offsets[-1]}"
        )
    falling = np.flatnonzero(np.diff(offsets) < 0)
    if falling.size:
        flow = int(falling[0])
        raise ScheduleError(
            f"Flow offsets must not fall, not go from {offsets[flow]} to {offsets[flow + 1]} "
            f"at flow {flow}"
        )


def check_routes(schedule: Schedule) -> None:
    """Every route is a path from src to dst, and no circle of messages can wait on links."""
    offsets = schedule.route_offsets
    row_of = rows_of_entries(offsets)
    tails, heads = schedule.topology.links[schedule.route_links].T
    is_first = np.zeros(len(row_of), bool)
    is_first[offsets[:-1]] = True
    came_from = np.where(is_first, schedule.src[row_of], np.r_[-1, heads[:-1]][: len(heads)])
    wrong = np.zeros(schedule.num_transfers, bool)
    wrong[row_of[tails != came_from]] = True
    wrong |= heads[offsets[1:] - 1] != schedule.dst
    wrong |= schedule.src == schedule.dst
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        route = schedule.topology.links[schedule.route_links[offsets[row] : offsets[row + 1]]]
        raise ScheduleError(
            f"{schedule.describe(row)}: route must be a path from src to another rank dst, "
            f"not links {shown(route.tolist())}"
        )
    check_deadlock(schedule, row_of, is_first)


def check_trees(schedule: Schedule, op: Op) -> None:
    """Each flow's rows of one op are a spanning tree that steps run along.

    A REDUCE tree runs inwards: every rank but the root sends its sum once, after all that it waits
    for. A GATHER tree runs outwards. Then every contribution is in the sum exactly once, and no
    chunk is written in the step in which it is read.
    """
    num_ranks = schedule.topology.num_ranks
    rows = np.flatnonzero(schedule.op == op)
    child, parent = (schedule.src, schedule.dst)[:: 1 if op == Op.REDUCE else -1]
    place = schedule.flow[rows].astype(np.int64) * num_ranks
    key = place + child[rows]
    verb = "send its sum" if op == Op.REDUCE else "receive the result"
    again = np.flatnonzero(positions_in_group(key) > 0)
    if again.size:
        row, rank = int(rows[again[0]]), int(child[rows[again[0]]])
        before = schedule.describe(int(rows[key == key[again[0]]][0]))
        raise ScheduleError(
            f"{schedule.describe(row)}: rank {rank} must {verb} once, not again after {before}"
        )
    when = np.full(schedule.num_flows * num_ranks, -1, np.int64)
    when[key] = schedule.step[rows]
    _check_complete(schedule, op, (when < 0).reshape(-1, num_ranks), rows)
    joined = when[place + parent[rows]]
    steps = schedule.step[rows]
    # Steps that strictly ascend also exclude cycles: one root and N - 1 edges then make a tree.
    early = (joined >= 0) & (steps >= joined if op == Op.REDUCE else steps <= joined)
    if early.any():
        at = int(np.flatnonzero(early)[0])
        row, rank = int(rows[at]), int(parent[rows[at]])
        relation = "before" if op == Op.REDUCE else "after"
        raise ScheduleError(
            f"{schedule.describe(row)}: step must be {relation} the one in which rank {rank} "
            f"itself does {verb}, not {schedule.step[row]} where that is {joined[at]}"
        )


def _check_complete(schedule: Schedule, op: Op, parentless: np.ndarray, rows: Int64Array) -> None:
    counts = parentless.sum(axis=1)
    wrong = np.flatnonzero(counts != 1)
    if not wrong.size:
        return
    flow = int(wrong[0])
    of_flow = rows[schedule.flow[rows] == flow]
    if not of_flow.size:
        raise ScheduleError(f"Flow {flow} must have {op.name} rows, not none")
    row = int(of_flow[-1])
    ranks = np.flatnonzero(parentless[flow])
    verb = "send their sums" if op == Op.REDUCE else "receive the result"
    if not ranks.size:
        raise ScheduleError(f"{schedule.describe(row)}: flow {flow} must have a root, not a circle")
    raise ScheduleError(
        f"{schedule.describe(row)}: all ranks but the root must {verb} before flow {flow} "
        f"ends with this row, not all but {ranks[:8].tolist()}"
    )


def check_phases(schedule: Schedule) -> None:
    """In an all-reduce, each flow's results leave the rank where its sum is, when it is whole."""
    sums, results = schedule.roots_of(Op.REDUCE), schedule.roots_of(Op.GATHER)
    reduces = schedule.op == Op.REDUCE
    last = np.full(schedule.num_flows, -1, np.int64)
    np.maximum.at(last, schedule.flow[reduces], schedule.step[reduces])
    leaves = ~reduces & (schedule.src == results[schedule.flow])
    wrong = leaves & (schedule.src != sums[schedule.flow])
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ScheduleError(
            f"{schedule.describe(row)}: results must come from the root of the sum, "
            f"rank {sums[schedule.flow[row]]}, not from rank {schedule.src[row]}"
        )
    early = leaves & (schedule.step <= last[schedule.flow])
    if early.any():
        row = int(np.flatnonzero(early)[0])
        raise ScheduleError(
            f"{schedule.describe(row)}: step must be after the sum's last, "
            f"{last[schedule.flow[row]]}, not {schedule.step[row]}"
        )


def check_order(schedule: Schedule) -> None:
    """Siblings of one step are numbered 0, 1, 2, ... by `order`, so that a sum has one order."""
    shape = (schedule.topology.num_ranks, schedule.num_flows)
    groups = sibling_groups(*shape, schedule.step, schedule.flow, schedule.dst)
    by_order = np.argsort(schedule.order, kind="stable")
    expected = positions_in_group(groups[by_order])
    wrong = by_order[schedule.order[by_order] != expected]
    if wrong.size:
        row = int(wrong.min())
        raise ScheduleError(
            f"{schedule.describe(row)}: order must number the siblings of the step from 0, "
            f"not be {schedule.order[row]}"
        )


def check_switch_ports(topology: Topology, *, routers: bool = False) -> None:
    """Raise a TopologyError where a switch has more than `MOST_SWITCH_PORTS` ports.

    Routers that are attached to the ranks, if asked for, have two for each of a rank's.
    """
    ports = topology.num_ports.astype(np.int64)
    ports[: topology.num_ranks] *= 2 * routers
    if (ports > MOST_SWITCH_PORTS).any():
        node = int(np.argmax(ports > MOST_SWITCH_PORTS))
        what = "switch" if node >= topology.num_ranks else "the router of rank"
        raise TopologyError(
            f"{topology.name}: ports of {what} {topology.label(node)} must be at most "
            f"{MOST_SWITCH_PORTS}, not {ports[node]}"
        )


def check_switches(schedule: Schedule) -> None:
    """Every switch, and every router that is attached to a rank, can carry out the routes.

    A TopologyError names the network and a switch with too many ports, a ScheduleError the network
    and a row whose route leads through too many switches, has too high a class, or leaves a switch
    by the port that it came in by. O(num_hops).
    """
    topology, offsets = schedule.topology, schedule.route_offsets
    row_of = rows_of_entries(offsets)
    goes_on = np.ones(len(row_of), bool)
    goes_on[offsets[1:] - 1] = False
    came_by = np.flatnonzero(goes_on)
    passed = topology.links[schedule.route_links[came_by], 1]
    # Routes through ranks make interfaces pass nothing on: every rank has a router of its own.
    through_ranks = bool((passed < topology.num_ranks).any())
    check_switch_ports(topology, routers=through_ranks)
    if not topology.num_switches and not through_ranks:
        return
    num_switches = np.diff(offsets) + (1 if through_ranks else -1)
    turns_back = (
        schedule.route_links[came_by + 1] == topology.reverse[schedule.route_links[came_by]]
    )
    classes = np.maximum.reduceat(schedule.route_classes, offsets[:-1])
    _check_lengths(schedule, num_switches, through_ranks)
    if (classes >= MOST_SWITCH_CLASSES).any():
        row = int(np.argmax(classes >= MOST_SWITCH_CLASSES))
        raise ScheduleError(
            f"{topology.name}: {schedule.describe(row)}: virtual-channel class must be at most "
            f"{MOST_SWITCH_CLASSES - 1}, not {classes[row]}"
        )
    if turns_back.any():
        hop = int(np.argmax(turns_back))
        raise ScheduleError(
            f"{topology.name}: {schedule.describe(int(row_of[came_by[hop]]))}: route must not "
            f"leave node {topology.label(int(passed[hop]))} by the port that it came in by"
        )


def _check_lengths(schedule: Schedule, num_switches: Int64Array, through_ranks: bool) -> None:
    """Raise a ScheduleError that names a message's ends where heads have no room for its route."""
    if (num_switches <= MOST_SWITCHES).all():
        return
    row = int(num_switches.argmax())
    topology, number = schedule.topology, int(num_switches[row])
    src, dst = (topology.label(int(ends[row])) for ends in (schedule.src, schedule.dst))
    where = ", each rank's router included" if through_ranks else ""
    raise ScheduleError(
        f"{topology.name}: {schedule.algorithm} sends from rank {src} to rank {dst}, and heads "
        f"have no room for its way: switches on the route must be at most {MOST_SWITCHES}, "
        f"not {number}{where}"
    )
