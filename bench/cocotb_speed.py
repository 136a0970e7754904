"""How fast cocotb benches of a whole network run here, and what a build costs.

``python bench/cocotb_speed.py [--json] [--runs torus:4x4/icarus,torus:8x8/verilator]`` runs the
network's bench of `multitree cocotb`: two all-reduces of float32, a host and a memory in Python at
each interface, and every rank's memory compared with `execute` bit for bit. *Build* is what the
simulator's compiler takes, *run* all else: Python's start, the loading of the tables, and all
cycles. Seconds are CPU seconds of all processes; MiB are of the largest. Exit status 1 if a rank's
memory is not as defined.
"""

import resource
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from _bench import Row, all_exact, ended, listed, options, reported

from multitree import LinkModel, build, parse_topology
from multitree.host.cli.verilog import BENCH_SIZE, Design
from multitree.host.design.names import PREFIX
from multitree.host.sizes import parse_size
from multitree.sim.cocotb.runs import RunOptions, run_benches

RUNS = "torus:4x4/icarus,torus:4x4/verilator,torus:8x8/verilator"
TEST = "collectives_give_the_bits_of_execute"
CLOCK_NS = 2


def measure(name: str, algorithm: str, size: str) -> Row:
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


def ratio(rows: list[Row]) -> float | None:
    """Speed of the last run on Verilator over that of the last run on Icarus, if both are there."""
    speeds = {row["simulator"]: row["cycles_per_cpu_second"] for row in rows}
    if len({row["topology"] for row in rows}) > 1 or len(speeds) < 2:
        return None
    return float(speeds["verilator"] / speeds["icarus"])


def main() -> int:
    given = options(
        __doc__,
        runs=listed(RUNS, about="NETWORK/SIMULATOR, commas between"),
        algorithm="multitree",
        size={"default": BENCH_SIZE, "help": "buffer of a rank"},
    )

    def measured() -> Iterator[Row]:
        # Each in a new process, whose children's seconds and memory are of that run alone.
        with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
            for name in given.runs:
                yield pool.submit(measure, name, given.algorithm, given.size).result()

    columns = ("topology", "simulator", "cycles", "run_cpu_seconds", "cycles_per_cpu_second")
    columns += ("build_cpu_seconds", "memory_mib", "exact")
    rows = reported(given, measured(), *columns)
    good = all_exact(rows)
    return ended(given, good, {"good": good, "verilator_over_icarus": ratio(rows), "rows": rows})


if __name__ == "__main__":
    sys.exit(main())
