"""One rank's schedule table in the columns of the paper."""

from typing import Any

from multitree.nic.table import NO_PORT, Table
from multitree.topology.schedule import Op
from multitree.topology.topology import Topology

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


def table_rows(table: Table, topology: Topology, flit_bytes: int) -> list[dict[str, Any]]:
    """Join a table's rows with its flow memory, ports named by the ranks behind them.

    Parameters
    ----------
    table : Table
        One rank's.
    topology : Topology
        What it was compiled for.
    flit_bytes : int
        Bytes per flit.

    Returns
    -------
    list of dict
        Per row: row, op, flow_id, parent and children (ranks), step, start_address and size
        (bytes), port, destination (rank). What a row does not have is None.
    """
    behind = [int(topology.links[link, 1]) for link in topology.ports(table.rank)]

    def rank_at(port: int) -> int | None:
        return None if port == NO_PORT else behind[port]

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
            "start_address": None,
            "size": None,
            "port": None,
            "destination": None,
        }
        if op != Op.NOP:
            children = [int(port) for port in table.children[flow] if port != NO_PORT]
            row |= {
                "flow_id": flow,
                "parent": rank_at(int(table.parent[flow])),
                "children": [behind[port] for port in children],
                "start_address": int(table.base[flow]) * flit_bytes,
                "size": int(table.size[flow]) * flit_bytes,
                "port": int(table.port[index]),
                "destination": behind[int(table.port[index])],
            }
        rows.append(row)
    return rows


def shown_cells(row: dict[str, Any]) -> list[str]:
    """Cells of one row for people, in the order of `COLUMNS`."""
    children = row["children"]
    cells = [row["row"], row["op"], row["flow_id"], row["parent"]]
    cells.append(None if children is None else ", ".join(map(str, children)) or "-")
    cells += [row["step"], row["start_address"], row["size"], row["port"], row["destination"]]
    return ["-" if cell is None else str(cell) for cell in cells]
