"""The command figure: the figures of the evaluation, drawn and as CSV."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli.common import CsvOption, JsonOption, check_folder, print_table
from multitree.host.cli.output import Working, check_format, print_csv, print_json
from multitree.host.figures.catalogue import FIGURES, figure_named
from multitree.host.figures.comparisons import Comparison
from multitree.host.figures.figure import RULES
from multitree.host.figures.make import MadeFigure, make_figure
from multitree.host.sizes import parse_sizes
from multitree.host.sweep.run import SweepStatus

__all__ = ["figure"]

FOLDER = Path("figures")
COLUMNS = ["where", "series", "over", "points", "first", "last", "least", "most", "mean"]


def figure(
    name: Annotated[
        str | None, typer.Argument(help="One of those that are listed without it.", metavar="NAME")
    ] = None,
    out: Annotated[
        Path,
        typer.Option(help="Folder for NAME.svg, NAME.csv and results so far.", metavar="DIR"),
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
    size: Annotated[
        str | None,
        typer.Option(help="Others than the figure's: 32KiB,1MiB.", metavar="SIZE,..."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Processes; by default one per core.", metavar="N")
    ] = None,
    csv: CsvOption = False,
    json: JsonOption = False,
) -> None:
    """Draw a figure of the evaluation, and write its values as CSV; without NAME, list them.

    A figure that was ended goes on where it was.
    """
    check_format(json, csv)
    if name is None:
        if any((engine, networks, size, jobs)) or rule != RULES[0] or out != FOLDER:
            raise ValueError("Options of a figure must come with the name of one")
        _list(json, csv)
        return
    figure_named(name)
    check_folder(out)
    with Working(f"Figure {name}", lines=True) as work:
        made = make_figure(
            name,
            out,
            networks=networks.split(",") if networks else None,
            sizes=parse_sizes(size) if size else None,
            engine=engine,
            rule=rule,
            jobs=jobs,
            progress=lambda status: work.update(_progress(status)),
        )
    if json:
        print_json(_data(made))
    elif csv:
        print_csv([asdict(value) for value in made.values])
    else:
        _show(made)


def _list(as_json: bool, as_csv: bool) -> None:
    """Print what figures there are."""
    listed = [{"name": each.name, "summary": each.summary} for each in FIGURES.values()]
    if as_json:
        print_json({"figures": listed})
    elif as_csv:
        print_csv(listed)
    else:
        for each in listed:
            typer.echo(f"{each['name']:<16} {each['summary']}")


def _progress(status: SweepStatus) -> str:
    done = status.num_stored + status.num_done
    return f"{done} of {status.num_points} points, {status.num_failed} without a value"


def _data(made: MadeFigure) -> dict[str, Any]:
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


def _show(made: MadeFigure) -> None:
    """Print for people what the figure says, and what it leaves out."""
    typer.echo(f"{made.figure.title}: {', '.join(str(path) for path in made.files)}")
    if made.comparisons:
        title = "Cycles of another series over those of a series, at the same x"
        print_table(title, COLUMNS, map(_cells, made.comparisons))
    if made.num_in_rtl:
        off = 100 * (made.most_off_rtl or 0.0)
        typer.echo(f"{made.num_in_rtl} values were run in RTL, at most {off:.2f} % off")
    for note in made.notes:
        typer.echo(f"Note: {note}")


def _cells(each: Comparison) -> list[str]:
    """Cells of a comparison, in the order of `COLUMNS`."""
    ratios = (each.first, each.last, each.least, each.most, each.mean)
    texts = each.panel or "all", each.series, each.over, str(each.num_points)
    return [*texts, *(f"{ratio:.3f}" for ratio in ratios)]
