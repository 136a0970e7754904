"""Steps per phase of MultiTree beside bound and peers, and its building time.

``python bench/schedules.py [--json]``. Peers: the authors' simulator of MultiTree, TACOS
v1.3.0, and ForestColl, whose figure is what its throughput comes to in steps, not a number of
steps that it takes. Exit status 1 if a limit is missed.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from multitree.topology.families import parse_topology
from multitree.topology.multitree import build_multitree
from multitree.topology.schedule import Schedule
from multitree.topology.verify import verify


@dataclass(frozen=True)
class Peers:
    """Steps per phase that others need, and CPU seconds; None where not known."""

    limit: int | None = None
    authors: int | None = None
    tacos: int | None = None
    forestcoll: float | None = None
    tacos_cpu_seconds: float | None = None


SPECS = {
    "torus:4x4": Peers(limit=5, authors=5),
    "torus:6x6": Peers(limit=10, authors=10),
    "torus:8x8": Peers(limit=17, authors=17, tacos=17, forestcoll=15.75),
    "torus:16x16": Peers(tacos=65, forestcoll=63.75),
    "torus:32x32": Peers(tacos=258, tacos_cpu_seconds=78.7),
    "torus:8x8x8": Peers(tacos=86, forestcoll=85.17, tacos_cpu_seconds=5.7),
    "mesh:4x4": Peers(limit=8, authors=10),
    "mesh:5x5": Peers(authors=14),
    "mesh:8x8": Peers(limit=32, tacos=32, forestcoll=31.5),
    "mesh:16x16": Peers(tacos=128, forestcoll=127.5),
    "hypercube:6": Peers(tacos=11, forestcoll=10.5),
    "hypercube:8": Peers(tacos=32, forestcoll=31.9),
    "fat_tree:4x4": Peers(limit=15),
    "fat_tree:8x8": Peers(limit=63),
    "bigraph:4x8": Peers(limit=31),
    "bigraph:4x16": Peers(limit=63),
    "dgx2": Peers(limit=3),
}
CPU_LIMIT_SECONDS = {"torus:16x16": 1.0, "torus:32x32": 15.0}


def timed_build(spec: str) -> tuple[Schedule, float]:
    """Build MultiTree's schedule, timed: best of 3 where the time has a limit."""
    topology = parse_topology(spec)
    seconds = []
    for _ in range(3 if spec in CPU_LIMIT_SECONDS else 1):
        start = time.process_time()
        schedule = build_multitree(topology)
        seconds.append(time.process_time() - start)
    return schedule, min(seconds)


def measure(spec: str) -> dict[str, object]:
    """One row of figures."""
    schedule, build_cpu_seconds = timed_build(spec)
    start = time.process_time()
    report = verify(schedule)
    steps = max(schedule.steps_reduce_scatter, schedule.steps_all_gather)
    peers, cpu_limit = SPECS[spec], CPU_LIMIT_SECONDS.get(spec)
    within_steps = peers.limit is None or steps <= peers.limit
    within_time = cpu_limit is None or build_cpu_seconds <= cpu_limit
    return {
        "topology": spec,
        "num_ranks": schedule.topology.num_ranks,
        "steps_per_phase": steps,
        "bound_steps": report.bound_steps,
        "tree_height_hops": report.tree_height_hops,
        "max_link_load": report.max_link_load,
        **{f"peer_{name}": value for name, value in asdict(peers).items() if name != "limit"},
        "limit_steps": peers.limit,
        "build_cpu_seconds": round(build_cpu_seconds, 4),
        "limit_cpu_seconds": cpu_limit,
        "verify_cpu_seconds": round(time.process_time() - start, 4),
        "within_limits": within_steps and within_time and report.contention_free,
    }


def show(rows: list[dict[str, object]]) -> None:
    """Print the figures for people."""
    table = Table(title="MultiTree: steps per phase, reduce-scatter and all-gather alike")
    columns = {
        "topology": "topology",
        "steps_per_phase": "steps",
        "limit_steps": "at most",
        "bound_steps": "bound",
        "peer_authors": "authors' code",
        "peer_tacos": "TACOS",
        "peer_forestcoll": "ForestColl",
        "tree_height_hops": "height",
        "build_cpu_seconds": "build, CPU s",
        "limit_cpu_seconds": "at most",
        "peer_tacos_cpu_seconds": "TACOS, CPU s",
        "verify_cpu_seconds": "verify, CPU s",
    }
    for heading in columns.values():
        table.add_column(heading, justify="left" if heading == "topology" else "right")
    for row in rows:
        table.add_row(*("" if row[key] is None else str(row[key]) for key in columns))
    Console(width=150).print(table)


def main() -> int:
    """Measure every topology of the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    as_json = parser.parse_args().json
    rows = [measure(spec) for spec in SPECS]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows)
    missed = [str(row["topology"]) for row in rows if not row["within_limits"]]
    if missed:
        print(f"missed on {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
