"""Nodes and links of a network: their counts, names, ports and numbers, checked."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from multitree.topology.arrays import (
    Float64Array,
    Int32Array,
    Int64Array,
    int32s,
    positions_in_group,
)
from multitree.topology.errors import TopologyError
from multitree.topology.networks.measures import adjacency, hops_from

__all__ = [
    "DEFAULT_BANDWIDTH_GBYTES_PER_S",
    "DEFAULT_LATENCY_NS",
    "MAX_LINKS",
    "MAX_NAME",
    "MAX_RANKS",
    "MOST_PORTS",
    "Ids",
    "check_connected",
    "check_counts",
    "check_ids",
    "checked_links",
    "checked_names",
    "checked_port_counts",
    "checked_source_ports",
    "degraded_links",
    "degraded_name",
    "label_of",
    "names_at",
    "names_of",
    "names_or_none",
    "ports_in_order",
    "ports_in_use",
    "positive_numbers",
]

DEFAULT_BANDWIDTH_GBYTES_PER_S = 16.0
DEFAULT_LATENCY_NS = 150.0
MAX_RANKS = 65_536
MAX_LINKS = 4_194_304
MAX_NAME = 200
"""Characters of a name."""
MOST_PORTS = 65_536
MOST_NAMED = 4
"""Lost links or nodes that the name of a network lists."""
Ids = Iterable[int]


def check_counts(num_ranks: int, num_switches: int) -> None:
    """Raise a TopologyError unless there are 2 to `MAX_RANKS` ranks, and no more switches."""
    if type(num_ranks) is not int or not 2 <= num_ranks <= MAX_RANKS:
        raise TopologyError(f"Number of ranks must be within 2..{MAX_RANKS}, not {num_ranks!r}")
    if type(num_switches) is not int or not 0 <= num_switches <= MAX_RANKS:
        raise TopologyError(
            f"Number of switches must be within 0..{MAX_RANKS}, not {num_switches!r}"
        )


def checked_links(given: Any, num_nodes: int) -> Int32Array:
    """Links as int32 (num_links, 2), or a TopologyError that names the first that cannot be."""
    links = int32s("Links", given)
    if links.ndim != 2 or links.shape[1] != 2:
        raise TopologyError(f"Links must be an array of shape (n, 2), not {links.shape}")
    if len(links) > MAX_LINKS:
        raise TopologyError(f"Links must be at most {MAX_LINKS}, not {len(links)}")
    wrong = np.flatnonzero(((links < 0) | (links >= num_nodes)).any(axis=1))
    if wrong.size:
        ends = links[wrong[0]].tolist()
        raise TopologyError(f"Link {wrong[0]} must join nodes 0..{num_nodes - 1}, not {ends}")
    loops = np.flatnonzero(links[:, 0] == links[:, 1])
    if loops.size:
        raise TopologyError(
            f"Link {loops[0]} must join two different nodes, not {links[loops[0]].tolist()}"
        )
    return links


def check_connected(
    name: str, links: Int32Array, num_nodes: int, label: Callable[[int], str] = str
) -> None:
    """Raise a TopologyError unless rank 0 reaches every node, and every node rank 0."""
    # Two searches from rank 0, forwards and backwards, prove that the graph is strongly connected.
    for ends, verb in ((links, "reachable from"), (links[:, ::-1], "able to reach")):
        hops = hops_from(adjacency(ends[:, 0], ends[:, 1], num_nodes), 0)
        missing = np.flatnonzero(hops < 0)
        if missing.size:
            lost = label(int(missing[0]))
            raise TopologyError(
                f"Every node of {name!r} must be {verb} rank 0, not all but node {lost}"
            )


def positive_numbers(field: str, values: Any, num_links: int) -> Float64Array:
    """One positive, finite number per link, float64 (num_links,), or a TopologyError."""
    given = np.asarray(values, np.float64)
    if given.shape not in ((), (num_links,)):
        raise TopologyError(f"{field} must be one number per link, not of shape {given.shape}")
    numbers = np.broadcast_to(given, (num_links,)).copy()
    # Negated as a whole, so that NaN, for which each comparison is false, is wrong, too.
    wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers > 0)))
    if wrong.size:
        value = float(numbers[wrong[0]])
        raise TopologyError(f"{field} of link {wrong[0]} must be positive and finite, not {value}")
    numbers.flags.writeable = False
    return numbers


def check_ids(thing: str, ids: Ids, known: range) -> set[int]:
    """The ids as a set, or a TopologyError that names one which there is not, or is there twice."""
    numbers: set[int] = set()
    for given in ids:
        if isinstance(given, bool) or not isinstance(given, int | np.integer):
            raise TopologyError(f"{thing} must be a number, not {given!r}")
        if given not in known:
            span = f"within {known.start}..{known.stop - 1}" if known else "absent, having none"
            raise TopologyError(f"{thing} must be {span}, not {given}")
        if given in numbers:
            raise TopologyError(f"{thing} must be listed once, not {given} again")
        numbers.add(int(given))
    return numbers


def checked_names(names: Any, num_nodes: int) -> tuple[str, ...] | None:
    """The names of all nodes, or a TopologyError: one per node, printable, all different."""
    if names is None:
        return None
    given = tuple(names)
    if len(given) != num_nodes:
        raise TopologyError(f"Names must be one per node, {num_nodes}, not {len(given)}")
    for node, name in enumerate(given):
        if not _can_be_printed(name):
            raise TopologyError(
                f"Name of node {node} must be 1 to {MAX_NAME} printable characters without spaces "
                f"around, not {ascii(name)[:MAX_NAME]}"
            )
    if len(set(given)) < num_nodes:
        first: dict[str, int] = {}
        for node, name in enumerate(given):
            if first.setdefault(name, node) != node:
                raise TopologyError(
                    f"Names must be different, not {name!r} of nodes {first[name]} and {node}"
                )
    return given


def names_of(nodes: Iterable[Any]) -> tuple[str, ...] | None:
    """Names of a graph's nodes by number: what they are there, unless that is the numbers.

    >>> names_of([0, 1, 2]), names_of(["a", "b"]), names_of([(0, 1), 7])
    (None, ('a', 'b'), ('(0, 1)', '7'))
    """
    return names_or_none(
        text if _can_be_printed(text := str(node)) else ascii(node) for node in nodes
    )


def names_or_none(names: Iterable[str]) -> tuple[str, ...] | None:
    """The names, or None where each is the number of its node."""
    listed = tuple(names)
    return None if all(name == str(node) for node, name in enumerate(listed)) else listed


def names_at(names: Sequence[str] | None, nodes: Iterable[int]) -> tuple[str, ...] | None:
    """Names of some nodes, or None where there are none."""
    return None if names is None else tuple(names[node] for node in nodes)


def label_of(names: Sequence[str] | None, node: int) -> str:
    """A node for people: its number, and its name behind it where it has one: "3 (hub)"."""
    return str(node) if names is None else f"{node} ({names[node]})"


def _can_be_printed(name: Any) -> bool:
    whole = isinstance(name, str) and 1 <= len(name) <= MAX_NAME
    return whole and name.isprintable() and name == name.strip()


def ports_in_order(links: Int32Array) -> Int32Array:
    """The port of each link, int32 (num_links,), where a node's links take 0, 1, 2, ... by id."""
    return int32s("Link ports", positions_in_group(links[:, 0].astype(np.int64)))


