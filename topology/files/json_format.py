"""JSON text read within limits, and topologies in it."""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from multitree.topology.arrays import int32s
from multitree.topology.errors import (
    ContentError,
    choice,
    integer,
    integers,
    label,
    positives,
    shown,
)
from multitree.topology.file_io import MAX_DEPTH, MAX_DIGITS, place_in
from multitree.topology.networks.graphs import SCHEMA as TOPOLOGY_SCHEMA
from multitree.topology.networks.nodes import MAX_LINKS, MAX_NAME, MAX_RANKS, MOST_PORTS
from multitree.topology.networks.topology import Topology

__all__ = ["members_of", "parse_json", "schema_of", "topology_json", "topology_of_json"]

# A string is passed over whole, so that what looks like a mark within it is none.
_MARKS = re.compile(
    rf'"(?:[^"\\]++|\\.)*+"?|[\[{{]|[\]}}]|[0-9]{{{MAX_DIGITS + 1}}}', re.ASCII | re.DOTALL
)


class Members(tuple[tuple[str, Any], ...]):
    """Keys and values of an object in the order of the file, a repeated key repeatedly."""

    def __repr__(self) -> str:
        """As short as a message needs it."""
        return "{...}"


def parse_json(text: str) -> Any:
    """Read JSON text as `json.loads` does, but objects are `Members`; linear in its length.

    A ContentError with line and column says that it is no JSON, nests deeper than `MAX_DEPTH`, or
    has a number of more than `MAX_DIGITS` digits.
    """
    # Before json sees it: deep nesting would overflow its stack, long numbers take quadratic time.
    _check_marks(text)
    try:
        return json.loads(text, object_pairs_hook=Members)
    except json.JSONDecodeError as error:
        place = place_in(text, error.pos)
        raise ContentError(f"{place} must be JSON, not: {error.msg}") from None


def members_of(
    value: Any,
    schema: str,
    keys: Sequence[str],
    place: str = "",
    *,
    optional: Collection[str] = (),
) -> dict[str, Any]:
    """The values of an object that has the key ``schema`` and each of some keys once, and no other.

    `place` is the object's key where it stands in another one; `optional` keys may be missing. A
    ContentError says what is not so.
    """
    name = place or "content"
    if not isinstance(value, Members):
        raise ContentError(f"{name} must be an object, not {shown(value)}")
    choice(f"{place}.schema" if place else "schema", schema_of(value), [schema])
    members: dict[str, Any] = {}
    known = ("schema", *keys)
    for key, member in value:
        if key not in known:
            raise ContentError(f"keys of {name} must be {', '.join(known)}, not {shown(key)}")
        if key in members:
            raise ContentError(f"key {key} of {name} must be there once, not again")
        members[key] = member
    for key in known:
        if key not in members and key not in optional:
            raise ContentError(f"key {key} of {name} must be there, not missing")
    return members


def schema_of(value: Any) -> Any:
    """The value of an object's key ``schema``, which says what it is; None where there is none."""
    return dict(value).get("schema") if isinstance(value, Members) else None


def _check_marks(text: str) -> None:
    """Check depth and digits before anything is made of the text."""
    depth = 0
    for mark in _MARKS.finditer(text):
        first = text[mark.start()]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                place = place_in(text, mark.start())
                raise ContentError(f"{place} must be at most {MAX_DEPTH} levels deep, not deeper")
        elif first in "]}":
            depth -= 1
        elif first != '"':
            place = place_in(text, mark.start())
            raise ContentError(f"{place} must be a number of at most {MAX_DIGITS} digits, not more")


_TOPOLOGY_KEYS = ("num_ranks", "num_switches", "num_ports", "names", "links")
_OPTIONAL = ("num_ports", "names")
_LINK = "[src, dst, bandwidth_gbytes_per_s, latency_ns]"
_LINK_WITH_PORT = "[src, dst, bandwidth_gbytes_per_s, latency_ns, port], as links[0]"


