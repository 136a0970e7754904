"""Spanning trees of ranks packed over routes through switches."""

import heapq
import math
import random
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Float64Array, Int64Array, chosen_routes
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.bounds import bound_cycles, link_occupancy
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology
from multitree.topology.packing.link_pairs import MOST_TREES, LinkPairs, TreeCount, neighbours_of
from multitree.topology.packing.modulo_schedule import has_slots
from multitree.topology.packing.negotiation import Prices, negotiated
from multitree.topology.packing.tree_depth import shallow_trees
from multitree.topology.packing.tree_packing import TOLERANCE, Packing, as_packing
from multitree.topology.routing.default_routes import Routes
from multitree.topology.routing.legal_moves import END, LegalMoves
from multitree.topology.schedules.trees import GrownRoutes, turned_around

__all__ = [
    "OverlayLinks",
    "RouteEdge",
    "negotiated_routes",
    "overlay_links_of",
    "pack_over_switches",
]


@dataclass(frozen=True, eq=False)
class OverlayLinks:
    """What the trees of a packing go by: a network of ranks alone, joined by pairs of routes.

    Links 2i and 2i + 1 of the network stand for route i and the same route backwards: as fast as
    its slowest link, with the sum of its latencies. Offsets, links and classes of routes are those
    of `Schedule`.
    """

    network: Topology
    offsets: Int64Array
    links: Int64Array
    classes: Int64Array

    @property
    def routes(self) -> list[list[int]]:
        """The real links that each link of the network takes."""
        links = self.links.tolist()
        return [links[first:last] for first, last in pairwise(self.offsets.tolist())]

    def chosen(self, links: Int64Array) -> Routes:
        """The routes of some links of the network, one behind the other."""
        offsets, hops, classes = chosen_routes((self.offsets, self.links, self.classes), links)
        return offsets, hops.astype(np.int32), classes.astype(np.int32)

    def pairs(self, slots: Int64Array) -> LinkPairs:
        """The overlay links in pairs, held as long as the slowest real link of either route."""
        there = np.arange(0, self.network.num_links, 2)
        both = np.stack([there, there + 1], axis=1).astype(np.int32)
        ends = self.network.links[there]
        # Overlay links lead as their tree edge was grown; LinkPairs wants the lower rank first.
        falls = ends[:, 0] > ends[:, 1]
        both[falls] = both[falls, ::-1]
        # No route is empty, which `reduceat` would answer with an entry of the next one.
        held = np.maximum.reduceat(slots[self.links], self.offsets[:-1])
        speeds = self.network.bandwidth_gbytes_per_s
        return LinkPairs(
            np.sort(ends, axis=1), both, held[both].max(axis=1), speeds[both].min(axis=1)
        )

    def cost_model_of_routes(self, cost_model: CostModel) -> CostModel:
        """What messages take on overlay links: they go whole, and wait for those that share a link.

        A slot has room for the latency of one link more than the message, as steps of lockstep
        have: so messages on routes of different length do not block each other.
        """
        per_link: list[Float64Array] = [cost_model.cycles_per_flit, cost_model.latency_cycles]
        slowest = np.maximum.reduceat(per_link[0][self.links], self.offsets[:-1])
        whole_way = np.add.reduceat(per_link[1][self.links], self.offsets[:-1])
        room = cost_model.message_cycles + int(np.ceil(per_link[1].max()))
        return CostModel(cost_model.num_flits, slowest, whole_way, room, None)


def overlay_links_of(topology: Topology, found: GrownRoutes) -> OverlayLinks:
    """The overlay links of different routes, each with its reverse links backwards."""
    back = turned_around(topology, found, mirrored=True)
    lengths = np.repeat(np.diff(found.offsets), 2)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    links, classes = (
        np.concatenate(
            [
                part[first:last]
                for first, last in pairwise(found.offsets.tolist())
                for part in (there, other)
            ]
        ).astype(np.int64)
        for there, other in ((found.links, back.links), (found.classes, back.classes))
    )
    ends = np.stack([found.edges[:, 2:], found.edges[:, :1:-1]], axis=1).reshape(-1, 2)
    speeds = np.minimum.reduceat(topology.bandwidth_gbytes_per_s[links], offsets[:-1])
    latency = np.add.reduceat(topology.latency_ns[links], offsets[:-1])
    # Each overlay link comes in both directions, so `reverse`
    # pairs it with its own mirror image even among parallel ones.
    network = Topology(topology.name, topology.num_ranks, 0, ends, speeds, latency)
    return OverlayLinks(network, offsets, links, classes)


EACH_LINK = 0.05
"""What a link costs in addition to its price, so that of equal routes the shorter is taken."""


