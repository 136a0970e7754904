"""One rank's schedule table in the columns of the paper."""

from collections.abc import Callable
from typing import Any

import numpy as np

from multitree.nic.layouts import NO_PORT
from multitree.nic.table import Table
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = ["COLUMNS", "NOTE", "shown_cells", "table_rows"]

COLUMNS = (
    "Row",
    "Op",
    "FlowID",
    "Parent",
    "at Port",
    "Children",
    "at Ports",
    "Step",
    "Start Addr [bytes]",
    "[flits]",
    "Size [bytes]",
    "[flits]",
    "To",
    "by Port",
)
NOTE = "Parent, Children and To are ranks; Ports are those of this rank's interface."
"""What people have to know of the columns."""


def table_rows(
    table: Table, schedule: Schedule, flit_bytes: int, *, header_only: tuple[Op, ...] = ()
) -> list[dict[str, Any]]:
    """Join a table's rows with its flow memory, and name the ranks at the other ends.

    Parameters
    ----------
    table : Table
        One rank's.
    schedule : Schedule
        What it was compiled from.
    flit_bytes : int
        Bytes per flit.
    header_only : tuple of Op
        Ops whose messages carry nothing.

    Returns
    -------
    list of dict
        Per row: row, op, flow_id, parent and children (ranks), step and stage, start_address (of
        the first wave) and size (bytes), port, destination (rank); parent_port, child_ports (by
        which they come in), start_address_flits and size_flits. What a row does not have is None.
    """
    sent = np.flatnonzero(schedule.src == table.rank)
    if schedule.num_waves > 1:
        stage, step = np.divmod(schedule.step[sent], schedule.period)
        sent = sent[np.lexsort((-stage, step))]
    destinations = iter(schedule.dst[sent].tolist())
    parents, children = _senders(schedule, table.rank)
    rows: list[dict[str, Any]] = []
    flows = _flow_entries(table, flit_bytes)
    for index in range(table.num_rows):
        op, flow = Op(int(table.op[index])), int(table.flow[index])
        row: dict[str, Any] = {
            "row": index,
            "op": op.name,
            "flow_id": None,
            "parent": None,
            "children": None,
            "step": int(table.step[index]),
            "stage": int(table.stage[index]),
            "start_address": None,
            "size": None,
            "port": None,
            "destination": None,
            "parent_port": None,
            "child_ports": None,
            "start_address_flits": None,
            "size_flits": None,
        }
        if op != Op.NOP:
            row |= {
                "flow_id": flow,
                "parent": parents.get(flow),
                "children": children[flow],
                "port": int(table.port[index]),
                "destination": next(destinations),
                **flows[flow],
            }
            if op in header_only:
                row |= {"size": 0, "size_flits": 0}
        rows.append(row)
    return rows


def _flow_entries(table: Table, flit_bytes: int) -> list[dict[str, Any]]:
    """Per flow the entry of the flow memory: ports, and place and size in bytes and in flits."""
    return [
        {
            "parent_port": None if parent == NO_PORT else parent,
            "child_ports": [port for port in ports if port != NO_PORT],
            "start_address": base * flit_bytes,
            "start_address_flits": base,
            "size": size * flit_bytes,
            "size_flits": size,
        }
        for parent, ports, base, size in zip(
            *(column.tolist() for column in (table.parent, table.children, table.base, table.size)),
            strict=True,
        )
    ]


def _senders(schedule: Schedule, rank: int) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Per flow the rank its result comes from, and those of contributions in their order."""
    came = np.flatnonzero(schedule.dst == rank)
    parents: dict[int, int] = {}
    children: dict[int, list[int]] = {flow: [] for flow in range(schedule.num_flows)}
    for row in came[np.lexsort((schedule.order[came], schedule.step[came]))].tolist():
        flow, src = int(schedule.flow[row]), int(schedule.src[row])
        if schedule.op[row] == Op.GATHER:
            parents[flow] = src
        else:
            children[flow].append(src)
    return parents, children


def shown_cells(row: dict[str, Any], label: Callable[[int], str] = str) -> list[str]:
    """Cells of one row for people, in the order of `COLUMNS`; `label` names ranks."""
    parent, to = (
        None if row[end] is None else label(row[end]) for end in ("parent", "destination")
    )
    cells = [row["row"], row["op"], row["flow_id"], parent, row["parent_port"]]
    for name, shown in (("children", label), ("child_ports", str)):
        cells.append(None if row[name] is None else ", ".join(map(shown, row[name])) or "-")
    cells += [f"{row['step']} +{row['stage']}" if row["stage"] else row["step"]]
    cells += [row["start_address"], row["start_address_flits"], row["size"], row["size_flits"]]
    cells += [to, row["port"]]
    return ["-" if cell is None else str(cell) for cell in cells]
