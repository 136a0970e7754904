"""A torus loses a link, then a rank: new tables, and sums of what is left.

After each loss the time is taken from what failed to all ranks' tables: the network that is left, a
schedule on it, its proof, and its tables for the interfaces as they are plugged: CPU s, best of 3.
The next all-reduce runs in RTL on the same compiled interfaces, and is compared with `execute` bit
for bit. Exit status 1 where one differs or takes too long: ``python bench/failures.py [--json]``.
"""

import sys
from collections.abc import Iterator
from functools import partial

from _bench import Row, all_exact, ended, least_cpu_seconds, options, reported

from multitree import LinkModel, Schedule, Topology, build, execute, parse_topology, verify
from multitree.host.runner import make_buffers
from multitree.host.sizes import parse_size
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import compile_table
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.sizing import config_for, least_sizes
from multitree.topology.networks.bounds import bound_steps

MOST_SECONDS = 0.5
LOSSES: tuple[dict[str, list[int]], ...] = ({}, {"links": [20]}, {"ranks": [9]})
COLUMNS = ("topology", "num_ranks", "num_steps", "bound_steps", "tables_cpu_seconds")
COLUMNS += ("size_bytes", "cycles", "exact")


def planned(
    whole: Topology, lost: dict[str, list[int]], num_flits: int, config: Config
) -> Schedule:
    """What is left, its schedule and every rank's table; the schedule."""
    schedule = build(whole.without(**lost) if lost else whole, "multitree")
    verify(schedule)
    for rank in range(schedule.topology.num_ranks):
        compile_table(schedule, rank, num_flits, config)
    return schedule


def measure(spec: str, size_bytes: int) -> Iterator[Row]:
    """A row before anything fails, and one after each loss."""
    network, model = parse_topology(spec), LinkModel()
    num_flits = model.num_flits(size_bytes, 1)
    config = config_for(network, model, **least_sizes(build(network, "multitree"), num_flits))
    for lost in LOSSES:
        schedule, seconds = least_cpu_seconds(partial(planned, network, lost, num_flits, config))
        network = schedule.topology
        buffers = make_buffers(1, network.num_ranks, size_bytes // 4, "float32")
        with RtlSession(network, link_model=model, config=config) as session:
            ((memory, trace),) = session.run(schedule, [buffers])
        yield {
            "topology": network.name,
            "num_ranks": network.num_ranks,
            "num_steps": schedule.steps_all_gather,
            "bound_steps": bound_steps(network),
            "tables_cpu_seconds": seconds,
            "size_bytes": size_bytes,
            "cycles": trace.cycles,
            "exact": memory.tobytes() == execute(schedule, buffers).tobytes(),
            "schedule_hash": schedule.hash,
        }


def main() -> int:
    given = options(__doc__, topology="torus:4x4", size="1MiB")
    rows = reported(given, measure(given.topology, parse_size(given.size)), *COLUMNS)
    good = all_exact(rows) and all(row["tables_cpu_seconds"] <= MOST_SECONDS for row in rows)
    return ended(given, good, {"good": good, "rows": rows})


if __name__ == "__main__":
    sys.exit(main())
