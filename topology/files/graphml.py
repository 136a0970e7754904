"""Topologies as GraphML: untrusted XML, read into a networkx graph."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

import networkx as nx

from multitree.topology.errors import ContentError, choice, integer, label, positive, shown
from multitree.topology.file_io import MAX_DEPTH, MAX_DIGITS
from multitree.topology.networks.graphs import (
    BANDWIDTH,
    LATENCY,
    SCHEMA,
    GraphKeys,
    from_networkx,
    link_data,
    node_data,
)
from multitree.topology.networks.nodes import MAX_LINKS, MAX_NAME, MAX_RANKS, MOST_PORTS
from multitree.topology.networks.topology import Topology

__all__ = ["MAX_NODES", "topology_graphml", "topology_of_graphml"]

NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
MAX_NODES = 2 * MAX_RANKS
"""As many ranks and as many switches as there may be."""
_CHILDREN: dict[str, tuple[str, ...]] = {
    "content": ("graphml",),
    "graphml": ("desc", "key", "graph", "data"),
    "key": ("desc", "default"),
    "graph": ("desc", "node", "edge", "data"),
    "node": ("desc", "data"),
    "edge": ("desc", "data"),
}
_OWNERS = ("graph", "node", "edge")
_ENCODINGS = ("utf-8", "us-ascii", "ascii")
_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
# Not "01" too, which would be the same node as "1".
_ID = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_Rule = Callable[[str, str], Any]
_ON_ALL = {"link", "port", "num_ports"}
"""Data that all edges, or all nodes, must have where they are read."""


@dataclass(slots=True)
class _Element:
    """A graph, node or edge: line and column, id or both ends, and texts of data by their names."""

    place: str
    tag: str
    ends: tuple[str, ...] = ()
    data: dict[str, str] = field(default_factory=dict)


def topology_of_graphml(text: str, name: str, keys: GraphKeys) -> Topology:
    """Understand GraphML text as a topology, which messages call `name`.

    A ContentError names line, column, rule and value. A TopologyError says that together they are
    no topology, or that data of edges may be speed or latency by another name.
    """
    reader = _Reader()
    reader.read(text)
    ((_, head),) = _converted([reader.graph], reader.defaults["graph"], {"schema": _schema})
    made = nx.MultiDiGraph() if reader.directed else nx.MultiGraph()
    made.graph |= head
    has_ids = reader.directed and reader.any_has("link", reader.edges)
    has_ports = has_ids and "schema" in head
    # Numbers only where all ids are, so that they sort as in a graph made in Python.
    ids = [node.ends[0] for node in reader.nodes]
    node_type = int if all(map(_ID.fullmatch, ids)) else str
    # From tuples, since keyword arguments could be called like parameters of networkx.
    made.add_nodes_from((node_type(node), data) for node, data in _nodes(reader, keys, has_ports))
    numbers = (BANDWIDTH, LATENCY, *(key.name for key in (keys.bandwidth, keys.latency) if key))
    edges = _edges(reader, dict.fromkeys(numbers, _positive), has_ids, has_ports)
    made.add_edges_from(
        (*map(node_type, ends), key, data) for key, (ends, data) in enumerate(edges)
    )
    return Topology(name, **from_networkx(made, name, keys)._asdict())


def _schema(place: str, text: str) -> str:
    if text.startswith("multitree.schedule."):
        raise ContentError(f"{place} must be {SCHEMA}, not {shown(text)}: schedules are JSON files")
    return choice(place, text, [SCHEMA])


def _nodes(
    reader: "_Reader", keys: GraphKeys, has_ports: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Id and data of each node."""
    rules: dict[str, _Rule] = {"name": lambda place, text: label(place, text, MAX_NAME)}
    if has_ports and reader.any_has("num_ports", reader.nodes):
        rules["num_ports"] = _whole_within(0, MOST_PORTS)
    for node, data in _converted(reader.nodes, reader.defaults["node"], rules):
        if "name" not in data:
            label(f"{node.place}: id", node.ends[0], MAX_NAME)
        # Here, too, since who reads a graph does not know lines and columns.
        keys.kind_of(node.ends[0], data, f"{node.place}: ")
        yield node.ends[0], data


