"""One rank's schedule table in the columns of the paper."""

from typing import Any

import numpy as np

from multitree.nic.table import Table
from multitree.topology.schedule import Op, Schedule

__all__ = ["COLUMNS", "shown_cells", "table_rows"]

COLUMNS = (
    "Row",
    "Op",
    "FlowID",
    "Parent",
    "Children",
    "Step",
    "Start Addr",
    "Size",
    "Port",
    "To",
)


def table_rows(
    table: Table, schedule: Schedule, flit_bytes: int, *, silent: tuple[Op, ...] = ()
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
    silent : tuple of Op
        Ops whose messages carry nothing.

    Returns
    -------
    list of dict
        Per row: row, op, flow_id, parent and children (ranks), step and stage, start_address (of
        the first wave) and size (bytes), port, destination (rank). What a row does not have is
        None.
    """
    sent = np.flatnonzero(schedule.src == table.rank)
    if schedule.num_waves > 1:
        stage, step = np.divmod(schedule.step[sent], schedule.period)
        sent = sent[np.lexsort((-stage, step))]
    destinations = iter(schedule.dst[sent].tolist())
    parents, children = _senders(schedule, table.rank)
    rows: list[dict[str, Any]] = []
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
        }
        if op != Op.NOP:
            row |= {
                "flow_id": flow,
                "parent": parents.get(flow),
                "children": children[flow],
                "start_address": int(table.base[flow]) * flit_bytes,
                "size": 0 if op in silent else int(table.size[flow]) * flit_bytes,
                "port": int(table.port[index]),
                "destination": next(destinations),
            }
        rows.append(row)
    return rows


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


def shown_cells(row: dict[str, Any]) -> list[str]:
    """Cells of one row for people, in the order of `COLUMNS`."""
    children = row["children"]
    cells = [row["row"], row["op"], row["flow_id"], row["parent"]]
    cells.append(None if children is None else ", ".join(map(str, children)) or "-")
    cells += [f"{row['step']} +{row['stage']}" if row["stage"] else row["step"]]
    cells += [row["start_address"], row["size"], row["port"], row["destination"]]
    return ["-" if cell is None else str(cell) for cell in cells]
