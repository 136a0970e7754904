"""The commands verify and table: what was proved, and what an interface executes."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import typer

from multitree.host.cli.common import (
    AlgorithmOption,
    CollectiveOption,
    JsonOption,
    RootOption,
    ScheduleArgument,
    SizeOption,
    build_compactly,
    build_schedule,
    identity_of,
    print_pairs,
    print_table,
)
from multitree.host.cli.options import ClockOptions, NetworkOptions, report_limits, with_groups
from multitree.host.cli.output import Working, print_json
from multitree.host.cli.writes import (
    CNameOption,
    DependencyOption,
    DtypeOption,
    FirstArrivalOption,
    FormatOption,
    OpOption,
    OutOption,
    Wanted,
    WatchdogOption,
    WindowBaseOption,
    write_list,
)
from multitree.host.engines import needs_of
from multitree.host.sizes import format_size, paced, parse_size
from multitree.nic.config import NO_PORT, Config
from multitree.nic.table import Table, compile_table
from multitree.sim.inputs import check_private
from multitree.sim.link_model import LinkModel, MemoryTiming
from multitree.sim.rtl.loads import Limits, limits_of
from multitree.sim.sizing import beyond_interfaces, config_for, link_limits
from multitree.topology.checks import verify as proof
from multitree.topology.checks.implicit import AnySchedule
from multitree.topology.collectives import Op
from multitree.topology.lowering import as_sent, header_only_ops
from multitree.topology.schedules.schedule import Schedule

__all__ = ["COLUMNS", "NOTE", "shown_cells", "table", "table_rows", "verify"]

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


@with_groups
def verify(
    spec: ScheduleArgument,
    network: NetworkOptions,
    clock: ClockOptions,
    algorithm: AlgorithmOption = None,
    collective: CollectiveOption = None,
    root: RootOption = None,
    size: SizeOption = "1MiB",
    json: JsonOption = False,
) -> None:
    """Prove that a schedule is right, and say what was proved."""
    size_bytes, model = parse_size(size), clock.model()
    asked = (algorithm, collective, root, network)
    built, _ = build_schedule(spec, *asked, paced(model, size_bytes))
    if built.topology.num_switches:
        check_private(built.topology, model)
    with Working(f"Verifying {built.algorithm} on {built.topology.name}"):
        report, limits = proof.verify(built), _limits(built, size_bytes, model)
    data = identity_of(built) | {"verified": True} | asdict(report)
    data |= {"size_bytes": size_bytes, "termination_cycles": limits.collective_cycles}
    data |= clock.figures(built.topology, model) | {"warnings": network.warnings}
    if json:
        print_json(data)
        return
    causal = "yes" if report.causal else "no: slow links deliver later than the steps have it"
    print_pairs(
        f"Proved of {built.collective} by {built.algorithm} on {built.topology.name}:",
        [
            ("complete", "every rank's value is in every sum, and every rank gets its result"),
            ("exactly once", f"each of {report.num_messages} messages adds what was not yet added"),
            ("race-free", "nothing is written while it is read or before it is complete"),
            (
                "trees",
                f"{built.num_flows} flows, each a tree with one root, up to "
                f"{report.tree_height_hops} hops high",
            ),
            ("no circle", "no message waits for itself, on links or on data"),
            ("contention in a step", _contention(report)),
            ("steps keep to the links' speeds", causal),
            ("siblings in a step", f"{report.max_siblings} at most, in a definite order"),
            ("steps", f"{report.num_steps} in all; a phase takes at least {report.bound_steps}"),
            (f"ends at {format_size(size_bytes)}", f"within {limits.collective_cycles} cycles"),
            ("hash", built.hash),
        ],
    )
    report_limits(link_limits(built.topology, model))


def _limits(schedule: Schedule, size_bytes: int, model: LinkModel) -> Limits:
    """How long a collective may take where all ranks start at once."""
    return limits_of(
        as_sent(schedule),
        model.num_flits(size_bytes, 1),
        model,
        memory_timing=MemoryTiming(),
        queue_flits=Config().memory_queue_flits,
        max_skew_cycles=0,
        lockstep=False,
    )


def _contention(report: proof.Report) -> str:
    """How many messages meet, in words."""
    if report.contention_free:
        return "none"
    if report.max_link_load == 1:
        return "on slow links, where a message is not through when the next one comes"
    return f"{report.max_link_load} on one link"


@with_groups
def table(
    spec: ScheduleArgument,
    network: NetworkOptions,
    clock: ClockOptions,
    rank: Annotated[int, typer.Option(help="Whose table.", metavar="RANK")] = 0,
    algorithm: AlgorithmOption = None,
    collective: CollectiveOption = None,
    root: RootOption = None,
    size: SizeOption = "1MiB",
    form: FormatOption = None,
    out: OutOption = None,
    dtype: DtypeOption = None,
    op: OpOption = None,
    dependency: DependencyOption = None,
    window_base: WindowBaseOption = None,
    watchdog_cycles: WatchdogOption = None,
    first_arrival_cycles: FirstArrivalOption = None,
    name: CNameOption = None,
    json: JsonOption = False,
) -> None:
    """Print one rank's schedule table, in the paper's columns, or the writes that load it."""
    limits = (watchdog_cycles, first_arrival_cycles)
    wanted = Wanted(form, out, dtype, op, dependency, window_base, *limits, name)
    if wanted.format is not None and json:
        raise ValueError("--format must come without --json")
    size_bytes, model = parse_size(size), clock.model()
    cost_model = paced(model, size_bytes)
    built, _ = build_compactly(spec, algorithm, collective, root, network, cost_model)
    if wanted.format is not None:
        writes = write_list(built.schedule(), rank, size_bytes, wanted, model)
        wanted.put(writes.text(wanted.format))
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