class RouteEdge(NamedTuple):
    """An edge of a tree, grown from `parent` to `child`, and the moves of its route."""

    parent: int
    child: int
    moves: list[int]


def negotiated_routes(
    legal: LegalMoves,
    pair_of: list[int],
    slots: list[int],
    most: list[int],
    num_trees: int,
    seed: int,
) -> tuple[list[list[RouteEdge]], bool]:
    """Spanning trees of ranks, whose edges are routes, and whether no pair is held for too long.

    A tree takes the rank next whose depth and whose route's cost are least, at prices that its own
    edges have raised: a route may share links with others of the same tree. `pair_of` a link is -1
    where it has no reverse; a route holds all its links for the `slots` of its slowest, each pair
    for `most` slots in all. O(num_ranks x num_moves log num_moves) for each tree and round; a
    ValueError says that routes do not join all ranks.
    """

    def grow(prices: Prices, draw: random.Random) -> tuple[list[RouteEdge], list[int]]:
        return _grown(legal, pair_of, slots, prices, draw.randrange(len(legal.starts)))

    return negotiated(most, num_trees, seed, grow)


def _grown(
    legal: LegalMoves, pair_of: list[int], slots: list[int], prices: Prices, root: int
) -> tuple[list[RouteEdge], list[int]]:
    """The edges of one tree, and the pairs of all its routes, once for each slot."""
    cost = [price + EACH_LINK for price in prices.for_a_tree()]
    depth = {root: 0}
    edges: list[RouteEdge] = []
    taken: list[int] = []
    while len(depth) < len(legal.starts):
        edge = _nearest(legal, pair_of, cost, depth)
        links = [legal.moves[move].link for move in edge.moves]
        pairs = [pair_of[link] for link in links] * max(slots[link] for link in links)
        prices.take(pairs)
        for pair in pairs:
            cost[pair] = prices.of(pair) + EACH_LINK
        depth[edge.child] = depth[edge.parent] + 1
        edges.append(edge)
        taken += pairs
    return edges, taken


def _nearest(
    legal: LegalMoves, pair_of: list[int], cost: list[float], depth: dict[int, int]
) -> RouteEdge:
    """The cheapest route from a member to a rank outside."""
    moves, num_ranks = legal.moves, len(legal.starts)
    # Dijkstra's algorithm over legal moves, from all members at once;
    # a member starts at its depth. Ties fall to the lowest move.
    ahead = [
        (above + 1 + cost[pair_of[moves[move].link]], move, rank, END)
        for rank, above in depth.items()
        for move in legal.starts[rank]
        if pair_of[moves[move].link] >= 0
    ]
    heapq.heapify(ahead)
    came_by: dict[int, tuple[int, int]] = {}
    while ahead:
        price, move, rank, before = heapq.heappop(ahead)
        _, _, node, state = moves[move]
        if node < num_ranks and node not in depth:
            way = [move]
            while before != END:
                move, before = came_by[before]
                way.append(move)
            return RouteEdge(rank, node, way[::-1])
        if state == END or state in came_by:
            continue
        came_by[state] = move, before
        for further in legal.onward[state]:
            pair = pair_of[moves[further].link]
            if pair >= 0:
                heapq.heappush(ahead, (price + cost[pair], further, rank, state))
    raise ValueError("Routes must join all ranks by links with a reverse")


MANY_FLITS = 10**9
"""Of a buffer so long that latency does not count."""
SLACKS = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 2.0, 4.0)
"""How much longer than the bound a period is tried, one after the other."""
MOST_EDGES = 2048
"""Of all trees that are chosen, at most `MOST_TREES`; more can be asked for."""
Trees = list[list[RouteEdge]]


def pack_over_switches(
    topology: Topology,
    *,
    num_trees: int | None = None,
    tolerance: float = 2 * TOLERANCE,
    seed: int = 0,
) -> tuple[Packing, OverlayLinks]:
    """Spanning trees of ranks over routes, such that no pair of links is on too many of them.

    How many trees links can carry is not known beforehand as it is without switches. So what the
    bound allows is tried, then periods longer by more and more, until trees are found and a slot on
    all links of their routes for each edge. By default they are the fewest for which a period is
    within `tolerance` of what is tried. A ScheduleError says that links with a reverse do not join
    all ranks, or no trees are found; the same seed gives the same trees.
    """
    if num_trees is not None and num_trees < 1:
        raise ScheduleError(f"Number of trees must be at least 1, not {num_trees!r}")
    search = _Search(topology, seed)
    in_vain = 0.0
    for slack in SLACKS:
        count = search.fewest(slack, tolerance, num_trees, in_vain)
        if count is not None:
            found = search.packed(*count)
            if found is not None:
                return found
            in_vain = count.period / count.num_trees
    raise ScheduleError(
        f"{topology.name!r}: trees must be found within {1 + SLACKS[-1]:g} times what the bound "
        "says of their links"
    )


