"""Values of points that an engine times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from multitree.host.figures.figure import Request, RunPoints, Value
from multitree.host.figures.rtl_points import rtl_cycles_of
from multitree.host.figures.rules import counted_cycles
from multitree.host.sweep.point import Point

__all__ = ["Timed", "Wanted", "timed", "value_of"]


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
