"""Rows of values as CSV, the same bytes for the same values."""

import csv
import json
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

__all__ = ["write_csv"]


def write_csv(columns: Iterable[str], rows: Iterable[Mapping[str, Any]], file: TextIO) -> None:
    """Write rows as CSV behind a line with the names of the columns.

    Parameters
    ----------
    columns : iterable of str
    rows : iterable of mappings
        With the columns as keys, in this order. Floats are written in the fewest digits that give
        them back, truth values as JSON has them, None as nothing.
    file : text file
        Lines end with a line feed.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row.values()] for row in rows)


def _cell(value: Any) -> Any:
    """A value as JSON has it, but for text, which has no quotes."""
    return value if value is None or isinstance(value, str) else json.dumps(value, allow_nan=False)
