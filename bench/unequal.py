"""All-reduces where links differ: one dimension of a torus slower, and longer.

Links along y have half or a quarter of the others' speed and take 1 us, and link buffers hold what
half speed needs for the way there and back. `verify` says whether steps keep to the speeds. In RTL,
with whole chunks, the least time is measured that a message leaves after all that it needs is in
memory, and results are compared with `execute` bit for bit. Exit status 1 where a message leaves
too early, or a result is not exact: ``python bench/unequal.py [--json]``.
"""

import argparse
import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from multitree.host.cli.output import Working
from multitree.host.report import bound_of
from multitree.host.runner import make_buffers
from multitree.host.sizes import format_size, parse_size
from multitree.nic.driver.commands import DEPENDENCIES
from multitree.sim.analytic.engine import analytic
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import least_sizes
from multitree.sim.timing.trace import Trace
from multitree.topology.algorithms.build import build
from multitree.topology.checks.verify import verify
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule
from multitree.topology.specs import parse_topology

SPECS = "torus:4x4,torus:8x8"
ALGORITHMS = "multitree,symmetric,bidirectional_ring_2d"
SLOWER = (2, 4)
Y_LATENCY_NS = 1000.0
MODEL = LinkModel(buffer_flits=1024)
ROW = "{:<10} {:>5} {:<21} {:>8} {:>6} {:>11} {:>8} {:>8} {:>8} {:>8} {:>6}"
COLUMNS = ("topology", "y", "algorithm", "size", "causal", "dependency", "least", "cycles")
COLUMNS = (*COLUMNS, "x bound", "analytic", "exact")


def slower_along_y(spec: str, ratio: int) -> Topology:
    """A torus of two dimensions whose links along y are slower and longer than those along x."""
    topology = parse_topology(spec)
    column = topology.links % topology.dims[1]
    along_y = column[:, 0] == column[:, 1]
    return replace(
        topology,
        bandwidth_gbytes_per_s=topology.bandwidth_gbytes_per_s / np.where(along_y, ratio, 1),
        latency_ns=np.where(along_y, Y_LATENCY_NS, topology.latency_ns),
    )


def least_wait(schedule: Schedule, trace: Trace) -> int | None:
    """Least cycles from the arrival of all that a message needs to its head; None if none does."""
    num_ranks = schedule.topology.num_ranks
    flow = schedule.flow.astype(np.int64) * num_ranks
    came = np.full(schedule.num_flows * num_ranks, -1, np.int64)
    waits = []
    for step in range(schedule.num_steps):
        rows = np.flatnonzero(schedule.step == step)
        needed = came[flow[rows] + schedule.src[rows]]
        waits += (trace.sent[0, rows] - needed)[needed >= 0].tolist()
        np.maximum.at(came, flow[rows] + schedule.dst[rows], trace.arrived[0, rows])
    return min(waits, default=None)


def measure(topology: Topology, ratio: int, algorithm: str, sizes: list[int]) -> list[Any]:
    """Rows of one schedule: each size with whole chunks and cut-through."""
    schedule, rows = build(topology, algorithm), []
    causal = verify(schedule).causal
    needs = least_sizes(schedule, MODEL.num_flits(max(sizes), 1))
    with RtlSession(topology, link_model=MODEL, **needs) as session:
        for size in sizes:
            buffers = make_buffers(1, topology.num_ranks, size // 4, "float32")
            wanted = execute(schedule, buffers).tobytes()
            for dependency in DEPENDENCIES:
                ((memory, trace),) = session.run(schedule, [buffers], dependency=dependency)
                whole = dependency == DEPENDENCIES[0]
                timed = analytic(
                    schedule, MODEL.num_flits(size, 1), replace(MODEL, dependency=dependency)
                )
                rows.append(
                    {
                        "topology": topology.name,
                        "y_slower": ratio,
                        "algorithm": algorithm,
                        "size_bytes": size,
                        "causal": causal,
                        "dependency": dependency,
                        "least_wait_cycles": least_wait(schedule, trace) if whole else None,
                        "cycles": trace.cycles,
                        "ratio_to_bound": trace.cycles / bound_of(topology, size, MODEL),
                        "analytic_ratio": timed.cycles / trace.cycles,
                        "exact": memory.tobytes() == wanted,
                    }
                )
    return rows


def shown(row: dict[str, Any]) -> str:
    """A row for people."""
    least = row["least_wait_cycles"]
    return ROW.format(
        row["topology"],
        f"1/{row['y_slower']}",
        row["algorithm"],
        format_size(row["size_bytes"]),
        "yes" if row["causal"] else "no",
        row["dependency"],
        "-" if least is None else least,
        row["cycles"],
        f"{row['ratio_to_bound']:.3f}",
        f"{row['analytic_ratio']:.4f}",
        "yes" if row["exact"] else "NO",
    )


def main() -> int:
    """Measure and print all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topologies", default=SPECS, help="commas between")
    parser.add_argument("--algorithms", default=ALGORITHMS, help="commas between")
    parser.add_argument("--sizes", default="32KiB,1MiB", help="commas between")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    sizes, rows = [parse_size(size) for size in arguments.sizes.split(",")], []
    if not arguments.json:
        print(ROW.format(*COLUMNS))
    for spec in arguments.topologies.split(","):
        for ratio in SLOWER:
            for algorithm in arguments.algorithms.split(","):
                with Working(f"{algorithm} on {spec}, y at 1/{ratio}"):
                    found = measure(slower_along_y(spec, ratio), ratio, algorithm, sizes)
                rows += found
                if not arguments.json:
                    print(*map(shown, found), sep="\n", flush=True)
    good = all(row["exact"] and (row["least_wait_cycles"] or 0) >= 0 for row in rows)
    if arguments.json:
        print(json.dumps({"good": good, "rows": rows}, indent=2))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
