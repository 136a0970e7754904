"""Figures in docs/figures.toml: read, looked up in JSON, compared, written."""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multitree.host.sizes import format_size

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures.toml"
SIGNIFICANT_DIGITS = 6
CHECKED_CPU_SECONDS = 5.0
"""What a command may cost that is compared by `make check-figures`."""
AGGREGATES = {"min": min, "max": max, "sum": sum, "len": len, "all": all}
Scalar = int | float | bool | str


@dataclass
class Figure:
    """A claim, where its value stands in the JSON of its command, and what that was last.

    `tolerance` is relative; a `machine` figure, such as a time, is printed and never compared.
    """

    claim: str
    key: str
    value: Scalar
    id: str = ""
    unit: str = ""
    digits: int = 3
    tolerance: float = 0.0
    machine: bool = False
    readme: bool = False

    def text(self) -> str:
        return shown(self.value, unit=self.unit, digits=self.digits)


@dataclass(frozen=True)
class Column:
    key: str
    heading: str
    unit: str = ""
    digits: int = 3
    tolerance: float = 0.0
    machine: bool = False


@dataclass(frozen=True)
class Table:
    """A table of another document: `rows` is where its rows stand in the JSON."""

    name: str
    document: str
    rows: str
    columns: list[Column]


@dataclass
class Run:
    """A command, what it costs, and the figures or the rows of a table that it prints.

    `commit` is where it last ran, of a command that is too dear to be compared at each one.
    """

    command: str
    cpu_seconds: float
    commit: str = ""
    section: str = ""
    figures: list[Figure] = field(default_factory=list)
    table: str = ""
    values: list[list[Scalar]] = field(default_factory=list)


@dataclass
class Book:
    """All of docs/figures.toml: introductions of sections, tables and runs."""

    sections: dict[str, str]
    tables: dict[str, Table]
    runs: list[Run]

    def figures(self) -> Iterator[tuple[Run, Figure]]:
        for run in self.runs:
            for figure in run.figures:
                yield run, figure


def read(path: Path = FIGURES) -> Book:
    """Read a file of figures; a ValueError that names the run if it does not hold together."""
    data = tomllib.loads(path.read_text())
    tables = {}
    for each in data.get("table", []):
        columns = [Column(**column) for column in each.pop("columns")]
        tables[each["name"]] = Table(**each, columns=columns)
    runs = []
    for each in data["run"]:
        figures = [Figure(**figure) for figure in each.pop("figures", [])]
        runs.append(Run(**each, figures=figures))
    book = Book(data["sections"], tables, runs)
    _check(book)
    return book


def _check(book: Book) -> None:
    """Raise unless names are known, and ids and claims of their own."""
    ids = [figure.id for _, figure in book.figures() if figure.id]
    claims = [(run.section, figure.claim) for run, figure in book.figures()]
    for what, names in (("Command", [run.command for run in book.runs]), ("Id", ids)):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{what} must come once in the figures, not twice: {twice[0]!r}")
    for section, claim in claims:
        if claims.count((section, claim)) > 1:
            raise ValueError(f"Claim must come once in {section!r}, not twice: {claim!r}")
    for run in book.runs:
        if run.figures and run.section not in book.sections:
            raise ValueError(f"{run.command}: section must be one of the file's, {run.section!r}")
        if run.table and run.table not in book.tables:
            raise ValueError(f"{run.command}: table must be one of the file's, not {run.table!r}")
        if not run.figures and not run.table:
            raise ValueError(f"{run.command}: must print a figure or a table")


def write(book: Book, path: Path = FIGURES) -> None:
    """Write a file of figures that `read` reads back: one line per figure and row."""
    lines = ["# Every figure of the documents, the command that prints it, and what it was last."]
    lines.append("# Values and costs are written by `python bench/figures.py --write`.")
    lines += ["", "[sections]", *(f"{_toml(k)} = {_toml(v)}" for k, v in book.sections.items())]
    for table in book.tables.values():
        lines += ["", "[[table]]"]
        lines += [f"{name} = {_toml(getattr(table, name))}" for name in ("name", "document")]
        lines += [f"rows = {_toml(table.rows)}", "columns = ["]
        lines += [f"  {_inline(column)}," for column in table.columns] + ["]"]
    for run in book.runs:
        lines += ["", "[[run]]"]
        lines += [f"section = {_toml(run.section)}"] * bool(run.section)
        lines.append(f"command = {_toml(run.command)}")
        lines.append(f"cpu_seconds = {_toml(run.cpu_seconds)}")
        lines += [f"commit = {_toml(run.commit)}"] * bool(run.commit)
        if run.figures:
            lines += ["figures = [", *(f"  {_inline(figure)}," for figure in run.figures), "]"]
        if run.table:
            lines += [f"table = {_toml(run.table)}", "values = ["]
            lines += [f"  [{', '.join(map(_toml, row))}]," for row in run.values] + ["]"]
    path.write_text("\n".join([*lines, ""]))


def _inline(thing: Figure | Column) -> str:
    """An inline table of what differs from the defaults."""
    usual = {name: each.default for name, each in type(thing).__dataclass_fields__.items()}
    pairs = [(name, value) for name, value in vars(thing).items() if value != usual[name]]
    return "{ " + ", ".join(f"{name} = {_toml(value)}" for name, value in pairs) + " }"


def _toml(value: Scalar) -> str:
    return json.dumps(value, ensure_ascii=False)


def found(data: Any, key: str) -> Scalar:
    """The value at a key of a command's JSON; a KeyError if it leads to none, or to several.

    A key is names with points between; behind a list `[2]` is an entry, `[name=value;...]` the
    entries that have these values, and `[*]` all. One that begins with one of `AGGREGATES` is of
    all values that are not null. A single null is an empty text.
    """
    aggregate, _, path = key.partition(" ")
    if aggregate not in AGGREGATES:
        aggregate, path = "", key
    values = select(data, path)
    if aggregate:
        return rounded(AGGREGATES[aggregate]([value for value in values if value is not None]))
    if len(values) != 1:
        raise KeyError(f"{key}: leads to {len(values)} values")
    return rounded(values[0])


def select(data: Any, path: str) -> list[Any]:
    """All values that a path leads to."""
    values = [data]
    for name, inside in re.findall(r"([^.\[\]]+)|\[([^\]]*)\]", path):
        if name:
            values = [value[name] for value in values if name in value]
        elif re.fullmatch(r"-?\d+", inside):
            values = [value[int(inside)] for value in values]
        else:
            conditions = [text.split("=", 1) for text in inside.split(";") if text != "*"]
            values = [
                entry
                for value in values
                for entry in value
                if all(str(entry[key]) == wanted for key, wanted in conditions)
            ]
    return values


def rounded(value: Any) -> Scalar:
    """As it is kept: six significant digits, and nothing as an empty text."""
    if value is None:
        return ""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if isinstance(value, float) else value


def agrees(now: Scalar, was: Scalar, tolerance: float) -> bool:
    """Whether a value is what it was, within a share of that."""
    numbers = all(isinstance(each, int | float) for each in (now, was))
    if numbers and tolerance:
        return abs(now - was) <= tolerance * abs(was)
    return now == was and isinstance(now, str) == isinstance(was, str)


def shown(value: Scalar, *, unit: str = "", digits: int = 3) -> str:
    """A value for people: thousands apart, sizes and shares in their units."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit == "bytes":
        return format_size(int(value))
    if unit == "%":
        return f"{100 * value:.{digits}f} %"
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"
    return text.replace(",", " ")
