"""Makes figures: finds their values, compares them, writes CSV and pictures."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from multitree.host.engines import check_runs_here
from multitree.host.evaluation.drawing import FORMATS, can_draw, limits_of_values, picture_of
from multitree.host.evaluation.figure import COLUMNS, RULES, Figure, FigureError, Request, Value
from multitree.host.evaluation.point import Point, PointResult
from multitree.host.evaluation.schemes import PUBLISHED_NOTES, schemes_of
from multitree.host.evaluation.sensitivity import SENSITIVITY
from multitree.host.evaluation.size_figures import (
    BANDWIDTH,
    BASELINES,
    PACKETS,
    STRONG_SCALING,
    TABLE_SIZE,
    WEAK_SCALING,
)
from multitree.host.evaluation.sweep import SweepStatus, run_points
from multitree.host.evaluation.training import TRAINING, TRAINING_OVERLAP
from multitree.host.report_keys import write_csv
from multitree.topology.errors import not_one_of
from multitree.topology.file_io import write_files
from multitree.topology.specs import names_file, parse_topology

__all__ = [
    "FIGURES",
    "STORE",
    "Comparison",
    "MadeFigure",
    "compared",
    "figure_named",
    "make_figure",
    "rtl_agreement",
    "write_figure",
]

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        BANDWIDTH,
        PACKETS,
        WEAK_SCALING,
        STRONG_SCALING,
        TRAINING,
        TRAINING_OVERLAP,
        TABLE_SIZE,
        BASELINES,
        SENSITIVITY,
    )
}
"""In the order in which they are listed: those of the paper, then those that it leaves out."""


def figure_named(name: str) -> Figure:
    """The figure of a name; FigureError if there is none."""
    if name not in FIGURES:
        raise FigureError(not_one_of("Figure", name, FIGURES))
    return FIGURES[name]


@dataclass(frozen=True)
class Comparison:
    """One series over another: the other's cycles over its own, at the same x."""

    panel: str
    series: str
    over: str
    num_points: int  # at which both have cycles
    first: float  # at the least x
    last: float  # at the greatest x
    least: float  # of all, as the greatest and the geometric mean
    most: float
    mean: float


def compared(figure: Figure, values: Sequence[Value]) -> list[Comparison]:
    """The figure's subjects over every other series, in each panel where both have values."""
    cycles: dict[tuple[str, str], dict[object, int]] = {}
    for each in values:
        found = cycles.setdefault((each.panel, each.series), {})
        if each.cycles:
            found[each.x] = each.cycles
    return [
        _over(panel, subject, series, of_other, cycles[panel, subject])
        for subject in figure.subjects
        for (panel, series), of_other in cycles.items()
        if series != subject and set(of_other) & set(cycles.get((panel, subject), {}))
    ]


def _over(
    panel: str, series: str, over: str, theirs: dict[object, int], ours: dict[object, int]
) -> Comparison:
    ratios = [theirs[x] / ours[x] for x in theirs if x in ours]
    mean = geometric_mean(ratios)
    return Comparison(
        panel, series, over, len(ratios), ratios[0], ratios[-1], min(ratios), max(ratios), mean
    )


def rtl_agreement(values: Sequence[Value]) -> tuple[int, float | None]:
    """How many values have cycles of the RTL, and the largest share that they are off."""
    off = [
        abs(each.cycles / each.rtl_cycles - 1)
        for each in values
        if each.cycles is not None and each.rtl_cycles
    ]
    return len(off), max(off, default=None)


STORE = ".results"
"""Folder, in that of the figures, of results that are not run again."""
NO_PICTURE = (
    "matplotlib must be installed for the picture (pip install 'multitree[plots]'); "
    "the CSV needs nothing"
)
_MOST_EXACT_BYTES = 1 << 20


@dataclass(frozen=True)
class MadeFigure:
    """A figure with its values."""

    figure: Figure
    request: Request  # what it was made with
    values: list[Value]
    comparisons: list[Comparison]
    num_in_rtl: int  # values that have cycles of the RTL
    most_off_rtl: float | None  # largest share by which these differ from the RTL
    files: tuple[Path, ...]  # picture and CSV, or the CSV alone
    notes: tuple[str, ...]  # what it leaves out, and why


