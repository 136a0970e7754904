"""Topologies and schedules as JSON text, read within limits."""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from multitree.topology.arrays import int32s
from multitree.topology.collectives import COLLECTIVES
from multitree.topology.file_text import (
    MAX_DEPTH,
    MAX_DIGITS,
    ContentError,
    choice,
    integer,
    integers,
    label,
    place_in,
    positives,
    shown,
)
from multitree.topology.files.schedule_rows import (
    FIELDS,
    MAX_LABEL,
    MAX_OFFSET,
    OPS,
    WAVES,
    Heading,
    check_counts,
    check_route,
    most_of,
    rows_of,
    schedule_of_rows,
    waves_of,
)
from multitree.topology.networks.graphs import SCHEMA as TOPOLOGY_SCHEMA
from multitree.topology.networks.nodes import MAX_LINKS, MAX_NAME, MAX_RANKS, MOST_PORTS
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.columns import MAX_WAVES
from multitree.topology.schedules.schedule import Schedule

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
    """Read JSON text.

    Parameters
    ----------
    text : str

    Returns
    -------
    object
        As `json.loads` has it, but objects are `Members`.

    Raises
    ------
    ContentError
        If it is no JSON, nests deeper than `MAX_DEPTH`, or has a number of more than `MAX_DIGITS`
        digits; with line and column.

    Notes
    -----
    Time and memory are linear in the length of the text.

    Examples
    --------
    >>> parse_json('[1, "a"]'), tuple(parse_json('{"a": 1, "a": 2}'))
    ([1, 'a'], (('a', 1), ('a', 2)))
    """
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
    """The values of an object that has each of some keys once, and no other.

    Parameters
    ----------
    value : object
    schema : str
        What the value of the key ``schema`` must be, which says what the other keys mean.
    keys : sequence of str
        All others.
    place : str
        The object's key in the file, if it stands in another object.
    optional : collection of str
        Those of the keys that may be missing.

    Returns
    -------
    dict

    Raises
    ------
    ContentError
        If it is no object, of another schema, or a key is missing, repeated or unknown.

    Examples
    --------
    >>> members_of(parse_json('{"b": 1, "schema": "x.v1"}'), "x.v1", ["b"])
    {'b': 1, 'schema': 'x.v1'}
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
    """What an object says that it is: the value of its key ``schema``.

    Parameters
    ----------
    value : object

    Returns
    -------
    object
        None where there is none.
    """
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
_PLUGGED = "[src, dst, bandwidth_gbytes_per_s, latency_ns, port], as links[0]"


def topology_of_json(content: Any, name: str, place: str = "") -> Topology:
    """Understand a JSON object as a topology.

    Parameters
    ----------
    content : object
        As `parse_json` has it.
    name : str
        What messages call the topology.
    place : str
        Its key in the file, if it stands in another object.

    Returns
    -------
    Topology

    Raises
    ------
    ContentError
        If an entry is missing, unknown or wrong.
    TopologyError
        If together they are no topology.
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
    """The text of a topology as a JSON object.

    Parameters
    ----------
    topology : Topology
    indent : str
        What every line but the first begins with.

    Returns
    -------
    str

    Examples
    --------
    >>> print(topology_json(Topology("pair", 2, 0, [[0, 1], [1, 0]], 16.0, 150.0)))
    {
      "schema": "multitree.topology.v1",
      "num_ranks": 2,
      "num_switches": 0,
      "links": [
        [0, 1, 16.0, 150.0],
        [1, 0, 16.0, 150.0]
      ]
    }
    """
    columns: list[Any] = [topology.links, topology.bandwidth_gbytes_per_s, topology.latency_ns]
    columns += [] if topology.source_ports is None else [topology.source_ports]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    lines = [f"    {json.dumps([*ends, *figures])}" for ends, *figures in rows]
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
    plugged = bool(rows) and type(rows[0]) is list and len(rows[0]) == 5
    for index, row in enumerate(rows):
        if type(row) is not list or len(row) != 4 + plugged:
            wanted = _PLUGGED if plugged else _LINK
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
        "source_ports": ports[0] if plugged else None,
    }


