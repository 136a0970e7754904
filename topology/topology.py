"""An interconnect: ranks, switches and the directed links between them."""

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array, int32s, positions_in_group
from multitree.topology.cuts import smallest_cut
from multitree.topology.errors import TopologyError

DEFAULT_BANDWIDTH_GBYTES_PER_S = 16.0
DEFAULT_LATENCY_NS = 150.0
MAX_RANKS = 65_536
MAX_LINKS = 4_194_304


@dataclass(frozen=True, eq=False)
class Topology:
    """A network of ranks `0..num_ranks-1`, then switches, joined by directed links.

    The row number of a link is its id. Parallel links are repeated rows. Port p of a node
    is its p-th outgoing link by id.

    Parameters
    ----------
    name : str
        What messages call it; for a family the spec that `parse_topology` reads.
    num_ranks : int
        Endpoints, 2 to 65 536.
    num_switches : int
        Routers without a rank.
    links : array_like, int (num_links, 2)
        Source and destination node of each link.
    bandwidth_gbytes_per_s, latency_ns : array_like, float (num_links,)
        Speed and delay of each link; one number stands for all links.
    family : str
        "ring", "torus", "mesh", "hypercube" or "fully_connected" where one of the builders
        of `families` made it: closed forms rest on it. Otherwise "custom".
    dims : tuple of int
        The sizes of a family's dimensions.

    Raises
    ------
    TypeError
        If the links are no integers.
    TopologyError
        If an id is out of range, a link is a self loop, a number is not positive and finite,
        or some node cannot be reached from every other.

    Examples
    --------
    >>> pair = Topology("pair", 2, 0, [[0, 1], [1, 0]], 16.0, 150.0)
    >>> pair.num_links, pair.reverse.tolist(), pair.diameter
    (2, [1, 0], 1)
    """

    name: str
    num_ranks: int
    num_switches: int
    links: Int32Array
    bandwidth_gbytes_per_s: Float64Array
    latency_ns: Float64Array
    family: str = "custom"
    dims: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_counts(self.num_ranks, self.num_switches)
        links = int32s("Links", self.links)
        if links.ndim != 2 or links.shape[1] != 2:
            raise TopologyError(f"Links must be an array of shape (n, 2), not {links.shape}")
        if len(links) > MAX_LINKS:
            raise TopologyError(f"Links must be at most {MAX_LINKS}, not {len(links)}")
        _check_ends(links, self.num_nodes)
        object.__setattr__(self, "links", links)
        object.__setattr__(self, "dims", tuple(self.dims))
        for field in ("bandwidth_gbytes_per_s", "latency_ns"):
            object.__setattr__(self, field, _positive(field, getattr(self, field), len(links)))
        self._check_connected()

    def _check_connected(self) -> None:
        for ends, verb in (((0, 1), "reachable from rank 0"), ((1, 0), "able to reach rank 0")):
            missing = np.flatnonzero(_hops(_adjacency(self.links, self.num_nodes, *ends), 0) < 0)
            if missing.size:
                raise TopologyError(
                    f"Every node of {self.name!r} must be {verb}, not all but node {missing[0]}"
                )

    @property
    def num_links(self) -> int:
        """Number of directed links."""
        return len(self.links)

    @property
    def num_nodes(self) -> int:
        """Ranks and switches together."""
        return self.num_ranks + self.num_switches

    @cached_property
    def degree(self) -> Int32Array:
        """Outgoing links of each node, int32 (num_nodes,)."""
        return int32s("Degree", np.bincount(self.links[:, 0], minlength=self.num_nodes))

    @cached_property
    def in_degree(self) -> Int32Array:
        """Incoming links of each node, int32 (num_nodes,)."""
        return int32s("Degree", np.bincount(self.links[:, 1], minlength=self.num_nodes))

    @property
    def least_degree(self) -> int:
        """The fewest links that enter, or that leave, any one rank."""
        both = np.minimum(self.degree, self.in_degree)
        return int(both[: self.num_ranks].min())

    @cached_property
    def reverse(self) -> Int32Array:
        """Id of each link's reverse, int32 (num_links,); -1 where there is none.

        The k-th of several parallel links pairs with the k-th the other way.
        """
        src, dst = self.links.astype(np.int64).T
        position = positions_in_group(src * self.num_nodes + dst)
        depth = int(position.max()) + 1
        key = (src * self.num_nodes + dst) * depth + position
        wanted = (dst * self.num_nodes + src) * depth + position
        by_key = np.argsort(key)
        found = by_key[np.minimum(np.searchsorted(key[by_key], wanted), self.num_links - 1)]
        return int32s("Reverse", np.where(key[found] == wanted, found, -1))

    @property
    def is_symmetric(self) -> bool:
        """Whether every link has a reverse."""
        return bool((self.reverse >= 0).all())

    @cached_property
    def _ports(self) -> tuple[Int32Array, Int32Array]:
        by_src = np.argsort(self.links[:, 0], kind="stable")
        starts = np.r_[0, np.cumsum(self.degree)]
        return (
            int32s("Ports", by_src),
            int32s("Port offsets", starts),
        )

    def ports(self, rank: int) -> Int32Array:
        """Outgoing links of a rank or switch by ascending id: port p is the p-th.

        Parameters
        ----------
        rank : int
            The node.

        Returns
        -------
        numpy.ndarray, int32 (degree,)

        Raises
        ------
        TopologyError
            If there is no such node.
        """
        if not 0 <= rank < self.num_nodes:
            raise TopologyError(f"Rank must be within 0..{self.num_nodes - 1}, not {rank!r}")
        by_src, starts = self._ports
        return by_src[starts[rank] : starts[rank + 1]]

    def port_of_link(self, link: int) -> int:
        """The port by which a link leaves its source.

        Raises
        ------
        TopologyError
            If there is no such link.
        """
        if not 0 <= link < self.num_links:
            raise TopologyError(f"Link must be within 0..{self.num_links - 1}, not {link!r}")
        return int(np.searchsorted(self.ports(int(self.links[link, 0])), link))

    @cached_property
    def _neighbours(self) -> list[list[int]]:
        return _adjacency(self.links, self.num_nodes, 0, 1)

    def hop_distances(self, source: int) -> Int32Array:
        """Links on a shortest path from `source` to each node, int32 (num_nodes,).

        Raises
        ------
        TopologyError
            If there is no such node.
        """
        if not 0 <= source < self.num_nodes:
            raise TopologyError(f"Source must be within 0..{self.num_nodes - 1}, not {source!r}")
        return _hops(self._neighbours, source)

    @cached_property
    def diameter(self) -> int:
        """The most links on any shortest path from rank to rank.

        Notes
        -----
        For a family it is what rank 0 sees (a corner of a mesh; elsewhere all ranks are
        alike). Otherwise breadth-first search from all ranks at once on bit sets:
        O(diameter x links x ranks / 64).
        """
        if self.family != "custom":
            return int(self.hop_distances(0).max())
        return max(
            self._farthest(range(first, min(first + 4096, self.num_ranks)))
            for first in range(0, self.num_ranks, 4096)
        )

    def _farthest(self, sources: range) -> int:
        seen = [0] * self.num_nodes
        for bit, rank in enumerate(sources):
            seen[rank] = 1 << bit
        everyone = (1 << len(sources)) - 1
        hops = 0
        while any(have != everyone for have in seen[: self.num_ranks]):
            grown = list(seen)
            for node, neighbours in enumerate(self._neighbours):
                for neighbour in neighbours:
                    grown[neighbour] |= seen[node]
            seen, hops = grown, hops + 1
        return hops

    @cached_property
    def min_cut(self) -> int:
        """The fewest links that lead out of any set that holds some ranks but not all.

        For a family that is the least degree; otherwise see `cuts.smallest_cut`.
        """
        if self.family != "custom":
            return self.least_degree
        return round(smallest_cut(self.links, np.ones(self.num_links), self.num_ranks))

    def to_networkx(self) -> Any:
        """The same as a `networkx.MultiDiGraph`.

        Nodes carry ``kind`` ("rank" or "switch"), links ``link`` (the id),
        ``bandwidth_gbytes_per_s`` and ``latency_ns``.
        """
        graph = nx.MultiDiGraph(name=self.name)
        for node in range(self.num_nodes):
            graph.add_node(node, kind="rank" if node < self.num_ranks else "switch")
        for link, (src, dst) in enumerate(self.links.tolist()):
            graph.add_edge(
                src,
                dst,
                key=link,
                link=link,
                bandwidth_gbytes_per_s=float(self.bandwidth_gbytes_per_s[link]),
                latency_ns=float(self.latency_ns[link]),
            )
        return graph

    @classmethod
    def from_networkx(cls, graph: Any, *, name: str = "networkx") -> "Topology":
        """Number the nodes and links of a networkx graph of any kind.

        Ranks come first, then nodes whose attribute ``kind`` is "switch", each in ascending
        order where the nodes can be sorted, else in the graph's order. An undirected edge is
        one link each way. Links are numbered by the attribute ``link`` where all have it,
        else by source, destination and the graph's order.

        Parameters
        ----------
        graph : networkx.Graph
            Links may carry ``bandwidth_gbytes_per_s`` and ``latency_ns``.
        name : str
            What messages call it.

        Returns
        -------
        Topology

        Raises
        ------
        TypeError
            If `graph` is no networkx graph.
        TopologyError
            If the graph is no topology.

        Examples
        --------
        >>> Topology.from_networkx(nx.petersen_graph(), name="petersen").diameter
        2
        """
        if not isinstance(graph, nx.Graph):
            raise TypeError(f"Graph must be a networkx graph, not {graph!r}")
        nodes = list(graph.nodes)
        if all(isinstance(node, int) for node in nodes):
            nodes.sort()
        is_switch = {node: graph.nodes[node].get("kind") == "switch" for node in nodes}
        nodes.sort(key=lambda node: is_switch[node])
        number = {node: index for index, node in enumerate(nodes)}
        num_switches = sum(is_switch.values())
        rows = []
        for u, v, data in graph.to_directed().edges(data=True):
            bandwidth = data.get("bandwidth_gbytes_per_s", DEFAULT_BANDWIDTH_GBYTES_PER_S)
            latency = data.get("latency_ns", DEFAULT_LATENCY_NS)
            rows.append((data.get("link"), number[u], number[v], bandwidth, latency))
        numbered = graph.is_directed() and all(row[0] is not None for row in rows)
        rows.sort(key=lambda row: row[:1] if numbered else row[1:3])
        links = int32s("Links", [row[1:3] for row in rows]).reshape(-1, 2)
        speeds = np.array([row[3:] for row in rows], np.float64).reshape(-1, 2)
        ranks = len(nodes) - num_switches
        return cls(name, ranks, num_switches, links, speeds[:, 0], speeds[:, 1])