def checked_source_ports(given: Any, links: Int32Array) -> Int32Array | None:
    """The port by which each link leaves its source, int32 (num_links,); None for those in order.

    A TopologyError says that a port is out of range, or that the links of a node do not take ports
    in ascending order of their ids.
    """
    if given is None:
        return None
    ports = int32s("Link ports", given)
    if ports.shape != (len(links),):
        raise TopologyError(f"Link ports must be one per link, {len(links)}, not {ports.shape}")
    wrong = np.flatnonzero((ports < 0) | (ports >= MOST_PORTS))
    if wrong.size:
        raise TopologyError(
            f"Port of link {wrong[0]} must be within 0..{MOST_PORTS - 1}, not {ports[wrong[0]]}"
        )
    by_src = np.argsort(links[:, 0], kind="stable")
    same = np.diff(links[by_src, 0]) == 0
    wrong = by_src[1:][same & (np.diff(ports[by_src]) <= 0)]
    if wrong.size:
        raise TopologyError(
            f"Port of link {wrong[0]} must be higher than those of the links before it that leave "
            f"node {links[wrong[0], 0]}, not {ports[wrong[0]]}"
        )
    # None where nothing differs, so that equal networks are held and written alike.
    return None if np.array_equal(ports, ports_in_order(links)) else ports


