"""MultiTree: spanning trees grown in turns, so that no two messages meet."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.arrays import Int32Array, largest_group
from multitree.topology.bounds import bound_steps
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.errors import ScheduleError
from multitree.topology.grown import (
    GrownRoutes,
    farthest_first,
    transposed,
    turned_around,
    with_direct_links,
)
from multitree.topology.indirect import grow_over_switches
from multitree.topology.routing import Routes
from multitree.topology.schedule import Schedule
from multitree.topology.topology import Topology

Edges = tuple[Int32Array, Int32Array, Int32Array]
ORDERS = ("ascending", "descending")
NEIGHBOUR_ORDERS = ("best", *ORDERS, "link")
RESTS = (8, 4, 2)
"""Over switches the first that costs no step, with at most `MOST_CONTRIBUTIONS` to a sum; or 1."""
MOST_CONTRIBUTIONS = 64
"""To one sum at one rank: each may have to wait there, and the interfaces count as far."""


def build_multitree(
    topology: Topology,
    *,
    roots: Sequence[int] | None = None,
    root_order: str = "ascending",
    neighbour_order: str = "best",
    rest_steps: int | None = None,
) -> Schedule:
    """Build the all-reduce of MultiTree, Algorithm 1 of [1].

    A tree grows from every rank. A step starts with all links free; trees take turns, each
    adding one child over a free link from a member of an earlier step; when a whole round
    adds nothing the step ends. That is the all-gather; reduce-scatter is the reverse. With
    switches an edge takes a whole route, see `indirect.grow_over_switches`.

    Parameters
    ----------
    topology : Topology
    roots : sequence of int, optional
        One tree, with an equal part of the buffer, for each; every rank once when left out,
        and `[r] * k` for k trees that share the root r.
    root_order : str
        "ascending" or "descending": whose tree has the first turn (with switches: of equals).
    neighbour_order : str
        Which child a member tries first: "ascending" or "descending" by (rank, link id);
        "link" by link id, on the families by direction, so that the trees of a torus grow
        alike; "best": "link", or "ascending" where that takes fewer steps, and the other way
        around with switches (see `indirect.grow_over_switches`).
    rest_steps : int, optional
        With switches, from getting a chunk to passing it on; else what `RESTS` says.

    Returns
    -------
    Schedule
        Of collective "all_reduce", with at most one transfer per link and step.

    Raises
    ------
    ScheduleError
        If a root is no rank, an order unknown, or a number out of range.

    Notes
    -----
    Deterministic. Members are tried as they joined. The published code ends a step when the
    last root adds nothing; here none must. Without reverse links both phases are grown.

    References
    ----------
    .. [1] J. Huang et al., "Communication Algorithm-Architecture Co-Design ...", ISCA 2021.

    Examples
    --------
    >>> from multitree.topology.families import torus
    >>> build_multitree(torus(4, 4)).steps_all_gather
    5
    """
    chosen = chosen_roots(roots, topology.num_ranks)
    _check_order("Root order", root_order, ORDERS)
    last_first = root_order == "descending"
    turns = sorted(range(len(chosen)), key=chosen.__getitem__, reverse=last_first)
    _check_order("Neighbour order", neighbour_order, NEIGHBOUR_ORDERS)
    rows, routes = _shortest(topology, chosen, turns, neighbour_order, rest_steps)
    return Schedule.from_rows(
        topology,
        algorithm="multitree",
        collective="all_reduce",
        flow_offsets=np.arange(len(chosen) + 1),
        rows=rows,
        routes=routes,
    )


def _check_order(name: str, order: str, known: Sequence[str]) -> None:
    if order not in known:
        raise ScheduleError(f"{name} must be one of {', '.join(known)}, not {order!r}")


def _shortest(
    topology: Topology,
    roots: Sequence[int],
    turns: Sequence[int],
    neighbour_order: str,
    rest_steps: int | None,
) -> tuple[Int32Array, Routes]:
    """Rows and routes of order and rest asked for, or of those with the fewest steps."""
    if rest_steps is not None and rest_steps < 1:
        raise ScheduleError(f"Rest steps must be at least 1, not {rest_steps!r}")
    orders: Sequence[str] = (neighbour_order,)
    if neighbour_order == "best":
        orders = ("ascending", "link") if topology.num_switches else ("link", "ascending")
    one_each = sorted(roots) == list(range(topology.num_ranks))
    fewest = 2 * bound_steps(topology) if len(orders) > 1 and one_each else 0
    built = []
    for order in orders:
        rows, routes = _both_phases(topology, roots, turns, order, rest_steps or 1)
        built.append((int(rows[:, 0].max()) + 1, order, rows, routes))
        if built[-1][0] <= fewest:
            break
    num_steps, order, rows, routes = min(built, key=lambda phases: phases[0])
    for longer in RESTS if rest_steps is None and topology.num_switches else ():
        rested, its_routes = _both_phases(topology, roots, turns, order, longer)
        most_added = _most_added(rested, topology.num_ranks)
        if int(rested[:, 0].max()) < num_steps and most_added <= MOST_CONTRIBUTIONS:
            return rested, its_routes
    return rows, routes


def _most_added(rows: Int32Array, num_ranks: int) -> int:
    """Contributions that one rank adds to one sum, at most."""
    flow, dst = rows[rows[:, 1] == Op.REDUCE][:, [2, 4]].astype(np.int64).T
    return largest_group(flow * num_ranks + dst)


def _both_phases(
    topology: Topology,
    roots: Sequence[int],
    turns: Sequence[int],
    neighbour_order: str,
    rest_steps: int,
) -> tuple[Int32Array, Routes]:
    outwards = _grown(topology, roots, turns, neighbour_order, rest_steps)
    inwards = outwards
    if not topology.is_symmetric:
        inwards = _grown(transposed(topology), roots, turns, neighbour_order, rest_steps)
    inwards = turned_around(topology, inwards)
    num_reduce_steps = int(inwards.edges[:, 0].max()) + 1
    steps = np.r_[
        num_reduce_steps - 1 - inwards.edges[:, 0], num_reduce_steps + outwards.edges[:, 0]
    ]
    ops = np.repeat([int(Op.REDUCE), int(Op.GATHER)], [len(inwards.edges), len(outwards.edges)])
    rest = np.concatenate([inwards.edges[:, 1:], outwards.edges[:, 1:]])
    offsets = np.r_[inwards.offsets, inwards.offsets[-1] + outwards.offsets[1:]]
    links, classes = np.r_[inwards.links, outwards.links], np.r_[inwards.classes, outwards.classes]
    return np.column_stack([steps, ops, rest]), (offsets, links, classes)


def _grown(
    topology: Topology,
    roots: Sequence[int],
    turns: Sequence[int],
    neighbour_order: str,
    rest_steps: int,
) -> GrownRoutes:
    if topology.num_switches:
        grown = grow_over_switches(
            topology, roots, turns, neighbour_order=neighbour_order, rest_steps=rest_steps
        )
        return farthest_first(grown, rest_steps)
    edges = grow_trees(
        topology.links, roots, turns, topology.num_ranks, neighbour_order=neighbour_order
    )
    return with_direct_links(topology, *edges)


def grow_trees(
    links: Int32Array,
    roots: Sequence[int],
    turns: Sequence[int],
    num_ranks: int,
    *,
    neighbour_order: str,
) -> Edges:
    """Grow spanning trees in turns until each reaches every rank.

    Parameters
    ----------
    links : numpy.ndarray, int32 (num_links, 2)
    roots : sequence of int
        The root of each tree.
    turns : sequence of int
        The trees in the order of their turns.
    num_ranks : int
    neighbour_order : str
        In which order a member tries its neighbours, as for `build_multitree`.

    Returns
    -------
    tuple of numpy.ndarray, int32 (num_trees * (num_ranks - 1),)
        Step, tree and link of each edge, in the order in which they were added.

    Notes
    -----
    Within a step links are only taken and trees only grow, so a link that was of no use to
    a tree stays so until the step's end: each tree walks once per step along the links that
    lead out of its members, and leaves the step when it comes to their end. So the cost is
    O(sum over steps and trees of such links): 16x16 torus 0.2 s, 32x32 some seconds.
    """
    targets = links[:, 1].tolist()
    ways_out = _ways_out(links, num_ranks, neighbour_order)
    outside = [bytearray(b"\1") * num_ranks for _ in roots]
    ahead = [list(ways_out[root]) for root in roots]
    for tree, root in enumerate(roots):
        outside[tree][root] = 0
    added: list[tuple[int, int, int]] = []
    step, total = 0, len(roots) * (num_ranks - 1)
    while len(added) < total:
        before = len(added)
        free = bytearray(b"\1") * len(targets)
        walks = {tree: iter(ahead[tree]) for tree in turns if ahead[tree]}
        growing = list(walks)
        while growing:
            still = []
            for tree in growing:
                unreached = outside[tree]
                for link in walks[tree]:
                    if free[link] and unreached[targets[link]]:
                        free[link] = unreached[targets[link]] = 0
                        added.append((step, tree, link))
                        still.append(tree)
                        break
            growing = still
        for _, tree, link in added[before:]:
            ahead[tree] += ways_out[targets[link]]
        for tree in walks:
            unreached = outside[tree]
            ahead[tree] = [link for link in ahead[tree] if unreached[targets[link]]]
        step += 1
    table = np.array(added, np.int32)
    return table[:, 0], table[:, 1], table[:, 2]


def _ways_out(links: Int32Array, num_ranks: int, neighbour_order: str) -> list[list[int]]:
    ways: list[list[int]] = [[] for _ in range(num_ranks)]
    ids = np.arange(len(links))
    ordered = ids if neighbour_order == "link" else np.lexsort((ids, links[:, 1]))
    for link in (ordered[::-1] if neighbour_order == "descending" else ordered).tolist():
        ways[int(links[link, 0])].append(link)
    return ways