def make_figure(
    name: str,
    out: str | Path,
    *,
    networks: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    engine: str | None = None,
    rule: str = "ours",
    algorithms: Sequence[str] = (),
    links: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    limit_s: float = 0,
    progress: Callable[[SweepStatus], None] | None = None,
) -> MadeFigure:
    """Find the values of a figure, and write NAME.csv and NAME.svg to a folder, which is made.

    Where `out` ends in .svg, .pdf or .png it is the picture's file, with the CSV next to it.
    Results are stored and not run again; what takes analytic over `limit_s` CPU s has none.
    `links` has fields of all points: clock, flits, speed and latency. FigureError if the figure
    is unknown or cannot be made so; other errors are of engines, networks and files.
    """
    figure = figure_named(name)
    request = _request(figure, networks, sizes, engine, rule, algorithms)
    if links:
        if figure.own_schemes:
            raise FigureError(f"Clock, flits and links of {name} must be its own, not others")
        request = replace(request, links=tuple(sorted(links.items())))
        said = ", ".join(f"{each} {value}" for each, value in request.links)
        figure = replace(figure, title=f"{figure.title}; {said}")
    folder, *_ = _place_of(out, name)
    for spec in request.networks:
        parse_topology(spec)
    check_runs_here(request.engine, next_down="analytic")

    def run(points: Sequence[Point]) -> list[PointResult]:
        store = folder / STORE
        return run_points(points, store, jobs=jobs, limit_s=limit_s, progress=progress)

    if request.algorithms:
        figure = replace(figure, subjects=request.algorithms[:1])
    return write_figure(figure, request, figure.values(request, run), out)


_OTHER_PICTURES = ("jpg", "jpeg", "gif", "webp", "tif", "tiff", "eps", "ps")


def _place_of(out: str | Path, name: str) -> tuple[Path, str, str]:
    """Folder, name without an ending, and format of a picture."""
    path = Path(out)
    kind = path.suffix.lower().removeprefix(".")
    if kind in _OTHER_PICTURES:
        raise FigureError(f"Picture must end in {' or '.join(FORMATS)}, not be {path.name!r}")
    return (path.parent, path.stem, kind) if kind in FORMATS else (path, name, FORMATS[0])


def _named(values: Sequence[Value], networks: Sequence[str]) -> list[Value]:
    """Values whose panels and series have the names of networks, not the paths of their files."""
    names = {spec: Path(spec).name for spec in networks if names_file(spec)}
    if len(set(names.values())) < len(names):
        return [*values]
    found = []
    for each in values:
        panel, series = each.panel, each.series
        for spec, name in names.items():
            panel, series = panel.replace(spec, name), series.replace(spec, name)
        found.append(replace(each, panel=panel, series=series))
    return found


def write_figure(
    figure: Figure, request: Request, values: Sequence[Value], out: str | Path
) -> MadeFigure:
    """Write the picture and the CSV of a figure's values; `out` as of `make_figure`."""
    folder, stem, kind = _place_of(out, figure.name)
    values = _named(values, request.networks)
    contents: dict[str, str | bytes] = {f"{stem}.csv": _csv_text(values)}
    notes = [*figure.notes, *(PUBLISHED_NOTES if request.rule == "published" else ())]
    if can_draw():
        contents = {f"{stem}.{kind}": picture_of(figure, values, kind), **contents}
    else:
        notes.append(NO_PICTURE)
    notes += _problems(values)
    notes += [f"Limited, {text}" for text in limits_of_values(values)]
    comparisons = compared(figure, values)
    files = tuple(write_files(folder, contents))
    return MadeFigure(
        figure, request, values, comparisons, *rtl_agreement(values), files, tuple(notes)
    )


def _request(
    figure: Figure,
    networks: Sequence[str] | None,
    sizes: Sequence[int] | None,
    engine: str | None,
    rule: str,
    algorithms: Sequence[str],
) -> Request:
    """What is asked of a figure, checked."""
    if rule not in RULES:
        raise FigureError(f"Rule must be {' or '.join(RULES)}, not {rule!r}")
    if rule == "published" and figure.no_published_rule is not None:
        raise FigureError(
            f"Rule of {figure.name} must be ours, not 'published': {figure.no_published_rule}"
        )
    engine = engine or figure.engines[0]
    if engine not in figure.engines:
        known = " or ".join(figure.engines)
        raise FigureError(f"Engine of {figure.name} must be {known}, not {engine!r}")
    if algorithms and figure.own_schemes:
        raise FigureError(f"Algorithms of {figure.name} must be its own, not others")
    for what, given in (("Networks", networks), ("Sizes", sizes), ("Algorithms", algorithms)):
        if given is not None and len(set(given)) < len(given):
            raise FigureError(f"{what} must come once each, not twice: {list(given)}")
    if sizes and not figure.sizes:
        raise FigureError(f"Sizes of {figure.name} must be its own, not others")
    usual = figure.sizes
    if engine != "analytic":
        # Their time grows with the buffer, unlike that of the analytic engine.
        usual = tuple(size for size in usual if size <= _MOST_EXACT_BYTES)
    chosen = tuple(networks or figure.networks)
    request = Request(chosen, tuple(sizes or usual), engine, rule, tuple(algorithms))
    schemes_of(request, ())  # checks them before any work
    return request


def _csv_text(values: Sequence[Value]) -> str:
    text = io.StringIO()
    write_csv(COLUMNS, map(asdict, values), text)
    return text.getvalue()


def _problems(values: Sequence[Value]) -> list[str]:
    """Why series have no values, each once."""
    parts = [
        (each.panel or each.topology or "", each.series, each.problem)
        for each in values
        if each.problem is not None
    ]
    return [*dict.fromkeys(": ".join(filter(None, part)) for part in parts)]
