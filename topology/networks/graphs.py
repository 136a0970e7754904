"""Numbered nodes and links out of networkx graphs, and back into them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array, int32s
from multitree.topology.errors import TopologyError
from multitree.topology.file_text import naming
from multitree.topology.networks.attributes import (
    BANDWIDTH,
    LATENCY,
    AttributeKey,
    LinkKeys,
    report_unread,
)
from multitree.topology.networks.nodes import names_of

LinkRow = tuple[Any, int, int, Any, Any, Any]
SCHEMA = "multitree.topology.v1"
"""What a graph is of that tells ports: a program of another kind may mean something else."""

NODE_KEYS, GRAPH_KEYS = {"kind", "name"}, {"schema", "name", "node_default", "edge_default"}
"""What is read of nodes and graphs; networkx adds the last two as it reads GraphML."""


class NumberedGraph(NamedTuple):
    """The arrays that a `Topology` is made of."""

    num_ranks: int
    num_switches: int
    links: Int32Array
    bandwidth_gbytes_per_s: Float64Array
    latency_ns: Float64Array
    source_ports: Any = None
    port_counts: Any = None
    names: Any = None


def from_networkx(
    graph: Any,
    *,
    name: str,
    keys: LinkKeys,
    default_bandwidth_gbytes_per_s: float,
    default_latency_ns: float,
) -> NumberedGraph:
    """Number the nodes and links of a networkx graph.

    Ranks come first, then nodes whose attribute ``kind`` is "switch"; each in ascending
    order where all nodes are integers, else in the graph's order. An undirected edge is one link
    in each direction. Links are numbered by their attribute ``link`` where all have one, else by
    source, destination and the graph's order. Nodes are called by their attribute ``name``, or by
    what they are in the graph. A TopologyWarning names other attributes, which are not read.

    Parameters
    ----------
    graph : networkx.Graph
        Links may carry ``bandwidth_gbytes_per_s`` and ``latency_ns``. Where the graph's ``schema``
        is `SCHEMA` and links have ids, all or none of them may carry ``port``, nodes ``num_ports``.
    name : str
        What messages call it.
    keys : LinkKeys
        Attributes of links in the place of these, which all links must have then.
    default_bandwidth_gbytes_per_s, default_latency_ns : float
        Of links that do not.

    Returns
    -------
    NumberedGraph

    Raises
    ------
    TypeError
        If `graph` is no networkx graph.
    TopologyError
        If an attribute of links may be their speed or latency by another name, a link has none by
        the name that a key gives, or such a value is no number.
    """
    if not isinstance(graph, nx.Graph):
        raise TypeError(f"Graph must be a networkx graph, not {graph!r}")
    switches = {node for node, kind in graph.nodes(data="kind") if kind == "switch"}
    number = node_numbers(graph.nodes, switches)
    rows = []
    has_schema = graph.graph.get("schema") == SCHEMA
    defaults = {BANDWIDTH: default_bandwidth_gbytes_per_s, LATENCY: default_latency_ns}
    chosen = {BANDWIDTH: keys.bandwidth, LATENCY: keys.latency}
    for u, v, data in graph.to_directed().edges(data=True):
        figures = (
            _figure(f"{name}: link {u!r} -> {v!r}", data, ours, chosen[ours], default)
            for ours, default in defaults.items()
        )
        port = data.get("port") if has_schema else None
        rows.append((data.get("link"), number[u], number[v], *figures, port))
    # An undirected edge becomes two links, which cannot share the edge's id.
    has_ids = graph.is_directed() and all(row[0] is not None for row in rows)
    known = {"link"} if has_ids else set()
    known |= {"port"} if has_ids and has_schema else set()
    found = {str(each) for *_, data in graph.edges(data=True) for each in data}
    with naming(name, TopologyError):
        keys.check(name, found, known)
    of_nodes = {str(each) for _, data in graph.nodes(data=True) for each in data}
    report_unread(name, "nodes", of_nodes - NODE_KEYS - ({"num_ports"} if has_ids else set()))
    report_unread(name, "the graph", {str(each) for each in graph.graph} - GRAPH_KEYS)
    made = numbered(len(number) - len(switches), len(switches), rows, has_ids=has_ids)
    ordered = sorted(number, key=number.__getitem__)
    counts = [graph.nodes[node].get("num_ports") for node in ordered]
    has_counts = has_ids and has_schema and any(count is not None for count in counts)
    names = names_of(graph.nodes[node].get("name", node) for node in ordered)
    return made._replace(port_counts=counts if has_counts else None, names=names)


def _figure(
    place: str, data: Mapping[str, Any], ours: str, key: AttributeKey | None, default: float
) -> float:
    """A number of a link in our unit."""
    name, scale = (ours, 1.0) if key is None else key
    if key is None and name not in data:
        return default
    if name not in data:
        raise TopologyError(f"{place}: {name} must be there, as on all links, not missing")
    try:
        return float(data[name]) * scale
    except (TypeError, ValueError, OverflowError):
        raise TopologyError(f"{place}: {name} must be a number, not {data[name]!r}") from None


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
    # Both sorts are stable: within ranks, and within switches, the first order stays.
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
        Id, source, destination, bandwidth_gbytes_per_s, latency_ns and port, or None, of each link.
    has_ids : bool
        Whether ids, and with them ports, count.

    Returns
    -------
    NumberedGraph
    """
    # The sort is stable, so parallel links keep the order in which they stand.
    ordered = sorted(rows, key=lambda row: row[:1] if has_ids else row[1:3])
    links = int32s("Links", [row[1:3] for row in ordered]).reshape(-1, 2)
    speeds = np.array([row[3:5] for row in ordered], np.float64).reshape(-1, 2)
    ports = [row[5] for row in ordered]
    source_ports = ports if has_ids and any(port is not None for port in ports) else None
    return NumberedGraph(num_ranks, num_switches, links, speeds[:, 0], speeds[:, 1], source_ports)


