"""What measurements share: options, rows for people, JSON, an exit status."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from multitree.host.sizes import format_size, parse_size

Row = dict[str, Any]
HEADINGS = (("ratio_to_", "x "), ("num_", ""), ("_bytes", ""), ("cpu_seconds", "CPU s"), ("_", " "))
TEXT_WIDTH, NUMBER_WIDTH = 20, 7


def options(description: str | None, /, **named: Any) -> argparse.Namespace:
    """Options of the command line, each by its default or by what argparse takes; and `--json`."""
    parser = argparse.ArgumentParser(description=description)
    for name, given in named.items():
        how = given if isinstance(given, dict) else {"type": type(given), "default": given}
        parser.add_argument(f"--{name.replace('_', '-')}", **how)
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    return parser.parse_args()


def refuse(reason: str) -> NoReturn:
    """End as options do that cannot be had: a sentence, and status 2."""
    print(f"error: {reason}", file=sys.stderr)
    sys.exit(2)


def listed(
    default: str, read: Callable[[str], Any] = str, about: str = "commas between"
) -> dict[str, Any]:
    """An option of values with commas between; "none" are none."""

    def values(text: str) -> list[Any]:
        try:
            return [read(each) for each in text.split(",") if each != "none"]
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return {"type": values, "default": default, "help": about}


def sizes(default: str) -> dict[str, Any]:
    """An option of sizes of one rank's buffer."""
    return listed(default, parse_size, "of one rank's buffer, commas between; or none")


def some_of(names: Iterable[str], separator: str = ",") -> dict[str, Any]:
    """An option of some of the names of topologies, by default all."""
    known = list(names)

    def values(text: str) -> list[str]:
        found = text.split(separator)
        if unknown := set(found) - set(known):
            rule = f"topology must be one of {f'{separator} '.join(known)}"
            raise argparse.ArgumentTypeError(f"{rule}, not {min(unknown)!r}")
        return found

    return {"type": values, "default": known, "help": f"topologies, with {separator!r} between"}


def reported(given: argparse.Namespace, rows: Iterable[Row], *columns: str) -> list[Row]:
    """All rows; without `--json`, these columns of each, or all, are printed as it comes."""
    found: list[Row] = []
    for row in rows:
        columns = columns or tuple(row)
        if not given.json:
            if not found:
                print(line_of([heading(key) for key in columns], row, columns))
            print(line_of([cell(key, row[key]) for key in columns], row, columns), flush=True)
        found.append(row)
    return found


def line_of(cells: Sequence[str], row: Row, columns: Sequence[str]) -> str:
    """A line of a table: texts to the left, all else to the right."""
    placed = []
    for key, text in zip(columns, cells, strict=True):
        is_text = isinstance(row[key], str)
        width = max(TEXT_WIDTH if is_text else NUMBER_WIDTH, len(heading(key)))
        placed.append(text.ljust(width) if is_text else text.rjust(width))
    return "  ".join(placed).rstrip()


def heading(key: str) -> str:
    for before, after in HEADINGS:
        key = key.replace(before, after)
    return key


def cell(key: str, value: Any) -> str:
    """A value of a column for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if key == "size_bytes":
        return format_size(value)
    if key.endswith("_share"):
        return f"{100 * value:.1f} %"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, list):
        return " ".join(cell(key, each) for each in value)
    return f"{value:,}" if key == "emulated_cycles" else str(value)


def ended(given: argparse.Namespace, good: bool, data: Any, *said: str) -> int:
    """The exit status, after JSON for programs or sentences for people."""
    for text in [json.dumps(data, indent=2)] if given.json else said:
        print(text)
    return int(not good)


def all_exact(rows: Iterable[Row]) -> bool:
    return all(row["exact"] for row in rows)


def within_limits(rows: Iterable[Row]) -> bool:
    """Whether all rows are within their limits; stderr names the others."""
    missed = [f"{row['topology']} {[*row.values()][1]}" for row in rows if not row["within_limits"]]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return not missed


def least_cpu_seconds(run: Callable[[], Any], repeats: int = 3) -> tuple[Any, float]:
    """What is returned, and the CPU seconds of the fastest of some runs."""
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        found = run()
        seconds.append(time.process_time() - begin)
    return found, min(seconds)
