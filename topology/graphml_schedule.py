"""Schedules as GraphML: the topology, and an edge for each transfer."""

from collections.abc import Iterator
from typing import Any

from multitree.topology.collectives import COLLECTIVES
from multitree.topology.columns import MAX_WAVES
from multitree.topology.entries import ContentError
from multitree.topology.graphml import Element, Graph, format_graphml
from multitree.topology.graphml_topology import (
    numbers_of_nodes,
    topology_keys,
    topology_of_links,
)
from multitree.topology.graphs import link_data, node_data
from multitree.topology.json_schedule import SCHEDULE_SCHEMA
from multitree.topology.schedule import Schedule
from multitree.topology.schedule_rows import (
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
