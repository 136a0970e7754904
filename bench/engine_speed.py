"""CPU seconds and memory of the engines that carry no data.

Each case runs in a process of its own, the best of three counts; building its schedule is not
counted, and the exact engine is compiled before. Memory is the most that a process had, the
schedule included.
``python bench/engine_speed.py --json``; one case: ``--cases exact:torus:8x8:multitree:1MiB``.
"""

import argparse
import json
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from multitree.host.cli.output import Working
from multitree.host.sizes import parse_size
from multitree.sim.analytic.engine import analytic
from multitree.sim.exact.engine import exact
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build, build_compact
from multitree.topology.specs import parse_topology

ENGINES = {"analytic": analytic, "translated": analytic, "exact": exact}
CASES = (
    "exact:torus:8x8:multitree:32KiB",
    "exact:torus:8x8:multitree:1MiB",
    "exact:fat_tree:8x8:multitree:1MiB",
    "exact:torus:32x32:multitree:1MiB",
    "analytic:torus:8x8:multitree:1MiB",
    "analytic:torus:32x32:multitree:1MiB",
    "analytic:torus:16x16:forest:1GiB",
    "translated:torus:64x64:symmetric:1MiB",
    "translated:torus:256x256:symmetric:16MiB",
)
ROW = "{:<9} {:<14} {:<12} {:>8} {:>9} {:>12} {:>8}"


def measure(case: str) -> dict[str, Any]:
    """CPU seconds and memory of one case, once."""
    engine, *spec, algorithm, size = case.split(":")
    topology, model = parse_topology(":".join(spec)), LinkModel()
    num_flits = model.num_flits(parse_size(size), 1)
    builder = build_compact if engine == "translated" else build
    schedule = builder(topology, algorithm, cost_model=model.cost_model(topology, num_flits))
    begin = time.process_time()
    trace = ENGINES[engine](schedule, num_flits, model)  # type: ignore[operator]
    cpu_seconds = time.process_time() - begin
    return {
        "case": case,
        "engine": engine,
        "topology": topology.name,
        "algorithm": algorithm,
        "size": size,
        "cycles": trace.cycles,
        "cpu_seconds": cpu_seconds,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def in_a_process(case: str) -> dict[str, Any]:
    """The same, in a process that ends with it."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(measure, case).result()


def main() -> int:
    """Measure all cases, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES), help="with commas between")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, the best counts")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # It is compiled here, so that no case has to.
    exact(build(parse_topology("ring:2"), "multitree"), 1)
    rows = []
    for case in arguments.cases.split(","):
        with Working(case):
            runs = [in_a_process(case) for _ in range(arguments.repeat)]
        rows.append(min(runs, key=lambda row: row["cpu_seconds"]))
    if arguments.json:
        print(json.dumps({"rows": rows}, indent=2))
        return 0
    names = ("engine", "topology", "algorithm", "size", "cycles")
    print(ROW.format(*names, "CPU s", "MiB"))
    for row in rows:
        cells = [row[name] for name in names]
        print(ROW.format(*cells, f"{row['cpu_seconds']:.3f}", f"{row['memory_mib']:.0f}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
