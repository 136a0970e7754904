"""Topologies and schedules as GraphML."""

from collections.abc import Iterator
from typing import Any

from multitree.topology.collectives import COLLECTIVES
from multitree.topology.file_text import ContentError, label, shown
from multitree.topology.files.graphml_reader import Element, Graph, format_graphml
from multitree.topology.files.json_format import SCHEDULE_SCHEMA
from multitree.topology.files.schedule_rows import (
    MAX_LABEL,
    MAX_OFFSET,
    OPS,
    WAVES,
    Heading,
    Row,
    check_counts,
    check_route,
    most_of,
    rows_of,
    schedule_of_rows,
    waves_of,
)
from multitree.topology.networks.attributes import (
    BANDWIDTH,
    LATENCY,
    NO_KEYS,
    AttributeKey,
    LinkKeys,
    report_unread,
)
from multitree.topology.networks.graphs import (
    NODE_KEYS,
    LinkRow,
    link_data,
    node_data,
    node_numbers,
    numbered,
)
from multitree.topology.networks.graphs import SCHEMA as TOPOLOGY_SCHEMA
from multitree.topology.networks.nodes import MAX_NAME, MOST_PORTS, names_or_none
from multitree.topology.networks.topology import (
    DEFAULT_BANDWIDTH_GBYTES_PER_S,
    DEFAULT_LATENCY_NS,
    Topology,
)
from multitree.topology.schedules.columns import MAX_WAVES
from multitree.topology.schedules.schedule import Schedule

TOPOLOGY_KEYS = (
    ("graph", "schema", "string"),
    ("node", "kind", "string"),
    ("edge", "link", "int"),
    ("edge", "bandwidth_gbytes_per_s", "double"),
    ("edge", "latency_ns", "double"),
)
_PORT_KEY = ("edge", "port", "int")
_COUNT_KEY = ("node", "num_ports", "int")
_NAME_KEY = ("node", "name", "string")


def topology_of_graph(graph: Graph, name: str, keys: LinkKeys = NO_KEYS) -> Topology:
    """Understand a graph as a topology.

    Parameters
    ----------
    graph : Graph
        Without a schema, as other programs write it, or with ours.
    name : str
        What messages call the topology.
    keys : LinkKeys
        Data of edges that tell speed and latency in the place of ours.

    Returns
    -------
    Topology

    Raises
    ------
    ContentError
        If some data are wrong.
    TopologyError
        If together they are no topology, or data of edges may be speed or latency by another name.
    """
    if graph.head.has("schema"):
        graph.head.choice("schema", [TOPOLOGY_SCHEMA])
    report_unread(name, "the graph", graph.head.names() - {"schema", "name"})
    return topology_of_links(graph, graph.edges, numbers_of_nodes(graph), name, keys)


def numbers_of_nodes(graph: Graph) -> dict[str, int]:
    """Number a graph's nodes by their ids, as `graphs.node_numbers` does.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    dict of str to int
    """
    ids = [node.ends[0] for node in graph.nodes]
    # Not "01" too, which would be the same node.
    are_numbers = all(word.isascii() and word.isdigit() for word in ids) and all(
        len(word) < 10 and str(int(word)) == word for word in ids
    )
    keys = [int(word) for word in ids] if are_numbers else ids
    switches = {key for key, node in zip(keys, graph.nodes, strict=True) if _is_switch(node)}
    number = node_numbers(keys, switches)
    return {word: number[key] for word, key in zip(ids, keys, strict=True)}


