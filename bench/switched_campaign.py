"""Networks with switches: every result exact, and the share that was staged.

Each run draws an algorithm, link and memory latencies, and five collectives of random kind, root,
length, type and op, and starts its ranks up to 10 000 cycles apart; no barrier separates the
collectives, and all-reduces, broadcasts and reduces follow each other. Exit status 1 unless all
results equal `execute` bit for bit: ``python bench/switched_campaign.py --runs 500``; one run
again: ``--only SEED``.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from _staging import num_staged

from multitree.host.simulator import make_buffers
from multitree.nic.faults import DeviceError
from multitree.sim.link_model import LinkModel
from multitree.sim.memory_timing import MemoryTiming
from multitree.sim.rtl import RtlSession, Upcoming
from multitree.topology.builders import build
from multitree.topology.execute import execute
from multitree.topology.families import parse_topology
from multitree.topology.schedule import Op, Schedule

ALGORITHMS = ("multitree", "ring", "double_tree", "halving_doubling")
NETWORKS = {
    "fat_tree:2x2": ALGORITHMS,
    "kary_tree:2x3": ALGORITHMS,
    "bigraph:2x4": (*ALGORITHMS, "hdrm"),
    "fat_tree:3x3": ALGORITHMS,
    "kary_tree:3x2": ALGORITHMS,
    "bigraph:4x8": (*ALGORITHMS, "hdrm"),
    "fat_tree:4x4": ALGORITHMS,
    "dgx2": ALGORITHMS,
}
NUM_COLLECTIVES = 5
MAX_SKEW_CYCLES = 10_000
MAX_ELEMENTS = 1500
MAX_LATENCY_NS = 60
SIZES = {"num_rows": 64, "num_flows": 32, "num_classes": 2, "max_children": 32}
ROW = "{:<14} {:>5} {:>6} {:>6} {:>6} {:>14} {:>7} {:>12} {:>8}"


@dataclass(frozen=True)
class Outcome:
    """What became of a run: `text` says what went wrong, `staged` of `added` contributions."""

    seed: int
    spec: str
    exact: bool
    text: str = ""
    added: int = 0
    staged: int = 0
    cycles: int = 0
    cpu_seconds: float = 0.0


@cache
def schedule_of(spec: str, algorithm: str, latency_ns: int, collective: str, root: int) -> Schedule:
    """A collective's schedule; its root matters where it has one."""
    topology = parse_topology(spec)
    near = replace(topology, latency_ns=np.full(topology.num_links, float(latency_ns)))
    return build(near, algorithm, collective, None if collective == "all_reduce" else root)


def draw(seed: int) -> tuple[str, list[Upcoming], MemoryTiming, list[int]]:
    """Network, collectives, memory and starts of a run."""
    rng = np.random.default_rng(seed)
    spec = list(NETWORKS)[seed % len(NETWORKS)]
    algorithm, latency_ns = str(rng.choice(NETWORKS[spec])), int(rng.integers(3, MAX_LATENCY_NS))
    num_ranks = parse_topology(spec).num_ranks
    queue = []
    for _ in range(NUM_COLLECTIVES):
        collective = str(rng.choice(["all_reduce", "broadcast", "reduce"]))
        root, n = int(rng.integers(num_ranks)), int(rng.integers(1, MAX_ELEMENTS))
        schedule = schedule_of(spec, algorithm, latency_ns, collective, root)
        dtype, op = str(rng.choice(["float32", "int32"])), str(rng.choice(["sum", "max"]))
        queue.append(Upcoming(schedule, n, dtype, op))
    timing = MemoryTiming(
        extra_cycles=int(rng.integers(1, 60)), stall_percent=int(rng.integers(0, 50)), seed=seed
    )
    most = int(rng.integers(MAX_SKEW_CYCLES + 1))
    return spec, queue, timing, rng.integers(most + 1, size=num_ranks).tolist()


def run_once(seed: int) -> Outcome:
    """Run one seed to its end."""
    spec, queue, timing, skews = draw(seed)
    topology, begin = queue[0].schedule.topology, time.process_time()
    model = LinkModel(buffer_flits=64)
    buffers = [
        make_buffers(seed * NUM_COLLECTIVES + k, len(skews), each.num_elements, each.dtype)
        for k, each in enumerate(queue)
    ]
    options: dict[str, Any] = {"link_model": model, "memory_timing": timing, "num_threads": 1}
    with RtlSession(topology, **options, **SIZES) as session:
        try:
            results = session.run_each(queue, buffers, start_skew_cycles=skews)
            staged = num_staged(session)
        except DeviceError as error:
            return Outcome(seed, spec, False, f"stuck: {error}")
        cycles = session.network.cycle
    wrong = [
        k
        for k, (each, buffer, (memory, _)) in enumerate(zip(queue, buffers, results, strict=True))
        if memory.tobytes() != execute(each.schedule, buffer, op=each.op).tobytes()
    ]
    return Outcome(
        seed,
        spec,
        not wrong,
        f"wrong results of collectives {wrong}" if wrong else "",
        sum(contributions(each, model) for each in queue),
        staged,
        cycles,
        time.process_time() - begin,
    )


def contributions(each: Upcoming, model: LinkModel) -> int:
    """Contributions with payload to all sums of a collective."""
    schedule = each.schedule
    sizes = np.diff(schedule.chunks(model.num_flits(each.num_elements, 4)))
    return int(((schedule.op == Op.REDUCE) & (sizes[schedule.flow] > 0)).sum())


def table_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """A row for each network, and one for all."""
    rows = []
    for spec in (*NETWORKS, "all"):
        group = [each for each in outcomes if spec in (each.spec, "all")]
        added = sum(each.added for each in group)
        stuck = sum(each.text.startswith("stuck") for each in group)
        row = {
            "network": spec,
            "runs": len(group),
            "exact": sum(each.exact for each in group),
            "wrong": sum(not each.exact for each in group) - stuck,
            "stuck": stuck,
            "contributions": added,
            "staging_share": sum(each.staged for each in group) / added if added else None,
            "emulated_cycles": sum(each.cycles for each in group),
            "cpu_seconds": round(sum(each.cpu_seconds for each in group), 1),
        }
        rows.append(row)
    return rows


def main() -> int:
    """Run all seeds; exit status 1 unless every result is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="the first; runs count up from it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", type=int, metavar="SEED", help="one run, and all about it")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.only is not None:
        outcome = run_once(arguments.only)
        print(outcome)
        return int(not outcome.exact)
    outcomes = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        seeds = range(arguments.seed, arguments.seed + arguments.runs)
        for outcome in pool.map(run_once, seeds):
            outcomes.append(outcome)
            if not outcome.exact:
                print(f"--only {outcome.seed}: {outcome.spec}: {outcome.text}", file=sys.stderr)
    rows = table_of(outcomes)
    good = all(outcome.exact for outcome in outcomes)
    if arguments.json:
        print(json.dumps({"good": good, "rows": rows}, indent=2))
        return int(not good)
    print(ROW.format(*(name.replace("_", " ").replace("emulated ", "") for name in rows[0])))
    for row in rows:
        share = row.pop("staging_share")
        cells = list(row.values())
        cells.insert(6, "-" if share is None else f"{100 * share:.1f} %")
        print(ROW.format(*cells[:7], f"{cells[7]:,}", cells[8]))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
