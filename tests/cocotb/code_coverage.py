"""Lines and toggles of the interface's Verilog that the random benches reach."""

import sys
import tempfile
from pathlib import Path

from multitree.nic.driver.config import MODULE_NAME
from multitree.sim.emulator.library import interface_verilog
from multitree.sim.emulator.verilator import verilator_home
from tests.cocotb.bins import bins
from tests.cocotb.coverage_exclusions import read_exclusions, settle
from tests.cocotb.coverage_netlist import Netlist
from tests.cocotb.coverage_points import by_module, read_points, share, unreached
from tests.cocotb.models.environment import CONFIG
from tests.cocotb.simulators import run_bench

__all__ = ["LEAST", "count_toggles_right", "judge", "measured"]

BENCHES = ("bench_random", "bench_faults", "bench_edges")
INSIDE = (
    (f"{MODULE_NAME}.core.tables.*.content", "bank_1"),
    (f"{MODULE_NAME}.core.tracker", "counts_*"),
    (f"{MODULE_NAME}.core.counters_*", "counts__*"),
    (f"{MODULE_NAME}.core.control*", "cycles"),
)
"""What `bench_faults` and `bench_edges` poke."""
BUILD_ARGS = ("--coverage-line", "--coverage-toggle")
LEAST = {"line": 98.0, "toggle": 94.0}
"""Per cent of the points of each kind, but for those that are excluded."""
HEADER = "verilated_cov.h"
WRONG_LOOP = "j < width - i * VL_EDATASIZE;"
RIGHT_LOOP = f"j < VL_EDATASIZE && {WRONG_LOOP}"


def count_toggles_right(text):
    """Verilator's header as text, but so that a toggle of a wide signal counts for its own bit.

    The loop over the bits of a word ends at the end of the signal: they count again as those of
    all words above.
    """
    return text.replace(WRONG_LOOP, RIGHT_LOOP)


def measured(folder, exclusions):
    """Bins, points, and what is left of these, of the random benches run in an empty folder."""
    # The CRC as it is emulated: the sums that it is built of are no control.
    verilog = interface_verilog(CONFIG)
    build = folder / "build"
    build.mkdir()
    # What is beside the generated files is included first.
    header = (verilator_home() / "include" / HEADER).read_text()
    (build / HEADER).write_text(count_toggles_right(header))
    options = {"build_args": BUILD_ARGS, "inside": INSIDE}
    run_bench("verilator", verilog, folder, top=MODULE_NAME, bench=BENCHES, **options)
    functional = bins()
    for path in folder.glob("coverage*.json"):
        functional.merge(path)
    points = read_points(folder / "coverage.dat", verilog)
    return functional, points, settle(points, exclusions, Netlist(verilog, MODULE_NAME))


def judge(functional, settled):
    """What is wrong: bins that were not hit, figures below the least, exclusions that are wrong."""
    errors = [f"Bin not hit: {name}" for name in functional.missing()]
    for kind, least in LEAST.items():
        reached = share(settled.counted, kind)
        if reached < least:
            errors.append(f"Coverage of {kind}s is {reached:.2f} %, not {least} %")
    return errors + settled.errors


def _percent(reached, total):
    return f"{100 * reached / total:.1f} % of {total}" if total else "none"


def _cells(points):
    """Lines and toggles by module, in words, and of all modules together."""
    rows = by_module(points)
    rows.append(("all", *(sum(row[column] for row in rows) for column in range(1, 5))))
    return {row[0]: (_percent(*row[1:3]), _percent(*row[3:5])) for row in rows}


def report(points, exclusions, settled):
    """Print a row per module, with and without exclusions; then those, and what was not reached."""
    every, counted = _cells(points), _cells(settled.counted)
    print("| module | lines | toggles | lines, some excluded | toggles, some excluded |")
    print("|---|---|---|---|---|")
    for module, cells in every.items():
        print(f"| {module} | " + " | ".join(cells + counted.get(module, ("none",) * 2)) + " |")
    print(f"\n{len(points) - len(settled.counted)} points are excluded:\n")
    print("| points | excluded |\n|---|---|")
    print(f"| {settled.num_constant} | bits that are constant in the netlist |")
    for exclusion, number in zip(exclusions, settled.named, strict=True):
        print(f"| {number} | {exclusion}: {exclusion.reason} |")
    print(f"| {settled.num_following} | what follows from these in the netlist |")
    print("\n| not reached | of | module | what |\n|---|---|---|---|")
    for row in unreached(settled.counted):
        print("| " + " | ".join(map(str, row)) + " |")


def main():
    """Build with coverage, run the benches, print both kinds of coverage, hold the least."""
    exclusions = read_exclusions()
    with tempfile.TemporaryDirectory() as name:
        functional, points, settled = measured(Path(name), exclusions)
    print(functional.table())
    report(points, exclusions, settled)
    sys.exit("\n".join(judge(functional, settled)) or 0)


if __name__ == "__main__":
    main()
