"""Packed spanning trees and their timetables: loads, heights, slots and seconds.

``python bench/packing.py [--json] [--only "NAME;NAME"]``. *Load*: how many of the trees the
busiest pair of links carries, times the slots that one holds it. *Optimum*: what the worst
partition of the ranks, with so many parts, demands for so many trees, in fractions. *Slots*: of a
wave, from its first to its last, where each row begins so many slots behind what it depends on.
CPU seconds, best of 3, are of the packing, and of one timetable. Exit status 1 if a limit is
missed.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import networkx
import numpy as np
from rich.console import Console
from rich.table import Table

from multitree.topology.families.direct import mesh
from multitree.topology.networks.bounds import worst_partition
from multitree.topology.networks.topology import Topology
from multitree.topology.packing.link_pairs import link_pairs
from multitree.topology.packing.modulo_schedule import modulo_schedule
from multitree.topology.packing.tree_packing import pack_trees
from multitree.topology.specs import parse_topology

HOPS = (1, 2, 3, 4)
FAMILIES = ("mesh:4x4", "mesh:8x8", "mesh:16x16", "torus:4x4", "torus:8x8", "hypercube:6")
IRREGULAR, DEAD_LINK, SLOW_ROWS = "irregular", "mesh:8x8 without a link", "mesh:8x8, slow along y"
NAMES = (*FAMILIES, IRREGULAR, DEAD_LINK, SLOW_ROWS)
CPU_LIMIT_SECONDS = {"mesh:8x8": 0.6, "mesh:16x16": 6.0}


def network(name: str) -> Topology:
    """The topology of a row."""
    if name == IRREGULAR:
        return Topology.from_networkx(networkx.gnm_random_graph(40, 100, seed=51), name=name)
    if name == DEAD_LINK:
        whole = mesh(8, 8)
        middle = np.flatnonzero((whole.links == [27, 28]).all(axis=1))
        return whole.without(links=middle.tolist())
    if name == SLOW_ROWS:
        whole = mesh(8, 8)
        is_along_y = np.ptp(whole.links, axis=1) > 1
        speeds = np.where(is_along_y, 8.0, 16.0)
        return Topology(name, 64, 0, whole.links, speeds, 150.0)
    return parse_topology(name)


def timed(build: Callable[[], Any]) -> tuple[Any, float]:
    """What is built, and the CPU seconds of the fastest of three times."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        built = build()
        seconds.append(time.process_time() - start)
    return built, min(seconds)


def measure(name: str) -> dict[str, Any]:
    """One row of figures."""
    topology = network(name)
    packing, pack_cpu_seconds = timed(partial(pack_trees, topology))
    tables = {hop: timed(partial(modulo_schedule, packing, hop)) for hop in HOPS}
    slots = {hop: table.num_slots for hop, (table, _) in tables.items()}
    table_cpu_seconds = max(seconds for _, seconds in tables.values())
    pairs = link_pairs(topology)
    worst = worst_partition(pairs.ends, 1 / pairs.slots, topology.num_ranks)
    loads = packing.link_loads * packing.slots
    seconds = pack_cpu_seconds + table_cpu_seconds
    return {
        "topology": name,
        "num_ranks": topology.num_ranks,
        "num_trees": packing.num_trees,
        "period_slots": packing.period,
        "max_load_slots": int(loads.max()),
        "optimum_slots": round(packing.num_trees * worst.share, 4),
        "worst_parts": worst.num_parts,
        "ratio": round(packing.ratio_to_optimum, 4),
        "height_hops": int(packing.heights.max()),
        "mean_height_hops": round(float(packing.heights.mean()), 2),
        "diameter_hops": topology.diameter,
        **{f"wave_slots_hop_{hop}": number for hop, number in slots.items()},
        "pack_cpu_seconds": round(pack_cpu_seconds, 3),
        "timetable_cpu_seconds": round(table_cpu_seconds, 3),
        "limit_cpu_seconds": CPU_LIMIT_SECONDS.get(name),
        "within_limits": seconds <= CPU_LIMIT_SECONDS.get(name, seconds),
    }


COLUMNS = {
    "topology": "topology",
    "num_trees": "trees",
    "max_load_slots": "load",
    "optimum_slots": "optimum",
    "ratio": "ratio",
    "worst_parts": "parts",
    "height_hops": "height",
    "mean_height_hops": "mean",
    "diameter_hops": "diameter",
    **{f"wave_slots_hop_{hop}": f"slots, hop {hop}" for hop in HOPS},
    "pack_cpu_seconds": "pack, CPU s",
    "timetable_cpu_seconds": "timetable, CPU s",
    "limit_cpu_seconds": "at most",
}


def show(rows: list[dict[str, Any]]) -> None:
    """Print the figures for people."""
    table = Table(title="Packed trees and their timetables")
    for key, heading in COLUMNS.items():
        table.add_column(heading, justify="left" if key == "topology" else "right")
    for row in rows:
        table.add_row(*("" if row[key] is None else str(row[key]) for key in COLUMNS))
    Console(width=170).print(table)


def main() -> int:
    """Measure every topology of the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--only", help="topologies with semicolons between")
    arguments = parser.parse_args()
    names = NAMES if arguments.only is None else arguments.only.split(";")
    unknown = set(names) - set(NAMES)
    if unknown:
        parser.error(f"topology must be one of {'; '.join(NAMES)}, not {min(unknown)!r}")
    rows = [measure(name) for name in names]
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows)
    missed = [row["topology"] for row in rows if not row["within_limits"]]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
