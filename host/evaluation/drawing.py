"""Draws the values of a figure: panels of lines or bars, in one style."""

import io
import math
import textwrap
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from multitree.host.evaluation.figure import BOUND, Figure, Value
from multitree.host.sizes import format_size
from multitree.topology.algorithms.registry import ALGORITHMS
from multitree.topology.specs import names_file

__all__ = ["FORMATS", "can_draw", "limits_of_values", "picture_of"]

FORMATS = ("svg", "pdf", "png")
"""Of pictures, by the endings of their names."""

_STYLE = {"svg.hashsalt": "multitree", "svg.fonttype": "none", "font.size": 9}
_OTHERS = ("tab:blue", "tab:red", "tab:green", "tab:purple", "tab:orange", "black")
_MARKERS = "ovs^DPX*<>phd8"
_DASHES = ("-", "--", ":", "-.")
_PANEL_INCHES = (5.4, 3.3)
_BOUND_STYLE = {"color": "black", "linestyle": (0, (1, 1)), "marker": ""}
_DOTS_PER_INCH = 150
_CHARACTERS = 88  # of a line below a panel
# Without a date, equal values give equal bytes.
_WITHOUT_DATE: dict[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {},
}


def can_draw() -> bool:
    """Whether matplotlib is there, an extra."""
    return find_spec("matplotlib") is not None


def picture_of(figure: Figure, values: Sequence[Value], kind: str = "svg") -> bytes:
    """A figure in one of `FORMATS`; equal values give equal bytes with one matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    panels = list(dict.fromkeys(each.panel for each in values))
    num_columns = 1 if len(panels) == 1 or figure.bars else 2
    num_rows = math.ceil(len(panels) / num_columns)
    width = 9.0 if num_columns == 1 else 2 * _PANEL_INCHES[0]
    height = _PANEL_INCHES[1] * num_rows + (2.0 if num_rows == 1 else 1.0)
    drawn = [each for each in values if each.y is not None]
    styles = _styles(drawn)
    with matplotlib.rc_context(_STYLE):
        canvas = Canvas(figsize=(width, height), layout="constrained")
        grid = canvas.subplots(num_rows, num_columns, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            inside = [each for each in drawn if each.panel == panel]
            (_bars if figure.bars else _lines)(axes, figure, inside, styles)
            axes.set_title(panel)
            _finish(axes, figure, _left_out([each for each in values if each.panel == panel]))
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        canvas.suptitle(figure.title)
        handles = {
            label: handle
            for axes in grid.flat
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        labels = [*handles]
        canvas.legend([*handles.values()], labels, loc="outside lower center", ncols=4)
        file = io.BytesIO()
        canvas.savefig(file, format=kind, metadata=_WITHOUT_DATE[kind], dpi=_DOTS_PER_INCH)
    return file.getvalue()


def limits_of_values(values: Iterable[Value]) -> list[str]:
    """The networks whose links are not used at their speed, and why, each once."""
    limited = ((each.topology or "", each.limited) for each in values if each.limited)
    return [
        f"{Path(spec).name if names_file(spec) else spec}: {why}"
        for spec, why in dict.fromkeys(limited)
    ]


def _left_out(values: Sequence[Value]) -> str:
    """The series of a panel that have no value, or not all, and limited links."""
    without: dict[str, list[bool]] = {}
    for each in values:
        without.setdefault(each.series, []).append(each.y is None)
    names = [
        name if all(missing) else f"{name} ({sum(missing)} of {len(missing)})"
        for name, missing in without.items()
        if any(missing)
    ]
    lines = [f"no value: {', '.join(names)}"] if names else []
    lines += [f"limited, {text}" for text in limits_of_values(values)]
    return "\n".join(textwrap.fill(line, _CHARACTERS) for line in lines)


def _finish(axes: Any, figure: Figure, left_out: str) -> None:
    """Labels, grid and ticks, and below what has no value."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set(xlabel="\n".join(filter(None, (figure.x.label, left_out))), ylabel=figure.y.label)
    axes.grid(alpha=0.3, axis="y" if figure.bars else "both")
    axes.xaxis.set_minor_locator(NullLocator())
    if figure.y.scale == "log":
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_ylim(bottom=0)


def _styles(values: Sequence[Value]) -> dict[str, dict[str, Any]]:
    """How each series looks; never by its colour alone."""
    algorithms = {each.series: each.algorithm for each in values if each.algorithm}
    series = list(dict.fromkeys(each.series for each in values))
    by_algorithm = len(set(algorithms.values())) > 1
    styles: dict[str, dict[str, Any]] = {}
    used: dict[str, int] = {}
    for index, name in enumerate(series):
        algorithm = algorithms.get(name)
        colour = _OTHERS[index % len(_OTHERS)]
        if by_algorithm and algorithm in ALGORITHMS:
            colour = ALGORITHMS[algorithm].colour
        dash = _DASHES[used.setdefault(colour, 0) % len(_DASHES)]
        used[colour] += 1
        marker = _MARKERS[index % len(_MARKERS)]
        styles[name] = {"color": colour, "linestyle": dash, "marker": marker}
        if name == BOUND:
            styles[name] = _BOUND_STYLE
    return styles


def _lines(
    axes: Any, figure: Figure, values: Sequence[Value], styles: dict[str, dict[str, Any]]
) -> None:
    """Lines over numbers, or over names at even distances."""
    listed = list(dict.fromkeys(each.x for each in values))
    names = figure.x.scale == "names"
    if not names:
        listed.sort()
    place = {x: index if names else x for index, x in enumerate(listed)}
    for series in dict.fromkeys(each.series for each in values):
        points = [(place[each.x], each.y) for each in values if each.series == series]
        axes.plot(*zip(*points, strict=True), label=series, markersize=4, **styles[series])
    measured = [(place[each.x], each.y) for each in values if each.rtl_cycles is not None]
    if measured:
        axes.plot(
            *zip(*measured, strict=True),
            linestyle="none",
            marker="o",
            markersize=10,
            markerfacecolor="none",
            markeredgecolor="black",
            label="circle: run in RTL",
        )
    sizes = figure.x.scale == "sizes"
    if sizes or figure.x.scale == "log2":
        axes.set_xscale("log", base=2)
    labels = [format_size(int(x)) if sizes else _text(x) for x in listed]
    axes.set_xticks([place[x] for x in listed], labels, rotation=40 if sizes else 0)


def _bars(
    axes: Any, figure: Figure, values: Sequence[Value], styles: dict[str, dict[str, Any]]
) -> None:
    """Groups of bars, one for each series; what is computing is hatched, below the rest."""
    names = list(dict.fromkeys(str(each.x) for each in values))
    series = list(dict.fromkeys(each.series for each in values))
    width = 0.85 / max(len(series), 1)
    for index, name in enumerate(series):
        of_series = [each for each in values if each.series == name]
        shift = (index - (len(series) - 1) / 2) * width
        places = [names.index(str(each.x)) + shift for each in of_series]
        style = {"color": styles[name]["color"], "edgecolor": "black", "linewidth": 0.4}
        fill = "//" if styles[name]["linestyle"] != "-" else None
        axes.bar(places, [each.y for each in of_series], width, label=name, hatch=fill, **style)
        if all(each.part is not None for each in of_series):
            parts = [each.part for each in of_series]
            axes.bar(places, parts, width, color="black", alpha=0.35, linewidth=0)
    axes.set_xticks(range(len(names)), [name.replace("_", "\n") for name in names])


def _text(x: int | float | str) -> str:
    return x if isinstance(x, str) else f"{x:g}"
