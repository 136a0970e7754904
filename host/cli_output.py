"""What commands print for programs: JSON and CSV."""

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from itertools import islice
from typing import Any

__all__ = ["SCHEMA", "check_format", "command_name", "print_csv", "print_json", "print_sizes"]

SCHEMA = "multitree.{}.v1"
"""Value of the key "schema" for each command; what it means is in output.schema.json."""

command_name: ContextVar[str] = ContextVar("multitree_command")
"""The command that is running."""

_AT_ONCE = 100_000


def check_format(as_json: bool, as_csv: bool) -> None:
    """Raise before any work is done where two formats are asked for.

    Raises
    ------
    ValueError
    """
    if as_json and as_csv:
        raise ValueError("Output must be --json or --csv, not both")


def print_json(data: Mapping[str, Any]) -> None:
    """Print one object, as documented in docs/json.md; unknown is null."""
    whole = {"schema": SCHEMA.format(command_name.get()), **data}
    pieces = json.JSONEncoder(indent=2, allow_nan=False).iterencode(whole)
    while text := "".join(islice(pieces, _AT_ONCE)):
        sys.stdout.write(text)
    sys.stdout.write("\n")


def print_sizes(objects: Sequence[Mapping[str, Any]]) -> None:
    """Print the object of one size, or those of several below the key "sizes"."""
    print_json(objects[0] if len(objects) == 1 else {"sizes": [*objects]})


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows of the same keys as CSV; the first line has the keys, unknown is empty."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows([_cell(value) for value in row.values()] for row in rows)


def _cell(value: Any) -> Any:
    """A value as JSON has it, but for text, which has no quotes."""
    return value if value is None or isinstance(value, str) else json.dumps(value, allow_nan=False)