def ports_in_use(links: Int32Array, link_ports: Int32Array, num_nodes: int) -> Int32Array:
    """Ports of each node up to the last by which a link leaves, int32 (num_nodes,)."""
    # The unbuffered maximum, since several links leave one node.
    highest = np.full(num_nodes, -1, np.int32)
    np.maximum.at(highest, links[:, 0], link_ports)
    return int32s("Ports", highest + 1)


def checked_port_counts(given: Any, least: Int32Array) -> Int32Array | None:
    """The number of ports of each node, int32 (num_nodes,); None for those in use, `least`.

    A TopologyError says that there is not one number per node, or one is out of range or less than
    are in use.
    """
    if given is None:
        return None
    counts = int32s("Numbers of ports", given)
    if counts.shape != least.shape:
        raise TopologyError(
            f"Numbers of ports must be one per node, {len(least)}, not {counts.shape}"
        )
    wrong = np.flatnonzero((counts < least) | (counts > MOST_PORTS))
    if wrong.size:
        node = wrong[0]
        raise TopologyError(
            f"Ports of node {node} must be within {least[node]}..{MOST_PORTS}, not {counts[node]}"
        )
    return None if np.array_equal(counts, least) else counts


def degraded_links(
    links: Int32Array,
    num_ranks: int,
    num_nodes: int,
    lost_links: Collection[int],
    lost_nodes: Collection[int],
) -> tuple[Int64Array, tuple[int, int], Int32Array]:
    """Without some links and nodes: ids of the links left, counts of ranks and switches, new ends.

    >>> kept, counts, ends = degraded_links(np.array([[0, 1], [1, 2], [2, 0]]), 2, 3, [0], [])
    >>> kept.tolist(), counts, ends.tolist()
    ([1, 2], (2, 1), [[1, 2], [2, 0]])
    """
    # Those left keep their order, so that numbers of nodes fall by how many before them are lost.
    stays = ~np.isin(np.arange(num_nodes), list(lost_nodes))
    number = np.cumsum(stays) - 1
    there = stays[links].all(axis=1) & ~np.isin(np.arange(len(links)), list(lost_links))
    kept = np.flatnonzero(there)
    counts = int(stays[:num_ranks].sum()), int(stays[num_ranks:].sum())
    return kept, counts, number[links[kept]].astype(np.int32)


def degraded_name(name: str, lost_links: Collection[int], lost_nodes: Collection[int]) -> str:
    """What messages call a network without some links and nodes: "torus:4x4 without links 1, 3"."""
    parts = []
    for kind, lost in (("link", sorted(lost_links)), ("node", sorted(lost_nodes))):
        kinds = kind if len(lost) == 1 else f"{kind}s"
        if len(lost) > MOST_NAMED:
            parts.append(f"{len(lost)} {kinds}")
        elif lost:
            parts.append(f"{kinds} {', '.join(map(str, lost))}")
    return f"{name} without {' and '.join(parts)}" if parts else name
