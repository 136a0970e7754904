"""A torus loses a link, then a rank: new tables, and sums of what is left.

After each loss the time is taken from what failed to all ranks' tables: the network that is left, a
schedule on it, its proof, and its tables for the interfaces as they are plugged: CPU s, best of 3.
The next all-reduce runs in RTL on the same compiled interfaces, and is compared with `execute` bit
for bit. Exit status 1 where one differs or takes too long: ``python bench/failures.py [--json]``.
"""

import argparse
import json
import sys
import time
from typing import Any

from multitree.host.runner import make_buffers
from multitree.host.sizes import format_size, parse_size
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import compile_table
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import config_for, least_sizes
from multitree.topology.algorithms.build import build
from multitree.topology.checks.verify import verify
from multitree.topology.networks.bounds import bound_steps
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule
from multitree.topology.specs import parse_topology

MOST_SECONDS = 0.5
LOSSES: tuple[dict[str, list[int]], ...] = ({}, {"links": [20]}, {"ranks": [9]})
ROW = "{:<42} {:>5} {:>5} {:>5} {:>11} {:>7} {:>7} {:>6}"
COLUMNS = ("network", "ranks", "steps", "bound", "tables CPU s", "size", "cycles", "exact")


def planned(
    whole: Topology, lost: dict[str, list[int]], num_flits: int, config: Config
) -> Schedule:
    """What is left, its schedule and every rank's table; the schedule."""
    schedule = build(whole.without(**lost) if lost else whole, "multitree")
    verify(schedule)
    for rank in range(schedule.topology.num_ranks):
        compile_table(schedule, rank, num_flits, config)
    return schedule


def measure(spec: str, size_bytes: int, repeats: int = 3) -> list[dict[str, Any]]:
    """A row before anything fails, and one after each loss."""
    network, rows, model = parse_topology(spec), [], LinkModel()
    num_flits = model.num_flits(size_bytes, 1)
    config = config_for(network, model, **least_sizes(build(network, "multitree"), num_flits))
    for lost in LOSSES:
        seconds = []
        for _ in range(repeats):
            begin = time.process_time()
            schedule = planned(network, lost, num_flits, config)
            seconds.append(time.process_time() - begin)
        network = schedule.topology
        buffers = make_buffers(1, network.num_ranks, size_bytes // 4, "float32")
        with RtlSession(network, link_model=model, config=config) as session:
            ((memory, trace),) = session.run(schedule, [buffers])
        rows.append(
            {
                "topology": network.name,
                "num_ranks": network.num_ranks,
                "num_steps": schedule.steps_all_gather,
                "bound_steps": bound_steps(network),
                "tables_cpu_seconds": min(seconds),
                "size_bytes": size_bytes,
                "cycles": trace.cycles,
                "exact": memory.tobytes() == execute(schedule, buffers).tobytes(),
                "schedule_hash": schedule.hash,
            }
        )
    return rows


def main() -> int:
    """Measure and print all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topology", default="torus:4x4")
    parser.add_argument("--size", default="1MiB")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = measure(arguments.topology, parse_size(arguments.size))
    good = all(row["exact"] and row["tables_cpu_seconds"] <= MOST_SECONDS for row in rows)
    if arguments.json:
        print(json.dumps({"good": good, "rows": rows}, indent=2))
        return int(not good)
    print(ROW.format(*COLUMNS))
    for row in rows:
        cells = [row[name] for name in ("topology", "num_ranks", "num_steps", "bound_steps")]
        cells += [f"{row['tables_cpu_seconds']:.3f}", format_size(row["size_bytes"])]
        print(ROW.format(*cells, row["cycles"], "yes" if row["exact"] else "NO"))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
