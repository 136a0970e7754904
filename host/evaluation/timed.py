"""Values of figures: points that are run or that the RTL has measured."""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from multitree.host.evaluation.figure import BOUND, Request, RunPoints, Value
from multitree.host.evaluation.point import Point
from multitree.host.evaluation.schemes import counted_cycles

__all__ = ["RTL_POINTS", "Timed", "Wanted", "bounds_of", "rtl_cycles_of", "timed", "value_of"]


@dataclass(frozen=True)
class Wanted:
    """A point, and where its value stands."""

    panel: str
    series: str
    x: int | float | str
    point: Point


@dataclass(frozen=True)
class Timed:
    """What came of a wanted point; without cycles there is a problem."""

    wanted: Wanted
    cycles: int | None
    time_us: float | None
    bound_cycles: float | None
    rtl_cycles: int | None
    problem: str | None


def timed(request: Request, run: RunPoints, wanted: Sequence[Wanted]) -> list[Timed]:
    """Run points that are wanted, each once, and count their cycles by the rule."""
    points = list(dict.fromkeys(each.point for each in wanted))
    results = dict(zip(points, run(points), strict=True))
    found = []
    for each in wanted:
        result = results[each.point]
        cycles = counted_cycles(request, each.point, result)
        time_us = None if cycles is None else each.point.link_model().microseconds(cycles)
        # What was measured before is counted as it is.
        measured = rtl_cycles_of(each.point) if request.rule == "ours" else None
        rtl = cycles if each.point.engine == "rtl" else measured
        found.append(Timed(each, cycles, time_us, result.bound_cycles, rtl, result.error))
    return found


def value_of(each: Timed, y: Callable[[Timed], float | None]) -> Value:
    """The value of a point; `y` is asked only where there are cycles."""
    point = each.wanted.point
    return Value(
        each.wanted.panel,
        each.wanted.series,
        each.wanted.x,
        None if each.cycles is None else y(each),
        topology=point.topology,
        algorithm=point.algorithm,
        dependency=point.dependency,
        flow_control=point.flow_control,
        lockstep=point.lockstep,
        size_bytes=point.size_bytes,
        engine=point.engine,
        cycles=each.cycles,
        rtl_cycles=each.rtl_cycles,
        problem=each.problem,
    )


def bounds_of(found: Sequence[Timed], y: Callable[[Timed], float | None]) -> list[Value]:
    """The bound at each x of each panel, as a value is of cycles."""
    bounds: dict[tuple[str, int | float | str], Value] = {}
    for each in found:
        if each.bound_cycles is not None:
            cycles, point = math.ceil(each.bound_cycles), each.wanted.point
            least = replace(each, cycles=cycles, time_us=point.link_model().microseconds(cycles))
            panel, x = each.wanted.panel, each.wanted.x
            bound = Value(panel, BOUND, x, y(least), topology=point.topology)
            bounds.setdefault((panel, x), replace(bound, size_bytes=point.size_bytes))
    return [*bounds.values()]


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
