"""Children that start together: flits per cycle at each port of their parent.

Every child of one rank sends it a chunk in the same step. The rank adds them in canonical order,
each contribution behind the one before it, sub-message by sub-message, so the last one ends a few
sub-messages' way through memory after the first. The sums are compared with `execute` bit for
bit: ``python bench/siblings.py --children 4 --flits 10000``. Exit status 1 where they differ, or
where a port takes less than `--least` flits per cycle of the default memory.
"""

import sys

from _bench import Row, all_exact, ended, options, reported
from _runs import in_rtl

from multitree import LinkModel, Schedule, fully_connected
from multitree.topology.collectives import Op

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


def measure(schedule: Schedule, num_flits: int, memory_cycles: int, seed: int) -> Row:
    """Flits per cycle of every port, from its first flit's arrival to its last flit's sum."""
    model = LinkModel().with_memory(memory_cycles)
    trace, exact = in_rtl(schedule, model.flit_bytes * num_flits, model, seed)
    # Its first flit, the head, comes out of a link as long after it went in as the link is long.
    came = trace.sent[0] + model.latency_cycles(schedule.topology)[schedule.route_links]
    rates = (num_flits / (trace.arrived[0] - came)).tolist()
    return {"memory_cycles": memory_cycles, "flits_per_cycle": rates, "exact": exact}


def main() -> int:
    given = options(
        __doc__,
        children=4,
        flits=10_000,
        least={"type": float, "default": 0.98, "help": "flits per cycle, first memory"},
        seed={"type": int, "default": 1, "help": "of the buffers"},
    )
    schedule = star(given.children)
    measured = (measure(schedule, given.flits, cycles, given.seed) for cycles in MEMORY_CYCLES)
    rows = reported(given, measured, "memory_cycles", "exact", "flits_per_cycle")
    good = min(rows[0]["flits_per_cycle"]) >= given.least and all_exact(rows)
    return ended(given, good, {"flits": given.flits, "good": good, "rows": rows})


if __name__ == "__main__":
    sys.exit(main())
