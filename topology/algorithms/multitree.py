"""MultiTree: spanning trees grown in turns, so that no two messages meet."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np

from multitree.topology.algorithms.multitree_switched import grow_over_switches
from multitree.topology.arrays import Int32Array, Int64Array, largest_group, positions_in_group
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.errors import ScheduleError, report
from multitree.topology.networks.bounds import bound_steps, link_occupancy
from multitree.topology.networks.topology import Topology
from multitree.topology.routing.default_routes import Routes
from multitree.topology.schedules.schedule import Schedule
from multitree.topology.schedules.trees import (
    LARGE_CHUNKS,
    SMALL_CHUNKS,
    GrownRoutes,
    both_phases,
    farthest_first,
    with_direct_links,
)

__all__ = [
    "HASTES",
    "NEIGHBOUR_ORDERS",
    "build_multitree",
    "grow_trees",
]

Edges = tuple[Int32Array, Int32Array, Int32Array]
NEIGHBOUR_ORDERS = ("mirrored", "link", "ascending", "backwards", "descending", "diagonal")
"""In which order a member of a tree tries its links.

`link`, `backwards`: by id, which on the families is by direction, or in reverse. `mirrored`: every
second link by id, then the others backwards, so that on tori opposite directions are as far from
the middle as each other. `ascending`, `descending`: by (rank, link id) of the neighbour.
`diagonal`: by id, beginning further on by one from rank to rank.
"""

HASTES = ("fast", "patient", "eager")
"""How trees take links of unequal speed.

