"""Points whose cycles were measured in RTL, and what they took there."""

import csv
from dataclasses import asdict
from functools import cache
from pathlib import Path

from multitree.host.sweep.point import Point

__all__ = ["RTL_POINTS", "rtl_cycles_of"]

RTL_POINTS = Path(__file__).with_name("rtl_points.csv")
"""Written by `bench/rtl_points.py`; all that is not in its columns is as usual."""
_Key = tuple[str, str, str, str, int]


def rtl_cycles_of(point: Point) -> int | None:
    """Cycles of a point in RTL, whatever its engine is; None if not measured."""
    dependency = point.dependency or "chunk"
    usual = Point(
        point.topology,
        point.algorithm,
        point.size_bytes,
        point.engine,
        dependency=point.dependency,
        flow_control=point.flow_control,
    )
    if asdict(usual) != asdict(point):
        return None
    key = point.topology, point.algorithm, dependency, point.flow_control, point.size_bytes
    return _measured().get(key)


@cache
def _measured() -> dict[_Key, int]:
    with RTL_POINTS.open(encoding="utf-8", newline="") as file:
        return {
            (
                row["topology"],
                row["algorithm"],
                row["dependency"],
                row["flow_control"],
                int(row["size_bytes"]),
            ): int(row["cycles"])
            for row in csv.DictReader(file)
        }