def as_networkx(graph: NumberedGraph, name: str) -> Any:
    """The same as a networkx graph that `from_networkx` numbers as it was.

    Parameters
    ----------
    graph : NumberedGraph
    name : str

    Returns
    -------
    networkx.MultiDiGraph
        Nodes carry ``kind`` ("rank" or "switch") and, where they have one, ``name``, links
        ``link`` (their id, also the key), ``bandwidth_gbytes_per_s`` and ``latency_ns``; where they
        are not as they would be by themselves, links ``port``, nodes ``num_ports``, and the graph
        ``schema``, `SCHEMA`.
    """
    has_ports = graph.source_ports is not None or graph.port_counts is not None
    made = nx.MultiDiGraph(name=name, **({"schema": SCHEMA} if has_ports else {}))
    for node, data in enumerate(node_data(graph)):
        made.add_node(node, **data)
    for src, dst, data in link_data(graph):
        made.add_edge(src, dst, key=data["link"], **data)
    return made


def node_data(graph: Any) -> Iterator[dict[str, Any]]:
    """What a graph tells of each node, rank by rank and then switch by switch.

    Parameters
    ----------
    graph : NumberedGraph or Topology

    Yields
    ------
    dict of str to object
    """
    port_counts = None if graph.port_counts is None else graph.port_counts.tolist()
    for node in range(graph.num_ranks + graph.num_switches):
        data = {"kind": "rank" if node < graph.num_ranks else "switch"}
        data |= {} if graph.names is None else {"name": graph.names[node]}
        yield data if port_counts is None else data | {"num_ports": port_counts[node]}


def link_data(graph: Any) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Source, destination and what a graph tells of each link.

    Parameters
    ----------
    graph : NumberedGraph or Topology

    Yields
    ------
    src, dst : int
    data : dict of str to object
    """
    columns = [graph.links, graph.bandwidth_gbytes_per_s, graph.latency_ns]
    columns += [] if graph.source_ports is None else [graph.source_ports]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    names = ("bandwidth_gbytes_per_s", "latency_ns", "port")
    for link, ((src, dst), *figures) in enumerate(rows):
        yield src, dst, {"link": link} | dict(zip(names, figures, strict=False))
