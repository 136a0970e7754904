"""What every command shares: options, output as JSON or tables, and progress."""

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table as RichTable

from multitree.topology.builders import build
from multitree.topology.families import parse_topology
from multitree.topology.schedule import Schedule

__all__ = [
    "AlgorithmOption",
    "CollectiveOption",
    "JsonOption",
    "RootOption",
    "SizeOption",
    "SpecArgument",
    "build_schedule",
    "check_writable",
    "identity_of",
    "print_json",
    "print_pairs",
    "print_table",
    "working",
]

PATIENCE_SECONDS = 2.0

SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="Topology: torus:4x4, mesh:8x8, ring:16, hypercube:6, full:8, or a JSON file.",
    ),
]
AlgorithmOption = Annotated[
    str, typer.Option(help="multitree, ring or bidirectional_ring.", metavar="NAME")
]
CollectiveOption = Annotated[
    str,
    typer.Option(
        help="all_reduce, reduce_scatter, all_gather, broadcast or reduce.", metavar="NAME"
    ),
]
RootOption = Annotated[
    int | None, typer.Option(help="Root rank of broadcast and reduce.", metavar="RANK")
]
SizeOption = Annotated[
    str,
    typer.Option(help="One rank's buffer: bytes, or with KiB, MiB or GiB.", metavar="SIZE"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def print_json(data: dict[str, Any]) -> None:
    """Print one object, as documented in docs/json.md; unknown is null."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False))


def print_pairs(title: str, pairs: Iterable[tuple[str, Any]]) -> None:
    """Print a title, and names with their values, one below the other."""
    typer.echo(title)
    rows = [(name, "unknown" if value is None else str(value)) for name, value in pairs]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        typer.echo(f"  {name:<{width}}  {value}")


def print_table(title: str, columns: list[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print a table, numbers to the right, wide enough for its content."""
    table = RichTable(title=title, title_justify="left")
    listed = [["unknown" if cell is None else str(cell) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        is_number = all(row[index][:1].isdigit() for row in listed)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=True)
    for row in listed:
        table.add_row(*row)
    console = Console()
    width = console.measure(table).maximum if not console.is_terminal else None
    console.print(table, width=width, crop=False, markup=False)


def check_writable(path: Path) -> None:
    """Raise before any work is done where a file could not be written.

    Raises
    ------
    ValueError
        If the folder is not there, or the path is a folder.
    """
    if not path.parent.is_dir():
        raise ValueError(f"Folder of {str(path)!r} must exist")
    if path.is_dir():
        raise ValueError(f"File must be a file, not the folder {str(path)!r}")


@contextmanager
def working(text: str) -> Iterator[None]:
    """Say on stderr what takes so long, once it takes longer than two seconds.

    Parameters
    ----------
    text : str
        What is being done.
    """
    console = Console(stderr=True)
    status = Status(text, console=console)

    def show() -> None:
        if console.is_terminal:
            status.start()
        else:
            console.print(f"{text} ...", markup=False, highlight=False)

    timer = threading.Timer(PATIENCE_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def build_schedule(
    spec: str, algorithm: str, collective: str, root: int | None
) -> tuple[Schedule, float]:
    """Build a schedule, and say how long that took."""
    network = parse_topology(spec)
    start = time.perf_counter()
    with working(f"Building {algorithm} on {network.name}"):
        built = build(network, algorithm, collective=collective, root=root)
    return built, time.perf_counter() - start


def identity_of(built: Schedule) -> dict[str, Any]:
    """Keys that say which schedule is spoken of."""
    return {
        "topology": built.topology.name,
        "num_ranks": built.topology.num_ranks,
        "algorithm": built.algorithm,
        "collective": built.collective,
        "root": built.root,
        "schedule_hash": built.hash,
    }
