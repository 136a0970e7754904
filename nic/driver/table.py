"""One rank's part of a schedule: rows and flows of its interface, and their words."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from multitree.hw.export.register_map import REGISTER_BYTES
from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import (
    FLOW_FORMAT,
    NO_PORT,
    SHARED_FLOW_FORMAT,
    SHARED_ROW_FORMAT,
    head_format,
)
from multitree.nic.driver.registers import ADDRESS, FLOW_WINDOW, ROUTE_WINDOW, TABLE_WINDOW, Writes
from multitree.nic.driver.routed_rows import places_in_sums, routes_of, slots_of
from multitree.topology.checks.proofs import check_switches
from multitree.topology.collectives import ROOTED, Op
from multitree.topology.errors import ScheduleError, TopologyError
from multitree.topology.schedules.schedule import Schedule

__all__ = ["MOST_STEPS", "Table", "compile_table", "table_writes"]

MOST_STEPS = 1 << 16

_ROWS, _ROUTES, _FLOWS = (
    range(window.base, window.end, window.stride)
    for window in (TABLE_WINDOW, ROUTE_WINDOW, FLOW_WINDOW)
)
"""Byte addresses of all entries of a window."""

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in order and a flow memory: what one interface executes.

    Together the fields are the paper's Op, FlowID, Parent, Children, Step, Start Addr and Size.
    Arrays are read-only int64.
    """

    rank: int
    schedule_hash: str  # of the schedule it was compiled from
    # One row per message to one port, sorted by step, shape (num_rows,); NOP only in lockstep. Of a
    # periodic schedule step is that in the period, and stage counts periods before it.
    op: IntArray
    flow: IntArray
    port: IntArray
    step: IntArray
    stage: IntArray
    # A flow's chunk in flits of the buffer's first wave, shape (num_flows,), and what a wave adds
    # to its base.
    base: IntArray
    size: IntArray
    stride: IntArray
    parent: IntArray  # port of the flow's GATHER, or `NO_PORT`
    # Ports of its REDUCE messages in the order of summation, then `NO_PORT`: shape (num_flows, 8),
    # or (num_flows, max_children) on shared links.
    children: IntArray
    # On shared links only: place in its sum, class of the first link, hops behind it
    # (`routed_rows`).
    order: IntArray | None = None
    vc_class: IntArray | None = None
    route: IntArray | None = None
    # On shared links only: where contributions out of order wait, one slot per child, and their
    # end.
    slots: IntArray | None = None
    num_waves: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def num_rows(self) -> int:
        """Rows, NOPs included."""
        return len(self.op)

    @property
    def num_flows(self) -> int:
        """Flows of the schedule."""
        return len(self.base)

    @property
    def end_flits(self) -> int:
        """Flits from the begin of the buffer to the end of all memory that the table uses."""
        if self.slots is not None:
            return int(self.slots[-1])
        return int((self.base + self.size + (self.num_waves - 1) * self.stride).max(initial=0))

    @property
    def num_arrivals(self) -> int:
        """Messages that come in before the collective is done."""
        return int((self.children != NO_PORT).sum() + (self.parent != NO_PORT).sum())

    def ports_in_use(self) -> list[int]:
        """Ports that a message leaves or comes in on, in ascending order."""
        sends = self.port[self.op != Op.NOP]
        ports = np.concatenate([sends, self.parent, self.children.ravel()])
        return sorted(set(ports.tolist()) - {NO_PORT})


def compile_table(
    schedule: Schedule,
    rank: int,
    num_flits: int,
    config: Config,
    *,
    lockstep: bool = False,
    bounded: bool = True,
) -> Table:
    """Compile one rank's table for a padded buffer of `num_flits` flits. O(num_transfers).

    The schedule is verified, on direct links, or `with_header_only_phase` where links are shared.
    Lockstep adds one NOP row for every step in which the rank sends nothing. A table that is not
    `bounded` need not fit the interface, and serves to be looked at. Raises TopologyError or
    ScheduleError where the interface cannot hold the table.
    """
    _check_routes(schedule, rank, config)
    rows = _rows_sent(schedule, rank, config)
    if lockstep:
        rows = _with_nops(rows, schedule)
    rows, stage = _in_periods(rows, schedule)
    if bounded:
        _check_sizes(schedule, rank, len(rows), schedule.padded(num_flits), config)
    parent, children = _arrivals(schedule, rank, config)
    bounds = schedule.chunks(num_flits)
    more = _shared_columns(rows, np.diff(bounds), children, num_flits) if config.shared else {}
    return Table(
        rank=rank,
        schedule_hash=schedule.hash,
        op=rows[:, 1],
        flow=rows[:, 2],
        port=rows[:, 3],
        step=rows[:, 0],
        stage=stage,
        base=bounds[:-1].copy(),
        size=np.diff(bounds),
        stride=np.full(schedule.num_flows, bounds[-1] if schedule.num_waves > 1 else 0),
        parent=parent,
        children=children,
        num_waves=schedule.num_waves,
        **more,
    )


