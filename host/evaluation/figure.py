"""What a figure is: its axes, what is asked of it, and the values that it draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from multitree.host.evaluation.point import Point, PointResult
from multitree.host.report_keys import keys_of

__all__ = [
    "BOUND",
    "COLUMNS",
    "RULES",
    "Axis",
    "Figure",
    "FigureError",
    "Request",
    "RunPoints",
    "Value",
]

RULES = ("ours", "published")
"""How cycles are counted: as they are, or as in the paper, see `host.evaluation.schemes`."""


BOUND = "bound: no schedule is faster"
"""Series of what nothing can beat."""


class FigureError(ValueError):
    """A figure that cannot be made as it is asked for; the text says what must be."""


@dataclass(frozen=True)
class Request:
    """What is asked of a figure."""

    networks: tuple[str, ...]  # specs, as of `parse_topology`
    sizes: tuple[int, ...]  # bytes of one rank's buffer
    engine: str  # one with a clock
    rule: str  # one of `RULES`
    algorithms: tuple[str, ...] = ()  # as of `schemes_of`; empty for those of the figure
    links: tuple[tuple[str, Any], ...] = ()  # fields of points: clock, flits, speed and latency


@dataclass(frozen=True)
class Value:
    """One value that a figure draws, a row of its CSV; unknown is None."""

    panel: str
    series: str
    x: int | float | str
    y: float | None
    part: float | None = None  # of a bar: how much of y is computing
    topology: str | None = None
    algorithm: str | None = None
    dependency: str | None = None
    flow_control: str | None = None
    lockstep: bool | None = None
    size_bytes: int | None = None
    engine: str | None = None
    cycles: int | None = None  # as the rule counts them
    rtl_cycles: int | None = None  # where the RTL was run
    limited: str | None = None  # links that are not used at their speed, and why
    problem: str | None = None  # why there is no value


COLUMNS = keys_of("figure.values")
"""Columns of a figure's CSV."""

RunPoints = Callable[[Sequence[Point]], list[PointResult]]
"""Runs points, or takes their results from where they are stored."""


@dataclass(frozen=True)
class Axis:
    """An axis."""

    label: str  # with its unit
    # "linear", "log", "names", or with ticks at the values "log2" and "sizes".
    scale: str = "linear"


@dataclass(frozen=True)
class Figure:
    """A figure, and how its values are found."""

    name: str
    title: str
    summary: str
    x: Axis
    y: Axis
    values: Callable[[Request, RunPoints], list[Value]]  # in the order in which they are drawn
    networks: tuple[str, ...]  # specs, unless others are asked for
    sizes: tuple[int, ...] = ()  # bytes of one rank's buffer; empty where there is no choice
    subjects: tuple[str, ...] = ()  # series that are compared with all others
    own_schemes: bool = False  # whether its algorithms are a part of it
    bars: bool = False  # drawn in the place of lines
    engines: tuple[str, ...] = ("analytic", "exact", "rtl")  # the usual one first
    no_published_rule: str | None = None  # why it cannot count as the paper does
    notes: tuple[str, ...] = ()  # what it leaves out, and why
