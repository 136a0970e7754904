"""How fast cocotb benches of a whole network run here, and what a build costs.

``python bench/cocotb_speed.py [--json] [--runs torus:4x4/icarus,torus:8x8/verilator]`` runs the
network's bench of `multitree cocotb`: two all-reduces of float32, a host and a memory in Python at
each interface, and every rank's memory compared with `execute` bit for bit. *Build* is what the
simulator's compiler takes, *run* all else: Python's start, the loading of the tables, and all
cycles. Seconds are CPU seconds of all processes; MiB are of the largest. Exit status 1 if a rank's
memory is not as defined.
"""

import argparse
import json
import resource
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from multitree.host.cli.verilog import BENCH_SIZE, Design
from multitree.host.design.names import PREFIX
from multitree.host.sizes import parse_size
from multitree.sim.cocotb.runs import RunOptions, run_benches
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build
from multitree.topology.specs import parse_topology

RUNS = "torus:4x4/icarus,torus:4x4/verilator,torus:8x8/verilator"
TEST = "collectives_give_the_bits_of_execute"
CLOCK_NS = 2


def measure(name: str, algorithm: str, size: str) -> dict[str, Any]:
    """One network on one simulator, in a process that has run nothing else."""
    spec, simulator = name.rsplit("/", 1)
    seconds: list[float] = []

    def note(text: str) -> None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(used.ru_utime + used.ru_stime)

    schedule = build(parse_topology(spec), algorithm)
    design = Design(schedule, parse_size(size), LinkModel(), "sram", PREFIX, dtypes=("float32",))
    with tempfile.TemporaryDirectory() as folder:
        design.write(Path(folder), design.benches(size), force=False)
        options = RunOptions(simulator, only=TEST)
        runs = run_benches(Path(folder, design.names.cocotb), options, say=note)
    note("")
    before, built, after = seconds
    cycles = round(sum(result.sim_time_ns for result in runs.results) / CLOCK_NS)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {
        "topology": spec,
        "simulator": simulator,
        "num_ranks": schedule.topology.num_ranks,
        "size_bytes": parse_size(size),
        "cycles": cycles,
        "run_cpu_seconds": after - built,
        "cycles_per_cpu_second": cycles / (after - built),
        "build_cpu_seconds": built - before,
        "memory_mib": most / 1024,
        "exact": all(result.passed for result in runs.results),
    }


def ratio(rows: list[dict[str, Any]]) -> float | None:
    """Speed of the last run on Verilator over that of the last run on Icarus, if both are there."""
    speeds = {row["simulator"]: row["cycles_per_cpu_second"] for row in rows}
    if len({row["topology"] for row in rows}) > 1 or len(speeds) < 2:
        return None
    return float(speeds["verilator"] / speeds["icarus"])


def show(rows: list[dict[str, Any]]) -> None:
    """Print a row per run."""
    columns = ("network", "on", "cycles", "run, s", "cycles/s", "build, s", "MiB", "exact")
    table = Table(*columns, box=None, header_style="")
    for row in rows:
        table.add_row(
            *(row["topology"], row["simulator"], f"{row['cycles']:,}"),
            *(f"{row['run_cpu_seconds']:.1f}", f"{row['cycles_per_cpu_second']:.0f}"),
            *(f"{row['build_cpu_seconds']:.1f}", f"{row['memory_mib']:.0f}"),
            "yes" if row["exact"] else "NO",
        )
    Console().print(table)


def main() -> int:
    """Measure all runs; exit status 1 unless every memory is as defined."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default=RUNS, metavar="NETWORK/SIMULATOR,...")
    parser.add_argument("--algorithm", default="multitree")
    parser.add_argument("--size", default=BENCH_SIZE, help="buffer of a rank")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    # Each in a new process, whose children's seconds and memory are of that run alone.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for name in arguments.runs.split(","):
            rows.append(pool.submit(measure, name, arguments.algorithm, arguments.size).result())
    good = all(row["exact"] for row in rows)
    if arguments.json:
        print(json.dumps({"good": good, "verilator_over_icarus": ratio(rows), "rows": rows}))
    else:
        show(rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
