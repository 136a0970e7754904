"""Columns of a schedule: their lengths, the ranges of their entries, their hash."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology


class Blocks(NamedTuple):
    """An array of so many numbers that comes in pieces."""

    size: int
    pieces: Iterable[Any]


def fingerprint(title: str, parts: Iterable[tuple[Any, str]]) -> str:
    """SHA-256, in hex, of arrays or `Blocks`, as the dtypes given, each after its length."""
    digest = hashlib.sha256(title.encode() + b"\0")
    for values, dtype in parts:
        blocks = values if isinstance(values, Blocks) else Blocks(np.size(values), [values])
        # Lengths are hashed, too: otherwise numbers could
        # move from one array to the next unnoticed.
        digest.update(blocks.size.to_bytes(8, "little"))
        for piece in blocks.pieces:
            digest.update(np.ascontiguousarray(piece, dtype).tobytes())
    return digest.hexdigest()


def schedule_fingerprint(
    topology: Topology,
    collective: str,
    root: int | None,
    flow_offsets: Any,
    columns: Iterable[Any],
    routes: Iterable[Any],
    waves: tuple[int, ...] = (),
) -> str:
    """The hash of a schedule: all that it does on its topology, names left out."""
    counts = [topology.num_ranks, topology.num_switches, -1 if root is None else root]
    return fingerprint(
        f"multitree.schedule.v1 {collective}",
        [
            # Widths and byte order are part of the format: hashes are the same on every platform.
            (counts, "<i8"),
            (topology.links, "<i4"),
            (topology.bandwidth_gbytes_per_s, "<f8"),
            (topology.latency_ns, "<f8"),
            (flow_offsets, "<i8"),
            *((column, "<i4") for column in columns),
            *zip(routes, ("<i8", "<i4", "<i4"), strict=True),
            *([(waves, "<i8")] if waves else []),
        ],
    )


ROW_FIELDS = ("step", "op", "flow", "src", "dst", "order")
MAX_CLASSES = 256
MAX_WAVES = 1 << 16
_OP_NAMES = {0: "REDUCE", 1: "GATHER"}


def describe_row(row: int, columns: Mapping[str, Int32Array]) -> str:
    """Name a row for a message: "Row 0 (step 1, flow 1, GATHER 1 -> 2)"."""
    step, op, flow, src, dst = (int(columns[field][row]) for field in ROW_FIELDS[:5])
    return f"Row {row} (step {step}, flow {flow}, {_OP_NAMES.get(op, op)} {src} -> {dst})"


def check_shapes(
    columns: Mapping[str, Int32Array],
    flow_offsets: Int64Array,
    route_offsets: Int64Array,
    route_links: Int32Array,
    route_classes: Int32Array,
) -> None:
    """Raise a ScheduleError unless columns, offsets and routes have lengths that fit."""
    if flow_offsets.ndim != 1 or len(flow_offsets) < 2:
        raise ScheduleError(
            f"Flow offsets must be at least two numbers, not of shape {flow_offsets.shape}"
        )
    num_rows = columns["step"].size
    for field, values in columns.items():
        if values.shape != (num_rows,):
            raise ScheduleError(f"{field} must be of shape ({num_rows},), not {values.shape}")
    if route_offsets.shape != (num_rows + 1,):
        raise ScheduleError(
            f"Route offsets must be of shape ({num_rows + 1},), not {route_offsets.shape}"
        )
    if route_links.ndim != 1 or route_links.shape != route_classes.shape:
        raise ScheduleError(
            f"Route links and classes must be as many, not of shapes {route_links.shape} "
            f"and {route_classes.shape}"
        )


def check_waves(collective: str, num_waves: int, period: int) -> None:
    """Raise a ScheduleError unless a collective can be run in so many waves with such a period."""
    for name, value in (("Waves", num_waves), ("Period", period)):
        if type(value) is not int or not 1 <= value < MAX_WAVES:
            raise ScheduleError(f"{name} must be a whole number from 1 to 2^16 - 1, not {value!r}")
    if num_waves == 1 and period != 1:
        raise ScheduleError(f"Period of a single wave must be 1, not {period}")
    # A rank's part would be scattered over the waves, a piece in each.
    if num_waves > 1 and collective in ("reduce_scatter", "all_gather"):
        raise ScheduleError(f"Waves of {collective} must be one, not {num_waves}: ranks own a part")


def check_ranges(columns: Mapping[str, Int32Array], num_flows: int, num_ranks: int) -> None:
    """Raise a ScheduleError unless every step, op, flow, rank and order exists."""
    limits = (2**31 - 1, 2, num_flows, num_ranks, num_ranks, num_ranks)
    for field, limit in zip(ROW_FIELDS, limits, strict=True):
        values = columns[field]
        wrong = np.flatnonzero((values < 0) | (values >= limit))
        if wrong.size:
            row = int(wrong[0])
            raise ScheduleError(
                f"{describe_row(row, columns)}: {field} must be within 0..{limit - 1}, "
                f"not {int(values[row])}"
            )


def check_route_ranges(
    columns: Mapping[str, Int32Array],
    route_offsets: Int64Array,
    route_links: Int32Array,
    route_classes: Int32Array,
    num_links: int,
) -> None:
    """Raise a ScheduleError unless routes follow each other, and every link and class exists."""
    if route_offsets[0] != 0 or route_offsets[-1] != len(route_links):
        raise ScheduleError(
            f"Route offsets must run from 0 to {len(route_links)}, "
            f"not from {route_offsets[0]} to {route_offsets[-1]}"
        )
    falling = np.flatnonzero(np.diff(route_offsets) < 1)
    if falling.size:
        row = int(falling[0])
        raise ScheduleError(
            f"{describe_row(row, columns)}: route must have at least one link, "
            f"not {int(route_offsets[row + 1] - route_offsets[row])}"
        )
    for field, values, limit in (
        ("route link", route_links, num_links),
        ("route class", route_classes, MAX_CLASSES),
    ):
        wrong = np.flatnonzero((values < 0) | (values >= limit))
        if wrong.size:
            row = int(np.searchsorted(route_offsets, wrong[0], side="right")) - 1
            raise ScheduleError(
                f"{describe_row(row, columns)}: {field} must be within 0..{limit - 1}, "
                f"not {int(values[wrong[0]])}"
            )
