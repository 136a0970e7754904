"""Command line of the formal properties: list them, prove them, break the blocks.

python -m tests.formal.run                      every property, every parameter set
python -m tests.formal.run --list
python -m tests.formal.run link.credits --smallest
python -m tests.formal.run --mutants            every seeded fault must be caught
python -m tests.formal.run --markdown docs/formal.md
python -m tests.formal.run --json               counts, also with --list or --mutants
"""

import argparse
import json
import os
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.formal.mutants import judge
from tests.formal.properties import PROPERTIES
from tests.formal.report import markdown, sizes_of
from tests.formal.seeded.all import MUTANTS
from tests.formal.solve import ToolError, solve

__all__ = ["check", "counts", "main"]

LIMIT_SECONDS = 200
COVER_DEPTH = 60
JOBS = 2
NICENESS = 10
KEPT = Path("build", "formal")
"""Verdicts on netlists: what a change does not touch is not solved again."""


def check(
    name, index, *, covers=True, quick=False, search=None, limit_seconds=LIMIT_SECONDS, kept=None
):
    """The verdict on one property and one parameter set, and the covers that were not reached.

    The verdict's seconds are those of the covers, too. With `search` so many cycles are searched,
    whether or not the property is proved without bound otherwise.
    """
    claim = PROPERTIES[name]
    sizes = claim.sizes[index]
    bench = claim.bench(sizes)
    depth = search or (claim.quick_depth if quick else None) or claim.depth
    options = {"limit_seconds": limit_seconds, "kept": kept}
    verdict = solve(bench.netlist(), depth=depth, **options)
    unreached, seconds = [], verdict.seconds
    for cover in bench.covers if covers else ():
        found = solve(claim.bench(sizes, cover).netlist(), depth=COVER_DEPTH, **options)
        seconds += found.seconds
        if found.outcome != "refuted":
            unreached.append(cover)
    return replace(verdict, seconds=seconds), unreached


def _row(name, index, covers, search, limit_seconds, kept):
    """A line of the result table, and whether all of it holds."""
    options = {"covers": covers, "search": search, "limit_seconds": limit_seconds, "kept": kept}
    verdict, unreached = check(name, index, **options)
    holds = verdict.outcome in ("proved", "bounded") and not unreached
    result = f"{verdict.outcome} {verdict.depth or ''}".strip()
    result += f", not reached: {', '.join(unreached)}" if unreached else ""
    return (name, sizes_of(PROPERTIES[name], index), result, f"{verdict.seconds:.0f}"), holds


def _seed(mutant, limit_seconds):
    """A line of the table of seeded faults, and whether this one was caught."""
    found = judge(mutant, limit_seconds=limit_seconds)
    return (mutant.property_name, mutant.fault, found), found == "caught"


def _collect(pool, work, widths, out):
    """Print each line as soon as it and all before it are there; return them all."""
    rows, good = [], True
    for future in [pool.submit(*task) for task in work]:
        row, holds = future.result()
        good &= holds
        rows.append(row)
        cells = "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        print("ok  " if holds else "FAIL", cells, file=out, flush=True)
    return rows, good


def counts(claims, seeded, rows, mutants):
    """How many properties there are, and what was found of those that were solved."""
    results = [result for _, _, result, _ in rows]
    holds = [result for result in results if "," not in result]
    depths = [int(result.split()[1]) for result in holds if result.startswith("bounded")]
    return {
        "properties": len(claims),
        "parameter_sets": sum(len(claim.sizes) for claim in claims),
        "seeded_faults": len(seeded),
        "solved": len(results),
        "proved": holds.count("proved"),
        "bounded": len(depths),
        "least_bounded_cycles": min(depths, default=None),
        "most_bounded_cycles": max(depths, default=None),
        "seeded": len(mutants),
        "caught": sum(found == "caught" for _, _, found in mutants),
    }


def _parser():
    parser = argparse.ArgumentParser(description="formal properties of the hardware")
    parser.add_argument("names", nargs="*", help="properties; without any, all of them")
    parser.add_argument("--list", action="store_true", help="list them")
    parser.add_argument("--smallest", action="store_true", help="first parameter set only")
    parser.add_argument(
        "--search", type=int, metavar="CYCLES", help="search so many cycles instead of proving"
    )
    parser.add_argument("--no-covers", action="store_true", help="leave the covers out")
    parser.add_argument("--mutants", action="store_true", help="seed faults instead of proving")
    parser.add_argument("--limit", type=int, default=LIMIT_SECONDS, help="seconds per solver run")
    parser.add_argument("--jobs", type=int, default=JOBS, help="solvers side by side")
    parser.add_argument("--fresh", action="store_true", help="forget the verdicts kept in build/")
    parser.add_argument("--markdown", type=Path, help="prove, seed faults, write the tables")
    parser.add_argument("--json", action="store_true", help="print counts for programs")
    return parser


def main(arguments=None):
    """Run what the command line says; 0 if all of it holds, 1 if not, 2 without tools."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(PROPERTIES)
    if unknown:
        parser.error(f"property must be one of {', '.join(PROPERTIES)}, not {min(unknown)!r}")
    claims = [PROPERTIES[name] for name in options.names or PROPERTIES]
    names = {claim.name for claim in claims}
    seeded = [(_seed, m, options.limit) for m in MUTANTS if m.property_name in names]
    if options.list:
        if options.json:
            print(json.dumps(counts(claims, seeded, [], []), indent=2))
            return 0
        for claim in claims:
            print(f"{claim.name:24}{claim.claim}")
        return 0
    if options.fresh:
        shutil.rmtree(KEPT, ignore_errors=True)
    tasks = [
        (_row, claim.name, index, not options.no_covers, options.search, options.limit, KEPT)
        for claim in claims
        for index in range(1 if options.smallest else len(claim.sizes))
    ]
    out = sys.stderr if options.json else sys.stdout
    rows, mutants, good, began = [], [], True, time.monotonic()
    try:
        with ProcessPoolExecutor(options.jobs, initializer=os.nice, initargs=(NICENESS,)) as pool:
            if not options.mutants:
                rows, good = _collect(pool, tasks, (22, 58, 12, 4), out)
            if options.mutants or options.markdown:
                mutants, all_caught = _collect(pool, seeded, (22, 58, 6), out)
                good &= all_caught
    except ToolError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{time.monotonic() - began:.0f} seconds", file=out)
    if options.json:
        print(json.dumps(counts(claims, seeded, rows, mutants), indent=2))
    if options.markdown:
        options.markdown.write_text(markdown(claims, rows, mutants))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