SCHEDULE_SCHEMA = "multitree.schedule.v1"
_SCHEDULE_KEYS = ("algorithm", "collective", "root", "topology", "flow_offsets", *WAVES, "rows")


def schedule_of_json(content: Any, name: str) -> Schedule:
    """Understand a JSON object as a schedule, not yet verified.

    Parameters
    ----------
    content : object
        As `parse_json` has it.
    name : str
        What messages call the topology.

    Returns
    -------
    Schedule

    Raises
    ------
    ContentError
        If an entry is missing, unknown or wrong.
    TopologyError, ScheduleError
        If together they are no topology or no schedule.
    """
    members = members_of(content, SCHEDULE_SCHEMA, _SCHEDULE_KEYS, optional=WAVES)
    topology = topology_of_json(members["topology"], name, "topology")
    root, offsets = members["root"], _listed("flow_offsets", members["flow_offsets"])
    integers(offsets, 0, MAX_OFFSET, lambda index: f"flow_offsets[{index}]")
    heading = Heading(
        label("algorithm", members["algorithm"], MAX_LABEL),
        choice("collective", members["collective"], COLLECTIVES),
        None if root is None else integer("root", root, 0, topology.num_ranks - 1),
        offsets,
        *(integer(key, members.get(key, 1), 1, MAX_WAVES - 1) for key in WAVES),
    )
    rows = _listed("rows", members["rows"])
    num_flows = check_counts(len(rows), len(offsets), topology.num_ranks)
    _check_rows(rows, most_of(topology, num_flows))
    return schedule_of_rows(topology, heading, rows)


def schedule_json(schedule: Schedule) -> str:
    """The text of a schedule as a JSON object, one row per line.

    Parameters
    ----------
    schedule : Schedule

    Returns
    -------
    str
    """
    lines = ",\n".join(f"    {json.dumps(row)}" for row in rows_of(schedule))
    members = {
        "schema": json.dumps(SCHEDULE_SCHEMA),
        "algorithm": json.dumps(schedule.algorithm),
        "collective": json.dumps(schedule.collective),
        "root": json.dumps(schedule.root),
        "topology": topology_json(schedule.topology, indent="  "),
        "flow_offsets": json.dumps(schedule.flow_offsets.tolist()),
        **waves_of(schedule, json.dumps),
        "rows": f"[\n{lines}\n  ]",
    }
    return "{\n" + ",\n".join(f'  "{key}": {text}' for key, text in members.items()) + "\n}\n"


def _listed(place: str, value: Any) -> list[Any]:
    if type(value) is not list:
        raise ContentError(f"{place} must be a list, not {shown(value)}")
    return value


def _check_rows(rows: list[Any], most: dict[str, int]) -> None:
    """Check each entry of each row, column by column."""
    for index, row in enumerate(rows):
        if type(row) is not list or len(row) != len(FIELDS):
            raise ContentError(f"rows[{index}] must be [{', '.join(FIELDS)}], not {shown(row)}")
    columns = dict(zip(FIELDS, zip(*rows, strict=True), strict=True))
    for index, op in enumerate(columns["op"]):
        if op not in OPS:
            choice(f"rows[{index}][{FIELDS.index('op')}]", op, OPS)
    for field in ("step", "flow", "src", "dst", "order"):
        place = f"rows[{{}}][{FIELDS.index(field)}]".format
        integers(columns[field], 0, most[field], place)
    for index, (links, classes) in enumerate(
        zip(columns["links"], columns["classes"], strict=True)
    ):
        _check_route(f"rows[{index}]", links, classes, most)


def _check_route(place: str, links: Any, classes: Any, most: dict[str, int]) -> None:
    for field, hops in (("links", links), ("classes", classes)):
        here = f"{place}[{FIELDS.index(field)}]"
        integers(_listed(here, hops), 0, most[field], f"{here}[{{}}]".format)
    check_route(place, links, classes)
