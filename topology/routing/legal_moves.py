"""Moves of messages through switches: up, then down, from rank to rank."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from multitree.topology.networks.topology import Topology
from multitree.topology.routing.updown import up_down

__all__ = ["END", "LegalMoves", "Move"]

END = -1


class Move(NamedTuple):
    """One link of a route."""

    link: int
    vc_class: int
    node: int  # where the link leads
    state: int  # behind the link; `END` where nothing leads on


class LegalMoves:
    """All moves that routes are made of, such that messages never wait in a circle.

    A state is a node, the group of the source, and whether the message has turned down. Moves stand
    in the order of the nodes that they lead to, ascending or "descending".
    """

    def __init__(self, topology: Topology, neighbour_order: str = "ascending") -> None:
        orders = up_down(topology)
        self.moves: list[Move] = []
        num_states = 2 * len(orders.classes) * topology.num_nodes
        # For each state the moves that lead on.
        self.onward: list[list[int]] = [[] for _ in range(num_states)]
        by_node = np.lexsort((np.arange(topology.num_links), topology.links[:, 1]))
        ordered = (by_node[::-1] if neighbour_order == "descending" else by_node).tolist()
        for group, classes in enumerate(orders.classes.tolist()):
            self._add_moves(topology, group, classes, ordered)
        first = 2 * orders.group.astype(np.int64) * topology.num_nodes
        states = (first + np.arange(topology.num_ranks)).tolist()
        # For each rank the moves that a message of its own begins with.
        self.starts = [list(self.onward[state]) for state in states]
        self._add_links_between_ranks(topology, ordered)
        self.moves = [
            move if self.onward[move.state] else move._replace(state=END) for move in self.moves
        ]

    def _add_moves(
        self, topology: Topology, group: int, classes: Sequence[int], ordered: Iterable[int]
    ) -> None:
        links, orders = topology.links, up_down(topology)
        leads = (
            orders.links_up(links, group).tolist(),
            orders.links_down(links, group).tolist(),
        )
        first = [(2 * group + turned) * topology.num_nodes for turned in (0, 1)]
        for link in ordered:
            src, dst = links[link].tolist()
            for turned in (0, 1):
                if leads[turned][link]:
                    # A link down follows from both states, a link
                    # up only from the one that has not turned.
                    for before in range(turned + 1):
                        self.onward[first[before] + src].append(len(self.moves))
                    state = first[turned] + dst
                    self.moves.append(Move(link, classes[turned], dst, state))

    def _add_links_between_ranks(self, topology: Topology, ordered: list[int]) -> None:
        num_ranks = topology.num_ranks
        # A route of one link adds no edge to the channel
        # dependency graph, so these are always safe.
        between_ranks = set(np.flatnonzero(topology.links.max(axis=1) < num_ranks).tolist())
        for link in filter(between_ranks.__contains__, ordered):
            src, dst = topology.links[link].tolist()
            if link not in {self.moves[move].link for move in self.starts[src]}:
                self.starts[src].append(len(self.moves))
                self.moves.append(Move(link, 0, dst, END))
