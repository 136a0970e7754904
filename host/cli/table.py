"""The command table: what an interface executes, and the writes that load it."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from multitree.host.cli.options import (
    ClockOptions,
    NetworkOptions,
    ScheduleOptions,
    build_compactly,
    identity_of,
    report_limits,
    with_options,
)
from multitree.host.cli.output import print_json, print_table
from multitree.host.cli.register_writes import WriteOptions, write_list
from multitree.host.engines import needs_of
from multitree.host.report_keys import keys_of
from multitree.host.sizes import cost_model_for, parse_size
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.driver.table import Table, compile_table
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import beyond_interfaces, config_for, link_limits
from multitree.topology.checks.implicit import AnySchedule
from multitree.topology.collectives import Op
from multitree.topology.lowering import as_sent, header_only_ops
from multitree.topology.schedules.schedule import Schedule

__all__ = ["COLUMNS", "NOTE", "shown_cells", "table", "table_rows"]


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

_TOTALS = ("num_rows", "num_flows", "memory_flits")


@with_options
def table(
    *,
    spec: str,
    network: NetworkOptions,
    clock: ClockOptions,
    rank: Annotated[int, typer.Option(help="Whose table.", metavar="RANK")] = 0,
    asked: ScheduleOptions,
    size: str,
    writes: WriteOptions,
    json: bool,
) -> None:
    """Print one rank's schedule table, in the paper's columns, or the writes that load it."""
    if writes.format is not None and json:
        raise ValueError("--format must come without --json")
    size_bytes, model = parse_size(size), clock.model()
    built, _ = build_compactly(spec, asked, network, cost_model_for(model, size_bytes))
    if writes.format is not None:
        listed = write_list(built.schedule(), rank, size_bytes, writes, model)
        writes.put(listed.text(writes.format))
        return
    extra = clock.figures(built.topology, model) | {"warnings": network.warnings}
    _show(built, rank, size_bytes, model, extra if json else None)


def _show(
    built: AnySchedule,
    rank: int,
    size_bytes: int,
    model: LinkModel,
    extra: dict[str, Any] | None,
) -> None:
    """Print a rank's table: as JSON, with the keys of `extra`, or for people."""
    part = built.at(rank)
    needs, sent = needs_of(part, model, size_bytes), as_sent(part)
    problem = beyond_interfaces(sent, needs)
    room = {name: need for name, need in needs.items() if problem is None or name not in _TOTALS}
    config = config_for(built.topology, model, **room)
    header_only = header_only_ops(part.collective) if config.shared else ()
    num_flits = model.num_flits(size_bytes, 1)
    compiled = compile_table(sent, rank, num_flits, config, bounded=problem is None)
    rows = table_rows(compiled, sent, config.flit_bytes, header_only=header_only)
    if extra is not None:
        print_json(
            identity_of(built)
            | {
                "rank": rank,
                "size_bytes": size_bytes,
                "num_rows": compiled.num_rows,
                "num_flows": compiled.num_flows,
                "problem": problem,
                "rows": rows,
            }
            | extra
        )
        return
    what = f"{part.collective} by {part.algorithm} on {built.topology.name}"
    title = [f"Schedule table of rank {built.topology.label(rank)}: {what}"]
    title += [] if problem is None else [f"No interface holds it: {problem}"]
    title += [NOTE]
    print_table(
        "\n".join(title), list(COLUMNS), [shown_cells(row, built.topology.label) for row in rows]
    )
    report_limits(link_limits(built.topology, model))


def table_rows(
    table: Table, schedule: Schedule, flit_bytes: int, *, header_only: tuple[Op, ...] = ()
) -> list[dict[str, Any]]:
    """Rows of a table with their flows' entries and the ranks at the other ends.

    Messages of `header_only` ops have no payload. What a row does not have is None.
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
        row: dict[str, Any] = dict.fromkeys(keys_of("table.rows"))
        row |= {"row": index, "op": op.name}
        row |= {"step": int(table.step[index]), "stage": int(table.stage[index])}
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
