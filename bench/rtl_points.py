"""Writes points that were run in RTL, with their cycles, for figures.

The file is host/evaluation/rtl_points.csv. Its rows come from the table of baselines in
docs/figures.toml, whose runs are exact in RTL and are checked with the other figures:
``python bench/rtl_points.py [--check]``. With ``--check`` nothing is written, and the exit status
is 1 where the file would differ.
"""

import argparse
import io
import sys
from typing import Any

from _figures import Book, read

from multitree.host.evaluation.schemes import RTL_POINTS
from multitree.host.report_keys import write_csv

COLUMNS = ("topology", "algorithm", "dependency", "flow_control", "size_bytes", "cycles")
TABLE = "baselines"


def rows_of(book: Book) -> list[dict[str, Any]]:
    headings = [column.key for column in book.tables[TABLE].columns]
    found = []
    for run in book.runs:
        for values in run.values if run.table == TABLE else ():
            row = dict(zip(headings, values, strict=True))
            modes = {"dependency": "chunk", "flow_control": "message"}
            found.append({key: (row | modes)[key] for key in COLUMNS})
    return found


def text_of(rows: list[dict[str, Any]]) -> str:
    file = io.StringIO()
    write_csv(COLUMNS, rows, file)
    return file.getvalue()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    arguments = parser.parse_args()
    text = text_of(rows_of(read()))
    same = RTL_POINTS.exists() and RTL_POINTS.read_text() == text
    if not arguments.check:
        RTL_POINTS.write_text(text)
    if not same:
        print(f"{RTL_POINTS.name}: {'differs' if arguments.check else 'written'}")
    return int(arguments.check and not same)


if __name__ == "__main__":
    sys.exit(main())