def _edges(
    reader: "_Reader", rules: dict[str, _Rule], has_ids: bool, has_ports: bool
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Ends and data of each edge."""
    if has_ids:
        rules["link"] = _whole_within(0, len(reader.edges) - 1)
    if has_ports and reader.any_has("port", reader.edges):
        rules["port"] = _whole_within(0, MOST_PORTS - 1)
    seen: set[int] = set()
    for edge, data in _converted(reader.edges, reader.defaults["edge"], rules):
        if edge.ends[0] == edge.ends[1]:
            wrong = f"edge must join two different nodes, not {shown(edge.ends)}"
            raise ContentError(f"{edge.place}: {wrong}")
        if has_ids:
            link = data["link"]
            if link in seen:
                raise ContentError(f"{edge.place}: link must be there once, not again {link}")
            seen.add(link)
        yield edge.ends, data


def _converted(
    elements: list[_Element], defaults: dict[str, str], rules: dict[str, _Rule]
) -> Iterator[tuple[_Element, dict[str, Any]]]:
    """Each element, and its data with defaults, texts converted by the rules of their names."""
    # The first has all defaults, which are reported if no rule reads them. Were all others to have
    # them, too, many keys times many edges would be far more than the file.
    read = {name: text for name, text in defaults.items() if name in rules}
    for number, element in enumerate(elements):
        data: dict[str, Any] = (read if number else defaults) | element.data
        element.data = {}  # networkx keeps a copy
        for name in rules.keys() & data.keys():
            data[name] = rules[name](f"{element.place}: {name}", data[name])
        for name in _ON_ALL & rules.keys() - data.keys():
            what = f"data {name} of {element.tag}"
            raise ContentError(f"{element.place}: {what} must be there, not missing")
        yield element, data


def _whole_within(least: int, most: int) -> _Rule:
    return lambda place, text: integer(place, _number(text), least, most)


def _positive(place: str, text: str) -> float:
    return positive(place, _number(text))


def _number(text: str) -> int | float | str:
    """The number that a text is; the text itself where it is none, or a long one."""
    if len(text) > MAX_DIGITS or not _NUMBER.fullmatch(text):
        return text
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def topology_graphml(topology: Topology) -> str:
    """The text of a topology as GraphML; ports and names are data only where there are any."""
    keys = [("graph", "schema", "string"), ("node", "kind", "string"), ("edge", "link", "int")]
    keys += [("edge", BANDWIDTH, "double"), ("edge", LATENCY, "double")]
    optional = (
        (topology.source_ports, ("edge", "port", "int")),
        (topology.port_counts, ("node", "num_ports", "int")),
        (topology.names, ("node", "name", "string")),
    )
    keys += [key for values, key in optional if values is not None]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<graphml xmlns="{NAMESPACE}">']
    for owner, name, kind in keys:
        names = f'id="{owner}_{name}" for="{owner}" attr.name="{name}" attr.type="{kind}"'
        lines.append(f"  <key {names}/>")
    lines.append('  <graph edgedefault="directed">')
    lines.append(f"    {_data('graph', {'schema': SCHEMA})}")
    for number, values in enumerate(node_data(topology)):
        lines.append(f'    <node id="{number}">{_data("node", values)}</node>')
    for source, target, values in link_data(topology):
        ends = f'source="{source}" target="{target}"'
        lines.append(f"    <edge {ends}>{_data('edge', values)}</edge>")
    return "\n".join([*lines, "  </graph>", "</graphml>", ""])


def _data(owner: str, values: Mapping[str, Any]) -> str:
    """Data elements of one owner."""
    return "".join(
        f'<data key="{owner}_{name}">{escape(str(value))}</data>' for name, value in values.items()
    )


class _Reader:
    """Handlers of expat, and the elements that they have read; linear in the length of the text.

    Keys have to be declared before they are used, and nodes before their edges. Data of keys
    without a name, as editors add for drawing, are passed over.
    """

    def __init__(self) -> None:
        self.directed = False
        self.nodes: list[_Element] = []
        self.edges: list[_Element] = []
        self._graph: _Element | None = None
        self._ids: set[str] = set()
        # Owner and name of each key by its id, and data that owners have unless they say else.
        self._keys: dict[str, tuple[str, str]] = {}
        self.defaults: dict[str, dict[str, str]] = {owner: {} for owner in _OWNERS}
        # Tags that are open, the elements among them, and from which depth on all is passed over.
        self._open: list[str] = []
        self._elements: list[_Element] = []
        self._passing = 0
        # The text that is being read, by what name, and where it goes.
        self._sinks: list[dict[str, str]] = []
        self._name = ""
        self._text: list[str] = []
        # With a separator expat resolves namespaces: a tag is its namespace, a space and its name.
        self._parser = expat.ParserCreate("utf-8", " ")
        self._parser.buffer_text = True
        self._parser.XmlDeclHandler = self._declaration
        self._parser.StartDoctypeDeclHandler = self._document_type
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def read(self, text: str) -> None:
        """Read the whole text, or raise a ContentError with line and column."""
        try:
            self._parser.Parse(text.encode(), True)
        except expat.ExpatError as error:
            place = f"line {error.lineno}, column {error.offset + 1}"
            what = expat.ErrorString(error.code)
            raise ContentError(f"{place} must be XML, not: {what}") from None

    def any_has(self, name: str, elements: list[_Element]) -> bool:
        """Whether some nodes, or some edges, have data of a name."""
        return any(
            name in element.data or name in self.defaults[element.tag] for element in elements
        )

    @property
    def graph(self) -> _Element:
        """The graph itself, with its own data."""
        if self._graph is None:
            raise ContentError("content must have a graph, not none")
        return self._graph

    def _place(self) -> str:
        parser = self._parser
        return f"line {parser.CurrentLineNumber}, column {parser.CurrentColumnNumber + 1}"

    def _refuse(self, rule: str) -> NoReturn:
        raise ContentError(f"{self._place()}: {rule}")

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        # The text was decoded as UTF-8 before, so another declaration would be false.
        if encoding is not None and encoding.lower() not in _ENCODINGS:
            self._refuse(f"encoding must be UTF-8, not {shown(encoding)}")

    def _document_type(self, name: str, *ids: object) -> None:
        # Without one there are no entities: nothing expands, and nothing comes from elsewhere.
        self._refuse(f"content must be without a document type, not have one, {shown(name)}")

    def _start(self, tag: str, given: dict[str, str]) -> None:
        name = tag.removeprefix(f"{NAMESPACE} ")
        if len(self._open) == MAX_DEPTH:
            self._refuse(f"elements must be at most {MAX_DEPTH} levels deep, not deeper")
        if not self._passing:
            parent = self._open[-1] if self._open else "content"
            known = _CHILDREN.get(parent, ())
            if name not in known:
                what = ", ".join(known) or "text"
                self._refuse(f"{parent} must hold {what}, not {shown(name)}")
            self._enter(name, given)
        self._open.append(name)

    def _end(self, _: str) -> None:
        name = self._open.pop()
        if self._passing:
            if len(self._open) < self._passing:
                self._passing = 0
        elif name in ("data", "default"):
            for sink in self._sinks:
                sink[self._name] = "".join(self._text).strip()
        elif name in _OWNERS:
            self._elements.pop()

    def _characters(self, text: str) -> None:
        if self._passing:
            return
        if self._open[-1] in ("data", "default"):
            self._text.append(text)
        elif text.strip():
            self._refuse(f"{self._open[-1]} must hold elements, not text {shown(text)}")

    def _enter(self, name: str, given: dict[str, str]) -> None:
        if name == "data":
            self._enter_data(given)
        elif name == "node":
            self.nodes.append(self._open_element(name, self._new_id(given)))
        elif name == "edge":
            self.edges.append(self._open_element(name, *self._ends(given)))
        elif name == "key":
            key = self._attribute("key", given, "id")
            if key in self._keys:
                self._refuse(f"id of key must be there once, not again {shown(key)}")
            self._keys[key] = given.get("for", "all"), given.get("attr.name", "")
        elif name == "default":
            owner, label = next(reversed(self._keys.values()))
            self._take([self.defaults[each] for each in _OWNERS if owner in (each, "all")], label)
        elif name == "desc":
            self._take([], "")
        elif name == "graph":
            if self._graph is not None:
                self._refuse("graph must be there once, not again")
            kind = self._attribute("graph", given, "edgedefault")
            choice(f"{self._place()}: edgedefault", kind, ("directed", "undirected"))
            self.directed = kind == "directed"
            self._graph = self._open_element("graph")

    def _enter_data(self, given: dict[str, str]) -> None:
        key = self._attribute("data", given, "key")
        if key not in self._keys:
            self._refuse(f"key of data must be declared above, not {shown(key)}")
        if not self._elements:
            # Of the file, not of its graph.
            self._take([], "")
            return
        (owner, label), element = self._keys[key], self._elements[-1]
        if owner not in (element.tag, "all"):
            self._refuse(f"key of data must be for {element.tag}, not {shown(key)} for {owner}")
        self._take([element.data], label)

    def _new_id(self, given: dict[str, str]) -> str:
        node = self._attribute("node", given, "id")
        if node in self._ids:
            self._refuse(f"id of node must be there once, not again {shown(node)}")
        if len(self._ids) == MAX_NODES:
            self._refuse(f"nodes must be at most {MAX_NODES}, not more")
        self._ids.add(node)
        return node

    def _ends(self, given: dict[str, str]) -> list[str]:
        most = MAX_LINKS if self.directed else MAX_LINKS // 2
        if len(self.edges) == most:
            self._refuse(f"edges must be at most {most}, not more")
        ends = [self._attribute("edge", given, end) for end in ("source", "target")]
        for end in ends:
            if end not in self._ids:
                self._refuse(f"ends of edge must be nodes declared above, not {shown(end)}")
        wanted = "true" if self.directed else "false"
        if given.get("directed", wanted) != wanted:
            self._refuse(f"directed of edge must be {wanted}, as edgedefault has it")
        return ends

    def _open_element(self, tag: str, *ends: str) -> _Element:
        self._elements.append(_Element(self._place(), tag, ends))
        return self._elements[-1]

    def _attribute(self, tag: str, given: dict[str, str], name: str) -> str:
        if name not in given:
            self._refuse(f"{name} of {tag} must be there, not missing")
        return given[name]

    def _take(self, sinks: list[dict[str, str]], name: str) -> None:
        """Read the text that follows; pass over it, and what else is in it, without a name."""
        if not name:
            self._passing = len(self._open) + 1
            return
        if any(name in sink for sink in sinks):
            self._refuse(f"data {shown(name)} must be there once, not again")
        self._sinks, self._name, self._text = sinks, name, []
