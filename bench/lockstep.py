"""What lockstep buys and costs, in cycles and in contributions staged.

In lockstep an interface waits out the estimated time of every step, as in the paper, so that ranks
that start together send in step. ``python bench/lockstep.py [--algorithm direct] [--json]``. Ranks
start together, and up to 2 000 cycles apart; cycles count from the first start to the last done.
Every result is compared with `execute` bit for bit; exit status 1 where one differs.
"""

import sys
from collections.abc import Iterator

import numpy as np
from _bench import Row, all_exact, ended, listed, options, reported, sizes
from _runs import num_staged

from multitree import LinkModel, build, execute, parse_topology
from multitree.host.runner import make_buffers
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.sizing import least_sizes
from multitree.topology.collectives import Op

MAX_SKEW_CYCLES = 2000
COLUMNS = ("topology", "size_bytes", "max_skew_cycles", "free_cycles", "lockstep_cycles")
COLUMNS += ("lockstep_ratio", "free_staging_share", "lockstep_staging_share", "exact")


def measure(spec: str, algorithm: str, size_bytes: int, seed: int) -> Iterator[Row]:
    """One network and size: ranks that start together, and ranks that do not."""
    topology, model = parse_topology(spec), LinkModel()
    num_flits = model.num_flits(size_bytes // 4, 4)
    schedule = build(topology, algorithm, cost_model=model.cost_model(topology, num_flits))
    buffers = make_buffers(seed, topology.num_ranks, size_bytes // 4, "float32")
    sizes = least_sizes(schedule, num_flits, lockstep=True)
    wanted = execute(schedule, buffers)
    added = int((schedule.op == Op.REDUCE).sum())
    rng = np.random.default_rng(seed)
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
            yield row | {"exact": exact, "schedule_hash": schedule.hash}


def main() -> int:
    given = options(
        __doc__,
        topologies=listed("torus:4x4,torus:8x8,fat_tree:4x4,bigraph:4x8"),
        algorithm="multitree",
        sizes=sizes("32KiB,256KiB"),
        seed={"type": int, "default": 1, "help": "of buffers and starts"},
    )
    measured = (
        row
        for spec in given.topologies
        for size in given.sizes
        for row in measure(spec, given.algorithm, size, given.seed)
    )
    rows = reported(given, measured, *COLUMNS)
    return ended(given, all_exact(rows), rows)


if __name__ == "__main__":
    sys.exit(main())
