"""Cycles that the analytic engine predicts, and those that the RTL takes.

Runs every algorithm on every topology and size on both engines, compares the RTL's memories with
`execute` bit for bit, and prints the ratio of cycles. Exit status 1 where a ratio is off by more
than the tolerance: ``python bench/analytic_vs_rtl.py --sizes 32KiB,1MiB --tolerance 0.02``.
Networks with switches, and schedules through routers attached to ranks, go by chunks and messages
alone: ``--topologies fat_tree:4x4,dgx2 --algorithms multitree,double_tree``.
"""

import sys
import time
from itertools import product

import numpy as np
from _bench import Row, all_exact, ended, listed, options, reported, sizes
from _runs import in_rtl

from multitree import LinkModel, build, parse_topology
from multitree.nic.driver.commands import DEPENDENCIES, FLOW_CONTROLS
from multitree.sim.analytic.engine import analytic
from multitree.sim.timing.sizing import config_for
from multitree.topology.algorithms.registry import COMPARED

COLUMNS = ("topology", "algorithm", "size_bytes", "rtl_cycles", "analytic_cycles", "ratio")
COLUMNS += ("most_cycles_off", "exact", "analytic_cpu_seconds")


def compare(spec: str, algorithm: str, size_bytes: int, model: LinkModel, seed: int) -> Row:
    topology = parse_topology(spec)
    schedule = build(topology, algorithm)
    cpu = time.process_time()
    predicted = analytic(schedule, model.num_flits(size_bytes // 4, 4), model)
    cpu = time.process_time() - cpu
    trace, exact = in_rtl(schedule, size_bytes, model, seed)
    return {
        "topology": spec,
        "algorithm": algorithm,
        "size_bytes": size_bytes,
        "rtl_cycles": trace.cycles,
        "analytic_cycles": predicted.cycles,
        "ratio": predicted.cycles / trace.cycles,
        "analytic_cpu_seconds": cpu,
        "most_cycles_off": int(np.abs(predicted.arrived - trace.arrived).max()),
        "exact": exact,
        "schedule_hash": schedule.hash,
        "num_ports": config_for(topology, model).num_ports,
    }


def main() -> int:
    given = options(
        __doc__,
        topologies=listed("torus:4x4,torus:8x8,mesh:4x4,mesh:8x8"),
        algorithms=listed(",".join(COMPARED)),
        sizes=sizes("32KiB,1MiB"),
        dependency={"choices": DEPENDENCIES, "default": DEPENDENCIES[0]},
        flow_control={"choices": FLOW_CONTROLS, "default": FLOW_CONTROLS[0]},
        forward_flits={"type": int, "default": 0, "help": "that ports keep"},
        memory_cycles={"type": int, "default": 12, "help": "of a read, sum and write"},
        tolerance={"type": float, "default": 0.02, "help": "of the ratio to 1"},
        seed={"type": int, "default": 1, "help": "of the buffers"},
    )
    model = LinkModel(
        dependency=given.dependency,
        flow_control=given.flow_control,
        forward_flits=given.forward_flits,
    ).with_memory(given.memory_cycles)
    measured = (
        compare(spec, algorithm, size, model, given.seed)
        for size, spec, algorithm in product(given.sizes, given.topologies, given.algorithms)
    )
    rows = reported(given, measured, *COLUMNS)
    worst = max(abs(row["ratio"] - 1) for row in rows)
    good = worst <= given.tolerance and all_exact(rows)
    found = {"tolerance": given.tolerance, "good": good, "worst_error": worst, "rows": rows}
    said = f"worst ratio {worst:.4f} from 1, tolerance {given.tolerance}; most cycles off: of"
    return ended(given, good, found, f"{said} any arrival")


if __name__ == "__main__":
    sys.exit(main())
