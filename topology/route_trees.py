"""Spanning trees of routes through switches, negotiated for pairs of links."""

import heapq
import random
from typing import NamedTuple

from multitree.topology.legal_moves import END, LegalMoves
from multitree.topology.negotiation import Prices, negotiated

__all__ = ["RouteEdge", "negotiated_routes"]

EACH_LINK = 0.05
"""What a link costs beside its price, so that of equal routes the shorter one is taken."""


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
    """Spanning trees of ranks, whose edges are routes, and no pair of links held for too long.

    A tree takes the rank next whose depth and whose route's cost are least, at prices that its own
    edges have raised: a route may share links with others of the same tree.

    Parameters
    ----------
    legal : LegalMoves
    pair_of : list of int
        The pair that each link is in; -1 where it has no reverse and is not taken.
    slots : list of int
        For how many slots each link is held: a route holds all its links as long as the slowest.
    most : list of int
        Slots that each pair may be held.
    num_trees : int
    seed : int

    Returns
    -------
    list of list of RouteEdge
        For each tree.
    bool
        Whether no pair is held for too long; else see `negotiated`.

    Raises
    ------
    ValueError
        If routes do not join all ranks.

    Notes
    -----
    O(num_ranks x num_moves log num_moves) for each tree and round.

    Examples
    --------
    >>> from multitree.topology.switched import fat_tree
    >>> topology = fat_tree(2, 2)
    >>> pair_of = [min(pair) for pair in enumerate(topology.reverse.tolist())]
    >>> each = [1] * 16, [3] * 16
    >>> trees, settled = negotiated_routes(LegalMoves(topology), pair_of, *each, 2, 0)
    >>> settled, [len(tree) for tree in trees]
    (True, [3, 3])
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
