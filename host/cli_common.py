"""What every command shares: options, output as JSON or tables, and progress."""

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status

from multitree.topology.builders import ALGORITHMS, build_compact
from multitree.topology.errors import ScheduleError
from multitree.topology.families import names_file, parse_topology
from multitree.topology.orbit import MAX_ROWS, Orbit
from multitree.topology.pace import Pace
from multitree.topology.schedule import Schedule
from multitree.topology.schedule_files import load_file
from multitree.topology.subsets import among
from multitree.topology.topology import Topology

__all__ = [
    "AlgorithmOption",
    "CollectiveOption",
    "FlowControlOption",
    "ForwardingOption",
    "JsonOption",
    "MemoryCyclesOption",
    "RanksOption",
    "RootOption",
    "ScheduleArgument",
    "SizeOption",
    "SpecArgument",
    "Working",
    "build_compactly",
    "build_schedule",
    "check_writable",
    "identity_of",
    "members_of",
    "print_json",
    "print_pairs",
    "print_table",
    "written_out",
]

PATIENCE_SECONDS = 2.0
AT_ONCE = 100_000
NUMBER_CHARACTERS = frozenset("0123456789.+-% ")

DEFAULT_ALGORITHM = "multitree"
_OTHERS = ", ".join(name for name in ALGORITHMS if name != DEFAULT_ALGORITHM)

PaceOf = Callable[[Topology], Pace]

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
RanksOption = Annotated[
    str | None,
    typer.Option(help="Ranks that take part, such as 0-3,8, numbered anew.", metavar="RANKS"),
]
ForwardingOption = Annotated[
    bool,
    typer.Option("--forwarding", help="The others forward, as switches, and are not left out."),
]
SizeOption = Annotated[
    str,
    typer.Option(help="One rank's buffer: bytes, or with KiB, MiB or GiB.", metavar="SIZE"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def print_json(data: dict[str, Any]) -> None:
    """Print one object, as documented in docs/json.md; unknown is null."""
    pieces = json.JSONEncoder(indent=2, allow_nan=False).iterencode(data)
    while text := "".join(islice(pieces, AT_ONCE)):
        sys.stdout.write(text)
    sys.stdout.write("\n")


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


class Working:
    """Says on stderr what takes so long, once it takes longer than two seconds.

    Parameters
    ----------
    text : str
        What is being done.
    """

    def __init__(self, text: str) -> None:
        self._console = Console(stderr=True)
        self._status = Status(text, console=self._console)
        self._text = text
        self._timer = threading.Timer(PATIENCE_SECONDS, self._show)
        self._timer.daemon = True

    def update(self, text: str) -> None:
        """Show another text beside the spinner; on something else than a terminal do nothing."""
        self._status.update(text)

    def say(self, sentence: str) -> None:
        """Print a sentence at once."""
        self._console.print(sentence, markup=False, highlight=False)

    def count_cycles(self, cycles: int) -> None:
        """Show how many cycles have been emulated."""
        self.update(f"{self._text}: {cycles:,} cycles")

    def __enter__(self) -> "Working":
        """Begin to wait."""
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Take the spinner away."""
        self._timer.cancel()
        self._timer.join()
        self._status.stop()

    def _show(self) -> None:
        if self._console.is_terminal:
            self._status.start()
        else:
            self.say(f"{self._text} ...")


def members_of(network: Topology, ranks: str | None, forwarding: bool) -> Topology:
    """The network of the ranks that take part: all, or those of a list such as ``0-3,8``.

    Raises
    ------
    ValueError
        If that is no list, or others are to forward where all take part.
    TopologyError
        As `among`.
    """
    if ranks is None:
        if forwarding:
            raise ValueError("Forwarding must come with --ranks, which says who takes part")
        return network
    chosen: list[int] = []
    for span in ranks.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", span, flags=re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError(f"Ranks must be like 0-3,8, not {ranks!r}")
        chosen += range(first, min(last, max(first, network.num_ranks)) + 1)
    return among(network, chosen, forwarding=forwarding)


def build_schedule(
    spec: str,
    algorithm: str | None,
    collective: str | None,
    root: int | None,
    ranks: str | None = None,
    forwarding: bool = False,
    pace: PaceOf | None = None,
) -> tuple[Schedule, float]:
    """What `build_compactly` builds or reads, `written_out`; errors of both."""
    built, seconds = build_compactly(spec, algorithm, collective, root, ranks, forwarding, pace)
    start = time.perf_counter()
    return written_out(built), seconds + time.perf_counter() - start


def build_compactly(
    spec: str,
    algorithm: str | None,
    collective: str | None,
    root: int | None,
    ranks: str | None = None,
    forwarding: bool = False,
    pace: PaceOf | None = None,
) -> tuple[Schedule | Orbit, float]:
    """Build a schedule, or read and verify the one that a file holds, and say how long that took.

    `pace` tells what builders are suited to that suit schedules to a size.

    Raises
    ------
    ScheduleError
        If the file's schedule is of another algorithm, collective or root than is asked for, or
        some ranks are asked for and the file holds a schedule of all.
    ValueError, TopologyError
        As `members_of`.
    """
    start = time.perf_counter()
    with Working(f"Reading {spec}"):
        given = load_file(spec) if names_file(spec) else parse_topology(spec)
    if isinstance(given, Schedule):
        if ranks is not None or forwarding:
            raise ScheduleError(f"{spec}: ranks must be the file's, {given.topology.num_ranks}")
        for what, asked in (("algorithm", algorithm), ("collective", collective), ("root", root)):
            if asked is not None and asked != getattr(given, what):
                has = getattr(given, what)
                raise ScheduleError(f"{spec}: {what} must be the file's, {has}, not {asked!r}")
        return given, time.perf_counter() - start
    given = members_of(given, ranks, forwarding)
    algorithm, collective = algorithm or DEFAULT_ALGORITHM, collective or "all_reduce"
    start = time.perf_counter()
    with Working(f"Building {algorithm} on {given.name}"):
        paced = None if pace is None else pace(given)
        built = build_compact(given, algorithm, collective=collective, root=root, pace=paced)
    return built, time.perf_counter() - start


def written_out(built: Schedule | Orbit) -> Schedule:
    """A schedule with all its rows, or a ScheduleError where they are too many."""
    return built.schedule() if isinstance(built, Orbit) else built


def identity_of(built: Schedule | Orbit) -> dict[str, Any]:
    """Keys that say which schedule is spoken of; where rows are too many, no hash is taken."""
    tree = built.tree if isinstance(built, Orbit) else built
    return {
        "topology": built.topology.name,
        "num_ranks": built.topology.num_ranks,
        "algorithm": tree.algorithm,
        "collective": tree.collective,
        "root": tree.root,
        "schedule_hash": built.hash if built.num_transfers <= MAX_ROWS else None,
    }
