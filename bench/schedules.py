"""Steps per phase of MultiTree and symmetric against bound and peers, and seconds.

``python bench/schedules.py [--json] [--only SPEC,SPEC]``. Peers: the authors' simulator of
MultiTree, TACOS v1.3.0, and ForestColl, whose figure is what its throughput comes to in steps, not
a number of steps that it takes. CPU seconds are the best of 3 where there is a limit; a loop of
fixed work tells how fast the machine is. Exit status 1 if a limit is missed.
"""

import resource
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context

from _bench import Row, ended, least_cpu_seconds, options, reported, some_of, within_limits

from multitree import Topology, implicit_symmetric, parse_topology
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.checks.implicit import AnySchedule, verify_any


@dataclass(frozen=True)
class Case:
    """What MultiTree may take, what others need, and whether the network is a group."""

    limit: int | None = None
    authors: int | None = None
    tacos: int | None = None
    forestcoll: float | None = None
    tacos_cpu_seconds: float | None = None
    group: bool = True
    multitree: bool = True


TREE = {"group": False}
CASES = {
    "ring:16": Case(),
    "torus:4x4": Case(limit=5, authors=5),
    "torus:5x5": Case(),
    "torus:6x6": Case(limit=10, authors=10),
    "torus:8x8": Case(limit=17, authors=17, tacos=17, forestcoll=15.75),
    "torus:16x16": Case(tacos=65, forestcoll=63.75),
    "torus:32x32": Case(tacos=258, tacos_cpu_seconds=78.7),
    "torus:256x256": Case(multitree=False),
    "torus:4x4x4": Case(),
    "torus:8x8x8": Case(tacos=86, forestcoll=85.17, tacos_cpu_seconds=5.7),
    "hypercube:4": Case(),
    "hypercube:6": Case(tacos=11, forestcoll=10.5),
    "hypercube:8": Case(tacos=32, forestcoll=31.9),
    "hypercube:10": Case(),
    "full:8": Case(),
    "full:64": Case(),
    "mesh:4x4": Case(limit=8, authors=10, **TREE),
    "mesh:5x5": Case(authors=14, **TREE),
    "mesh:8x8": Case(limit=32, tacos=32, forestcoll=31.5, **TREE),
    "mesh:16x16": Case(tacos=128, forestcoll=127.5, **TREE),
    "mesh:32x32": Case(**TREE),
    "mesh:8x8x8": Case(**TREE),
    "fat_tree:4x4": Case(limit=15, **TREE),
    "fat_tree:8x8": Case(limit=63, **TREE),
    "bigraph:4x8": Case(limit=31, **TREE),
    "bigraph:4x16": Case(limit=63, **TREE),
    "dgx2": Case(limit=3, **TREE),
    "dgx_a100:2": Case(limit=4, **TREE),
    "dgx_a100:4x2": Case(limit=8, **TREE),
    "dgx_a100:8": Case(limit=16, **TREE),
    "dragonfly:2x1x2": Case(limit=11, **TREE),
    "dragonfly:3x1x2": Case(limit=25, **TREE),
    "dragonfly:4x2x2": Case(limit=74, **TREE),
}
BUILDERS: dict[str, Callable[[Topology], AnySchedule]] = {
    "multitree": build_multitree,
    "symmetric": implicit_symmetric,
}
CPU_LIMIT_SECONDS = {
    ("multitree", "torus:16x16"): 1.0,
    ("multitree", "torus:32x32"): 15.0,
    ("symmetric", "torus:32x32"): 0.1,
    ("symmetric", "torus:256x256"): 2.0,
}
VERIFY_LIMIT_SECONDS = 20.0
MEMORY_LIMIT_MIB = {("symmetric", "torus:256x256"): 300}


def plain_loop() -> int:
    total = 0
    for number in range(1_000_000):
        total += number * number
    return total


def measure(algorithm: str, spec: str) -> Row:
    """One row of figures, in a process of its own, whose memory is measured."""
    topology, case = parse_topology(spec), CASES[spec]
    key = (algorithm, spec)
    repeats = 3 if key in CPU_LIMIT_SECONDS else 1
    built, seconds = least_cpu_seconds(partial(BUILDERS[algorithm], topology), repeats)
    report, verify_cpu_seconds = least_cpu_seconds(partial(verify_any, built), 1)
    steps = max(built.steps_reduce_scatter, built.steps_all_gather)
    at_bound = steps == report.bound_steps and report.tree_height_hops == topology.diameter
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    within = [
        report.contention_free,
        at_bound if algorithm == "symmetric" else steps <= (case.limit or steps),
        seconds <= CPU_LIMIT_SECONDS.get(key, seconds),
        verify_cpu_seconds <= VERIFY_LIMIT_SECONDS,
        memory_mib <= MEMORY_LIMIT_MIB.get(key, memory_mib),
    ]
    peers = {name: value for name, value in asdict(case).items() if name not in BUILDERS}
    del peers["limit"], peers["group"]
    return {
        "topology": spec,
        "algorithm": algorithm,
        "num_ranks": topology.num_ranks,
        "steps_per_phase": steps,
        "bound_steps": report.bound_steps,
        "tree_height_hops": report.tree_height_hops,
        "diameter_hops": topology.diameter,
        "max_link_load": report.max_link_load,
        **{f"peer_{name}": value for name, value in peers.items()},
        "build_cpu_seconds": round(seconds, 4),
        "limit_cpu_seconds": CPU_LIMIT_SECONDS.get(key),
        "verify_cpu_seconds": round(verify_cpu_seconds, 4),
        "memory_mib": round(memory_mib),
        "within_limits": all(within),
    }


def measured(specs: list[str]) -> Iterator[Row]:
    """All rows, each of a fresh process."""
    for spec in specs:
        algorithms = ["multitree"] * CASES[spec].multitree + ["symmetric"] * CASES[spec].group
        for algorithm in algorithms:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                yield process.submit(measure, algorithm, spec).result()


COLUMNS = ("topology", "algorithm", "steps_per_phase", "bound_steps", "peer_authors", "peer_tacos")
COLUMNS += ("peer_forestcoll", "tree_height_hops", "diameter_hops", "build_cpu_seconds")
COLUMNS += ("limit_cpu_seconds", "peer_tacos_cpu_seconds", "verify_cpu_seconds", "memory_mib")


def main() -> int:
    given = options(__doc__, only=some_of(CASES))
    _, calibration = least_cpu_seconds(plain_loop)
    rows = reported(given, measured(given.only), *COLUMNS)
    said = f"A million steps of a plain loop take {calibration:.3f} CPU s here."
    found = {"calibration_cpu_seconds": calibration, "rows": rows}
    return ended(given, within_limits(rows), found, said)


if __name__ == "__main__":
    sys.exit(main())
