"""Forests, large and in RTL: cycles over the bound, table rows, build time.

``python bench/forest.py [--json] [--only "NAME;NAME"] [--sizes 1MiB,4MiB]``. 1 GiB by the analytic
engine with cut-through; on the meshes of `IN_RTL` the given sizes in RTL, too, each rank's memory
compared bit by bit, and how far the analytic engine is off. *Buffers over bandwidth*: time
in units of buffer over link bandwidth. CPU seconds of the build, best of 3. Exit status 1 if a
limit is missed.
"""

import sys
from collections.abc import Iterator
from functools import partial

import numpy as np
from _bench import Row, ended, least_cpu_seconds, options, reported, sizes, some_of, within_limits
from packing import DEAD_LINK, IRREGULAR, network

from multitree import LinkModel, Schedule, Topology, build, verify
from multitree.host.report import bound_of
from multitree.host.runner import Runner
from multitree.sim.analytic.engine import analytic

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
SHARED = ("topology", "size_bytes", "engine", "num_trees", "period", "num_waves", "most_rows")
KEYS = (*SHARED, "cycles", "ratio_to_bound", "buffers_over_bandwidth", "multitree_ratio_to_bound")
KEYS += ("exact", "analytic_error_percent", "build_cpu_seconds", "within_limits")


def network_of(name: str) -> Topology:
    if name == NAMES[-1]:
        whole = network("mesh:4x4")
        return whole.without(links=np.flatnonzero((whole.links == [0, 1]).all(axis=1)).tolist())
    return network(name)


def row_of(
    schedule: Schedule, size_bytes: int, model: LinkModel, cycles: int, multitree_cycles: int
) -> Row:
    """What rows of any engine say of a forest's time, beside that of MultiTree."""
    bound = bound_of(schedule.topology, size_bytes, model)
    return {
        "size_bytes": size_bytes,
        "num_trees": schedule.num_flows,
        "period": schedule.period,
        "num_waves": schedule.num_waves,
        "most_rows": int(np.bincount(schedule.src).max()),
        "cycles": cycles,
        "ratio_to_bound": round(cycles / bound, 4),
        "buffers_over_bandwidth": round(cycles / model.num_flits(size_bytes, 1), 4),
        "multitree_ratio_to_bound": round(multitree_cycles / bound, 4),
    }


def large(topology: Topology, model: LinkModel, **modes: bool) -> Row:
    num_flits = model.num_flits(LARGE_BYTES, 1)
    cost_model = model.cost_model(topology, num_flits)
    building = partial(build, topology, "forest", cost_model=cost_model)
    schedule, seconds = least_cpu_seconds(building)
    verify(schedule)
    cycles = analytic(schedule, num_flits, model, **modes).cycles
    multitree = analytic(build(topology, "multitree"), num_flits, model).cycles
    row = row_of(schedule, LARGE_BYTES, model, cycles, multitree)
    return {"engine": "analytic", "build_cpu_seconds": round(seconds, 3)} | row


def in_rtl(topology: Topology, size_bytes: int) -> Row:
    """A size in RTL, and by the analytic engine."""
    with Runner.timed(topology, "rtl", link_model=MODEL) as runner:
        schedule = build(topology, "forest", cost_model=runner.cost_model(size_bytes))
        report, _ = runner.simulate(schedule, size_bytes)
        multitree, _ = runner.simulate(build(topology, "multitree"), size_bytes)
    cycles = analytic(schedule, MODEL.num_flits(size_bytes, 1), MODEL).cycles
    error = round(100 * (cycles / report.cycles - 1), 2)
    row = {"engine": "rtl", "exact": report.exact and multitree.exact}
    row["analytic_error_percent"] = error
    return row | row_of(schedule, size_bytes, MODEL, report.cycles, multitree.cycles)


def measured(names: list[str], sizes: list[int]) -> Iterator[Row]:
    """Rows of every topology, and whether they are within their limits."""
    for name in names:
        topology = network_of(name)
        row = {"topology": name} | large(topology, MODEL)
        most = MOST_RATIO * bound_of(topology, LARGE_BYTES, MODEL)
        row["within_limits"] = bool(row["cycles"] <= most and row["most_rows"] <= MOST_ROWS)
        yield {key: row.get(key) for key in KEYS}
        for size in sizes if name in IN_RTL else ():
            row = {"topology": name} | in_rtl(topology, size)
            fast = row["cycles"] <= RTL_LIMIT_CYCLES.get((name, size), row["cycles"])
            near = abs(row["analytic_error_percent"]) <= MOST_ERROR_PERCENT
            row["within_limits"] = bool(row["exact"] and fast and near)
            yield {key: row.get(key) for key in KEYS}


def main() -> int:
    given = options(__doc__, only=some_of(NAMES, ";"), sizes=sizes("1MiB,4MiB"))
    rows = reported(given, measured(given.only, given.sizes), *KEYS)
    return ended(given, within_limits(rows), rows)


if __name__ == "__main__":
    sys.exit(main())
