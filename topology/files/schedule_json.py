"""Schedules as JSON text: one row per transfer, with its route."""

import json
from collections.abc import Iterator
from itertools import accumulate, chain
from typing import Any

from multitree.topology.arrays import int32s, int64s
from multitree.topology.collectives import COLLECTIVES, Op
from multitree.topology.errors import ContentError, choice, integer, integers, label, shown
from multitree.topology.files.json_format import members_of, topology_json, topology_of_json
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.columns import MAX_CLASSES, MAX_WAVES
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "FIELDS",
    "MAX_LABEL",
    "MAX_STEPS",
    "SCHEDULE_SCHEMA",
    "rows_of",
    "schedule_json",
    "schedule_of_json",
]

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