def _check_counts(num_ranks: int, num_switches: int) -> None:
    if not isinstance(num_ranks, int) or not 2 <= num_ranks <= MAX_RANKS:
        raise TopologyError(f"Number of ranks must be within 2..{MAX_RANKS}, not {num_ranks!r}")
    if not isinstance(num_switches, int) or not 0 <= num_switches <= MAX_RANKS:
        raise TopologyError(
            f"Number of switches must be within 0..{MAX_RANKS}, not {num_switches!r}"
        )


def _check_ends(links: Int32Array, num_nodes: int) -> None:
    wrong = np.flatnonzero(((links < 0) | (links >= num_nodes)).any(axis=1))
    if wrong.size:
        ends = links[wrong[0]].tolist()
        raise TopologyError(f"Link {wrong[0]} must join nodes 0..{num_nodes - 1}, not {ends}")
    loops = np.flatnonzero(links[:, 0] == links[:, 1])
    if loops.size:
        raise TopologyError(
            f"Link {loops[0]} must join two different nodes, not {links[loops[0]].tolist()}"
        )


def _positive(field: str, values: Any, num_links: int) -> Float64Array:
    given = np.asarray(values, np.float64)
    if given.shape not in ((), (num_links,)):
        raise TopologyError(f"{field} must be one number per link, not of shape {given.shape}")
    numbers = np.broadcast_to(given, (num_links,)).copy()
    wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers > 0)))
    if wrong.size:
        value = float(numbers[wrong[0]])
        raise TopologyError(f"{field} of link {wrong[0]} must be positive and finite, not {value}")
    numbers.flags.writeable = False
    return numbers


def _adjacency(links: Int32Array, num_nodes: int, source: int, target: int) -> list[list[int]]:
    neighbours: list[list[int]] = [[] for _ in range(num_nodes)]
    for src, dst in zip(links[:, source].tolist(), links[:, target].tolist(), strict=True):
        neighbours[src].append(dst)
    return neighbours


def _hops(neighbours: list[list[int]], source: int) -> Int32Array:
    distance = [-1] * len(neighbours)
    distance[source] = 0
    queue = deque([source])
    while queue:
        node = queue.popleft()
        for neighbour in neighbours[node]:
            if distance[neighbour] < 0:
                distance[neighbour] = distance[node] + 1
                queue.append(neighbour)
    return int32s("Distances", distance)
