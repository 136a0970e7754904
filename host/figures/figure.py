"""What a figure is: its axes, what is asked of it, and the values that it draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from multitree.host.sweep.point import Point, PointResult

__all__ = [
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
"""How cycles are counted: as they are, or as in the paper, see `host.figures.rules`."""


class FigureError(ValueError):
    """A figure that cannot be made as it is asked for; the text says what must be."""


@dataclass(frozen=True)
class Request:
    """What is asked of a figure.

    Parameters
    ----------
    networks : tuple of str
        Specs as of `parse_topology`.
    sizes : tuple of int
        Bytes of one rank's buffer.
    engine : str
        One with a clock.
    rule : str
        One of `RULES`.
    """

    networks: tuple[str, ...]
    sizes: tuple[int, ...]
    engine: str
    rule: str


@dataclass(frozen=True)
class Value:
    """One value that a figure draws, a row of its CSV; unknown is None.

    Parameters
    ----------
    panel, series : str
        Where it stands, and what it is of.
    x : int, float or str
    y : float or None
        None where there is no such value.
    part : float or None
        Of a bar: how much of y is computing.
    topology, algorithm, dependency, flow_control, lockstep, size_bytes, engine
        What was timed.
    cycles : int or None
        As the rule counts them.
    rtl_cycles : int or None
        What the RTL took, where that was measured.
    problem : str or None
        Why there is no value.
    """

    panel: str
    series: str
    x: int | float | str
    y: float | None
    part: float | None = None
    topology: str | None = None
    algorithm: str | None = None
    dependency: str | None = None
    flow_control: str | None = None
    lockstep: bool | None = None
    size_bytes: int | None = None
    engine: str | None = None
    cycles: int | None = None
    rtl_cycles: int | None = None
    problem: str | None = None


COLUMNS = tuple(field.name for field in fields(Value))
"""Columns of a figure's CSV."""

RunPoints = Callable[[Sequence[Point]], list[PointResult]]
"""Runs points, or takes their results from where they are stored."""


@dataclass(frozen=True)
class Axis:
    """An axis.

    Parameters
    ----------
    label : str
        What it shows, and its unit.
    scale : str
        "linear", "log", "names", or with ticks at the values "log2" and, of bytes, "sizes".
    """

    label: str
    scale: str = "linear"


@dataclass(frozen=True)
class Figure:
    """A figure, and how its values are found.

    Parameters
    ----------
    name, title, summary : str
        What commands call it, what stands above it, and one line about it.
    x, y : Axis
    values : callable
        From what is asked to the values, in the order in which they are drawn.
    networks : tuple of str
        Specs, unless others are asked for.
    sizes : tuple of int, optional
        Bytes of one rank's buffer, the same; empty where the figure has none to choose.
    subjects : tuple of str, optional
        Series that are compared with all others.
    bars : bool, optional
        Whether bars are drawn, not lines.
    engines : tuple of str, optional
        Those that it can be made with, the usual one first.
    no_published_rule : str or None, optional
        Why it cannot count as the paper does; None where it can.
    notes : tuple of str, optional
        What it leaves out, and why.
    """

    name: str
    title: str
    summary: str
    x: Axis
    y: Axis
    values: Callable[[Request, RunPoints], list[Value]]
    networks: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    subjects: tuple[str, ...] = ()
    bars: bool = False
    engines: tuple[str, ...] = ("analytic", "exact", "rtl")
    no_published_rule: str | None = None
    notes: tuple[str, ...] = ()
