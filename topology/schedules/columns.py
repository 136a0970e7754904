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
    """SHA-256, in hex, of arrays, each after its length.

    Parameters
    ----------
    title : str
        What the arrays are, with a version.
    parts : iterable of (array_like, str)
        Numbers, or `Blocks` of them, and the NumPy dtype with byte order in which to hash them.

    Returns
    -------
    str

    Examples
    --------
    >>> fingerprint("numbers", [([1, 2], "<i4")])[:8]
    'ad180a2e'
    """
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
    """The hash of a schedule: all that it does on its topology, names left out.

    Parameters
    ----------
    topology : Topology
    collective : str
    root : int or None
    flow_offsets : array_like
    columns : iterable of array_like or Blocks
        The six row fields.
    routes : iterable of array_like or Blocks
        Offsets, links and classes.
    waves : tuple of int
        Number and period of the waves, or nothing where there is one.

    Returns
    -------
    str
    """
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
    """Name a row for a message: its number, step, flow, op and ends.

    Parameters
    ----------
    row : int
    columns : mapping of str to numpy.ndarray, int32 (num_transfers,)
        step, op, flow, src and dst.

    Returns
    -------
    str

    Examples
    --------
    >>> ones = np.ones(1, int)
    >>> describe_row(0, dict.fromkeys(("step", "op", "flow", "src", "dst"), ones))
    'Row 0 (step 1, flow 1, GATHER 1 -> 1)'
    """
    step, op, flow, src, dst = (int(columns[field][row]) for field in ROW_FIELDS[:5])
    return f"Row {row} (step {step}, flow {flow}, {_OP_NAMES.get(op, op)} {src} -> {dst})"


def check_shapes(
    columns: Mapping[str, Int32Array],
    flow_offsets: Int64Array,
    route_offsets: Int64Array,
    route_links: Int32Array,
    route_classes: Int32Array,
) -> None:
    """Check that columns belong together.

    Parameters
    ----------
    columns : mapping of str to numpy.ndarray
        The six row fields.
    flow_offsets, route_offsets, route_links, route_classes : numpy.ndarray

    Raises
    ------
    ScheduleError
        If one has another shape than the others call for.
    """
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
    """Check that a collective can be run in so many waves.

    Parameters
    ----------
    collective : str
    num_waves, period : int

    Raises
    ------
    ScheduleError
        If one is below 1, only one wave has a period, or ranks own parts that waves would scatter.
    """
    for name, value in (("Waves", num_waves), ("Period", period)):
        if type(value) is not int or not 1 <= value < MAX_WAVES:
            raise ScheduleError(f"{name} must be a whole number from 1 to 2^16 - 1, not {value!r}")
    if num_waves == 1 and period != 1:
        raise ScheduleError(f"Period of a single wave must be 1, not {period}")
    if num_waves > 1 and collective in ("reduce_scatter", "all_gather"):
        raise ScheduleError(f"Waves of {collective} must be one, not {num_waves}: ranks own a part")


def check_ranges(columns: Mapping[str, Int32Array], num_flows: int, num_ranks: int) -> None:
    """Check that every step, op, flow, rank and order is one that there can be.

    Parameters
    ----------
    columns : mapping of str to numpy.ndarray, int32 (num_transfers,)
    num_flows, num_ranks : int

    Raises
    ------
    ScheduleError
        If an entry is not; the message names the row.
    """
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
    """Check that routes follow each other and that every link and class exists.

    Parameters
    ----------
    columns : mapping of str to numpy.ndarray, int32 (num_transfers,)
    route_offsets, route_links, route_classes : numpy.ndarray
    num_links : int

    Raises
    ------
    ScheduleError
        If they do not; the message names the row.
    """
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
