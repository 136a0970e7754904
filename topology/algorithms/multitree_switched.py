"""MultiTree over switches: spanning trees whose edges take every link of a route."""

from collections.abc import Iterator, Sequence

import numpy as np

from multitree.topology.arrays import Int64Array
from multitree.topology.networks.topology import Topology
from multitree.topology.routing.legal_moves import END, LegalMoves
from multitree.topology.schedules.trees import GrownRoutes


def grow_over_switches(
    topology: Topology,
    roots: Sequence[int],
    turns: Sequence[int],
    *,
    neighbour_order: str,
    rest_steps: int = 1,
    slots: Int64Array | None = None,
) -> GrownRoutes:
    """Grow spanning trees in turns, where an edge needs every link of its route free.

    In its turn a tree adds the rank outside it that is fewest links away from a member that has
    rested, over free links. Trees with most members have the first turns: good where few links lead
    up. Of ranks equally near, "ascending" and "descending" take the first found from members as
    they joined, "link" the fewest ranks on from its parent. `rest_steps` are those from a rank's
    joining a tree to its first passing the chunk on, `slots` the steps that a chunk holds each
    link. Routes go up, then down as of `up_down`. J. Huang et al., ISCA 2021, on indirect networks.
    """
    search = _Search(topology, neighbour_order, slots)
    members = [[(root, 0)] for root in roots]
    outside = [bytearray(b"\1") * topology.num_ranks for _ in roots]
    for root, unreached in zip(roots, outside, strict=True):
        unreached[root] = 0
    edges: list[tuple[int, int, int, int]] = []
    routes: list[list[int]] = []
    step, total = 0, len(roots) * (topology.num_ranks - 1)
    while len(edges) < total:
        able = {
            tree: [rank for rank, rested in members[tree] if rested <= step]
            for tree in turns
            if any(outside[tree])
        }
        # Stable, so trees with equally many members keep the order of `turns`.
        growing = sorted(able, key=lambda tree: -len(members[tree]))
        search.begin_step(step)
        for tree, parent, child, moves in _grow_step(search, able, growing, outside):
            # A chunk is in at the end of its last step,
            # so a rest of 1 means: from the next step on.
            members[tree].append((child, step + search.steps(moves) - 1 + rest_steps))
            edges.append((step, tree, parent, child))
            routes.append(moves)
        step += 1
    return search.routes(edges, routes)


def _grow_step(
    search: "_Search",
    able: dict[int, list[int]],
    growing: list[int],
    outside: Sequence[bytearray],
) -> Iterator[tuple[int, int, int, list[int]]]:
    """Tree, parent, child and moves of each edge of a step, until a whole round adds none."""
    while growing:
        still = []
        for tree in growing:
            # Within a step links are only taken, so a member
            # without a free link needs no second look.
            able[tree] = search.able(able[tree])
            found = search.nearest(able[tree], outside[tree])
            if found is not None:
                parent, child, moves = found
                outside[tree][child] = 0
                search.take(moves)
                still.append(tree)
                yield tree, parent, child, moves
        growing = still


class _Search:
    """Breadth-first searches over legal moves from some members to the nearest outsider."""

    def __init__(self, topology: Topology, neighbour_order: str, slots: Int64Array | None) -> None:
        legal, self._num_ranks = LegalMoves(topology, neighbour_order), topology.num_ranks
        self.moves, self._onward, self._starts = legal.moves, legal.onward, legal.starts
        self._around = neighbour_order == "link"
        self._source, self._num_free = topology.links[:, 0].tolist(), topology.degree.tolist()
        self._free = bytearray(b"\1") * topology.num_links
        self._slots = [1] * topology.num_links if slots is None else slots.tolist()
        self._held: dict[int, list[int]] = {}
        self._step = 0

    def begin_step(self, step: int) -> None:
        """Free the links that are held no longer; steps are begun one after the other."""
        self._step = step
        for link in self._held.pop(step, ()):
            self._free[link] = 1
            self._num_free[self._source[link]] += 1

    def steps(self, moves: list[int]) -> int:
        """How many steps a chunk takes."""
        return max(self._slots[self.moves[move].link] for move in moves)

    def able(self, members: list[int]) -> list[int]:
        """The members that have a free link to leave by."""
        num_free = self._num_free
        return [rank for rank in members if num_free[rank]]

    def take(self, moves: list[int]) -> None:
        """Take the links of a route's moves for as long as a chunk takes on all of them."""
        held = self._held.setdefault(self._step + self.steps(moves), [])
        for move in moves:
            link = self.moves[move].link
            held.append(link)
            self._free[link] = 0
            self._num_free[self._source[link]] -= 1

    def nearest(
        self, members: Sequence[int], outside: bytearray
    ) -> tuple[int, int, list[int]] | None:
        """A member, the outsider nearest to one, and the moves from this to that, if any."""
        moves, num_ranks, onward, free = self.moves, self._num_ranks, self._onward, self._free
        came: dict[int, tuple[int, int, int]] = {}
        level = [(rank, -1, self._starts[rank]) for rank in members[:: -1 if self._around else 1]]
        while level:
            found, following = [], []
            for parent, before, routes in level:
                for way in routes:
                    link, _, node, state = moves[way]
                    if not free[link]:
                        continue
                    # Breadth first, so whatever is found on this
                    # level is nearest; `link` compares all of it.
                    if node < num_ranks and outside[node]:
                        found.append((parent, node, before, way))
                        if not self._around:
                            break
                    # A rank that may not forward leads nowhere
                    # (END), so a route never passes through it.
                    if state != END and state not in came:
                        came[state] = (parent, before, way)
                        following.append((parent, state, onward[state]))
                if found and not self._around:
                    break
            if found:
                return self._traced(found, came)
            level = following
        return None

    def _traced(
        self, found: list[tuple[int, int, int, int]], came: dict[int, tuple[int, int, int]]
    ) -> tuple[int, int, list[int]]:
        """The best of what was found, with the moves that lead there."""
        parent, child, before, way = found[0]
        if self._around:
            parent, child, before, way = min(
                found, key=lambda end: (end[1] - end[0]) % self._num_ranks
            )
        taken = [way]
        while before >= 0:
            _, before, way = came[before]
            taken.append(way)
        return parent, child, taken[::-1]

    def routes(self, edges: list[tuple[int, int, int, int]], taken: list[list[int]]) -> GrownRoutes:
        """Edges and the moves of each, as arrays."""
        hops = np.array([self.moves[move][:2] for way in taken for move in way], np.int32)
        offsets = np.cumsum([0, *map(len, taken)])
        return GrownRoutes(np.array(edges, np.int32), offsets, hops[:, 0], hops[:, 1])
