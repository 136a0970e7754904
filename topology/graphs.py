"""Numbered nodes and links out of networkx graphs, and back into them."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array, int32s

LinkRow = tuple[Any, int, int, Any, Any]


class NumberedGraph(NamedTuple):
    """The arrays that a `Topology` is made of."""

    num_ranks: int
    num_switches: int
    links: Int32Array
    bandwidth_gbytes_per_s: Float64Array
    latency_ns: Float64Array


def from_networkx(
    graph: Any, *, default_bandwidth_gbytes_per_s: float, default_latency_ns: float
) -> NumberedGraph:
    """Number the nodes and links of a networkx graph.

    Ranks come first, then nodes whose attribute ``kind`` is "switch"; each in ascending
    order where all nodes are integers, else in the graph's order. An undirected edge is one
    link each way. Links are numbered by their attribute ``link`` where all have one, else by
    source, destination and the graph's order.

    Parameters
    ----------
    graph : networkx.Graph
        Links may carry ``bandwidth_gbytes_per_s`` and ``latency_ns``.
    default_bandwidth_gbytes_per_s, default_latency_ns : float
        Of links that do not.

    Returns
    -------
    NumberedGraph

    Raises
    ------
    TypeError
        If `graph` is no networkx graph.
    """
    if not isinstance(graph, nx.Graph):
        raise TypeError(f"Graph must be a networkx graph, not {graph!r}")
    switches = {node for node, kind in graph.nodes(data="kind") if kind == "switch"}
    number = node_numbers(graph.nodes, switches)
    rows = []
    for u, v, data in graph.to_directed().edges(data=True):
        bandwidth = data.get("bandwidth_gbytes_per_s", default_bandwidth_gbytes_per_s)
        latency = data.get("latency_ns", default_latency_ns)
        rows.append((data.get("link"), number[u], number[v], bandwidth, latency))
    has_ids = graph.is_directed() and all(row[0] is not None for row in rows)
    return numbered(len(number) - len(switches), len(switches), rows, has_ids=has_ids)


def node_numbers(nodes: Iterable[Any], switches: Collection[Any]) -> dict[Any, int]:
    """Number nodes: ranks first, each kind ascending where all are integers, else as they stand.

    Parameters
    ----------
    nodes : iterable of hashable
    switches : collection of hashable
        Those that are no ranks.

    Returns
    -------
    dict of hashable to int

    Examples
    --------
    >>> node_numbers(["leaf", "b", "a"], {"leaf"}), node_numbers([2, 0, 1], {0})
    ({'b': 0, 'a': 1, 'leaf': 2}, {1: 0, 2: 1, 0: 2})
    """
    ordered = list(nodes)
    if all(isinstance(node, int) for node in ordered):
        ordered.sort()
    ordered.sort(key=lambda node: node in switches)
    return {node: index for index, node in enumerate(ordered)}


def numbered(
    num_ranks: int, num_switches: int, rows: list[LinkRow], *, has_ids: bool
) -> NumberedGraph:
    """Number links: by their ids, or by source, destination and the order in which they stand.

    Parameters
    ----------
    num_ranks, num_switches : int
    rows : list of tuple
        Id, source, destination, bandwidth_gbytes_per_s and latency_ns of each link.
    has_ids : bool
        Whether ids count.

    Returns
    -------
    NumberedGraph
    """
    ordered = sorted(rows, key=lambda row: row[:1] if has_ids else row[1:3])
    links = int32s("Links", [row[1:3] for row in ordered]).reshape(-1, 2)
    speeds = np.array([row[3:] for row in ordered], np.float64).reshape(-1, 2)
    return NumberedGraph(num_ranks, num_switches, links, speeds[:, 0], speeds[:, 1])


def as_networkx(graph: NumberedGraph, name: str) -> Any:
    """The same as a networkx graph that `from_networkx` numbers as it was.

    Parameters
    ----------
    graph : NumberedGraph
    name : str

    Returns
    -------
    networkx.MultiDiGraph
        Nodes carry ``kind`` ("rank" or "switch"), links ``link`` (their id, also the key),
        ``bandwidth_gbytes_per_s`` and ``latency_ns``.
    """
    made = nx.MultiDiGraph(name=name)
    for node in range(graph.num_ranks + graph.num_switches):
        made.add_node(node, kind="rank" if node < graph.num_ranks else "switch")
    columns = (graph.links, graph.bandwidth_gbytes_per_s, graph.latency_ns)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for link, ((src, dst), bandwidth, latency) in enumerate(rows):
        figures = {"bandwidth_gbytes_per_s": bandwidth, "latency_ns": latency}
        made.add_edge(src, dst, key=link, link=link, **figures)
    return made
