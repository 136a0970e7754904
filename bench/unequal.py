"""All-reduces where links differ: one dimension of a torus slower, and longer.

Links along y have half or a quarter of the others' speed and take 1 us, and link buffers hold what
half speed needs for the way there and back. `verify` says whether steps keep to the speeds. In RTL,
with whole chunks, the least time is measured that a message leaves after all that it needs is in
memory, and results are compared with `execute` bit for bit. Exit status 1 where a message leaves
too early, or a result is not exact: ``python bench/unequal.py [--json]``.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from _bench import Row, all_exact, ended, listed, options, reported, sizes

from multitree import LinkModel, Schedule, Topology, Trace, build, execute, parse_topology, verify
from multitree.host.cli.output import Working
from multitree.host.report import bound_of
from multitree.host.runner import make_buffers
from multitree.nic.driver.commands import DEPENDENCIES
from multitree.sim.analytic.engine import analytic
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.sizing import least_sizes

SLOWER = (2, 4)
Y_LATENCY_NS = 1000.0
MODEL = LinkModel(buffer_flits=1024)
COLUMNS = ("topology", "y_slower", "algorithm", "size_bytes", "causal", "dependency")
COLUMNS += ("least_wait_cycles", "cycles", "ratio_to_bound", "analytic_ratio", "exact")


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


def measure(topology: Topology, ratio: int, algorithm: str, sizes: list[int]) -> Iterator[Row]:
    """Rows of one schedule: each size with whole chunks and cut-through."""
    schedule = build(topology, algorithm)
    causal = verify(schedule).causal
    needs = least_sizes(schedule, MODEL.num_flits(max(sizes), 1))
    with RtlSession(topology, link_model=MODEL, **needs) as session:
        for size, dependency in product(sizes, DEPENDENCIES):
            buffers = make_buffers(1, topology.num_ranks, size // 4, "float32")
            ((memory, trace),) = session.run(schedule, [buffers], dependency=dependency)
            whole = dependency == DEPENDENCIES[0]
            model = replace(MODEL, dependency=dependency)
            timed = analytic(schedule, MODEL.num_flits(size, 1), model)
            yield {
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
                "exact": memory.tobytes() == execute(schedule, buffers).tobytes(),
            }


def main() -> int:
    given = options(
        __doc__,
        topologies=listed("torus:4x4,torus:8x8"),
        algorithms=listed("multitree,symmetric,bidirectional_ring_2d"),
        sizes=sizes("32KiB,1MiB"),
    )

    def measured() -> Iterator[Row]:
        for spec, ratio, algorithm in product(given.topologies, SLOWER, given.algorithms):
            with Working(f"{algorithm} on {spec}, y at 1/{ratio}"):
                yield from measure(slower_along_y(spec, ratio), ratio, algorithm, given.sizes)

    rows = reported(given, measured(), *COLUMNS)
    good = all_exact(rows) and all((row["least_wait_cycles"] or 0) >= 0 for row in rows)
    return ended(given, good, {"good": good, "rows": rows})


if __name__ == "__main__":
    sys.exit(main())