`eager`: links of members that joined earlier first. `fast`: faster links first. `patient`: the
same, but none to a rank that another link would reach sooner, were it free, from a member that has
the chunk or is about to get it.
"""


def grow_trees(
    links: Int32Array,
    roots: Sequence[int],
    turns: Sequence[int],
    num_ranks: int,
    *,
    neighbour_order: str,
    slots: Int64Array | None = None,
    haste: str = "eager",
) -> Edges:
    """Grow spanning trees in turns until each reaches every rank: step, tree and link of each edge.

    `slots`, int64 (num_links,), are the steps that a chunk holds each link and needs to arrive, 1
    when left out. Within a step links are only taken and trees only grow, so a link that was of no
    use to a tree stays so until the step's end: each tree walks once per step along the links that
    lead out of its members. So the cost is O(sum over steps and trees of such links): 16x16 torus
    0.2 s, 32x32 some seconds. Steps in which nothing arrives and no link becomes free are passed
    over.
    """
    held = [1] * len(links) if slots is None else slots.tolist()
    targets = links[:, 1].tolist()
    links_out = _links_out(links, num_ranks, neighbour_order)
    outside = [bytearray(b"\1") * num_ranks for _ in roots]
    ahead = [list(links_out[root]) for root in roots]
    for tree, root in enumerate(roots):
        outside[tree][root] = 0
    free = bytearray(b"\1") * len(targets)
    patience = _Patience(links, held, roots) if haste == "patient" else None
    on_links: dict[int, list[tuple[int, int]]] = {}
    added: list[tuple[int, int, int]] = []
    step, total = 0, len(roots) * (num_ranks - 1)
    # Each turn of the loop is one step of Algorithm 1 of MultiTree (ISCA 2021).
    while len(added) < total:
        for tree, link in on_links.pop(step, ()):
            free[link] = 1
            ahead[tree] += links_out[targets[link]]
        growing = [tree for tree in turns if ahead[tree]]
        if haste != "eager":
            for tree in growing:
                # A stable sort: among links of equal speed those of earlier members stay first.
                ahead[tree].sort(key=held.__getitem__)
        for tree, link in _grown_in_turns(step, growing, ahead, outside, free, targets, patience):
            added.append((step, tree, link))
            on_links.setdefault(step + held[link], []).append((tree, link))
        report("growing trees, edges added", len(added), total)
        for tree in growing:
            unreached = outside[tree]
            ahead[tree] = [link for link in ahead[tree] if unreached[targets[link]]]
        step = min(on_links)
    table = np.array(added, np.int32)
    return table[:, 0], table[:, 1], table[:, 2]


class _Patience:
    """Says of a free link whether a tree had better wait for another one.

    `held` are the steps to the end of each link.
    """

    def __init__(self, links: Int32Array, held: list[int], roots: Sequence[int]) -> None:
        self._held = held
        self._there: list[dict[int, int]] = [{root: 0} for root in roots]
        into: dict[int, list[tuple[int, int]]] = {}
        ends = links.tolist()
        for (src, dst), steps in zip(ends, held, strict=True):
            into.setdefault(dst, []).append((src, steps))
        self._faster = [
            [(src, steps) for src, steps in into[dst] if steps < held[link]]
            for link, (_, dst) in enumerate(ends)
        ]
        self._targets = links[:, 1].tolist()

    def take(self, step: int, tree: int, link: int) -> None:
        """A tree takes a link: the chunk is in flight to its end."""
        self._there[tree][self._targets[link]] = step + self._held[link]

    def waits(self, step: int, tree: int, link: int) -> bool:
        """Whether a member has, or will have, a link by which the same rank is reached sooner."""
        there, arrives = self._there[tree], step + self._held[link]
        # Of members that are there already every faster link would be sooner.
        return any(
            src in there and there[src] + steps < arrives for src, steps in self._faster[link]
        )


def _grown_in_turns(
    step: int,
    growing: list[int],
    ahead: list[list[int]],
    outside: list[bytearray],
    free: bytearray,
    targets: list[int],
    patience: _Patience | None,
) -> Iterator[tuple[int, int]]:
    """The edges of one step, tree and link: a tree that adds none has no more turns."""
    # The published code ends a step when the last root adds nothing; here none must.
    # Iterators keep their place from round to round:
    # what was passed over stays useless in this step.
    walks = {tree: iter(ahead[tree]) for tree in growing}
    while growing:
        still = []
        for tree in growing:
            unreached = outside[tree]
            for link in walks[tree]:
                if free[link] and unreached[targets[link]]:
                    if patience is not None:
                        if patience.waits(step, tree, link):
                            continue
                        patience.take(step, tree, link)
                    free[link] = unreached[targets[link]] = 0
                    still.append(tree)
                    yield tree, link
                    break
        growing = still


def _links_out(links: Int32Array, num_ranks: int, neighbour_order: str) -> list[list[int]]:
    """Links that leave each rank, in the order in which they are tried."""
    src, dst = links.T
    port = positions_in_group(src.astype(np.int64))
    degree = np.bincount(src, minlength=num_ranks)[src]
    place = {
        # Even ports first, ascending, then odd ones, descending.
        "mirrored": np.where(port % 2, degree - port, port - degree),
        "link": port,
        "backwards": -port,
        "ascending": dst,
        "descending": -dst.astype(np.int64),
        "diagonal": (port + src) % degree,
    }[neighbour_order]
    port = -port if neighbour_order == "descending" else port
    links_of: list[list[int]] = [[] for _ in range(num_ranks)]
    for link in np.lexsort((port, place)).tolist():
        links_of[int(src[link])].append(link)
    return links_of


ROOT_ORDERS = ("ascending", "descending")
OVER_SWITCHES = ("ascending", "link", "descending")
MOST_WORK = 3 << 18
"""Trees times links of all orders that are tried on direct links, at most, but for the first."""
RESTS = (8, 4, 2)
"""Over switches the first that costs no step, with at most `MOST_CONTRIBUTIONS` to a sum; or 1."""
MOST_CONTRIBUTIONS = 64
"""To one sum at one rank: each may have to wait there, and the interfaces count as far."""


def build_multitree(
    topology: Topology,
    *,
    roots: Sequence[int] | None = None,
    root_order: str = "best",
    neighbour_order: str = "best",
    rest_steps: int | None = None,
) -> Schedule:
    """Build the all-reduce of MultiTree, Algorithm 1 of J. Huang et al., ISCA 2021.

    A tree grows from each of `roots`. A step starts with all links free; trees take turns, each
    adding one child over a free link from a member of an earlier step; when a whole round adds
    nothing the step ends. That is the all-gather; reduce-scatter is the reverse, or grown, too,
    without reverse links. With switches an edge takes a whole route, see `grow_over_switches`, and
    a rank passes a chunk on after `rest_steps`, see `RESTS`. "best" is the order with the fewest
    steps, then the earliest end of small chunks; all 12 are tried up to 128 ranks with four links.
    """
    chosen = chosen_roots(roots, topology.num_ranks)
    _check_order("Root order", root_order, ROOT_ORDERS)
    known = OVER_SWITCHES if topology.num_switches else NEIGHBOUR_ORDERS
    _check_order("Neighbour order", neighbour_order, known)
    if rest_steps is not None and rest_steps < 1:
        raise ScheduleError(f"Rest steps must be at least 1, not {rest_steps!r}")
    if topology.num_switches:
        phases = _over_switches(topology, chosen, root_order, neighbour_order, rest_steps)
        return _schedule(topology, len(chosen), *phases)
    return _on_links(topology, chosen, root_order, neighbour_order)


def _check_order(name: str, order: str, known: Sequence[str]) -> None:
    if order not in ("best", *known):
        raise ScheduleError(f"{name} must be best, {', '.join(known)}, not {order!r}")


def _turns(roots: Sequence[int], order: str) -> list[int]:
    """The trees in the order of their turns."""
    return sorted(range(len(roots)), key=roots.__getitem__, reverse=order == "descending")


def _schedule(topology: Topology, num_flows: int, rows: Int32Array, routes: Routes) -> Schedule:
    return Schedule.from_rows(
        topology,
        algorithm="multitree",
        collective="all_reduce",
        flow_offsets=np.arange(num_flows + 1),
        rows=rows,
        routes=routes,
        times=LARGE_CHUNKS if topology.num_switches else SMALL_CHUNKS,
    )


def _on_links(
    topology: Topology, roots: Sequence[int], root_order: str, neighbour_order: str
) -> Schedule:
    """The schedule of the orders asked for, or of the best ones, and of the best haste."""
    root_orders = ROOT_ORDERS if root_order == "best" else (root_order,)
    neighbour_orders = NEIGHBOUR_ORDERS if neighbour_order == "best" else (neighbour_order,)
    slots = link_occupancy(topology)
    hastes = HASTES if slots.max() > slots.min() else ("eager",)
    orders = list(product(root_orders, neighbour_orders, hastes))

    def grown(network: Topology, *, turns: Sequence[int], order: str, haste: str) -> GrownRoutes:
        edges = grow_trees(
            network.links,
            roots,
            turns,
            network.num_ranks,
            neighbour_order=order,
            slots=slots,
            haste=haste,
        )
        return with_direct_links(network, *edges)

    built = []
    # Hastes vary fastest in `orders`, so the first order is tried with all of them at least.
    most = max(len(hastes), MOST_WORK // (len(roots) * topology.num_links))
    for first, order, haste in orders[:most]:
        grow = partial(grown, turns=_turns(roots, first), order=order, haste=haste)
        schedule = _schedule(topology, len(roots), *both_phases(topology, grow, slots))
        end = int((schedule.step + slots[schedule.route_links]).max())
        built.append(((end, schedule.expected_end(SMALL_CHUNKS)), schedule))
    return min(built, key=lambda each: each[0])[1]


def _over_switches(
    topology: Topology,
    roots: Sequence[int],
    root_order: str,
    neighbour_order: str,
    rest_steps: int | None,
) -> tuple[Int32Array, Routes]:
    """Rows and routes of order and rest asked for, or of those with the fewest steps."""
    turns = _turns(roots, root_order)
    orders = OVER_SWITCHES[:2] if neighbour_order == "best" else (neighbour_order,)
    slots = link_occupancy(topology)

    def grown(order: str, rest: int) -> tuple[Int32Array, Routes]:
        def grow(network: Topology) -> GrownRoutes:
            trees = grow_over_switches(
                network, roots, turns, neighbour_order=order, rest_steps=rest, slots=slots
            )
            return trees if slots.max() > 1 else farthest_first(trees, rest)

        return both_phases(topology, grow, slots)

    one_each = sorted(roots) == list(range(topology.num_ranks))
    # At the bound another order cannot be better; it holds only where each rank is one tree's root.
    fewest = 2 * bound_steps(topology) if len(orders) > 1 and one_each else 0
    built = []
    for order in orders:
        rows, routes = grown(order, rest_steps or 1)
        built.append((int(rows[:, 0].max()) + 1, order, rows, routes))
        if built[-1][0] <= fewest:
            break
    num_steps, order, rows, routes = min(built, key=lambda phases: phases[0])
    for longer in RESTS if rest_steps is None else ():
        rested, its_routes = grown(order, longer)
        added = _most_added(rested, topology.num_ranks)
        if int(rested[:, 0].max()) < num_steps and added <= MOST_CONTRIBUTIONS:
            return rested, its_routes
    return rows, routes


def _most_added(rows: Int32Array, num_ranks: int) -> int:
    """Contributions that one rank adds to one sum, at most."""
    flow, dst = rows[rows[:, 1] == Op.REDUCE][:, [2, 4]].astype(np.int64).T
    return largest_group(flow * num_ranks + dst)
