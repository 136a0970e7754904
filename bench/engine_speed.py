"""CPU seconds and memory of the engines that carry no data.

Each case runs in a process of its own, the best of three counts; building its schedule is not
counted, and the exact engine is compiled before. Memory is the most that a process had, the
schedule included.
``python bench/engine_speed.py --json``; one case: ``--cases exact:torus:8x8:multitree:1MiB``.
"""

import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from _bench import Row, ended, listed, options, reported

from multitree import LinkModel, build, exact, parse_topology
from multitree.host.cli.output import Working
from multitree.host.sizes import parse_size
from multitree.sim.analytic.engine import analytic
from multitree.topology.algorithms.build import build_compact

ENGINES = {"analytic": analytic, "translated": analytic, "exact": exact}
CASES = (
    *("exact:torus:8x8:multitree:32KiB", "exact:torus:8x8:multitree:1MiB"),
    *("exact:fat_tree:8x8:multitree:1MiB", "exact:torus:32x32:multitree:1MiB"),
    *("analytic:torus:8x8:multitree:1MiB", "analytic:torus:32x32:multitree:1MiB"),
    *("analytic:torus:16x16:forest:1GiB", "translated:torus:64x64:symmetric:1MiB"),
    "translated:torus:256x256:symmetric:16MiB",
)
COLUMNS = ("engine", "topology", "algorithm", "size", "cycles", "cpu_seconds", "memory_mib")


def measure(case: str) -> Row:
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


def in_a_process(case: str) -> Row:
    """The same, in a process that ends with it."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(measure, case).result()


def main() -> int:
    given = options(
        __doc__,
        cases=listed(",".join(CASES)),
        repeat={"type": int, "default": 3, "help": "runs of each, the best counts"},
    )
    # It is compiled here, so that no case has to.
    exact(build(parse_topology("ring:2"), "multitree"), 1)

    def measured() -> Iterator[Row]:
        for case in given.cases:
            with Working(case):
                runs = [in_a_process(case) for _ in range(given.repeat)]
            yield min(runs, key=lambda row: row["cpu_seconds"])

    return ended(given, True, {"rows": reported(given, measured(), *COLUMNS)})


if __name__ == "__main__":
    sys.exit(main())
