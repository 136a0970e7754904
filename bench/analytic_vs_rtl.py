"""Cycles that the analytic engine predicts, and those that the RTL takes.

Runs every algorithm on every topology and size on both engines, compares the RTL's memories with
`execute` bit for bit, and prints the ratio of cycles. Exit status 1 where a ratio is off by more
than the tolerance: ``python bench/analytic_vs_rtl.py --sizes 32KiB,1MiB --tolerance 0.02``.
Networks with switches, and schedules through routers attached to ranks, go by chunks and messages
alone: ``--topologies fat_tree:4x4,dgx2 --algorithms multitree,double_tree``.
"""

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

from multitree.host.runner import make_buffers
from multitree.host.sizes import format_size, parse_size
from multitree.nic.driver.commands import DEPENDENCIES, FLOW_CONTROLS
from multitree.sim.analytic.engine import analytic
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import config_for, least_sizes
from multitree.topology.algorithms.build import build
from multitree.topology.algorithms.registry import COMPARED
from multitree.topology.lowering import lowered
from multitree.topology.schedules.execute import execute
from multitree.topology.specs import parse_topology

TOPOLOGIES = "torus:4x4,torus:8x8,mesh:4x4,mesh:8x8"
ROW = "{:<12} {:<20} {:>8} {:>9} {:>9} {:>7} {:>7} {:>6} {:>6}"


def compare(
    spec: str, algorithm: str, size_bytes: int, model: LinkModel, seed: int
) -> dict[str, Any]:
    """One row: both engines on one schedule and size."""
    topology = parse_topology(spec)
    schedule = build(topology, algorithm)
    buffers = make_buffers(seed, topology.num_ranks, size_bytes // 4, "float32")
    num_flits = model.num_flits(size_bytes // 4, 4)
    cpu = time.process_time()
    predicted = analytic(schedule, num_flits, model)
    cpu = time.process_time() - cpu
    with RtlSession(
        lowered(schedule).topology,
        link_model=model,
        **least_sizes(schedule, num_flits),
    ) as session:
        memory, trace = session.run(schedule, [buffers])[0]
    exact = np.array_equal(memory.view(np.uint32), execute(schedule, buffers).view(np.uint32))
    off = predicted.arrived - trace.arrived
    return {
        "topology": spec,
        "algorithm": algorithm,
        "size_bytes": size_bytes,
        "rtl_cycles": trace.cycles,
        "analytic_cycles": predicted.cycles,
        "ratio": predicted.cycles / trace.cycles,
        "analytic_cpu_seconds": cpu,
        "most_cycles_off": int(np.abs(off).max()),
        "exact": exact,
        "schedule_hash": schedule.hash,
        "num_ports": config_for(topology, model).num_ports,
    }


def main() -> int:
    """Run all rows; exit status 1 if one is off or not exact."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topologies", default=TOPOLOGIES, help="specs with commas between")
    parser.add_argument("--algorithms", default=",".join(COMPARED))
    parser.add_argument("--sizes", default="32KiB,1MiB")
    parser.add_argument("--dependency", choices=DEPENDENCIES, default=DEPENDENCIES[0])
    parser.add_argument("--flow-control", choices=FLOW_CONTROLS, default=FLOW_CONTROLS[0])
    parser.add_argument("--forward-flits", type=int, default=0, help="that ports keep")
    parser.add_argument("--memory-cycles", type=int, default=12, help="of a read, sum and write")
    parser.add_argument("--tolerance", type=float, default=0.02, help="of the ratio to 1")
    parser.add_argument("--seed", type=int, default=1, help="of the buffers")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    model = LinkModel(
        dependency=arguments.dependency,
        flow_control=arguments.flow_control,
        forward_flits=arguments.forward_flits,
    ).with_memory(arguments.memory_cycles)
    if not arguments.json:
        columns = (
            "topology",
            "algorithm",
            "size",
            "rtl",
            "analytic",
            "ratio",
            "worst",
            "exact",
            "CPU s",
        )
        print(ROW.format(*columns))
    rows = []
    for size in arguments.sizes.split(","):
        for spec in arguments.topologies.split(","):
            for algorithm in arguments.algorithms.split(","):
                row = compare(spec, algorithm, parse_size(size), model, arguments.seed)
                rows.append(row)
                if not arguments.json:
                    cells = (row["rtl_cycles"], row["analytic_cycles"], f"{row['ratio']:.4f}")
                    worst, exact = row["most_cycles_off"], "yes" if row["exact"] else "NO"
                    shown = format_size(row["size_bytes"])
                    seconds = f"{row['analytic_cpu_seconds']:.2f}"
                    line = ROW.format(spec, algorithm, shown, *cells, worst, exact, seconds)
                    print(line, flush=True)
    worst_error = max(abs(row["ratio"] - 1) for row in rows)
    good = worst_error <= arguments.tolerance and all(row["exact"] for row in rows)
    if arguments.json:
        reported = {"tolerance": arguments.tolerance, "good": good, "worst_error": worst_error}
        print(json.dumps({**reported, "rows": rows}, indent=2))
    else:
        print(
            f"worst ratio {worst_error:.4f} from 1, "
            f"tolerance {arguments.tolerance}; column 'worst': cycles that any arrival is off"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
