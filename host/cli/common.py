"""What every command shares: options, output as JSON or tables, and progress."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli.options import NetworkOptions
from multitree.host.cli.output import Working, print_json
from multitree.topology.algorithms.build import ALGORITHMS, build_compact
from multitree.topology.checks.implicit import MAX_ROWS, AnySchedule
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "AlgorithmOption",
    "CollectiveOption",
    "CsvOption",
    "FlowControlOption",
    "JsonOption",
    "MemoryCyclesOption",
    "RootOption",
    "ScheduleArgument",
    "SizeOption",
    "SizesOption",
    "SpecArgument",
    "Working",
    "build_compactly",
    "build_schedule",
    "check_folder",
    "check_writable",
    "identity_of",
    "print_json",
    "print_pairs",
    "print_table",
]

NUMBER_CHARACTERS = frozenset("0123456789.+-% ")

DEFAULT_ALGORITHM = "multitree"
_OTHERS = ", ".join(name for name in ALGORITHMS if name != DEFAULT_ALGORITHM)

CostModelOf = Callable[[Topology], CostModel]

SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="Topology: torus:4x4, mesh:8x8, ring:16, hypercube:6, full:8, fat_tree:4x4, "
        "kary_tree:4x3x2, bigraph:4x8, dgx2, dgx_a100:2, dragonfly:4x2x2, or a .json or "
        ".graphml file.",
    ),
]
ScheduleArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="As `multitree topology` takes it, or a schedule in a .json or .graphml file.",
    ),
]
AlgorithmOption = Annotated[
    str | None,
    typer.Option(help=f"{DEFAULT_ALGORITHM}, or one of {_OTHERS}.", metavar="NAME"),
]
CollectiveOption = Annotated[
    str | None,
    typer.Option(
        help="all_reduce, or reduce_scatter, all_gather, broadcast or reduce.", metavar="NAME"
    ),
]
RootOption = Annotated[
    int | None, typer.Option(help="Root rank of broadcast and reduce.", metavar="RANK")
]
FlowControlOption = Annotated[
    str, typer.Option(help="message, or packet: a head per sub-message.", metavar="NAME")
]
MemoryCyclesOption = Annotated[
    int, typer.Option(help="Memory's read, the addition and the acknowledgement.", metavar="N")
]
SizeOption = Annotated[
    str,
    typer.Option(help="One rank's buffer: bytes, or with kB, MB, KiB, ...", metavar="SIZE"),
]
SizesOption = Annotated[
    str,
    typer.Option(help="One rank's buffer, or several: 32KiB,1MB,4MiB.", metavar="SIZE,..."),
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV, a row per result.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def print_pairs(title: str, pairs: Iterable[tuple[str, Any]]) -> None:
    """Print a title, and names with their values, one below the other."""
    typer.echo(title)
    rows = [(name, "unknown" if value is None else str(value)) for name, value in pairs]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        typer.echo(f"  {name:<{width}}  {value}")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a title and a table, numbers to the right, no cell cut off."""
    listed = list(rows)
    places = []
    for index, column in enumerate(columns):
        cells = [row[index] for row in listed]
        side = ">" if all(NUMBER_CHARACTERS.issuperset(cell) for cell in cells) else "<"
        places.append(f"{{:{side}{max(map(len, (column, *cells)))}}}")
    line = "  ".join(places)
    head = line.format(*columns)
    typer.echo(f"{title}\n")
    typer.secho(f" {head}", bold=True)
    typer.echo(f" {'─' * len(head)}")
    for row in listed:
        typer.echo(f" {line.format(*row)}".rstrip())
    typer.echo()


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


def check_folder(path: Path) -> None:
    """Raise before any work is done where a folder could neither be made nor written to.

    Raises
    ------
    ValueError
        If the path, or one above it, is a file, or must not be written to.
    """
    there = next(each for each in (path, *path.absolute().parents) if os.path.lexists(each))
    if not there.is_dir():
        raise ValueError(f"Folder must be a folder, not the file {str(there)!r}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"Folder must be writable, not {str(there)!r}")


def build_schedule(
    spec: str,
    algorithm: str | None,
    collective: str | None,
    root: int | None,
    network: NetworkOptions,
    cost_model: CostModelOf | None = None,
) -> tuple[Schedule, float]:
    """What `build_compactly` builds or reads, with all its rows; errors of both."""
    built, seconds = build_compactly(spec, algorithm, collective, root, network, cost_model)
    start = time.perf_counter()
    return built.schedule(), seconds + time.perf_counter() - start


def build_compactly(
    spec: str,
    algorithm: str | None,
    collective: str | None,
    root: int | None,
    network: NetworkOptions,
    cost_model: CostModelOf | None = None,
) -> tuple[AnySchedule, float]:
    """Build a schedule, or read and verify the one that a file holds, and say how long that took.

    `cost_model` gives the cost model for builders that fit a schedule to a size.

    Raises
    ------
    ScheduleError
        If the file's schedule is of another algorithm, collective or root than is asked for, or
        some ranks are asked for and the file holds a schedule of all.
    ValueError, TopologyError
        As `NetworkOptions.read`.
    """
    start = time.perf_counter()
    with Working(f"Reading {spec}"):
        given = network.read(spec)
    if isinstance(given, Schedule):
        if network.ranks is not None or network.forwarding:
            raise ScheduleError(f"{spec}: ranks must be the file's, {given.topology.num_ranks}")
        for what, asked in (("algorithm", algorithm), ("collective", collective), ("root", root)):
            if asked is not None and asked != getattr(given, what):
                has = getattr(given, what)
                raise ScheduleError(f"{spec}: {what} must be the file's, {has}, not {asked!r}")
        return given, time.perf_counter() - start
    given = network.members(given)
    algorithm = DEFAULT_ALGORITHM if algorithm is None else algorithm
    collective = "all_reduce" if collective is None else collective
    start = time.perf_counter()
    with Working(f"Building {algorithm} on {given.name}"):
        paced = None if cost_model is None else cost_model(given)
        built = build_compact(given, algorithm, collective=collective, root=root, cost_model=paced)
    return built, time.perf_counter() - start


def identity_of(built: AnySchedule) -> dict[str, Any]:
    """Keys that identify a schedule; where rows are too many, no hash is taken."""
    return {
        "topology": built.topology.name,
        "num_ranks": built.topology.num_ranks,
        "algorithm": built.algorithm,
        "collective": built.collective,
        "root": built.root,
        "schedule_hash": built.hash if built.num_transfers <= MAX_ROWS else None,
    }
