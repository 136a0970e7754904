"""GraphML: elements with their data, checked by place, and the text of a graph."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from multitree.topology.entries import ContentError, choice, integer, label, positive
from multitree.topology.file_text import MAX_DIGITS

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
