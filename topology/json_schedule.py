"""Schedules as JSON text."""

import json
from typing import Any

from multitree.topology.collectives import COLLECTIVES
from multitree.topology.columns import MAX_WAVES
from multitree.topology.entries import ContentError, choice, integer, integers, label, shown
from multitree.topology.json_text import members_of
from multitree.topology.json_topology import topology_json, topology_of_json
from multitree.topology.schedule import Schedule
from multitree.topology.schedule_rows import (
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

SCHEDULE_SCHEMA = "multitree.schedule.v1"
_KEYS = ("algorithm", "collective", "root", "topology", "flow_offsets", *WAVES, "rows")


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
    members = members_of(content, SCHEDULE_SCHEMA, _KEYS, optional=WAVES)
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
