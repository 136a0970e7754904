"""Forests, large and in RTL: cycles over the bound, table rows, build time.

``python bench/forest.py [--json] [--only "NAME;NAME"] [--sizes 1MiB,4MiB]``. 1 GiB by the analytic
engine with cut-through; on the meshes of `IN_RTL` the given sizes in RTL, too, each rank's memory
compared bit by bit, and how far the analytic engine is off. *S/B*: time in units of buffer over
link bandwidth. CPU seconds of the build, best of 3. Progress on stderr. Exit status 1 if a limit
is missed.
"""

import argparse
import json
import sys
from functools import partial
from typing import Any

import numpy as np
from _tables import show
from packing import DEAD_LINK, IRREGULAR, network, timed

from multitree.host.report import bound_of
from multitree.host.runner import Runner
from multitree.host.sizes import format_size, parse_size
from multitree.sim.analytic.engine import analytic
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build
from multitree.topology.checks.verify import verify

NAMES = (
    *("mesh:4x4", "mesh:8x8", "mesh:16x16", "torus:4x4", "torus:8x8", IRREGULAR, DEAD_LINK),
    "mesh:4x4 without a link of a corner",
)
IN_RTL = ("mesh:4x4", "mesh:8x8")
LARGE_BYTES = 1 << 30
MODEL = LinkModel(dependency="submessage")
MOST_RATIO, MOST_ROWS = 1.03, 4096
RTL_LIMIT_CYCLES = {("mesh:4x4", 1 << 20): 46_000, ("mesh:8x8", 1 << 20): 46_000}
MOST_ERROR_PERCENT = 2.0


def network_of(name: str):
    """The topology of a row."""
    if name == NAMES[-1]:
        whole = network("mesh:4x4")
        return whole.without(links=np.flatnonzero((whole.links == [0, 1]).all(axis=1)).tolist())
    return network(name)


def measure_large(name: str) -> dict[str, Any]:
    """1 GiB by the analytic engine."""
    topology = network_of(name)
    num_flits = MODEL.num_flits(LARGE_BYTES, 1)
    cost_model = MODEL.cost_model(topology, num_flits)
    schedule, build_cpu_seconds = timed(partial(build, topology, "forest", cost_model=cost_model))
    verify(schedule)
    cycles = analytic(schedule, num_flits, MODEL).cycles
    multitree = analytic(build(topology, "multitree"), num_flits, MODEL).cycles
    bound = bound_of(topology, LARGE_BYTES, MODEL)
    rows = int(np.bincount(schedule.src).max())
    return {
        "topology": name,
        "size_bytes": LARGE_BYTES,
        "engine": "analytic",
        "num_trees": schedule.num_flows,
        "period": schedule.period,
        "num_waves": schedule.num_waves,
        "most_rows": rows,
        "cycles": cycles,
        "ratio_to_bound": round(cycles / bound, 4),
        "buffers_over_bandwidth": round(cycles / num_flits, 4),
        "multitree_ratio_to_bound": round(multitree / bound, 4),
        "exact": None,
        "analytic_error_percent": None,
        "build_cpu_seconds": round(build_cpu_seconds, 3),
        "within_limits": bool(cycles <= MOST_RATIO * bound and rows <= MOST_ROWS),
    }


def measure_rtl(name: str, size_bytes: int) -> dict[str, Any]:
    """A size in RTL, and by the analytic engine."""
    topology = network_of(name)
    num_flits = MODEL.num_flits(size_bytes, 1)
    schedule = build(topology, "forest", cost_model=MODEL.cost_model(topology, num_flits))
    with Runner.timed(topology, "rtl", link_model=MODEL) as runner:
        report, _ = runner.simulate(schedule, size_bytes)
        multitree, _ = runner.simulate(build(topology, "multitree"), size_bytes)
    error = 100 * (analytic(schedule, num_flits, MODEL).cycles / report.cycles - 1)
    bound = bound_of(topology, size_bytes, MODEL)
    limit = RTL_LIMIT_CYCLES.get((name, size_bytes), report.cycles)
    return {
        "topology": name,
        "size_bytes": size_bytes,
        "engine": "rtl",
        "num_trees": schedule.num_flows,
        "period": schedule.period,
        "num_waves": schedule.num_waves,
        "most_rows": int(np.bincount(schedule.src).max()),
        "cycles": report.cycles,
        "ratio_to_bound": round(report.cycles / bound, 4),
        "buffers_over_bandwidth": round(report.cycles / num_flits, 4),
        "multitree_ratio_to_bound": round(multitree.cycles / bound, 4),
        "exact": report.exact and multitree.exact,
        "analytic_error_percent": round(error, 2),
        "build_cpu_seconds": None,
        "within_limits": bool(
            report.exact and report.cycles <= limit and abs(error) <= MOST_ERROR_PERCENT
        ),
    }


COLUMNS = {
    "topology": "topology",
    "size_bytes": "size",
    "engine": "engine",
    "num_trees": "trees",
    "period": "period",
    "num_waves": "waves",
    "most_rows": "rows",
    "cycles": "cycles",
    "ratio_to_bound": "x bound",
    "buffers_over_bandwidth": "S/B",
    "multitree_ratio_to_bound": "MultiTree x bound",
    "exact": "exact",
    "analytic_error_percent": "analytic off, %",
    "build_cpu_seconds": "build, CPU s",
}


def main() -> int:
    """Measure every topology of the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--only", help="topologies with semicolons between")
    parser.add_argument("--sizes", default="1MiB,4MiB", help="in RTL, commas between; or none")
    arguments = parser.parse_args()
    names = NAMES if arguments.only is None else arguments.only.split(";")
    unknown = set(names) - set(NAMES)
    if unknown:
        parser.error(f"topology must be one of {'; '.join(NAMES)}, not {min(unknown)!r}")
    try:
        sizes = [parse_size(size) for size in arguments.sizes.split(",") if size != "none"]
    except ValueError as error:
        parser.error(str(error))
    rows = []
    for name in names:
        print(f"{name}, {format_size(LARGE_BYTES)}", file=sys.stderr)
        rows.append(measure_large(name))
        for size_bytes in sizes if name in IN_RTL else ():
            print(f"{name}, {format_size(size_bytes)} in RTL", file=sys.stderr)
            rows.append(measure_rtl(name, size_bytes))
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show("Forests", COLUMNS, rows, 190)
    missed = [f"{row['topology']} {row['size_bytes']}" for row in rows if not row["within_limits"]]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
