"""Keys of reports: one table for --json, CSV, the JSON Schema and docs/json.md.

`report_keys.csv` has a row per key: the object that has it, its type and its meaning. Rows without
an object are keys that several objects share; these name them without a type, a meaning or both.
An object that a command prints begins with the key schema, whose type is its version.
"""

import csv
import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

__all__ = ["Key", "key_table", "keys_of", "record", "write_csv"]

TABLE = Path(__file__).with_suffix(".csv")


class Key(NamedTuple):
    """A key of an object: its type in the table's notation, and its meaning in Markdown."""

    name: str
    type: str
    meaning: str
    shared: bool  # with the meaning that it has in other objects, too


@functools.cache
def key_table() -> dict[str, dict[str, Key]]:
    """Keys by object, in the table's order; the object without a name has the shared keys."""
    found: dict[str, dict[str, Key]] = {"": {}}
    with TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            keys = found.setdefault(row["object"], {})
            for name in row["key"].split():
                common = found[""].get(name, Key(name, "", "", False))
                kind, meaning = row["type"] or common.type, row["meaning"] or common.meaning
                keys[name] = Key(name, kind, meaning, name in found[""] and not row["meaning"])
    return found


def keys_of(name: str) -> tuple[str, ...]:
    """Names of an object's keys, which are columns of CSV, too."""
    return tuple(key_table()[name])


def record(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an object in the table's order; a KeyError names keys that differ from it."""
    keys = keys_of(name)
    if wrong := set(keys) ^ set(values):
        raise KeyError(f"{name}: keys must be those of {TABLE.name}, but {sorted(wrong)} differ")
    return {key: values[key] for key in keys}


def write_csv(columns: Iterable[str], rows: Iterable[Mapping[str, Any]], file: TextIO) -> None:
    """Write rows, whose keys are the columns in this order, below a line with their names.

    Floats have the fewest digits that give them back, truth values are as in JSON, None is empty.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row.values()] for row in rows)


def _cell(value: Any) -> Any:
    """A value as JSON has it, but for text, which has no quotes."""
    return value if value is None or isinstance(value, str) else json.dumps(value, allow_nan=False)