def _rows_sent(schedule: Schedule, rank: int, config: Config) -> IntArray:
    """Step, op, flow and port of all rows that a rank sends; on shared links place, class and
    route.
    """
    sent = np.flatnonzero(schedule.src == rank)
    links = schedule.route_links[schedule.route_offsets[sent]]
    ports = schedule.topology.link_ports[links]
    columns = [schedule.step[sent], schedule.op[sent], schedule.flow[sent], ports]
    if config.shared:
        columns += [places_in_sums(schedule)[sent], *routes_of(schedule, sent, config)]
    return np.stack(columns, axis=1).astype(np.int64)


def _shared_columns(
    rows: IntArray, size: IntArray, children: IntArray, num_flits: int
) -> dict[str, IntArray]:
    """Columns that a table has on shared links only."""
    slots = slots_of(size, (children != NO_PORT).sum(axis=1), num_flits)
    return dict(zip(("order", "vc_class", "route"), rows.T[4:], strict=True)) | {"slots": slots}


def _check_routes(schedule: Schedule, rank: int, config: Config) -> None:
    """Raise unless the rank's interface can send and take the schedule's messages."""
    topology = schedule.topology
    if not 0 <= rank < topology.num_ranks:
        raise ScheduleError(f"Rank must be in 0..{topology.num_ranks - 1}, not {rank!r}")
    ports = int(topology.num_ports[rank])
    if ports > config.num_ports:
        raise TopologyError(
            f"{topology.name}: rank {rank} has {ports} links, "
            f"the interface has {config.num_ports} ports"
        )
    mine = (topology.links == rank).any(axis=1)
    alone = np.flatnonzero(mine & (topology.reverse < 0))
    if alone.size:
        raise TopologyError(f"{topology.name}: link {alone[0]} of rank {rank} has no reverse link")
    hops = np.diff(schedule.route_offsets)
    if not config.shared and (hops != 1).any():
        row = int(np.flatnonzero(hops != 1)[0])
        raise ScheduleError(f"Row {row}: a route must be one link, not {int(hops[row])}")
    if config.shared:
        check_switches(schedule)
    if config.shared and schedule.collective in ROOTED:
        raise ScheduleError(
            f"A {schedule.collective} over shared links must be one with_header_only_phase, "
            "not alone"
        )


