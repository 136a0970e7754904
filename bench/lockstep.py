"""What lockstep buys and costs, in cycles and in contributions staged.

In lockstep an interface waits out the estimated time of every step, as in the paper, so that ranks
that start together send in step. ``python bench/lockstep.py [--algorithm direct] [--json]``. Ranks
start together, and up to 2 000 cycles apart; cycles count from the first start to the last done.
Every result is compared with `execute` bit for bit; exit status 1 where one differs.
"""

import argparse
import json
import sys
from typing import Any

import numpy as np
from _staging import num_staged

from multitree.host.runner import make_buffers
from multitree.host.sizes import format_size, parse_size
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import least_sizes
from multitree.topology.algorithms.build import build
from multitree.topology.collectives import Op
from multitree.topology.schedules.execute import execute
from multitree.topology.specs import parse_topology

NETWORKS = ("torus:4x4", "torus:8x8", "fat_tree:4x4", "bigraph:4x8")
MAX_SKEW_CYCLES = 2000
ROW = "{:<14} {:>8} {:>7} {:>10} {:>10} {:>7} {:>9} {:>9} {:>6}"
COLUMNS = ("topology", "size", "apart", "without", "lockstep", "ratio", "staged", "staged", "exact")


def measure(spec: str, algorithm: str, size_bytes: int, seed: int) -> list[dict[str, Any]]:
    """One network and size: ranks that start together, and ranks that do not."""
    topology, model = parse_topology(spec), LinkModel()
    num_flits = model.num_flits(size_bytes // 4, 4)
    schedule = build(topology, algorithm, cost_model=model.cost_model(topology, num_flits))
    buffers = make_buffers(seed, topology.num_ranks, size_bytes // 4, "float32")
    sizes = least_sizes(schedule, num_flits, lockstep=True)
    wanted = execute(schedule, buffers)
    added = int((schedule.op == Op.REDUCE).sum())
    rng = np.random.default_rng(seed)
    rows = []
    with RtlSession(topology, **sizes) as session:
        for most in (0, MAX_SKEW_CYCLES):
            skews = rng.integers(most + 1, size=topology.num_ranks).tolist()
            row = {"topology": spec, "algorithm": algorithm, "size_bytes": size_bytes}
            row["max_skew_cycles"] = most
            exact = True
            for name, lockstep in (("free", False), ("lockstep", True)):
                before = num_staged(session) if topology.num_switches else 0
                ((memory, trace),) = session.run(
                    schedule, [buffers], lockstep=lockstep, start_skew_cycles=skews
                )
                after = num_staged(session) if topology.num_switches else 0
                exact &= memory.tobytes() == wanted.tobytes()
                row[f"{name}_cycles"] = trace.cycles
                row[f"{name}_staging_share"] = (after - before) / added
            row["lockstep_ratio"] = row["lockstep_cycles"] / row["free_cycles"]
            rows.append(row | {"exact": exact, "schedule_hash": schedule.hash})
    return rows


def show(row: dict[str, Any]) -> None:
    """Print one row for people."""
    cells = [row["topology"], format_size(row["size_bytes"]), row["max_skew_cycles"]]
    cells += [row["free_cycles"], row["lockstep_cycles"]]
    cells.append(f"{row['lockstep_ratio']:.3f}")
    cells += [f"{100 * row[f'{name}_staging_share']:.1f} %" for name in ("free", "lockstep")]
    print(ROW.format(*cells, "yes" if row["exact"] else "NO"), flush=True)


def main() -> int:
    """Run all cases; exit status 1 if one is not exact."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topologies", default=",".join(NETWORKS), help="with commas between")
    parser.add_argument("--algorithm", default="multitree")
    parser.add_argument("--sizes", default="32KiB,256KiB")
    parser.add_argument("--seed", type=int, default=1, help="of buffers and starts")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    if not arguments.json:
        print(ROW.format(*COLUMNS))
    rows = []
    for spec in arguments.topologies.split(","):
        for size in arguments.sizes.split(","):
            measured = measure(spec, arguments.algorithm, parse_size(size), arguments.seed)
            rows += measured
            if not arguments.json:
                for row in measured:
                    show(row)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    return 0 if all(row["exact"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
