"""Cycles of MultiTree in RTL: cut-through and packets against the paper's modes.

Every run is compared with `execute` bit for bit. `--json` for programs. Exit status 1 where a
result is not exact: ``python bench/modes.py``.
"""

import argparse
import json
import sys
from typing import Any

import numpy as np

from multitree.host.engines import needs_of
from multitree.host.report import bound_of
from multitree.host.runner import make_buffers
from multitree.host.sizes import format_size, parse_size
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.schedules.execute import execute
from multitree.topology.specs import parse_topology

CASES = (("torus:4x4", "1MiB"), ("torus:8x8", "1MiB"), ("torus:8x8", "32KiB"))
RUNS = (
    ("submessage", "message", 12),
    ("submessage", "message", 40),
    ("submessage", "message", 100),
    ("chunk", "message", 12),
    ("chunk", "message", 40),
    ("chunk", "message", 100),
    ("submessage", "packet", 12),
    ("chunk", "packet", 12),
)
ROW = "{:<10} {:>7}  {:<10}  {:<7}  {:>6}  {:>7}  {:>5}  {:>9}  {:>5}"


def measure(
    spec: str, size: str, dependency: str, flow_control: str, memory_cycles: int
) -> dict[str, Any]:
    """One all-reduce of float32 values."""
    model = LinkModel(dependency=dependency, flow_control=flow_control).with_memory(memory_cycles)
    topology, size_bytes = parse_topology(spec), parse_size(size)
    schedule = build_multitree(topology)
    buffers = make_buffers(1, topology.num_ranks, size_bytes // 4, "float32")
    with RtlSession(topology, link_model=model, **needs_of(schedule, model, size_bytes)) as session:
        [(memory, trace)] = session.run(schedule, [buffers])
    wanted = execute(schedule, buffers)
    return {
        "topology": spec,
        "size_bytes": size_bytes,
        "dependency": dependency,
        "flow_control": flow_control,
        "memory_cycles": memory_cycles,
        "cycles": trace.cycles,
        "over_bound": trace.cycles / bound_of(topology, size_bytes, model),
        "exact": np.array_equal(memory.view(np.uint32), wanted.view(np.uint32)),
    }


def main() -> int:
    """Print one line per run, packets next to the same run with messages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    if not arguments.json:
        columns = ("topology", "size", "dependency", "flow", "memory", "cycles", "bound")
        print(ROW.format(*columns, "packets", "exact"))
    for spec, size in CASES:
        messages = {}
        for dependency, flow_control, memory_cycles in RUNS:
            row = measure(spec, size, dependency, flow_control, memory_cycles)
            messages.setdefault((dependency, memory_cycles), row["cycles"])
            over = row["cycles"] / messages[dependency, memory_cycles] - 1
            row["packets_over_messages"] = over if flow_control == "packet" else None
            rows.append(row)
            if not arguments.json:
                packets = f"{100 * over:+.2f} %" if flow_control == "packet" else ""
                cells = (dependency, flow_control, memory_cycles, row["cycles"])
                ratio, exact = f"{row['over_bound']:.3f}", "yes" if row["exact"] else "NO"
                shown = format_size(row["size_bytes"])
                print(ROW.format(spec, shown, *cells, ratio, packets, exact), flush=True)
    if arguments.json:
        print(json.dumps({"rows": rows}, indent=2))
    return 0 if all(row["exact"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