def topology_of_links(
    graph: Graph,
    links: list[Element],
    number: dict[str, int],
    name: str,
    keys: LinkKeys = NO_KEYS,
    known: frozenset[str] = frozenset(),
) -> Topology:
    """The topology of a graph's nodes and of some of its edges.

    Parameters
    ----------
    graph : Graph
    links : list of Element
        Edges; where the graph is undirected, each is one link in each direction.
    number : dict of str to int
        Each node's number by its id.
    name : str
    keys : LinkKeys
    known : frozenset of str
        Data of edges that mean something else.

    Returns
    -------
    Topology

    Raises
    ------
    ContentError
        If some data are wrong.
    TopologyError
        If together they are no topology.
    """
    has_ids = graph.directed and any(edge.has("link") for edge in links)
    ids = _ids_of(links) if has_ids else [None] * len(links)
    has_schema = graph.head.has("schema")
    has_ports = has_ids and has_schema and any(edge.has("port") for edge in links)
    rows: list[LinkRow] = []
    for link, edge in zip(ids, links, strict=True):
        src, dst = (number[end] for end in edge.ends)
        if src == dst:
            wrong = f"edge must join two different nodes, not {shown(edge.ends)}"
            raise ContentError(f"{edge.place}: {wrong}")
        figures = (
            _figure(edge, BANDWIDTH, keys.bandwidth, DEFAULT_BANDWIDTH_GBYTES_PER_S),
            _figure(edge, LATENCY, keys.latency, DEFAULT_LATENCY_NS),
        )
        port = edge.integer("port", 0, MOST_PORTS - 1) if has_ports else None
        rows.append((link, src, dst, *figures, port))
        if not graph.directed:
            rows.append((None, dst, src, *figures, None))
    num_switches = sum(map(_is_switch, graph.nodes))
    num_ranks = len(graph.nodes) - num_switches
    made = numbered(num_ranks, num_switches, rows, has_ids=has_ids)
    has_counts = has_ids and has_schema
    _check_data(graph, links, name, keys, known, has_ids=has_ids, has_counts=has_counts)
    port_counts = _counts_of(graph.nodes, number) if has_counts else None
    ordered = sorted(graph.nodes, key=lambda node: number[node.ends[0]])
    names = names_or_none(
        node.label("name", MAX_NAME)
        if node.has("name")
        else label(f"{node.place}: id", node.ends[0], MAX_NAME)
        for node in ordered
    )
    return Topology(name, **made._replace(port_counts=port_counts, names=names)._asdict())


def _check_data(
    graph: Graph,
    links: list[Element],
    name: str,
    keys: LinkKeys,
    known: frozenset[str],
    *,
    has_ids: bool,
    has_counts: bool,
) -> None:
    """Refuse data of links that may be speed or latency by another name; tell of others."""
    found = set().union(*(edge.names() for edge in links))
    known |= {"link"} if has_ids else set()
    keys.check(name, found, known | ({"port"} if has_counts else set()))
    of_nodes = set().union(*(node.names() for node in graph.nodes))
    report_unread(name, "nodes", of_nodes - NODE_KEYS - ({"num_ports"} if has_counts else set()))


def _figure(edge: Element, ours: str, key: AttributeKey | None, default: float) -> float:
    """A positive number of a link in our unit."""
    if key is None:
        return edge.positive(ours, default)
    if not edge.has(key.name):
        raise ContentError(f"{edge.place}: {key.name} must be there, as on all edges, not missing")
    return edge.positive(key.name, default) * key.scale


def topology_graphml(topology: Topology) -> str:
    """The text of a topology as GraphML.

    Parameters
    ----------
    topology : Topology

    Returns
    -------
    str
    """
    head = {"schema": TOPOLOGY_SCHEMA}
    return format_graphml(topology_keys(topology), head, node_data(topology), link_data(topology))


def topology_keys(topology: Topology) -> tuple[tuple[str, str, str], ...]:
    """Keys of a topology's data; ports are written where they are not the default."""
    optional = (
        (topology.source_ports, _PORT_KEY),
        (topology.port_counts, _COUNT_KEY),
        (topology.names, _NAME_KEY),
    )
    return (*TOPOLOGY_KEYS, *(key for numbers, key in optional if numbers is not None))


def _is_switch(node: Element) -> bool:
    return node.has("kind") and node.choice("kind", ("rank", "switch")) == "switch"


def _ids_of(links: list[Element]) -> list[int]:
    """Ids of links: where some have one all have, each of 0, 1, 2, ... once."""
    ids = [edge.integer("link", 0, len(links) - 1) for edge in links]
    seen: set[int] = set()
    for link, edge in zip(ids, links, strict=True):
        if link in seen:
            raise ContentError(f"{edge.place}: link must be there once, not again {link}")
        seen.add(link)
    return ids


def _counts_of(nodes: list[Element], number: dict[str, int]) -> list[int] | None:
    """Numbers of ports by node: where some have one all have; None where none has."""
    if not any(node.has("num_ports") for node in nodes):
        return None
    ordered = sorted(nodes, key=lambda node: number[node.ends[0]])
    return [node.integer("num_ports", 0, MOST_PORTS) for node in ordered]


