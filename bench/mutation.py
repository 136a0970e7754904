"""Mutation: one place of the code changed at a time, which a test has to notice.

Draws mutants of the rooms from a seed, each of another line, and runs the tests of the room that
import the mutated module, the nearest first, until one fails or the time for them is full. What
no test noticed must stand, with a reason, in `mutation_equivalents.toml`. Exit status 1 if a
mutant survives unexplained:
``python bench/mutation.py --count 305``; a single mutant again: ``--only NAME``.
"""

import argparse
import ast
import json
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from _mutant_run import PASSED, TIMED_OUT, Copy
from _mutant_tests import tests_of
from _mutants import Mutant, mutants_of, sample

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENTS = Path(__file__).with_name("mutation_equivalents.toml")
ROOMS = ("topology", "nic", "hw", "sim", "host/tensors", "host/torch")
FILES = ("*.py", "exact/*.h", "exact/*.cpp")
# Whose tests are made of the modules that there are.
OF_ALL_MODULES = ("tests/test_house.py", "tests/test_doctests.py")
UNCOMPILED = "failed while compiling the network"
OUTCOMES = ("killed", "timed out", "equivalent", "survived")
ROW = "{:<10}" + 6 * " {:>10}"
EVERY_SECOND, STARTING_SECONDS = 36_000, 15


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    mutants = list(_every_mutant(options.rooms))
    explained = _explained(mutants, options.rooms)
    drawn = sample(mutants, options.count, options.seed)
    if options.only:
        drawn = [mutant for mutant in mutants if mutant.name in options.only]
    print(f"seed {options.seed}: {len(drawn)} of {len(mutants)} mutants", file=sys.stderr)
    runs = _Runs(Path(options.results))
    unexplained = [mutant for mutant in drawn if mutant.key not in explained]
    left = drawn if options.only else runs.left(unexplained, again=options.again)
    copies = [Copy(ROOT, _chosen(options)) for _ in range(min(options.jobs, len(left)))]
    _run_all(left, runs, copies, options)
    rows = list(_judged(drawn, runs, explained))
    _print(rows, options.json)
    return int(any(row["outcome"] in ("survived", "not run") for row in rows))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rooms", type=lambda text: text.split(","), default=list(ROOMS))
    parser.add_argument("--count", type=int, default=305, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants, run again")
    parser.add_argument(
        "--tests", nargs="+", metavar="TEST", default=[], help="of these tests only, long ones too"
    )
    parser.add_argument(
        "--again", action="store_true", help="run again what survived, with slow tests and all sets"
    )
    parser.add_argument(
        "--seconds", type=float, default=25, help="of tests for each mutant, of a processor"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", default=str(ROOT / "build" / "mutation.jsonl"))
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def _every_mutant(rooms: Sequence[str]) -> Iterator[Mutant]:
    for room in rooms:
        for path in sorted(path for kind in FILES for path in (ROOT / room).rglob(kind)):
            yield from mutants_of(str(path.relative_to(ROOT)), path.read_bytes())


def _explained(
    mutants: Sequence[Mutant], rooms: Sequence[str] = ROOMS
) -> dict[tuple[Any, ...], str]:
    """The reason why each known equivalent mutant is one; an error if there is no such mutant."""
    listed = tomllib.loads(EQUIVALENTS.read_text())["equivalent"]
    fields = ("module", "function", "old", "new", "nth")
    reasons = {
        tuple((each | {"nth": each.get("nth", 1)})[field] for field in fields): each["reason"]
        for each in listed
    }
    for key in reasons.keys() - {mutant.key for mutant in mutants}:
        if key[0].startswith(tuple(f"{room}/" for room in rooms)):
            raise SystemExit(f"{EQUIVALENTS.name}: no mutant is {key}")
    return reasons


class _Runs:
    """What became of mutants, in a file that grows line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.results: dict[tuple[Any, ...], dict[str, Any]] = {}
        if path.is_file():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self.results[tuple(row["mutant"])] = row

    def add(self, mutant: Mutant, row: dict[str, Any]) -> None:
        self.results[mutant.key] = row
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps({"mutant": mutant.key} | row) + "\n")

    def left(self, drawn: Sequence[Mutant], *, again: bool) -> list[Mutant]:
        """Those without a result, and what survived if that is to be run again."""
        kept = {"killed", "timed out"} if again else {*OUTCOMES}
        left = [m for m in drawn if self.results.get(m.key, {}).get("outcome") not in kept]
        # In no order of rooms, so that what is done so far speaks for all.
        return sorted(left, key=lambda mutant: mutant.name)


def _chosen(options: argparse.Namespace) -> Sequence[str]:
    """Options of pytest: named tests all run; else the cheap ones of five sets, or all but long."""
    if options.tests:
        return ()
    return ("-m", "not long") if options.again else ("--sets", "5", "-m", "not slow")


def _run_all(
    mutants: Sequence[Mutant], runs: _Runs, every: Sequence[Copy], options: argparse.Namespace
) -> None:
    copies: SimpleQueue[Copy] = SimpleQueue()
    for copy in every:
        copies.put(copy)

    def run(mutant: Mutant) -> str:
        copy = copies.get()
        try:
            row = _run_one(mutant, copy, options)
        finally:
            copies.put(copy)
        runs.add(mutant, row)
        return f"{mutant.name} {mutant.module}:{mutant.line} {row['outcome']} {row['by']}"

    try:
        with ThreadPoolExecutor(max(len(every), 1)) as pool:
            for number, text in enumerate(pool.map(run, mutants), 1):
                print(f"{number} of {len(mutants)}: {text}", file=sys.stderr, flush=True)
        if every:
            _check_unchanged(every[0], [runs.results[mutant.key] for mutant in mutants])
    finally:
        for copy in every:
            copy.close()


def _run_one(mutant: Mutant, copy: Copy, options: argparse.Namespace) -> dict[str, Any]:
    tests = [*(options.tests or tests_of(copy.folder, mutant.module))]
    if options.again:
        tests += [test for test in OF_ALL_MODULES if (copy.folder / test).is_file()]
    content = mutant.applied((copy.folder / mutant.module).read_bytes())
    is_python = mutant.module.endswith(".py")
    if is_python:
        ast.parse(content)
    outcome, last = PASSED, ""
    if tests:
        each = [[test] for test in tests]
        outcome, last = copy.test(each, options.seconds, mutant.module, content)
    if not (is_python or outcome == PASSED) and UNCOMPILED in copy.output.read_text():
        raise SystemExit(f"{mutant.name} must compile: {mutant.new}")
    if outcome == PASSED:
        files = [test.split("::")[0] for test in tests]
        begun = files[: files.index(last.split("::")[0]) + 1] if last else []
        return {"outcome": "survived", "by": "", "tests": begun}
    return {"outcome": TIMED_OUT if outcome == TIMED_OUT else "killed", "by": last or tests[0]}


def _check_unchanged(copy: Copy, rows: Sequence[dict[str, Any]]) -> None:
    """What noticed a mutant passes without it; else it says nothing about the mutant."""
    tests = {row["by"]: row["outcome"] == TIMED_OUT for row in rows if row["by"]}
    failed = defaultdict(list)
    for test, stuck in sorted(tests.items()):
        failed[test.split("::")[0]] += [] if stuck else [test]
    alone = ([[test]] for test, stuck in sorted(tests.items()) if stuck)
    for groups, seconds in [
        *((one, STARTING_SECONDS) for one in alone),
        (failed.values(), EVERY_SECOND),
    ]:
        outcome, last = copy.test([*filter(None, groups)], seconds)
        if outcome != PASSED:
            print(copy.output.read_text(), file=sys.stderr)
            raise SystemExit(f"{last} must pass on the unchanged code, where it {outcome}")


def _judged(
    drawn: Sequence[Mutant], runs: _Runs, explained: dict[tuple[Any, ...], str]
) -> Iterator[dict[str, Any]]:
    for mutant in drawn:
        row = runs.results.get(mutant.key, {"outcome": "not run", "by": ""})
        reason = explained.get(mutant.key, "")
        outcome = (
            "equivalent" if reason and row["outcome"] in ("survived", "not run") else row["outcome"]
        )
        place = {"name": mutant.name, "module": mutant.module, "line": mutant.line}
        text = {"function": mutant.function, "old": mutant.old, "new": mutant.new}
        yield place | text | {"outcome": outcome, "reason": reason, "by": row["by"]}


def _rooms(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """How many mutants of each room, and of all, came to which end."""
    for room in [*sorted({row["module"].split("/")[0] for row in rows}), "all"]:
        of_room = [row for row in rows if room in ("all", row["module"].split("/")[0])]
        counts = Counter(row["outcome"] for row in of_room)
        ends = {name.replace(" ", "_"): counts[name] for name in (*OUTCOMES, "not run")}
        yield {"room": room, "mutants": len(of_room)} | ends


def _print(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"rooms": list(_rooms(rows)), "mutants": rows}, indent=2))
        return
    print(ROW.format("room", "mutants", *OUTCOMES, "not run"))
    for counts in _rooms(rows):
        print(ROW.format(*counts.values()))
    for row in rows:
        if row["outcome"] == "survived":
            print(f"\n{row['name']} {row['module']}:{row['line']} in {row['function'] or 'module'}")
            print(f"  - {row['old']}\n  + {row['new']}")


if __name__ == "__main__":
    sys.exit(main())
