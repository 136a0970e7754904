"""Packed spanning trees and their timetables: loads, heights, slots and seconds.

``python bench/packing.py [--json] [--only "NAME;NAME"]``. *Load*: how many of the trees the
busiest pair of links carries, times the slots that one holds it. *Optimum*: what the worst
partition of the ranks, with so many parts, demands for so many trees, in fractions. *Slots*: of a
wave, from its first to its last, where each row begins so many slots behind what it depends on.
CPU seconds, best of 3, are of the packing, and of one timetable. Exit status 1 if a limit is
missed.
"""

import sys
from functools import partial

import networkx
import numpy as np
from _bench import Row, ended, least_cpu_seconds, options, reported, some_of, within_limits

from multitree import Topology, mesh, parse_topology
from multitree.topology.networks.bounds import worst_partition
from multitree.topology.packing.link_pairs import link_pairs
from multitree.topology.packing.modulo_schedule import modulo_schedule
from multitree.topology.packing.tree_packing import pack_trees

HOPS = (1, 2, 3, 4)
FAMILIES = ("mesh:4x4", "mesh:8x8", "mesh:16x16", "torus:4x4", "torus:8x8", "hypercube:6")
IRREGULAR, DEAD_LINK, SLOW_ROWS = "irregular", "mesh:8x8 without a link", "mesh:8x8, slow along y"
NAMES = (*FAMILIES, IRREGULAR, DEAD_LINK, SLOW_ROWS)
CPU_LIMIT_SECONDS = {"mesh:8x8": 0.6, "mesh:16x16": 6.0}


def network(name: str) -> Topology:
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


def measure(name: str) -> Row:
    topology = network(name)
    packing, pack_cpu_seconds = least_cpu_seconds(partial(pack_trees, topology))
    tables = {hop: least_cpu_seconds(partial(modulo_schedule, packing, hop)) for hop in HOPS}
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


COLUMNS = ("topology", "num_trees", "max_load_slots", "optimum_slots", "ratio", "worst_parts")
COLUMNS += ("height_hops", "mean_height_hops", "diameter_hops")
COLUMNS += (*(f"wave_slots_hop_{hop}" for hop in HOPS), "pack_cpu_seconds")
COLUMNS += ("timetable_cpu_seconds", "limit_cpu_seconds")


def main() -> int:
    given = options(__doc__, only=some_of(NAMES, ";"))
    rows = reported(given, map(measure, given.only), *COLUMNS)
    return ended(given, within_limits(rows), rows)


if __name__ == "__main__":
    sys.exit(main())
