"""GraphML: its elements read without entities, its data checked by place."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

from multitree.topology.file_text import (
    MAX_DEPTH,
    MAX_DIGITS,
    ContentError,
    choice,
    integer,
    label,
    positive,
    shown,
)
from multitree.topology.networks.nodes import MAX_RANKS

NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


class Datum(NamedTuple):
    """The text of one data element, without spaces around it, and where that stands."""

    text: str
    place: str


@dataclass(slots=True)
class Element:
    """A graph, node or edge.

    Parameters
    ----------
    place : str
        Line and column.
    tag : str
        "graph", "node" or "edge".
    ends : tuple of str
        Of an edge source and target, of a node itself.
    data : dict of str to Datum
        By the names of their keys.
    defaults : dict of str to Datum
        What it has unless its data say else; all elements of a tag share it.
    """

    place: str
    tag: str
    ends: tuple[str, ...] = ()
    data: dict[str, Datum] = field(default_factory=dict)
    defaults: dict[str, Datum] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether there is a datum of that name."""
        return name in self.data or name in self.defaults

    def text(self, name: str) -> str:
        """The text of a datum.

        Raises
        ------
        ContentError
            If there is none of that name; so do the methods below.
        """
        if name in self.data or name not in self.defaults:
            return self._own(name).text
        return self.defaults[name].text

    def choice(self, name: str, known: Sequence[str]) -> str:
        """A datum that is one of some words."""
        return choice(self._place(name), self.text(name), known)

    def label(self, name: str, most: int) -> str:
        """A datum that can be printed as it is."""
        return label(self._place(name), self.text(name), most)

    def integer(self, name: str, least: int, most: int) -> int:
        """A datum that is an integer within limits."""
        return integer(self._place(name), _number(self.text(name)), least, most)

    def integers(self, name: str, least: int, most: int) -> list[int]:
        """A datum of integers within limits, with spaces between; no default counts."""
        # A long one would be read again for each element that has it.
        words = self._own(name).text.split()
        return [integer(self._place(name), _number(word), least, most) for word in words]

    def positive(self, name: str, default: float) -> float:
        """A datum that is a positive, finite number, or a default where there is none."""
        if not self.has(name):
            return default
        return positive(self._place(name), _number(self.text(name)))

    def names(self) -> set[str]:
        """Names of all its data, those that are there by default among them."""
        return {*self.data, *self.defaults}

    def _own(self, name: str) -> Datum:
        if name not in self.data:
            what = f"data {name} of {self.tag}"
            raise ContentError(f"{self.place}: {what} must be there, not missing")
        return self.data[name]

    def _place(self, name: str) -> str:
        return f"{self.data[name].place if name in self.data else self.place}: {name}"


@dataclass
class Graph:
    """A graph as it stands in a file: nodes and edges in their order."""

    directed: bool
    head: Element
    nodes: list[Element]
    edges: list[Element]


def format_graphml(
    keys: Iterable[tuple[str, str, str]],
    head: Mapping[str, Any],
    nodes: Iterable[Mapping[str, Any]],
    edges: Iterable[tuple[int, int, Mapping[str, Any]]],
) -> str:
    """The text of a directed graph whose nodes are numbered from 0.

    Parameters
    ----------
    keys : iterable of (str, str, str)
        Owner ("graph", "node" or "edge"), name and type of all data.
    head : mapping
        The graph's data.
    nodes : iterable of mapping
        Data of each.
    edges : iterable of (int, int, mapping)
        Source, target and data of each.

    Returns
    -------
    str

    Examples
    --------
    >>> text = format_graphml([("edge", "step", "int")], {}, [{}, {}], [(0, 1, {"step": 7})])
    >>> print(text.splitlines()[6].strip())
    <edge source="0" target="1"><data key="edge_step">7</data></edge>
    """
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<graphml xmlns="{NAMESPACE}">']
    for owner, name, kind in keys:
        names = f'id="{owner}_{name}" for="{owner}" attr.name="{name}" attr.type="{kind}"'
        lines.append(f"  <key {names}/>")
    lines.append('  <graph edgedefault="directed">')
    lines += (f"    {_data('graph', {name: value})}" for name, value in head.items())
    for number, values in enumerate(nodes):
        lines.append(f'    <node id="{number}">{_data("node", values)}</node>')
    for source, target, values in edges:
        ends = f'source="{source}" target="{target}"'
        lines.append(f"    <edge {ends}>{_data('edge', values)}</edge>")
    return "\n".join([*lines, "  </graph>", "</graphml>", ""])


def _data(owner: str, values: Mapping[str, Any]) -> str:
    """Data elements of one owner."""
    return "".join(
        f'<data key="{owner}_{name}">{escape(str(value))}</data>' for name, value in values.items()
    )


def _number(text: str) -> int | float | str:
    """The number that a text is; the text itself where it is none, or a long one."""
    if len(text) > MAX_DIGITS or not _NUMBER.fullmatch(text):
        return text
    return int(text) if _WHOLE.fullmatch(text) else float(text)


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


