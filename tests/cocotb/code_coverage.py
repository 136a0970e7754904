"""Lines and toggles of the interface's Verilog that the random benches reach."""

import re
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from multitree.hw.export.verilog import generate
from multitree.nic.interface import MODULE_NAME, Interface
from tests.cocotb.bins import bins
from tests.cocotb.models.environment import CONFIG
from tests.cocotb.simulators import run_bench

__all__ = ["Point", "by_module", "read_points", "run_benches", "unreached"]

BENCHES = ("bench_random", "bench_faults")
INSIDE = (
    (f"{MODULE_NAME}.core.tables.*.content", "bank_1"),
    (f"{MODULE_NAME}.core.tracker", "counts_*"),
)
"""What `bench_faults` pokes."""
BUILD_ARGS = ("--coverage-line", "--coverage-toggle")


@dataclass(frozen=True)
class Point:
    """Something that Verilator counts.

    Parameters
    ----------
    module : str
        Module, without the numbers that tell equal ones apart.
    kind : str
        "line" (a branch is one, too) or "toggle".
    what : str
        The signal of a toggle, without its bit; else the place in the text.
    count : int
        How often it was reached.
    """

    module: str
    kind: str
    what: str
    count: int


def read_points(path):
    """Points of a coverage.dat, which has one of `\\1key\\2value...` and a count on each line."""
    points = []
    for line in Path(path).read_text(errors="replace").splitlines():
        found = re.fullmatch(r"C '(.*)' (\d+)", line)
        if not found:
            continue
        fields = dict(pair.split("\2", 1) for pair in found[1].split("\1") if "\2" in pair)
        kind, _, module = fields["page"].partition("/")
        module = re.sub(r"\$\d+$", "", module.removeprefix("\\").strip())
        module = re.sub(r"_\d+(?=\.|$)", "", module)
        toggle = kind == "v_toggle"
        what = re.sub(r"\[\d+\].*|:.*", "", fields["o"]) if toggle else f"line {fields['l']}"
        points.append(Point(module, "toggle" if toggle else "line", what, int(found[2])))
    return points


def by_module(points):
    """Rows of (module, lines reached, lines, toggles reached, toggles), by module."""
    counts = defaultdict(lambda: [0, 0, 0, 0])
    for point in points:
        place = 2 * (point.kind == "toggle")
        counts[point.module][place] += point.count > 0
        counts[point.module][place + 1] += 1
    return [(module, *counts[module]) for module in sorted(counts)]


def unreached(points):
    """Rows of (points not reached, points, module, what), the most first."""
    counts = defaultdict(lambda: [0, 0])
    for point in points:
        count = counts[point.module, f"{point.kind} {point.what}".replace("line line", "line")]
        count[0] += not point.count
        count[1] += 1
    rows = [(missed, total, *key) for key, (missed, total) in counts.items() if missed]
    return sorted(rows, key=lambda row: (-row[0], row[2:]))


def _percent(reached, total):
    return f"{100 * reached / total:.1f} % of {total}" if total else "none"


def report(points, *, num_unreached=60):
    """Print a row per module, then what was reached least."""
    rows = by_module(points)
    rows.append(("all", *(sum(row[column] for row in rows) for column in range(1, 5))))
    print("| module | lines | toggles |\n|---|---|---|")
    for module, lines, all_lines, toggles, all_toggles in rows:
        print(f"| {module} | {_percent(lines, all_lines)} | {_percent(toggles, all_toggles)} |")
    print("\n| not reached | of | module | what |\n|---|---|---|---|")
    for row in unreached(points)[:num_unreached]:
        print("| " + " | ".join(map(str, row)) + " |")


def run_benches(folder, build_args=()):
    """Run the random benches in an empty folder; the functional coverage of both together."""
    run_bench(
        "verilator",
        verilog=generate(Interface(CONFIG), name=MODULE_NAME),
        top=MODULE_NAME,
        bench=BENCHES,
        folder=folder,
        build_args=build_args,
        inside=INSIDE,
    )
    functional = bins()
    for path in folder.glob("coverage*.json"):
        functional.merge(path)
    return functional


def main():
    """Build with coverage, run the benches, print both kinds of coverage."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        functional = run_benches(folder, BUILD_ARGS)
        print(functional.table())
        report(read_points(folder / "coverage.dat"))
    missing = functional.missing()
    sys.exit(f"Bins not hit: {missing}" if missing else 0)


if __name__ == "__main__":
    main()