def topology_of_json(content: Any, name: str, place: str = "") -> Topology:
    """Understand a JSON object, in another one at the key `place`, as a topology called `name`.

    A ContentError names the place of an entry that is missing, unknown or wrong, a TopologyError
    what does not fit together.
    """
    prefix = f"{place}." if place else ""
    members = members_of(content, TOPOLOGY_SCHEMA, _TOPOLOGY_KEYS, place, optional=_OPTIONAL)
    num_ranks = integer(f"{prefix}num_ranks", members["num_ranks"], 2, MAX_RANKS)
    num_switches = integer(f"{prefix}num_switches", members["num_switches"], 0, MAX_RANKS)
    columns = _links(f"{prefix}links", members["links"], num_ranks + num_switches)
    counts = members.get("num_ports")
    if "num_ports" in members:
        _check_counts(f"{prefix}num_ports", counts, num_ranks + num_switches)
    names = members.get("names")
    if "names" in members:
        _check_names(f"{prefix}names", names, num_ranks + num_switches)
    return Topology(name, num_ranks, num_switches, **columns, port_counts=counts, names=names)


def topology_json(topology: Topology, indent: str = "") -> str:
    """The text of a topology as a JSON object; all its lines but the first begin with `indent`."""
    columns: list[Any] = [topology.links, topology.bandwidth_gbytes_per_s, topology.latency_ns]
    columns += [] if topology.source_ports is None else [topology.source_ports]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    lines = [f"    {json.dumps([*ends, *numbers])}" for ends, *numbers in rows]
    head = [f'  "schema": "{TOPOLOGY_SCHEMA}"', f'  "num_ranks": {topology.num_ranks}']
    head += [f'  "num_switches": {topology.num_switches}']
    head += (
        [] if topology.port_counts is None else [f'  "num_ports": {topology.port_counts.tolist()}']
    )
    head += [] if topology.names is None else [f'  "names": {json.dumps(topology.names)}']
    head += ['  "links": [']
    text = "{\n" + ",\n".join(head) + "\n" + ",\n".join(lines) + "\n  ]\n}"
    return text.replace("\n", f"\n{indent}")


def _check_counts(place: str, counts: Any, num_nodes: int) -> None:
    if type(counts) is not list or len(counts) != num_nodes:
        raise ContentError(f"{place} must be a list of {num_nodes}, not {shown(counts)}")
    integers(counts, 0, MOST_PORTS, lambda index: f"{place}[{index}]")


def _check_names(place: str, names: Any, num_nodes: int) -> None:
    if type(names) is not list or len(names) != num_nodes:
        raise ContentError(f"{place} must be a list of {num_nodes}, not {shown(names)}")
    for index, name in enumerate(names):
        label(f"{place}[{index}]", name, MAX_NAME)


def _links(place: str, rows: Any, num_nodes: int) -> dict[str, Any]:
    if type(rows) is not list:
        raise ContentError(f"{place} must be a list, not {shown(rows)}")
    if len(rows) > MAX_LINKS:
        raise ContentError(f"{place} must be at most {MAX_LINKS}, not {len(rows)}")
    has_ports = bool(rows) and type(rows[0]) is list and len(rows[0]) == 5
    for index, row in enumerate(rows):
        if type(row) is not list or len(row) != 4 + has_ports:
            wanted = _LINK_WITH_PORT if has_ports else _LINK
            raise ContentError(f"{place}[{index}] must be {wanted}, not {shown(row)}")
    src, dst, bandwidth, latency, *ports = zip(*rows, strict=True) if rows else [()] * 4
    integers(src, 0, num_nodes - 1, lambda index: f"{place}[{index}][0]")
    integers(dst, 0, num_nodes - 1, lambda index: f"{place}[{index}][1]")
    positives(bandwidth, lambda index: f"{place}[{index}][2]")
    positives(latency, lambda index: f"{place}[{index}][3]")
    for column in ports:
        integers(column, 0, MOST_PORTS - 1, lambda index: f"{place}[{index}][4]")
    return {
        "links": int32s("Links", [src, dst]).T,
        "bandwidth_gbytes_per_s": np.array(bandwidth, np.float64),
        "latency_ns": np.array(latency, np.float64),
        "source_ports": ports[0] if has_ports else None,
    }
