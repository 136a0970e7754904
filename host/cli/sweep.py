"""The commands sweep and figure: many runs, which resume where they ended."""

import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli.options import ALGORITHM_OPTIONS, check_range, read_scale, with_options
from multitree.host.cli.output import (
    Working,
    check_folder,
    check_format,
    print_json,
    print_pairs,
    print_rows,
    print_table,
)
from multitree.host.cli.process import FAILED
from multitree.host.evaluation.figure import RULES
from multitree.host.evaluation.make import (
    FIGURES,
    Comparison,
    MadeFigure,
    make_figure,
)
from multitree.host.evaluation.sweep import SweepResult, SweepStatus, run_sweep
from multitree.host.evaluation.sweep_figure import NAME as SWEEP
from multitree.host.evaluation.sweep_figure import figure_of_sweep
from multitree.host.parameters import SCALED, parameter
from multitree.host.sizes import listed, parse_sizes
from multitree.sim.timing.link_model import problem_with

__all__ = ["figure", "sweep"]


MOST_ERRORS = 10
"""Different ones that are printed for people; the files have all."""


@with_options
def sweep(
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What to run, in YAML: docs/reference/sweep.md.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for results; what it holds already is not run again.", metavar="DIR"
        ),
    ],
    jobs: int | None,
    dask: Annotated[
        str | None,
        typer.Option(help="Scheduler of a Dask cluster to run on instead.", metavar="ADDRESS"),
    ] = None,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Write results.parquet, too; needs PyArrow.")
    ] = False,
    force: bool,
    json: bool,
) -> int:
    """Run every combination of topologies, algorithms, sizes and parameters that a file names.

    Results go into DIR/results.csv. A sweep that was ended goes on where it was.
    """
    check_folder(out)
    with Working(f"Sweep of {file}", lines=True) as work:
        shown = _Progress(file, work)
        try:
            found = run_sweep(
                file, out, jobs=jobs, dask=dask, parquet=parquet, force=force, progress=shown
            )
        except BaseException:
            shown.say_what_is_kept(out)
            raise
    if json:
        print_json(_data(file, out, found))
    else:
        _show(file, found)
    inexact = any(row["exact"] is False for row in found.rows)
    return FAILED if inexact or found.num_unfinished else 0


class _Progress:
    """Says how far a sweep is, and how long it may still take."""

    def __init__(self, file: Path, work: Working) -> None:
        self._file, self._work = file, work
        self._status: SweepStatus | None = None
        self._begin = 0.0

    def __call__(self, status: SweepStatus) -> None:
        if self._status is None:
            self._begin = time.monotonic()
            to_run = f"{status.num_left} to run on {status.workers}"
            self._work.say(
                f"{self._file}: {_points(status.num_points)}, {status.num_stored} stored, "
                f"{to_run if status.num_left else 'none to run'}"
            )
        self._status = status
        if status.num_done:
            seconds = time.monotonic() - self._begin
            left = seconds / status.num_done * status.num_left
            self._work.update(
                f"{status.num_done} of {status.num_done + status.num_left} points, "
                f"{status.num_failed} with an error, about {_duration(left)} left"
            )

    def say_what_is_kept(self, out: Path) -> None:
        """Print how to go on, if there is anything to go on from."""
        if self._status is not None and self._status.num_kept:
            kept = f"{self._status.num_kept} of {_points(self._status.num_points)}"
            typer.echo(
                f"multitree: {kept} are kept in {out}; the same command goes on from there",
                err=True,
            )


def _points(number: int) -> str:
    return f"{number} point" + ("" if number == 1 else "s")


