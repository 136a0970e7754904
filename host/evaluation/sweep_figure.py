"""The figure of a sweep: one of its columns over another, a panel per network."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from multitree.host.evaluation.figure import BOUND, Axis, Figure, FigureError, Request, Value
from multitree.host.evaluation.make import MadeFigure, write_figure
from multitree.host.evaluation.point import COLUMNS, Point
from multitree.host.parameters import SCALED, scale_of
from multitree.topology.file_io import naming, read_text

__all__ = ["NAME", "figure_of_sweep"]

NAME = "sweep"
RESULTS = "results.csv"
Row = Mapping[str, Any]
_PARAMETERS = tuple(field.name for field in fields(Point))
_OF_TIME: dict[str, Callable[[Row], float]] = {
    "cycles": lambda row: float(row["bound_cycles"]),
    "time_us": lambda row: float(row["time_us"] * row["bound_cycles"] / row["cycles"]),
    "ratio_to_bound": lambda row: 1.0,
    "bandwidth_gbytes_per_s": lambda row: float(
        row["bandwidth_gbytes_per_s"] * row["cycles"] / row["bound_cycles"]
    ),
}
"""Columns that have a bound, and the bound of a row."""
_LABELS = {
    "size_bytes": "buffer of one rank",
    "bandwidth_gbytes_per_s": "GB/s",
    "time_us": "µs",
    "ratio_to_bound": "cycles over the bound",
}
_READ: dict[type, Callable[[str], Any]] = {bool: "true".__eq__}


def figure_of_sweep(
    folder: str | Path, out: str | Path, x: str | None = None, y: str | None = None
) -> MadeFigure:
    """Draw a sweep's results: a panel per network, a series per combination of all but x.

    `x` is a parameter with several numbers, by default the size if it has some; `y` a number of the
    results, by default the bandwidth. FigureError if there are no such columns or results.
    """
    path = Path(folder) / RESULTS
    rows = _rows(path)
    varied = [name for name in _PARAMETERS if len({row[name] for row in rows}) > 1]
    x = x or ("size_bytes" if "size_bytes" in varied else next(filter(_is_number, varied), None))
    y = y or "bandwidth_gbytes_per_s"
    if x is None:
        raise FigureError(f"{path}: a parameter must have several numbers to be x, but none has")
    for name in (x, y):
        if not _is_number(name):
            known = ", ".join(filter(_is_number, COLUMNS))
            raise FigureError(f"Columns of a figure must be of {known}, not {name!r}")
        if factor := next((row[name] for row in rows if isinstance(row[name], str)), None):
            raise FigureError(f"{path}: {name} must be numbers in a figure, not {factor!r}")
    by_network = "topology" if x != "num_ranks" else ""
    others = [name for name in varied if name not in (x, by_network)]
    values = [_value(row, x, y, by_network, others) for row in rows]
    if y in _OF_TIME:
        values += _bounds(rows, x, _OF_TIME[y], by_network)
    networks = tuple(dict.fromkeys(row["topology"] for row in rows))
    sizes = tuple(dict.fromkeys(row["size_bytes"] for row in rows))
    engines = "+".join(dict.fromkeys(row["engine"] for row in rows))
    limited = dict.fromkeys(row["limited"] for row in rows if row["limited"])
    figure = Figure(
        NAME,
        f"{_LABELS.get(y, y)} over {_LABELS.get(x, x)}",
        "The results of a sweep.",
        Axis(_LABELS.get(x, x), "sizes" if x == "size_bytes" else "linear"),
        Axis(_LABELS.get(y, y), "log" if y in _OF_TIME else "linear"),
        lambda request, run: values,
        networks,
        notes=tuple(f"Limited: {each}" for each in limited),
    )
    return write_figure(figure, Request(networks, sizes, engines, "ours"), values, out)


def _is_number(name: str) -> bool:
    return COLUMNS.get(name) in (int, float)


def _rows(path: Path) -> list[dict[str, Any]]:
    """Results with their types, None where there is none."""
    with naming(str(path), FigureError):
        read = csv.DictReader(read_text(str(path)).splitlines())
        if set(read.fieldnames or ()) != set(COLUMNS):
            raise FigureError(f"{path}: columns must be those of a sweep's results")
        rows = [
            {
                name: _read(name, kind, row[name]) if row[name] else None
                for name, kind in COLUMNS.items()
            }
            for row in read
        ]
    if not rows:
        raise FigureError(f"{path}: results must be some, not none")
    return rows


def _read(name: str, kind: type, text: str) -> Any:
    return scale_of(name, text) if name in SCALED else _READ.get(kind, kind)(text)


def _value(row: Row, x: str, y: str, by_network: str, others: Sequence[str]) -> Value:
    """The value of a row; without it there is a problem."""
    # Over the number of ranks a line is of the networks of a family.
    named = [
        row[name].partition(":")[0] if name in ("algorithm", "topology") else f"{name} {row[name]}"
        for name in others
        if row[name] is not None
    ]
    problem = row["error"]
    if row[y] is None and problem is None:
        problem = f"{y} is unknown"
    same = ("topology", "algorithm", "dependency", "flow_control", "lockstep", "size_bytes")
    return Value(
        row.get(by_network, ""),
        ", ".join(named) or str(row["algorithm"]),
        row[x] if row[x] is not None else "",
        row[y],
        **{name: row[name] for name in same},
        engine=row["engine"],
        cycles=row["cycles"],
        problem=problem,
    )


def _bounds(rows: Sequence[Row], x: str, bound: Callable[[Row], float], by: str) -> list[Value]:
    """The bound at each x of each panel, where all rows there have the same."""
    found: dict[tuple[str, Any], set[float]] = {}
    for row in rows:
        if row["bound_cycles"] and row["cycles"]:
            found.setdefault((row.get(by, ""), row[x]), set()).add(float(f"{bound(row):.9g}"))
    return [
        Value(panel, BOUND, at, next(iter(bounds)))
        for (panel, at), bounds in found.items()
        if len(bounds) == 1
    ]
