"""Children that start together: flits per cycle at each port of their parent.

Every child of one rank sends it a chunk in the same step. The rank adds them in canonical order,
each contribution behind the one before it, sub-message by sub-message, so the last one ends a few
sub-messages' way through memory after the first. The sums are compared with `execute` bit for
bit: ``python bench/siblings.py --children 4 --flits 10000``. Exit status 1 where they differ, or
where a port takes less than `--least` flits per cycle of the default memory.
"""

import argparse
import json
import sys
from typing import Any

import numpy as np

from multitree.host.runner import make_buffers
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import least_sizes
from multitree.topology.collectives import Op
from multitree.topology.families.direct import fully_connected
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule

MEMORY_CYCLES = (12, 40, 100)


def star(num_children: int) -> Schedule:
    """One flow rooted at rank 0, to which all others contribute in step 0."""
    return Schedule.from_rows(
        fully_connected(num_children + 1),
        algorithm="siblings",
        collective="reduce",
        root=0,
        flow_offsets=[0, 1],
        rows=[[0, Op.REDUCE, 0, child, 0] for child in range(1, num_children + 1)],
    )


def measure(schedule: Schedule, num_flits: int, memory_cycles: int, seed: int) -> dict[str, Any]:
    """Flits per cycle of every port, from its first flit's arrival to its last flit's sum."""
    model = LinkModel().with_memory(memory_cycles)
    buffers = make_buffers(seed, schedule.topology.num_ranks, 4 * num_flits, "float32")
    sizes = least_sizes(schedule, num_flits)
    with RtlSession(schedule.topology, link_model=model, **sizes) as session:
        [(memory, trace)] = session.run(schedule, [buffers])
    # Its first flit, the head, comes out of a link as long after it went in as the link is long.
    came = trace.sent[0] + model.latency_cycles(schedule.topology)[schedule.route_links]
    wanted = execute(schedule, buffers)
    return {
        "memory_cycles": memory_cycles,
        "flits_per_cycle": (num_flits / (trace.arrived[0] - came)).tolist(),
        "exact": np.array_equal(memory.view(np.uint32), wanted.view(np.uint32)),
    }


def main() -> int:
    """Print one line per memory latency."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, default=4)
    parser.add_argument("--flits", type=int, default=10_000)
    parser.add_argument("--least", type=float, default=0.98, help="flits per cycle, first memory")
    parser.add_argument("--seed", type=int, default=1, help="of the buffers")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    schedule = star(arguments.children)
    rows = [measure(schedule, arguments.flits, cycles, arguments.seed) for cycles in MEMORY_CYCLES]
    good = min(rows[0]["flits_per_cycle"]) >= arguments.least and all(row["exact"] for row in rows)
    if arguments.json:
        print(json.dumps({"flits": arguments.flits, "good": good, "rows": rows}, indent=2))
        return 0 if good else 1
    print(f"{arguments.children} children, {arguments.flits} flits each, in canonical order")
    for row in rows:
        rates = "  ".join(f"{rate:.4f}" for rate in row["flits_per_cycle"])
        exact = "exact" if row["exact"] else "NOT EXACT"
        print(f"memory {row['memory_cycles']:>3} cycles: {rates} flits per cycle, {exact}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