def parse_graphml(text: str) -> Graph:
    """Read GraphML text.

    Keys have to be declared before they are used, and nodes before their edges. Data of keys
    without a name, as editors add for drawing, are passed over.

    Parameters
    ----------
    text : str

    Returns
    -------
    Graph
        Every node's id is there once, every edge's ends are nodes.

    Raises
    ------
    ContentError
        If it is no XML, has a document type (which could declare entities), another encoding than
        UTF-8, or is no GraphML of one graph without graphs within; with line and column.

    Notes
    -----
    Time and memory are linear in the length of the text: without a document type there are no
    entities, so that nothing expands.

    Examples
    --------
    >>> graph = parse_graphml(
    ...     '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="directed">'
    ...     '<node id="a"/><node id="b"/><edge source="a" target="b"/></graph></graphml>'
    ... )
    >>> graph.directed, [edge.ends for edge in graph.edges]
    (True, [('a', 'b')])
    """
    return _Reader().read(text)


class _Reader:
    """Handlers of expat, and what they have read so far."""

    def __init__(self) -> None:
        self._graph: Graph | None = None
        self._ids: set[str] = set()
        # Owner and name of each key by its id, and data that owners have unless they say else.
        self._keys: dict[str, tuple[str, str]] = {}
        self._defaults: dict[str, dict[str, Datum]] = {owner: {} for owner in _OWNERS}
        # Tags that are open, the elements among them, and from which depth on all is passed over.
        self._open: list[str] = []
        self._elements: list[Element] = []
        self._passing = 0
        # The text that is being read: where it goes, by what name, and where it begins.
        self._sinks: list[dict[str, Datum]] = []
        self._name = self._begin = ""
        self._text: list[str] = []
        # With a separator expat resolves namespaces: a tag is its namespace, a space and its name.
        self._parser = expat.ParserCreate("utf-8", " ")
        self._parser.buffer_text = True
        self._parser.XmlDeclHandler = self._declaration
        self._parser.StartDoctypeDeclHandler = self._document_type
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def read(self, text: str) -> Graph:
        """Read the whole text."""
        try:
            self._parser.Parse(text.encode(), True)
        except expat.ExpatError as error:
            place = f"line {error.lineno}, column {error.offset + 1}"
            what = expat.ErrorString(error.code)
            raise ContentError(f"{place} must be XML, not: {what}") from None
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
                sink[self._name] = Datum("".join(self._text).strip(), self._begin)
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
        if name == "key":
            self._enter_key(given)
        elif name == "data":
            self._enter_data(given)
        elif name == "default":
            owner, label = next(reversed(self._keys.values()))
            self._take([self._defaults[each] for each in _OWNERS if owner in (each, "all")], label)
        elif name == "graph":
            self._enter_graph(given)
        elif name in _OWNERS:
            self._enter_part(name, given)
        elif name == "desc":
            self._take([], "")

    def _enter_key(self, given: dict[str, str]) -> None:
        key = self._attribute("key", given, "id")
        if key in self._keys:
            self._refuse(f"id of key must be there once, not again {shown(key)}")
        self._keys[key] = given.get("for", "all"), given.get("attr.name", "")

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

    def _enter_graph(self, given: dict[str, str]) -> None:
        if self._graph is not None:
            self._refuse("graph must be there once, not again")
        kind = self._attribute("graph", given, "edgedefault")
        choice(f"{self._place()}: edgedefault", kind, ("directed", "undirected"))
        element = self._element("graph", ())
        self._elements.append(element)
        self._graph = Graph(kind == "directed", element, [], [])

    def _enter_part(self, tag: str, given: dict[str, str]) -> None:
        assert self._graph is not None  # neither stands elsewhere
        if tag == "node":
            ends: tuple[str, ...] = (self._attribute(tag, given, "id"),)
            if ends[0] in self._ids:
                self._refuse(f"id of node must be there once, not again {shown(ends[0])}")
            if len(self._ids) == MAX_NODES:
                self._refuse(f"nodes must be at most {MAX_NODES}, not more")
            self._ids.add(ends[0])
            parts = self._graph.nodes
        else:
            ends = tuple(self._attribute(tag, given, end) for end in ("source", "target"))
            for end in ends:
                if end not in self._ids:
                    self._refuse(f"ends of edge must be nodes declared above, not {shown(end)}")
            wanted = "true" if self._graph.directed else "false"
            if given.get("directed", wanted) != wanted:
                self._refuse(f"directed of edge must be {wanted}, as edgedefault has it")
            parts = self._graph.edges
        parts.append(self._element(tag, ends))
        self._elements.append(parts[-1])

    def _element(self, tag: str, ends: tuple[str, ...]) -> Element:
        return Element(self._place(), tag, ends, defaults=self._defaults[tag])

    def _attribute(self, tag: str, given: dict[str, str], name: str) -> str:
        if name not in given:
            self._refuse(f"{name} of {tag} must be there, not missing")
        return given[name]

    def _take(self, sinks: list[dict[str, Datum]], name: str) -> None:
        """Read the text that follows; pass over it, and what else is in it, without a name."""
        if not name:
            self._passing = len(self._open) + 1
            return
        if any(name in sink for sink in sinks):
            self._refuse(f"data {shown(name)} must be there once, not again")
        self._sinks, self._name, self._begin, self._text = sinks, name, self._place(), []
