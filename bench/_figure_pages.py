"""Pages that quote figures: docs/figures.md, other tables, single numbers."""

import re
from pathlib import Path

from _figures import CHECKED_CPU_SECONDS, ROOT, Book, Figure, Run, Table, shown

PAGE = "docs/figures.md"
README = "README.md"
BY = "written by `python bench/figures.py`"
INTRODUCTION = f"""# Figures

This page is {BY} from `docs/figures.toml`, which holds for each figure its command, where
its value stands in the command's JSON, the value, and how far it may be off.

    make check-figures    # compare what takes at most {CHECKED_CPU_SECONDS:.0f} CPU s to run again
    make figures          # run everything again, and write values and pages; MAX_COST=60 for a part

Unless said otherwise links have 16 GB/s of payload and 150 ns, flits have 16 bytes, the clock is
1 GHz, elements are float32 and memory answers within 12 cycles. Cycles count from the first rank's
start to the last rank's done. *x bound*: over the cycles that no algorithm can beat on the network.
Cycles, steps and counts are reproduced exactly. Times, marked *, are of a 2-core machine; they are
measured again and not compared. CPU s: what the command costs, its simulator being compiled.
*Taken at*: the commit at which a command last ran whose figures are not compared at each one.
"""
QUOTE = re.compile(r"((?:\d[\d .]*\d|\d)(?: %)?)(<!--=([\w-]+)-->)")
# Not the keys of the command `table`, which `docs/tables.py` writes.
BLOCK = re.compile(
    r"(<!-- (?:table: (?!written by)|figures)[^\n]*? -->\n).*?(<!-- end -->)", re.DOTALL
)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def value_of(figure: Figure) -> str:
    """A figure with its unit; an asterisk where it is of a machine."""
    unit = "" if figure.unit in ("", "%", "bytes") else f" {figure.unit}"
    return figure.text() + unit + "*" * figure.machine


def rows_of(pairs: list[tuple[Run, Figure]]) -> list[str]:
    lines = ["| what | figure | command | CPU s | taken at |", "|---|---|---|---|---|"]
    before = None
    for run, figure in pairs:
        of_run = (f"`{run.command}`", shown(run.cpu_seconds, digits=1), run.commit)
        of_run = ("the same", "", "") if run is before else of_run
        cells = (figure.claim, value_of(figure), *of_run)
        lines.append("| " + " | ".join(map(cell, cells)) + " |")
        before = run
    return lines


def page(book: Book) -> str:
    lines = [INTRODUCTION]
    for section, text in book.sections.items():
        pairs = [pair for pair in book.figures() if pair[0].section == section]
        lines += [f"## {section}", "", *([text, ""] if text else []), *rows_of(pairs), ""]
    lines += ["## Tables", "", "Rows of these tables are figures, too.", ""]
    lines += ["| table | document | command | CPU s | taken at |", "|---|---|---|---|---|"]
    for run in (run for run in book.runs if run.table):
        document = book.tables[run.table].document
        link = f"[{document}]({document.removeprefix('docs/')})"
        cost = shown(run.cpu_seconds, digits=1)
        lines.append(f"| {run.table} | {link} | `{run.command}` | {cost} | {run.commit} |")
    return "\n".join([*lines, ""])


def table_lines(table: Table, runs: list[Run]) -> list[str]:
    """A Markdown table of all rows that runs have for it."""
    lines = ["| " + " | ".join(column.heading for column in table.columns) + " |"]
    lines.append("|" + "---|" * len(table.columns))
    for values in (values for run in runs for values in run.values):
        cells = [
            shown(value, unit=column.unit, digits=column.digits)
            for column, value in zip(table.columns, values, strict=True)
        ]
        lines.append("| " + " | ".join(map(cell, cells)) + " |")
    return lines


def quoted(book: Book, text: str, document: str) -> str:
    """A document with its blocks and quotes as the figures are; a ValueError if one is unknown."""
    numbers = {figure.id: figure.text() for _, figure in book.figures() if figure.id}

    def block(match: re.Match[str]) -> str:
        kind, _, name = match[1].removeprefix("<!-- ").removesuffix(" -->\n").partition(": ")
        if kind == "figures":
            lines = rows_of([pair for pair in book.figures() if pair[1].readme])
        elif name in book.tables:
            table = book.tables[name]
            lines = table_lines(table, [run for run in book.runs if run.table == name])
        else:
            raise ValueError(f"{document}: table must be one of the figures', not {name!r}")
        return match[1] + "\n".join([*lines, ""]) + match[2]

    def number(match: re.Match[str]) -> str:
        if match[3] not in numbers:
            raise ValueError(f"{document}: figure must be one of the file's, not {match[3]!r}")
        return numbers[match[3]] + match[2]

    return QUOTE.sub(number, BLOCK.sub(block, text))


def pages(book: Book) -> dict[Path, str]:
    """Every document that quotes figures, and its text as they are."""
    texts = {ROOT / PAGE: page(book)}
    for path in [ROOT / README, *sorted((ROOT / "docs").rglob("*.md"))]:
        if path != ROOT / PAGE:
            texts[path] = quoted(book, path.read_text(), str(path.relative_to(ROOT)))
    return texts