def _duration(seconds: float) -> str:
    """Time in the largest unit that leaves at least two of it."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _data(file: Path, out: Path, found: SweepResult) -> dict[str, Any]:
    """A sweep for programs."""
    counts = {name: value for name, value in asdict(found).items() if name.startswith("num_")}
    return {
        "definition": str(file),
        "out": str(out),
        "num_points": len(found.rows),
        **counts,
        "files": [str(path) for path in found.files],
        "results": found.rows,
        "warnings": [*found.warnings],
    }


def _show(file: Path, found: SweepResult) -> None:
    """Print for people what came of a sweep, and why points have no result."""
    pairs = [
        ("points", len(found.rows)),
        ("stored before", found.num_stored),
        ("run now", found.num_run),
        ("with an error", found.num_failed),
        ("tried again by the same command", found.num_unfinished),
        *([("stored, but damaged", found.num_damaged)] if found.num_damaged else []),
        ("results", ", ".join(str(path) for path in found.files)),
    ]
    print_pairs(f"Sweep of {file}", pairs)
    for warning in found.warnings:
        typer.echo(f"multitree: warning: {warning}", err=True)
    errors = Counter(row["error"] for row in found.rows if row["error"] is not None)
    for error, count in errors.most_common(MOST_ERRORS):
        typer.echo(f"{count} x {error}")
    if len(errors) > MOST_ERRORS:
        typer.echo(f"and {len(errors) - MOST_ERRORS} other errors")


FOLDER = Path("figures")
RATIO_COLUMNS = ["where", "series", "over", "points", "first", "last", "least", "most", "mean"]


@dataclass(frozen=True)
class LinkOptions:
    """Clock, flits and links of all values of a figure; None is as usual."""

    clock_ghz: float | None = None
    flit_bytes: int | None = None
    link_gbytes_per_s: str | None = None
    latency_ns: str | None = None

    def given(self) -> dict[str, Any]:
        """Those that are given, checked; a ValueError says what is wrong."""
        found = {name: value for name, value in vars(self).items() if value is not None}
        for name, value in found.items():
            if name in SCALED:
                found[name] = read_scale(name, value)
            elif (problem := problem_with(name, value)) is not None:
                raise ValueError(f"{parameter(name).option} {problem}")
        return found


@with_options
def figure(
    *,
    name: Annotated[
        str | None, typer.Argument(help="One of those that are listed without it.", metavar="NAME")
    ] = None,
    results: Annotated[
        Path | None, typer.Argument(help="Of the figure sweep: a sweep's folder.", metavar="DIR")
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for NAME.svg, NAME.csv and results so far, or a file .svg, .pdf or .png.",
            metavar="PATH",
        ),
    ] = FOLDER,
    engine: Annotated[
        str | None,
        typer.Option(help="analytic, exact or rtl; by default analytic.", metavar="NAME"),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            help="ours, or published: lockstep, reduction time subtracted.", metavar="NAME"
        ),
    ] = RULES[0],
    networks: Annotated[
        str | None,
        typer.Option(help="Others than the figure's, with commas between.", metavar="SPEC,..."),
    ] = None,
    algorithms: Annotated[
        str | None,
        typer.Option(
            *ALGORITHM_OPTIONS,
            help="Others than the figure's, auto too, perhaps in modes: multitree,ring/packet.",
            metavar="NAMES",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="Others than the figure's: 32KiB,1MiB.", metavar="SIZE,..."),
    ] = None,
    x: Annotated[
        str | None,
        typer.Option(help="Of a sweep: what it is drawn over, a column.", metavar="COLUMN"),
    ] = None,
    y: Annotated[
        str | None,
        typer.Option(help="Of a sweep: what is drawn, by default the bandwidth.", metavar="COLUMN"),
    ] = None,
    links: LinkOptions,
    jobs: int | None,
    limit_s: float,
    csv: bool,
    json: bool,
) -> None:
    """Draw a figure of the evaluation, and write its values as CSV; without NAME, list them.

    A figure that was ended goes on where it was.
    """
    check_format(json, csv)
    check_range("limit_s", limit_s)
    of_links, of_sweep = links.given(), (results, x, y)
    given = engine, networks, algorithms, size, jobs, of_links
    if name is None:
        if any((*given, *of_sweep)) or rule != RULES[0] or out != FOLDER:
            raise ValueError("Options of a figure must come with the name of one")
        _list_figures(json, csv)
        return
    check_folder(out.parent if out.suffix else out)
    if name == SWEEP:
        if results is None or any(given) or rule != RULES[0]:
            raise ValueError("Figure sweep must have a sweep's folder, and no options of others")
        made = figure_of_sweep(results, out, x, y)
    elif any(of_sweep):
        raise ValueError(f"A folder of results, x and y must come with the figure {SWEEP}")
    else:
        names = [listed(each) if each else None for each in (networks, algorithms)]
        limit = f", at most {limit_s:g} CPU s for each value of analytic (--limit-s)"
        limit = limit if limit_s and engine in (None, "analytic") else ""
        with Working(f"Figure {name}{limit}", lines=True) as work:
            made = make_figure(
                name,
                out,
                networks=names[0],
                algorithms=names[1] or (),
                sizes=parse_sizes(size) if size else None,
                engine=engine,
                rule=rule,
                links=of_links,
                jobs=jobs,
                limit_s=limit_s,
                progress=lambda status: work.update(_figure_progress(status)),
            )
    if json:
        print_json(_figure_data(made))
    elif csv:
        print_rows([asdict(value) for value in made.values])
    else:
        _show_figure(made)


def _list_figures(as_json: bool, as_csv: bool) -> None:
    """Print what figures there are."""
    listed = [{"name": each.name, "summary": each.summary} for each in FIGURES.values()]
    listed.append({"name": SWEEP, "summary": "Your own sweep: multitree figure sweep DIR."})
    if as_json:
        print_json({"figures": listed}, "figures")
    elif as_csv:
        print_rows(listed)
    else:
        for each in listed:
            typer.echo(f"{each['name']:<16} {each['summary']}")


def _figure_progress(status: SweepStatus) -> str:
    done = status.num_stored + status.num_done
    return f"{done} of {status.num_points} points, {status.num_failed} without a value"


def _figure_data(made: MadeFigure) -> dict[str, Any]:
    """A figure for programs."""
    return {
        "name": made.figure.name,
        "title": made.figure.title,
        "x_label": made.figure.x.label,
        "y_label": made.figure.y.label,
        "engine": made.request.engine,
        "rule": made.request.rule,
        "networks": [*made.request.networks],
        "sizes_bytes": [*made.request.sizes],
        "files": [str(path) for path in made.files],
        "num_in_rtl": made.num_in_rtl,
        "most_off_rtl": made.most_off_rtl,
        "comparisons": [asdict(each) for each in made.comparisons],
        "values": [asdict(each) for each in made.values],
        "notes": [*made.notes],
    }


def _show_figure(made: MadeFigure) -> None:
    """Print for people what the figure says, and what it leaves out."""
    typer.echo(f"{made.figure.title}: {', '.join(str(path) for path in made.files)}")
    if made.comparisons:
        title = "Cycles of another series over those of a series, at the same x"
        print_table(title, RATIO_COLUMNS, map(_ratio_cells, made.comparisons))
    if made.num_in_rtl:
        off = 100 * (made.most_off_rtl or 0.0)
        typer.echo(f"{made.num_in_rtl} values were run in RTL, at most {off:.2f} % off")
    for note in made.notes:
        typer.echo(f"Note: {note}")


def _ratio_cells(each: Comparison) -> list[str]:
    """Cells of a comparison, in the order of `RATIO_COLUMNS`."""
    ratios = (each.first, each.last, each.least, each.most, each.mean)
    texts = each.panel or "all", each.series, each.over, str(each.num_points)
    return [*texts, *(f"{ratio:.3f}" for ratio in ratios)]