KINDS = LINK, TRANSFER = "link", "transfer"
SCHEDULE_KEYS = (
    ("graph", "algorithm", "string"),
    ("graph", "collective", "string"),
    ("graph", "root", "int"),
    ("graph", "flow_offsets", "string"),
    *(("graph", key, "int") for key in WAVES),
    ("edge", "kind", "string"),
    ("edge", "step", "int"),
    ("edge", "op", "string"),
    ("edge", "flow", "int"),
    ("edge", "order", "int"),
    ("edge", "links", "string"),
    ("edge", "classes", "string"),
)

_EDGE_KEYS = frozenset(name for owner, name, _ in SCHEDULE_KEYS if owner == "edge")


def schedule_of_graph(graph: Graph, name: str) -> Schedule:
    """Understand a graph as a schedule, not yet verified; its edges may come in any order.

    Parameters
    ----------
    graph : Graph
    name : str
        What messages call the topology.

    Returns
    -------
    Schedule

    Raises
    ------
    ContentError
        If some data are missing or wrong.
    TopologyError, ScheduleError
        If together they are no topology or no schedule.
    """
    head = graph.head
    head.choice("schema", [SCHEDULE_SCHEMA])
    if not graph.directed:
        raise ContentError(f"{head.place}: edgedefault must be directed, not undirected")
    edges: dict[str, list[Element]] = {kind: [] for kind in KINDS}
    for edge in graph.edges:
        edges[edge.choice("kind", KINDS)].append(edge)
    number = numbers_of_nodes(graph)
    topology = topology_of_links(graph, edges[LINK], number, name, known=_EDGE_KEYS)
    heading = Heading(
        head.label("algorithm", MAX_LABEL),
        head.choice("collective", COLLECTIVES),
        head.integer("root", 0, topology.num_ranks - 1) if head.has("root") else None,
        head.integers("flow_offsets", 0, MAX_OFFSET),
        *(head.integer(key, 1, MAX_WAVES - 1) if head.has(key) else 1 for key in WAVES),
    )
    counts = len(edges[TRANSFER]), len(heading.flow_offsets), topology.num_ranks
    most = most_of(topology, check_counts(*counts))
    rows = [_row(edge, number, most) for edge in edges[TRANSFER]]
    # Edges of a GraphML file may come in any order, rows of a schedule may not.
    rows.sort(key=lambda row: (row[0], *row[2:5]))
    return schedule_of_rows(topology, heading, rows)


def schedule_graphml(schedule: Schedule) -> str:
    """The text of a schedule as GraphML.

    Parameters
    ----------
    schedule : Schedule

    Returns
    -------
    str
    """
    head: dict[str, Any] = {
        "schema": SCHEDULE_SCHEMA,
        "algorithm": schedule.algorithm,
        "collective": schedule.collective,
        "flow_offsets": _words(schedule.flow_offsets.tolist()),
        **waves_of(schedule, int),
    }
    if schedule.root is not None:
        head["root"] = schedule.root
    keys = (*topology_keys(schedule.topology), *SCHEDULE_KEYS)
    return format_graphml(keys, head, node_data(schedule.topology), _edges(schedule))


def _edges(schedule: Schedule) -> Iterator[tuple[int, int, dict[str, Any]]]:
    for src, dst, data in link_data(schedule.topology):
        yield src, dst, {"kind": LINK} | data
    for step, op, flow, src, dst, order, links, classes in rows_of(schedule):
        place = {"step": step, "op": op, "flow": flow, "order": order}
        route = {"links": _words(links), "classes": _words(classes)}
        yield src, dst, {"kind": TRANSFER} | place | route


def _row(edge: Element, number: dict[str, int], most: dict[str, int]) -> Row:
    src, dst = (number[end] for end in edge.ends)
    if max(src, dst) > most["src"]:
        raise ContentError(f"{edge.place}: ends of a transfer must be ranks, not switches")
    links = edge.integers("links", 0, most["links"])
    classes = edge.integers("classes", 0, most["classes"])
    check_route(f"{edge.place}: edge", links, classes)
    step, flow, order = (edge.integer(name, 0, most[name]) for name in ("step", "flow", "order"))
    return step, edge.choice("op", OPS), flow, src, dst, order, links, classes


def _words(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))