class _Search:
    """What is known of a network before any tree is."""

    def __init__(self, topology: Topology, seed: int) -> None:
        self._topology, self._seed = topology, seed
        self._legal = LegalMoves(topology)
        reverse = topology.reverse
        numbers = np.arange(topology.num_links)
        pair_of = np.where(reverse >= 0, np.minimum(numbers, reverse), -1)
        self._pair_of = pair_of.tolist()
        slots = link_occupancy(topology)
        self._slots: Int64Array = np.where(reverse >= 0, np.maximum(slots, slots[reverse]), slots)
        # A chunk in place of a flit, and 1 / slots as speed, make the bound one of slots per tree.
        cycles = bound_cycles(
            topology, MANY_FLITS, latency_cycles=0, flits_per_cycle=1 / self._slots
        )
        self._share = cycles / MANY_FLITS

    def fewest(
        self, slack: float, tolerance: float, num_trees: int | None, in_vain: float
    ) -> TreeCount | None:
        """The fewest trees with a period that is so much longer than the bound, or nearly so.

        For each tree it is longer than what was tried in vain.
        """
        most = max(min(MOST_TREES, MOST_EDGES // self._topology.num_ranks), 1)
        candidates = range(1, most + 1) if num_trees is None else [num_trees]
        least = {number: number * self._share * (1 + slack) for number in candidates}
        # Bounds are floats: one that is just above a whole number stands for that number.
        periods = {number: math.ceil(slots - 1e-9) for number, slots in least.items()}
        ratios = {
            number: periods[number] / slots
            for number, slots in least.items()
            if periods[number] / number > in_vain
        }
        if not ratios:
            return None
        enough = max(1 + tolerance, min(ratios.values()))
        number = next(number for number, ratio in ratios.items() if ratio <= enough)
        return TreeCount(number, periods[number])

    def packed(self, num_trees: int, period: int) -> tuple[Packing, OverlayLinks] | None:
        """So many trees in so many slots, if they are found."""
        topology, slots = self._topology, self._slots.tolist()
        # Links are held for whole chunks, so the remainder of a period is of no use.
        most = (period // self._slots * self._slots).tolist()
        try:
            trees, fits = negotiated_routes(
                self._legal, self._pair_of, slots, most, num_trees, self._seed
            )
        except ValueError:
            raise ScheduleError(
                f"{topology.name!r} must be joined by routes over links with a reverse "
                "for trees of link pairs"
            ) from None
        if not fits:
            return None
        overlay_links, of_trees = self._overlay_links_of(trees)
        pairs = overlay_links.pairs(self._slots)
        neighbours = neighbours_of(pairs.ends, topology.num_ranks)
        # Limits are what overlay links carry now, so swaps change the load of no real link.
        uses = np.bincount(np.concatenate(of_trees), minlength=len(pairs.ends)).tolist()
        flat = shallow_trees(
            pairs.ends.tolist(), neighbours, uses, [tree.tolist() for tree in of_trees], self._seed
        )
        packing = as_packing(overlay_links.network, pairs, flat, period)
        # Loads within the period do not suffice where a transfer holds several links at once.
        return (packing, overlay_links) if has_slots(packing, overlay_links.routes) else None

    def _overlay_links_of(self, trees: Trees) -> tuple[OverlayLinks, list[Int64Array]]:
        """All different routes, whichever end they were grown from, and those of each tree."""
        moves, reverse = self._legal.moves, self._topology.reverse.tolist()
        number: dict[tuple[int, ...], int] = {}
        taken: list[RouteEdge] = []
        of_trees = []
        for tree in trees:
            of_trees.append(np.empty(len(tree), np.int64))
            for place, edge in enumerate(tree):
                links = [moves[move].link for move in edge.moves]
                back = [reverse[link] for link in links[::-1]]
                # A route and its reverse are one overlay link, named by the smaller of the lists.
                key = tuple(min(links, back))
                if key not in number:
                    number[key] = len(taken)
                    taken.append(edge)
                of_trees[-1][place] = number[key]
        hops = np.array([moves[move][:2] for edge in taken for move in edge.moves], np.int32)
        edges = np.array([(0, 0, edge.parent, edge.child) for edge in taken], np.int32)
        offsets = np.cumsum([0, *(len(edge.moves) for edge in taken)])
        return overlay_links_of(self._topology, GrownRoutes(edges, offsets, *hops.T)), of_trees
