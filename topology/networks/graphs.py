"""Networkx graphs as numbered nodes and links, and back, and what of them is read."""

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array, int32s
from multitree.topology.errors import TopologyError, TopologyWarning, shown
from multitree.topology.networks.nodes import (
    DEFAULT_BANDWIDTH_GBYTES_PER_S,
    DEFAULT_LATENCY_NS,
    names_of,
)

__all__ = [
    "BANDWIDTH",
    "LATENCY",
    "NO_KEYS",
    "SCHEMA",
    "GraphKeys",
    "NumberedGraph",
    "as_networkx",
    "from_networkx",
    "link_data",
    "node_data",
]

BANDWIDTH, LATENCY = "bandwidth_gbytes_per_s", "latency_ns"
_GBYTES_PER_S = {
    f"{prefix}{unit}": scale * part / 1e9
    for prefix, scale in {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.items()
    for unit, part in {"B/s": 1.0, "b/s": 0.125, "bit/s": 0.125, "bps": 0.125}.items()
} | {"MiB/s": 2**20 / 1e9, "GiB/s": 2**30 / 1e9}
_NS = {"ps": 1e-3, "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_LOOKS = {
    BANDWIDTH: r"band_?width|speed|capacity|throughput|weight|[gmkt]i?b(it|yte)?s?_?(ps|per_?s)",
    LATENCY: r"latency|delay|weight",
}
_WORDS = {BANDWIDTH: {"bw", "rate"}, LATENCY: {"lat", "rtt"}}
_OPTIONS = {BANDWIDTH: "--bandwidth-key NAME:UNIT", LATENCY: "--latency-key NAME:UNIT"}
_MOST_LISTED = 8
_KINDS = {"rank": "rank", "switch": "switch"}
_KIND_WORDS = {"kind", "type", "role", "class", "category", "is", "switch", "router"}
_SWITCHES = {"switch", "router"}


class AttributeKey(NamedTuple):
    """The name of an attribute, and the factor from its unit to ours."""

    name: str
    scale: float


class KindKey(NamedTuple):
    """The name of an attribute of nodes, and the kind of each of its values, in lower case."""

    name: str
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> "KindKey":
        """The key of a text NAME, or NAME:VALUE=KIND,..., or a TopologyError.

        No value stands for nodes without the attribute.

        >>> KindKey.of("role:GPU=rank,tor=switch")
        KindKey(name='role', kinds={'gpu': 'rank', 'tor': 'switch'})
        """
        name, _, words = text.rpartition(":") if isinstance(text, str) else ("", "", "=")
        if name + words and "=" not in words:
            return cls(text, _KINDS)
        pairs = [word.rpartition("=")[::2] for word in words.split(",")]
        kinds = {value.casefold(): kind for value, kind in pairs}
        if not name or len(kinds) < len(pairs) or set(kinds.values()) - set(_KINDS):
            example = "role:gpu=rank,tor=switch, each value once"
            raise TopologyError(f"Kind key must be NAME, or like {example}, not {text!r}")
        return cls(name, kinds)


@dataclass(frozen=True)
class GraphKeys:
    """Attributes in the place of `BANDWIDTH`, `LATENCY` and "kind"; all must have them."""

    bandwidth: AttributeKey | None = None
    latency: AttributeKey | None = None
    kind: KindKey | None = None

    @classmethod
    def of(
        cls,
        bandwidth_key: str | None = None,
        latency_key: str | None = None,
        kind_key: str | None = None,
    ) -> "GraphKeys":
        """The keys of texts NAME:UNIT, and of one as of `KindKey`, or a TopologyError.

        >>> GraphKeys.of("capacity:Gb/s").bandwidth
        AttributeKey(name='capacity', scale=0.125)
        """
        return cls(
            _key("Bandwidth key", bandwidth_key, _GBYTES_PER_S, "capacity:GB/s"),
            _key("Latency key", latency_key, _NS, "delay:us"),
            None if kind_key is None else KindKey.of(kind_key),
        )

    def kind_of(self, node: Any, data: Mapping[str, Any], place: str = "") -> str:
        """The kind of a node, "rank" where none is said, or a TopologyError that names it."""
        name, kinds = self.kind or ("kind", _KINDS)
        if name not in data and self.kind is None:
            return "rank"
        who, value = f"{place}{name} of node {shown(node)}", data.get(name)
        if name not in data and "" in kinds:
            return kinds[""]
        if name not in data:
            raise TopologyError(f"{who} must be there, or --kind-key have =KIND for those without")
        # Words of the user's own key are found in any case, since "True" is "true" in GraphML.
        kind = kinds.get(str(value) if kinds is _KINDS else str(value).casefold())
        if kind is None:
            hint = ": hosts are ranks, what only forwards is a switch" if kinds is _KINDS else ""
            other = f"--kind-key {name}:VALUE=KIND,... (in Python kind_key) reads other words"
            known = " or ".join(kinds)
            raise TopologyError(f"{who} must be {known}, not {shown(value)}{hint}; {other}")
        return kind

    def check_nodes(
        self, topology: str, nodes: Iterable[Mapping[str, Any]], known: Collection[str]
    ) -> None:
        """Refuse attributes of nodes that may be their kind by another name; warn of others.

        `known` attributes are read elsewhere; `topology` begins the warning.
        """
        found: dict[str, set[str]] = {}
        for data in nodes:
            for name, value in data.items():
                values = found.setdefault(str(name), set())
                if len(values) < _MOST_LISTED or str(value).casefold() in _SWITCHES:
                    values.add(str(value))
        read = "kind" if self.kind is None else self.kind.name
        if read != "kind" and "kind" in found:
            raise TopologyError(
                f"kind must not be there in addition to {read!r}, which is to be read in its place"
            )
        unread = sorted(set(found) - {read, *known})
        for name in unread:
            looks = _words_of(name) & _KIND_WORDS or {*map(str.casefold, found[name])} & _SWITCHES
            if looks and read not in found:
                raise TopologyError(
                    f"attribute {name!r} of nodes must be called kind, and be rank or switch, or "
                    f"be read by --kind-key {name}:VALUE=KIND,... (in Python kind_key); it is not "
                    f"passed over, and its values are {shown(sorted(found[name]))}"
                )
        _report_unread(topology, "nodes", unread)

    def check(self, topology: str, found: Collection[str], known: Collection[str]) -> None:
        """Refuse attributes of links that may be speed or latency by another name; warn of others.

        A TopologyError also says that a key and our attribute give the same quantity. `known`
        attributes are read elsewhere; `topology` begins the warning.
        """
        keys = {BANDWIDTH: self.bandwidth, LATENCY: self.latency}
        read = {key.name for key in keys.values() if key is not None}
        chosen = {ours for ours, key in keys.items() if key is not None or ours in found}
        for ours, key in keys.items():
            if key is not None and key.name != ours and ours in found:
                raise TopologyError(
                    f"{ours} must not be there in addition to {key.name!r}, which is to be read "
                    "in its place"
                )
        unread = sorted(set(found) - set(known) - set(keys) - read)
        for name in unread:
            looks = _looks_like(name)
            # Where a key or our own attribute gives the quantity,
            # another name for it is no danger, and only warned of.
            if looks and not looks & chosen:
                options = " or ".join(_OPTIONS[ours] for ours in keys if ours in looks)
                ours = " or ".join(ours for ours in keys if ours in looks)
                raise TopologyError(
                    f"attribute {name!r} of links must be called {ours}, or be read by {options} "
                    f"(in Python bandwidth_key, latency_key), such as {name}:"
                    f"{'GB/s' if BANDWIDTH in looks else 'ns'}; it is not passed over"
                )
        _report_unread(topology, "links", unread)


NO_KEYS = GraphKeys()


def _key(
    thing: str, text: str | None, units: dict[str, float], example: str
) -> AttributeKey | None:
    if text is None:
        return None
    name, colon, unit = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not name or not colon:
        raise TopologyError(f"{thing} must be NAME:UNIT, such as {example}, not {text!r}")
    if unit not in units:
        raise TopologyError(f"{thing} must have a unit of {', '.join(units)}, not {unit!r}")
    return AttributeKey(name, units[unit])


def _words_of(name: str) -> set[str]:
    """The words of a name in whatever style: "linkSpeed (Gb/s)" is link, speed, gb and s."""
    return set(_snake(name).split("_"))


def _snake(name: str) -> str:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return re.sub(r"[^a-z0-9]+", "_", snake)


def _looks_like(name: str) -> set[str]:
    """Which of our attributes another one may be meant for."""
    snake, words = _snake(name), _words_of(name)
    return {
        ours
        for ours, pattern in _LOOKS.items()
        if re.search(pattern, snake) or words & _WORDS[ours]
    }


def _report_unread(topology: str, owners: str, names: Iterable[str]) -> None:
    """Warn of attributes that are not read, if there are any."""
    listed = sorted(names)
    if listed:
        named = ", ".join(map(ascii, listed[:_MOST_LISTED]))
        more = f" and {len(listed) - _MOST_LISTED} more" if len(listed) > _MOST_LISTED else ""
        what = f"attributes of {owners} that are not read: {named}{more}"
        warnings.warn(f"{topology}: {what}", TopologyWarning, stacklevel=2)


LinkRow = tuple[Any, int, int, Any, Any, Any]
SCHEMA = "multitree.topology.v1"
"""Of a graph with ports: a program of another kind may mean something else by them."""
_GRAPH_KEYS = {"schema", "name", "node_default", "edge_default"}
"""What is read of graphs; networkx adds the last two as it reads GraphML."""


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


def from_networkx(graph: Any, name: str, keys: GraphKeys = NO_KEYS) -> NumberedGraph:
    """Number the nodes and links of a networkx graph.

    Ranks come first, then nodes of ``kind`` "switch". An undirected edge is one link each way.
    Links are numbered by ``link`` where all have one, else by source, destination and place.
    A TopologyWarning names attributes that are not read; a TopologyError says what is wrong.
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise TypeError(f"Graph must be a networkx graph, not {graph!r}")
    kinds = ((node, keys.kind_of(node, data)) for node, data in graph.nodes(data=True))
    switches = {node for node, kind in kinds if kind == "switch"}
    number = _node_numbers(graph.nodes, switches)
    has_schema = graph.graph.get("schema") == SCHEMA
    rows = list(_link_rows(graph, number, keys, has_schema=has_schema))
    # An undirected edge becomes two links, which cannot share the edge's id.
    has_ids = graph.is_directed() and all(row[0] is not None for row in rows)
    _check_attributes(graph, name, keys, has_ids=has_ids, has_ports=has_ids and has_schema)
    made = _numbered(len(number) - len(switches), len(switches), rows, has_ids=has_ids)
    ordered = sorted(number, key=number.__getitem__)
    counts = [graph.nodes[node].get("num_ports") for node in ordered]
    has_counts = has_ids and has_schema and any(count is not None for count in counts)
    names = names_of(graph.nodes[node].get("name", node) for node in ordered)
    return made._replace(port_counts=counts if has_counts else None, names=names)


def _link_rows(
    graph: Any, number: dict[Any, int], keys: GraphKeys, *, has_schema: bool
) -> Iterator[LinkRow]:
    """Id, source, destination, bandwidth, latency and port of each link, in the graph's order."""
    defaults = {BANDWIDTH: DEFAULT_BANDWIDTH_GBYTES_PER_S, LATENCY: DEFAULT_LATENCY_NS}
    chosen = {BANDWIDTH: keys.bandwidth, LATENCY: keys.latency}
    # A view, since a copy would copy the attributes of each edge, too.
    for u, v, data in graph.to_directed(as_view=True).edges(data=True):
        speeds = (
            _number((u, v), data, ours, chosen[ours], default) for ours, default in defaults.items()
        )
        port = data.get("port") if has_schema else None
        yield data.get("link"), number[u], number[v], *speeds, port


def _check_attributes(
    graph: Any, name: str, keys: GraphKeys, *, has_ids: bool, has_ports: bool
) -> None:
    """Refuse, or warn of, attributes of links, nodes and the graph that are not read."""
    found = {str(each) for *_, data in graph.edges(data=True) for each in data}
    known = ({"link"} if has_ids else set()) | ({"port"} if has_ports else set())
    keys.check(name, found, known)
    of_nodes = {"name"} | ({"num_ports"} if has_ports else set())
    keys.check_nodes(name, (data for _, data in graph.nodes(data=True)), of_nodes)
    _report_unread(name, "the graph", {str(each) for each in graph.graph} - _GRAPH_KEYS)


def _number(
    ends: tuple[Any, Any],
    data: Mapping[str, Any],
    ours: str,
    key: AttributeKey | None,
    default: float,
) -> float:
    """A number of a link in our unit."""
    name, scale = (ours, 1.0) if key is None else key
    if key is None and name not in data:
        return default
    if name not in data:
        place = f"link {shown(ends[0])} -> {shown(ends[1])}"
        raise TopologyError(f"{place}: {name} must be there, as on all links, not missing")
    try:
        return float(data[name]) * scale
    except (TypeError, ValueError, OverflowError):
        place = f"link {shown(ends[0])} -> {shown(ends[1])}"
        raise TopologyError(f"{place}: {name} must be a number, not {data[name]!r}") from None


def _node_numbers(nodes: Iterable[Any], switches: Collection[Any]) -> dict[Any, int]:
    """Number nodes: ranks first, each kind ascending where all are integers, else as they stand."""
    ordered = list(nodes)
    # Both sorts are stable: within ranks, and within switches, the first order stays.
    if all(isinstance(node, int) for node in ordered):
        ordered.sort()
    ordered.sort(key=lambda node: node in switches)
    return {node: index for index, node in enumerate(ordered)}


def _numbered(
    num_ranks: int, num_switches: int, rows: list[LinkRow], *, has_ids: bool
) -> NumberedGraph:
    """Sort links by their ids, or by source, destination and the order in which they stand."""
    # The sort is stable, so parallel links keep the order in which they stand.
    ordered = sorted(rows, key=lambda row: row[:1] if has_ids else row[1:3])
    links = int32s("Links", [row[1:3] for row in ordered]).reshape(-1, 2)
    speeds = np.array([row[3:5] for row in ordered], np.float64).reshape(-1, 2)
    ports = [row[5] for row in ordered]
    source_ports = ports if has_ids and any(port is not None for port in ports) else None
    return NumberedGraph(num_ranks, num_switches, links, speeds[:, 0], speeds[:, 1], source_ports)


def as_networkx(graph: NumberedGraph, name: str) -> Any:
    """The same as a networkx.MultiDiGraph, which `from_networkx` numbers as it was.

    Nodes carry ``kind`` and a ``name``, links ``link`` (their id, also the key), speed and latency.
    Links carry ``port``, nodes ``num_ports`` and the graph ``schema`` only where ports are not
    those that a reader would number.
    """
    import networkx as nx

    has_ports = graph.source_ports is not None or graph.port_counts is not None
    made = nx.MultiDiGraph(name=name, **({"schema": SCHEMA} if has_ports else {}))
    for node, data in enumerate(node_data(graph)):
        made.add_node(node, **data)
    for src, dst, data in link_data(graph):
        made.add_edge(src, dst, key=data["link"], **data)
    return made


def node_data(graph: Any) -> Iterator[dict[str, Any]]:
    """The attributes of each node of a graph or topology, ranks first."""
    port_counts = None if graph.port_counts is None else graph.port_counts.tolist()
    for node in range(graph.num_ranks + graph.num_switches):
        data = {"kind": "rank" if node < graph.num_ranks else "switch"}
        data |= {} if graph.names is None else {"name": graph.names[node]}
        yield data if port_counts is None else data | {"num_ports": port_counts[node]}


def link_data(graph: Any) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Source, destination and attributes of each link of a graph or topology."""
    columns = [graph.links, graph.bandwidth_gbytes_per_s, graph.latency_ns]
    columns += [] if graph.source_ports is None else [graph.source_ports]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    names = (BANDWIDTH, LATENCY, "port")
    for link, ((src, dst), *numbers) in enumerate(rows):
        yield src, dst, {"link": link} | dict(zip(names, numbers, strict=False))
