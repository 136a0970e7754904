"""The command sweep: every combination of parameters that a file names."""

import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli.common import JsonOption, check_folder, print_pairs
from multitree.host.cli.output import Working, print_json
from multitree.host.sweep.run import SweepResult, SweepStatus, run_sweep

__all__ = ["sweep"]

FAILED = 1
MOST_ERRORS = 10
"""Different ones that are printed for people; the files have all."""


def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What to run, in YAML: docs/reference/sweep.md.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for results; what it holds already is not run again.", metavar="DIR"
        ),
    ],
    jobs: Annotated[
        int | None, typer.Option(help="Processes; by default one per core.", metavar="N")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(help="Scheduler of a Dask cluster to run on instead.", metavar="ADDRESS"),
    ] = None,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Write results.parquet, too; needs PyArrow.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Run every combination of topologies, algorithms, sizes and parameters that a file names.

    Results go into DIR/results.csv. A sweep that was ended goes on where it was.
    """
    check_folder(out)
    with Working(f"Sweep of {file}", lines=True) as work:
        shown = _Progress(file, work)
        try:
            found = run_sweep(file, out, jobs=jobs, dask=dask, parquet=parquet, progress=shown)
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
    """Time in the largest unit that leaves at least two of it.

    Examples
    --------
    >>> _duration(90), _duration(150), _duration(8000)
    ('90 s', '2 min', '2 h')
    """
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
