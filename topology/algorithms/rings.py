"""Ring all-reduces, the baselines: in one direction, in both, on switch planes."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.algorithms.hamiltonian import hamiltonian_cycle
from multitree.topology.algorithms.switch_planes import boxed_planes, plane_routes
from multitree.topology.arrays import Int32Array, Int64Array, int32s
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.measures import Adjacency, adjacency
from multitree.topology.networks.topology import Topology
from multitree.topology.routing.default_routes import LinkFinder
from multitree.topology.schedules.schedule import Schedule

Routes = tuple[Int64Array, Int64Array, Int64Array]


class TreeWalk:
    """A ring of all ranks, without switches, each at most three links behind the one before.

    A walk around a spanning tree takes each link of it once in each direction, past every rank.
    A rank gets its place in the ring where the walk first comes to it if it is an even number of
    links below rank 0, and where the walk last leaves it if an odd one: so neither a path down nor
    a path up passes two ranks that have or had their place elsewhere (M. Sekanina, "On an ordering
    of the set of vertices of a connected graph", University of Brno 412, 1960). The tree is breadth
    first from rank 0; a ScheduleError is raised where links with a reverse do not join all ranks.
    """

    def __init__(self, topology: Topology) -> None:
        self._finder = LinkFinder(topology)
        both_directions = topology.links[topology.reverse >= 0]
        self._parent = _parents(topology, both_directions[np.lexsort(both_directions.T[::-1])])
        self.order = self._walk()

    def _walk(self) -> list[int]:
        children: list[list[int]] = [[] for _ in self._parent]
        for rank, parent in enumerate(self._parent):
            if parent >= 0:
                children[parent].append(rank)
        order: list[int] = []
        stack = [(0, 0, False)]
        while stack:
            rank, depth, leaves = stack.pop()
            # Sekanina: even depths get their place when the walk comes, odd ones when it leaves.
            if leaves == bool(depth % 2):
                order.append(rank)
            if not leaves:
                stack.append((rank, depth, True))
                stack += [(child, depth + 1, False) for child in reversed(children[rank])]
        return order

    def routes(self, src: Int64Array, dst: Int64Array) -> Routes:
        """For each pair of ranks the link that joins them, or else the path along the tree.

        All are in class 0. Of the pairs that follow each other in `order` no two take the same
        link, and since paths lead up the tree, then down, no messages wait in a circle.
        """
        pairs, pair_of_row = np.unique(np.stack([src, dst]), axis=1, return_inverse=True)
        paths = [self._way(*pair) for pair in pairs.T.tolist()]
        taken = [paths[pair] for pair in pair_of_row.ravel().tolist()]
        offsets = np.r_[0, np.cumsum([len(way) for way in taken])]
        links = np.concatenate(taken)
        return offsets, links, np.zeros_like(links)

    def _way(self, src: int, dst: int) -> Int64Array:
        direct = self._finder.lowest(np.array([src]), np.array([dst]))
        if direct[0] >= 0:
            return direct
        up, down = self._ancestors(src), self._ancestors(dst)
        while len(up) > 1 and len(down) > 1 and up[-2] == down[-2]:
            up.pop()
            down.pop()
        nodes = np.array(up[:-1] + down[::-1])
        return self._finder.lowest(nodes[:-1], nodes[1:])

    def _ancestors(self, rank: int) -> list[int]:
        found = [rank]
        while self._parent[found[-1]] >= 0:
            found.append(self._parent[found[-1]])
        return found


def _parents(topology: Topology, links: Int32Array) -> list[int]:
    """Each rank's parent in a tree below rank 0, breadth first; -1 for rank 0."""
    neighbours: list[list[int]] = [[] for _ in range(topology.num_nodes)]
    for here, there in links.tolist():
        neighbours[here].append(there)
    parent = [-1] * topology.num_nodes
    reached = [0]
    for rank in reached:
        for there in neighbours[rank]:
            if there and parent[there] < 0:
                parent[there] = rank
                reached.append(there)
    if len(reached) < topology.num_nodes:
        raise ScheduleError(
            f"{topology.name!r} must be joined by links with a reverse for a ring around a tree"
        )
    return parent


def build_ring(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the ring all-reduce in one direction, on a Hamiltonian cycle where there is one.

    A flow's sum starts behind its root, goes once around and ends at the root, from where
    the result goes once around: N-1 steps per phase, each link of the cycle used once per
    step. Neighbours in the ring that no link joins send along a tree without switches, see
    `TreeWalk`, and over default routes with them. O(flows x ranks).

    P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
    workstations", Journal of Parallel and Distributed Computing 69 (2), 2009.
    """
    chosen = chosen_roots(roots, topology.num_ranks)
    rows = once_around(ring_order(topology), chosen)
    return Schedule.from_rows(
        topology,
        algorithm="ring",
        collective="all_reduce",
        flow_offsets=np.arange(len(chosen) + 1),
        rows=rows,
        routes=_routes(topology, rows),
    )


def build_bidirectional_ring(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the all-reduce of two rings, one in each direction around the same cycle.

    Flows 2i and 2i+1 belong to the i-th root and carry half of its part each: the even ones
    as `build_ring` does it, the odd ones in the opposite direction, in N-1 steps per phase.
    Where both directions want the same link they take turns, in twice as many steps: so do ranks
    with one link each, behind switches, and walks around a tree, for which both directions are no
    faster than one.
    """
    chosen = chosen_roots(roots, topology.num_ranks)
    order = ring_order(topology)
    forwards, backwards = (once_around(way, chosen) for way in (order, order[::-1]))
    forwards[:, 2] *= 2
    backwards[:, 2] = 2 * backwards[:, 2] + 1
    rows = np.concatenate([forwards, backwards])
    routes = _routes(topology, rows)
    # Between two ranks both directions are the same: they take parallel links where there are any.
    if routes is not None and topology.num_ranks == 2:
        half, (offsets, links, classes) = len(forwards), routes
        routes = offsets, np.r_[links[:half], _other_links(topology, links[half:])], classes

    def schedule(rows: Int32Array) -> Schedule:
        return Schedule.from_rows(
            topology,
            algorithm="bidirectional_ring",
            collective="all_reduce",
            flow_offsets=np.arange(2 * len(chosen) + 1),
            rows=rows,
            routes=routes,
        )

    together = schedule(rows)
    if together.max_link_load == 1:
        return together
    rows[:, 0] = 2 * rows[:, 0] + rows[:, 2] % 2
    return schedule(rows)


def build_plane_rings(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build as many rings as ranks have links to switch planes, each with its part of the buffer.

    A ring fills the link of each rank to its plane, in both directions. So rings on all planes at
    once come to the bound of large buffers where one ring has one link of each rank: N-1 steps per
    phase on K planes, of a chunk of 1/(NK). NCCL does the same: it has a ring per channel, and
    spreads channels over links (S. Jeaugey, "NCCL 2.0", GPU Technology Conference, NVIDIA, 2017).
    """
    chosen = chosen_roots(roots, topology.num_ranks)
    boxed = boxed_planes(topology, "plane_rings")
    if boxed.rails:
        raise ScheduleError(
            f"{topology.name!r}: plane_rings must have planes that join all ranks, not "
            f"{len(boxed.boxes)} boxes"
        )
    (planes,) = boxed.planes
    ring = once_around(ring_order(topology), chosen)
    rows, offsets, links, classes = [], [np.zeros(1, np.int64)], [], []
    for number, plane in enumerate(planes):
        own = ring.copy()
        own[:, 2] = len(planes) * ring[:, 2] + number
        # The plane's ranks are all ranks, so that their places are their numbers.
        src, dst = ring[:, 3:].T.astype(np.int64)
        route = plane_routes(topology, plane, src, dst, algorithm="plane_rings")
        rows.append(own)
        offsets.append(offsets[-1][-1] + route[0][1:])
        links.append(route[1])
        classes.append(route[2])
    return Schedule.from_rows(
        topology,
        algorithm="plane_rings",
        collective="all_reduce",
        flow_offsets=np.arange(len(planes) * len(chosen) + 1),
        rows=np.concatenate(rows),
        routes=(np.concatenate(offsets), np.concatenate(links), np.concatenate(classes)),
    )


def ring_order(topology: Topology) -> list[int]:
    """The ranks in the order of a ring, from rank 0.

    Without switches that is a Hamiltonian cycle of links where one is found, else the order of a
    `TreeWalk`. With switches, each rank is followed by the nearest that has no place yet, of
    several the lowest: ranks on one switch stand next to each other, and switches next to their
    neighbours. On all families with switches no two routes of the ring then share a link; on other
    graphs they may, and `verify` says so.
    """
    if not topology.num_switches:
        try:
            return hamiltonian_cycle(topology)
        except ScheduleError:
            return TreeWalk(topology).order
    neighbours = adjacency(topology.links[:, 0], topology.links[:, 1], topology.num_nodes)
    left = set(range(1, topology.num_ranks))
    order = [0]
    while left:
        order.append(_nearest(neighbours, order[-1], left))
        left.remove(order[-1])
    return order


def _nearest(neighbours: Adjacency, start: int, wanted: set[int]) -> int:
    seen = frontier = {start}
    while not frontier & wanted:
        frontier = {there for node in frontier for there in neighbours[node]} - seen
        seen = seen | frontier
    return min(frontier & wanted)


def _routes(topology: Topology, rows: Int32Array) -> Routes | None:
    """Without switches each row's link, or path along a tree; with them left to `routing`."""
    if topology.num_switches:
        return None
    src, dst = rows[:, 3:].astype(np.int64).T
    links = LinkFinder(topology).lowest(src, dst)
    if (links < 0).any():
        return TreeWalk(topology).routes(src, dst)
    return np.arange(len(rows) + 1), links, np.zeros_like(links)


def once_around(cycle: Sequence[int], roots: Sequence[int]) -> Int32Array:
    """step, op, flow, src and dst of a ring in one direction, one flow for each root.

    REDUCE rows come first, int32 (2 * roots * (ranks - 1), 5).
    """
    num_ranks, num_phase_steps = len(cycle), len(cycle) - 1
    around = np.array(cycle)
    step = np.arange(num_phase_steps)
    place = np.argsort(around)[np.array(roots)][:, None]
    halves = []
    for op, first in ((Op.REDUCE, place + 1), (Op.GATHER, place)):
        src = around[(first + step) % num_ranks]
        dst = around[(first + step + 1) % num_ranks]
        flow = np.broadcast_to(np.arange(len(roots))[:, None], src.shape)
        steps = np.broadcast_to(step + op * num_phase_steps, src.shape)
        columns = (steps, np.full(src.shape, op), flow, src, dst)
        halves.append(np.stack([column.ravel() for column in columns], axis=1))
    return np.concatenate(halves).astype(np.int32)


def _other_links(topology: Topology, links: Int64Array) -> Int32Array:
    ends = topology.links
    # Later links overwrite earlier ones: the link of highest id, as `lowest` found that of lowest.
    last = {tuple(pair): link for link, pair in enumerate(ends.tolist())}
    return int32s("Links", [last[tuple(ends[link].tolist())] for link in links.tolist()])