def _check_sizes(
    schedule: Schedule, rank: int, num_rows: int, num_flits: int, config: Config
) -> None:
    """Raise unless the rank's part of the schedule is small enough for the interface."""
    stages = 1 << config.wave_width if schedule.num_waves > 1 else schedule.num_steps
    chunk = int(np.diff(schedule.chunks(num_flits)).max(initial=0))
    # On private links a head's size has as many bits as an address, or counts modulo 256.
    most = head_format(config).mask("size") if config.shared else chunk
    for what, value, limit in (
        ("flows", schedule.num_flows, config.num_flows),
        ("flits of the buffer", num_flits, (1 << config.address_width) - 1),
        ("steps", schedule.num_steps, MOST_STEPS),
        ("table rows", num_rows, config.table_depth),
        ("flits of a chunk", chunk, most),
        ("waves", schedule.num_waves, 1 << config.wave_width),
        ("periods of a wave", -(-schedule.num_steps // schedule.period), stages),
    ):
        if value > limit:
            raise ScheduleError(f"Rank {rank}: {what} must be at most {limit}, not {value}")


def _in_periods(rows: IntArray, schedule: Schedule) -> tuple[IntArray, IntArray]:
    """Rows by their step in the period, those of earlier waves first, and their stages."""
    if schedule.num_waves == 1:
        return rows, np.zeros(len(rows), np.int64)
    stage, step = np.divmod(rows[:, 0], schedule.period)
    # A later stage is an earlier wave. The sort is stable: equal rows stay in the schedule's order.
    turn = np.lexsort((-stage, step))
    return np.column_stack([step, rows[:, 1:]])[turn], stage[turn]


def _with_nops(rows: IntArray, schedule: Schedule) -> IntArray:
    """Rows with one NOP for every step that sends nothing, in step order."""
    if schedule.num_waves > 1:
        raise ScheduleError(f"Waves must be one in lockstep, not {schedule.num_waves}")
    idle = np.setdiff1d(np.arange(schedule.num_steps), rows[:, 0])
    nops = np.zeros((len(idle), rows.shape[1]), dtype=np.int64)
    nops[:, 0] = idle
    nops[:, 1] = Op.NOP
    rows = np.concatenate([rows, nops])
    return rows[np.argsort(rows[:, 0], kind="stable")]


def _arrivals(schedule: Schedule, rank: int, config: Config) -> tuple[IntArray, IntArray]:
    """Parent port and child ports of every flow, children in the order of summation."""
    came = np.flatnonzero(schedule.dst == rank)
    last = schedule.route_links[schedule.route_offsets[1:] - 1]
    ports = schedule.topology.link_ports[schedule.topology.reverse[last[came]]]
    most = config.max_children if config.shared else 8
    parent = np.full(schedule.num_flows, NO_PORT, dtype=np.int64)
    children = np.full((schedule.num_flows, most), NO_PORT, dtype=np.int64)
    filled = np.zeros(schedule.num_flows, dtype=np.int64)
    # The same order as in `places_in_sums`: by step, then order, then source.
    key = np.lexsort((schedule.src[came], schedule.order[came], schedule.step[came]))
    for index in key:
        row, port = came[index], ports[index]
        flow = int(schedule.flow[row])
        if schedule.op[row] == Op.GATHER:
            parent[flow] = port
        elif filled[flow] == most:
            raise ScheduleError(
                f"{schedule.describe(int(row))}: contributions to one sum must be at most {most}"
            )
        else:
            children[flow, filled[flow]] = port
            filled[flow] += 1
    return parent, children


def table_writes(table: Table) -> Writes:
    """Writes that load a table and its flow memory; commit comes after `run_writes`.

    They may be made while another table runs, as long as no commit and no start waits: two per row,
    two more for its route on shared links, five per flow, sizes, and the CRC-32 of rows and flows.
    """
    writes: Writes = []
    for row in range(table.num_rows):
        words = _row_words(table, row)
        writes += _words_at(_ROWS[row], words[:2])
        if table.route is not None:
            writes += _words_at(_ROUTES[row], words[2:])
    for flow in range(table.num_flows):
        writes += _words_at(_FLOWS[flow], _flow_words(table, flow))
    # Rows with their routes, then flows: the order in which the checker reads them.
    content = b"".join(value.to_bytes(4, "little") for _, value in writes)
    writes.append((ADDRESS["RANK"], table.rank))
    writes.append((ADDRESS["NUM_ROWS"], table.num_rows))
    writes.append((ADDRESS["NUM_FLOWS"], table.num_flows))
    writes.append((ADDRESS["TABLE_CRC"], zlib.crc32(content)))
    return writes


def _words_at(address: int, words: Sequence[int]) -> Writes:
    """Writes of words that follow each other."""
    return [(address + REGISTER_BYTES * k, word) for k, word in enumerate(words)]


def _row_words(table: Table, row: int) -> list[int]:
    """The four words of a row; on private links the last two are 0."""
    names = ["flow", "port", "op", "step", "stage"]
    names += [name for name in ("vc_class", "order", "route") if getattr(table, name) is not None]
    return SHARED_ROW_FORMAT.words(**{name: int(getattr(table, name)[row]) for name in names})


def _flow_words(table: Table, flow: int) -> list[int]:
    """The five words of a flow."""
    children, parent = table.children[flow], int(table.parent[flow])
    place = {name: int(getattr(table, name)[flow]) for name in ("base", "size", "stride")}
    if table.slots is None:
        ports = sum(int(port) << 4 * k for k, port in enumerate(children))
        return FLOW_FORMAT.words(**place, children=ports, parent=parent)
    return SHARED_FLOW_FORMAT.words(
        **place,
        staging=int(table.slots[flow]),
        num_children=int((children != NO_PORT).sum()),
        parent=int(parent != NO_PORT),
    )
