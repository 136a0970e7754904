"""Topologies and schedules as JSON text, read within limits."""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np

from multitree.topology.arrays import int32s, int64s
from multitree.topology.collectives import COLLECTIVES, Op
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
from multitree.topology.schedules.columns import MAX_CLASSES, MAX_WAVES
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "FIELDS",
    "MAX_LABEL",
    "MAX_STEPS",
    "SCHEDULE_SCHEMA",
    "members_of",
    "parse_json",
    "rows_of",
    "schedule_json",
    "schedule_of_json",
    "schema_of",
    "topology_json",
    "topology_of_json",
]

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


SCHEDULE_SCHEMA = "multitree.schedule.v1"
FIELDS = ("step", "op", "flow", "src", "dst", "order", "links", "classes")
MAX_STEPS = 1 << 20
MAX_OFFSET = 2**63 - 1
MAX_LABEL = 100
"""Characters of an algorithm's name."""
_OPS = (Op.REDUCE.name, Op.GATHER.name)
_WAVES = ("num_waves", "period")
"""What files of schedules with several waves hold in addition to the rest."""
_KEYS = ("algorithm", "collective", "root", "topology", "flow_offsets", *_WAVES, "rows")

Row = tuple[int, str, int, int, int, int, list[int], list[int]]


def schedule_of_json(content: Any, name: str) -> Schedule:
    """Understand a JSON object as a schedule, not yet verified; `name` is that of its topology.

    A ContentError names the place of an entry that is missing, unknown or wrong, a TopologyError
    or ScheduleError what does not fit together.
    """
    members = members_of(content, SCHEDULE_SCHEMA, _KEYS, optional=_WAVES)
    topology = topology_of_json(members["topology"], name, "topology")
    root, offsets = members["root"], _listed("flow_offsets", members["flow_offsets"])
    integers(offsets, 0, MAX_OFFSET, lambda index: f"flow_offsets[{index}]")
    algorithm = label("algorithm", members["algorithm"], MAX_LABEL)
    collective = choice("collective", members["collective"], COLLECTIVES)
    root = None if root is None else integer("root", root, 0, topology.num_ranks - 1)
    waves = [integer(key, members.get(key, 1), 1, MAX_WAVES - 1) for key in _WAVES]
    rows = _listed("rows", members["rows"])
    num_flows = _num_flows(len(rows), len(offsets), topology.num_ranks)
    _check_rows(rows, _limits(topology, num_flows))
    step, op, flow, src, dst, order, links, classes = zip(*rows, strict=True)
    return Schedule(
        topology,
        algorithm,
        collective,
        root,
        int64s("Flow offsets", offsets),
        int32s("Steps", step),
        int32s("Ops", [Op[name] for name in op]),
        int32s("Flows", flow),
        int32s("Sources", src),
        int32s("Destinations", dst),
        int32s("Orders", order),
        int64s("Route offsets", list(accumulate(map(len, links), initial=0))),
        int32s("Route links", list(chain.from_iterable(links))),
        int32s("Route classes", list(chain.from_iterable(classes))),
        *waves,
    )


def _num_flows(num_rows: int, num_offsets: int, num_ranks: int) -> int:
    """The number of flows, if rows are as many as their trees have edges at least."""
    if num_offsets < 2:
        raise ContentError(f"flow_offsets must be at least two numbers, not {num_offsets}")
    num_flows = num_offsets - 1
    least = num_flows * (num_ranks - 1)
    # Memory is taken for each flow and rank: without this rule, more than the file has bytes.
    if num_rows < least:
        trees = f"{num_flows} flows on {num_ranks} ranks"
        raise ContentError(f"rows must be at least {least} for {trees}, not {num_rows}")
    return num_flows


def _limits(topology: Topology, num_flows: int) -> dict[str, int]:
    """The largest number that each field of a row may have; op has none."""
    return {
        "step": MAX_STEPS - 1,
        "flow": num_flows - 1,
        **dict.fromkeys(("src", "dst", "order"), topology.num_ranks - 1),
        "links": topology.num_links - 1,
        "classes": MAX_CLASSES - 1,
    }


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
        if op not in _OPS:
            choice(f"rows[{index}][{FIELDS.index('op')}]", op, _OPS)
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
    if not len(links) == len(classes) > 0:
        counts = f"{len(links)} and {len(classes)}"
        raise ContentError(f"{place} must have as many links as classes, at least 1, not {counts}")


def schedule_json(schedule: Schedule) -> str:
    """The text of a schedule as a JSON object, one row per line."""
    lines = ",\n".join(f"    {json.dumps(row)}" for row in rows_of(schedule))
    several = schedule.num_waves > 1
    members = {
        "schema": json.dumps(SCHEDULE_SCHEMA),
        "algorithm": json.dumps(schedule.algorithm),
        "collective": json.dumps(schedule.collective),
        "root": json.dumps(schedule.root),
        "topology": topology_json(schedule.topology, indent="  "),
        "flow_offsets": json.dumps(schedule.flow_offsets.tolist()),
        **{key: json.dumps(getattr(schedule, key)) for key in _WAVES if several},
        "rows": f"[\n{lines}\n  ]",
    }
    return "{\n" + ",\n".join(f'  "{key}": {text}' for key, text in members.items()) + "\n}\n"


def rows_of(schedule: Schedule) -> Iterator[Row]:
    """The rows of a schedule, each with its `FIELDS`."""
    numbers = (schedule.flow, schedule.src, schedule.dst, schedule.order)
    columns = zip(*(column.tolist() for column in numbers), strict=True)
    ends = schedule.route_offsets.tolist()
    links, classes = schedule.route_links.tolist(), schedule.route_classes.tolist()
    heads = zip(schedule.step.tolist(), schedule.op.tolist(), strict=True)
    for row, ((step, op), column) in enumerate(zip(heads, columns, strict=True)):
        hops = slice(ends[row], ends[row + 1])
        yield (step, _OPS[op], *column, links[hops], classes[hops])
