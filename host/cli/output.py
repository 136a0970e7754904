"""Output of commands: JSON and CSV for programs, tables for people, progress."""

import json
import os
import sys
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import typer

from multitree.host.cli.process import Verbosity, chosen_verbosity, command_name
from multitree.host.report_keys import key_table, record, write_csv
from multitree.topology.errors import reported_to

__all__ = [
    "Working",
    "check_folder",
    "check_format",
    "check_writable",
    "print_csv",
    "print_json",
    "print_pairs",
    "print_rows",
    "print_sizes",
    "print_table",
]


_AT_ONCE = 100_000


def check_format(as_json: bool, as_csv: bool) -> None:
    """Raise a ValueError before any work where two formats are asked for."""
    if as_json and as_csv:
        raise ValueError("Output must be --json or --csv, not both")


def print_json(data: Mapping[str, Any], name: str | None = None) -> None:
    """Print the object of the running command, or of another name; unknown is null."""
    name = name or command_name.get()
    _print_object(record(name, {"schema": key_table()[name]["schema"].type, **data}))


def print_sizes(objects: Sequence[Mapping[str, Any]]) -> None:
    """Print the object of one size, or those of several below the key "sizes"."""
    if len(objects) == 1:
        print_json(objects[0])
        return
    schema = key_table()[command_name.get()]["schema"].type
    _print_object({"schema": schema, "sizes": [*map(_without_schema, objects)]})


def _without_schema(data: Mapping[str, Any]) -> dict[str, Any]:
    """An object of the running command in the order of its keys."""
    whole = record(command_name.get(), {"schema": None, **data})
    del whole["schema"]
    return whole


def _print_object(whole: Mapping[str, Any]) -> None:
    pieces = json.JSONEncoder(indent=2, allow_nan=False).iterencode(whole)
    # The text of a large table is never whole in memory, nor is each piece a write of its own.
    while text := "".join(islice(pieces, _AT_ONCE)):
        sys.stdout.write(text)
    sys.stdout.write("\n")


def print_csv(
    objects: Sequence[Mapping[str, Any]], inside: str = "", without: Collection[str] = ()
) -> None:
    """Print CSV: a row per object, or per entry of its list inside, behind the object's values."""
    rows = []
    for data in map(_without_schema, objects):
        entries = data.pop(inside) if inside else [{}]
        rows += [data | entry for entry in entries]
    kept = [{key: value for key, value in row.items() if key not in without} for row in rows]
    print_rows(kept)


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows of the same keys as CSV; the first line has the keys, unknown is empty."""
    write_csv(rows[0], rows, sys.stdout)


QUIET_SECONDS = 2.0
EVERY_SECONDS = 0.25
EVERY_LINE_SECONDS = 10.0


class Working:
    """Progress on stderr, from two seconds after the start of the work on.

    A terminal shows it as a line that changes. Elsewhere it is one line per ten seconds, with
    `Verbosity.VERBOSE` or, for work that may take hours, with `lines`.
    """

    def __init__(self, text: str, *, lines: bool = False) -> None:
        from rich.console import Console
        from rich.status import Status

        self._console = Console(stderr=True)
        self._text = text
        self._part = ""
        self._found: list[str] = []
        self._start = self._shown = time.monotonic()
        on_terminal = self._console.is_terminal
        self._spins = on_terminal and chosen_verbosity() is not Verbosity.QUIET
        self._begins = not on_terminal and chosen_verbosity() is Verbosity.VERBOSE
        unasked = lines and not on_terminal and chosen_verbosity() is not Verbosity.QUIET
        self._lines = self._begins or unasked
        self._status = Status(text, console=self._console)
        self._timer = threading.Timer(QUIET_SECONDS, self._status.start)
        # A process that ends must not wait for it.
        self._timer.daemon = True
        self._received = reported_to(self.update)

    def update(self, part: str) -> None:
        """Say which part of it is being done."""
        self._part = part
        now = time.monotonic()
        every = EVERY_LINE_SECONDS if self._lines else EVERY_SECONDS
        if now - self._shown >= every:
            self._shown = now
            if self._spins:
                self._status.update(self._sentence(now))
            elif self._lines:
                self._print(self._sentence(now))

    def note(self, sentence: str) -> None:
        """Say what was found, once the work takes long: then all that was found before, too."""
        self._found.append(sentence)
        if time.monotonic() - self._start >= QUIET_SECONDS:
            while self._found:
                self.say(self._found.pop(0))

    def say(self, sentence: str) -> None:
        """Say that something begins which takes long."""
        if self._spins or self._lines:
            self._print(sentence)

    def count_cycles(self, cycles: int) -> None:
        """Say how many cycles have been emulated."""
        self.update(f"{cycles:,} cycles")

    def __enter__(self) -> "Working":
        """Begin to wait, and to listen to what `progress.report` says."""
        self._received.__enter__()
        if self._spins:
            self._timer.start()
        elif self._begins:
            self._print(f"{self._text} ...")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the changing line away."""
        if self._spins:
            # The timer may be starting the status in this moment, so that it is awaited first.
            self._timer.cancel()
            self._timer.join()
            self._status.stop()
        self._received.__exit__(kind, error, trace)

    def _sentence(self, now: float) -> str:
        return f"{self._text}: {self._part} ({now - self._start:.0f} s)"

    def _print(self, sentence: str) -> None:
        self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)


NUMBER_CHARACTERS = frozenset("0123456789.+-% ")


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
    """Raise a ValueError before any work where a file could not be written."""
    if not path.parent.is_dir():
        raise ValueError(f"Folder of {str(path)!r} must exist")
    if path.is_dir():
        raise ValueError(f"File must be a file, not the folder {str(path)!r}")


def check_folder(path: Path) -> None:
    """Raise a ValueError before any work where a folder could not be made or written to."""
    there = next(each for each in (path, *path.absolute().parents) if os.path.lexists(each))
    if not there.is_dir():
        raise ValueError(f"Folder must be a folder, not the file {str(there)!r}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"Folder must be writable, not {str(there)!r}")
