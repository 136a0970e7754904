"""Runs the commands of figures again, and compares or writes what they print.

``python bench/figures.py --check`` runs what takes at most `CHECKED_CPU_SECONDS` and compares; exit
status 1 where a figure or a page differs. ``--write`` runs everything, and writes values, costs and
pages; ``--max-cost SECONDS`` sets a limit for either, ``--only TEXT`` takes commands with that
text. Without either, pages are written from the figures as they are.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from _figure_pages import pages
from _figures import CHECKED_CPU_SECONDS, ROOT, Book, Run, agrees, found, read, select, write

FAR_OFF = 0.3
ROOMS = ("topology", "hw", "nic", "sim", "host", "bench")
COMPILING = "Compiling "
"""What an engine says on standard error before it compiles."""
Difference = tuple[str, str, Any, Any]
"""Command, what, and its value before and now."""


class CommandError(RuntimeError):
    """A command that did not print its figures: it failed, or has no such key."""


def printed(command: str) -> Any:
    """What a command prints as JSON; a CommandError if it fails, or prints something else."""
    return _ran(command)[0]


def _ran(command: str) -> tuple[Any, float, str]:
    """What a command prints, the CPU seconds of it and all that it started, and what it says."""
    first, *rest = shlex.split(command)
    starts = {"python": [], "multitree": ["-m", "multitree"]}
    if first not in starts:
        raise CommandError(f"{command}: must begin with {' or '.join(starts)}")
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, *starts[first], *rest],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdout=out,
            stderr=errors,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, errors):
            file.seek(0)
        text, reported = (file.read().decode(errors="replace") for file in (out, errors))
    if process.returncode:
        last = reported.strip().splitlines()[-1:] or ["no message"]
        raise CommandError(f"{command}: exit status {process.returncode}: {last[0]}")
    try:
        return json.loads(text), usage.ru_utime + usage.ru_stime, reported
    except json.JSONDecodeError as error:
        raise CommandError(f"{command}: must print JSON: {error}") from None


def measured(command: str) -> tuple[Any, float]:
    """What a command prints, and its cost without compiling: it runs twice if it compiled."""
    data, cost, reported = _ran(command)
    return _ran(command)[:2] if COMPILING in reported else (data, cost)


def head() -> str:
    """The commit that is checked out, with a plus where product files differ from it."""
    command = ["git", "-C", str(ROOT)]
    parsed = subprocess.run(
        [*command, "rev-parse", "--short=10", "HEAD"], capture_output=True, check=True, text=True
    )
    changed = subprocess.run([*command, "diff", "--quiet", "HEAD", "--", *ROOMS], check=False)
    return parsed.stdout.strip() + "+" * bool(changed.returncode)


def differences(book: Book, run: Run, data: Any, *, update: bool) -> list[Difference]:
    """What of a run is not as it was; with `update` it is from now on."""
    listed: list[Difference] = []
    try:
        for figure in run.figures:
            now = found(data, figure.key)
            if not figure.machine and not agrees(now, figure.value, figure.tolerance):
                listed.append((run.command, figure.claim, figure.value, now))
            figure.value = now if update else figure.value
        if run.table:
            listed += _table_differences(book, run, data, update=update)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise CommandError(f"{run.command}: {error}") from None
    return listed


def _table_differences(book: Book, run: Run, data: Any, *, update: bool) -> list[Difference]:
    table = book.tables[run.table]
    entries = select(data, table.rows)
    rows = [[found(entry, column.key) for column in table.columns] for entry in entries]
    listed: list[Difference] = []
    if len(rows) != len(run.values):
        listed.append((run.command, f"rows of table {table.name}", len(run.values), len(rows)))
    for was, now in zip(run.values, rows, strict=False):
        for column, old, new in zip(table.columns, was, now, strict=True):
            if not column.machine and not agrees(new, old, column.tolerance):
                name = ", ".join(str(value) for value in was[:3])
                listed.append((run.command, f"{table.name}: {name}: {column.heading}", old, new))
    if update:
        run.values = rows
    return listed


def run_again(book: Book, runs: list[Run], *, update: bool) -> tuple[list[Difference], list[str]]:
    """Run commands again: what differs, and which did not print their figures."""
    listed: list[Difference] = []
    failed = []

    def again(number: int, run: Run) -> tuple[Any, float]:
        print(f"{number} of {len(runs)}: {run.command}", file=sys.stderr, flush=True)
        return measured(run.command) if update else (printed(run.command), 0.0)

    # What is written down is measured alone; what is only compared shares the machine.
    pool = ThreadPoolExecutor(1 if update else os.cpu_count())
    running = [pool.submit(again, number, run) for number, run in enumerate(runs, start=1)]
    try:
        for run, result in zip(runs, running, strict=True):
            try:
                data, cost = result.result()
                listed += differences(book, run, data, update=update)
            except CommandError as error:
                failed.append(str(error))
                continue
            if update:
                if abs(cost - run.cpu_seconds) > FAR_OFF * run.cpu_seconds:
                    run.cpu_seconds = float(f"{cost:.2g}")
                run.commit = head() if run.cpu_seconds > CHECKED_CPU_SECONDS else ""
                write(book)
    finally:
        # Interrupted, it must not begin with the commands that are still queued.
        pool.shutdown(cancel_futures=True)
    return listed, failed


def stale(book: Book, *, update: bool) -> list[str]:
    """Documents that do not quote the figures as they are; with `update` they do from now on."""
    listed = []
    for path, text in pages(book).items():
        if not path.exists() or path.read_text() != text:
            listed.append(str(path.relative_to(ROOT)))
            if update:
                path.write_text(text)
    return listed


def show(listed: list[Difference]) -> None:
    for command, what, was, now in listed:
        print(f"{what}: was {was!r}, now {now!r}\n    {command}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--check", action="store_true", help="compare, and change nothing")
    kind.add_argument("--write", action="store_true", help="write what differs")
    parser.add_argument("--max-cost", type=float, metavar="SECONDS", help="CPU s of a command")
    parser.add_argument("--only", default="", metavar="TEXT", help="commands with this text")
    arguments = parser.parse_args()
    book, most = read(), arguments.max_cost
    if most is None:
        most = CHECKED_CPU_SECONDS if arguments.check else float("inf")
    chosen = [run for run in book.runs if arguments.only in run.command]
    runs = [run for run in chosen if run.cpu_seconds <= most]
    listed, failed = [], []
    if arguments.check or arguments.write:
        listed, failed = run_again(book, runs, update=arguments.write)
        show(listed)
        for error in failed:
            print(error)
        number = sum(len(run.figures) + len(run.values) for run in runs)
        print(
            f"{number} figures and rows of {len(runs)} commands, {len(listed)} differences; "
            f"{len(chosen) - len(runs)} commands above {most:g} CPU s not run"
        )
    documents = stale(book, update=not arguments.check)
    for document in documents:
        print(f"{document}: {'must be' if arguments.check else ''} written again")
    return int(bool(failed) or (arguments.check and bool(listed or documents)))


if __name__ == "__main__":
    sys.exit(main())
