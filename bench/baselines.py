"""All-reduces of MultiTree and its baselines in RTL, with the figures of a peer.

``python bench/baselines.py [--topologies torus:4x4] [--algorithms ring,swing] [--sizes 32KiB]
[--json]``. Every rank's memory is compared with `execute` bit for bit; exit status 1 where one
differs. The peer is the simulator of MultiTree's authors: BookSim 2, modified, with 4 virtual
channels x 318 flits, links and flits as here, without data. Its "ring" goes one way, and its
MultiTree is that with message-based flow control.
"""

import argparse
import json
import sys
from typing import Any

from multitree.host.cli.output import Working
from multitree.host.runner import Runner
from multitree.host.sizes import format_size, parse_size
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build
from multitree.topology.specs import parse_topology

ON_TORI = ("multitree", "ring", "ring_2d", "bidirectional_ring_2d", "double_tree", "swing")
ON_MESHES = ("multitree", "ring", "bidirectional_ring", "ring_2d", "tto", "forest")
ON_SWITCHES = ("multitree", "ring", "double_tree", "halving_doubling")
CASES = {
    "torus:4x4": ON_TORI,
    "torus:8x8": ON_TORI,
    "mesh:4x4": ON_MESHES,
    "mesh:8x8": ON_MESHES,
    "fat_tree:4x4": ON_SWITCHES,
    "bigraph:4x8": (*ON_SWITCHES, "hdrm"),
    "dgx2": (*ON_SWITCHES, "direct"),
    "dgx_a100:2": (*ON_SWITCHES, "direct"),
}
PEER_CYCLES = {
    ("torus:4x4", "32 KiB"): {
        "multitree": 3272,
        "ring": 9344,
        "ring_2d": 5860,
        "double_tree": 10175,
    },
    ("torus:4x4", "1 MiB"): {"multitree": 45909, "ring": 143264, "ring_2d": 72178},
    ("torus:8x8", "32 KiB"): {
        "multitree": 4501,
        "ring": 25916,
        "ring_2d": 8790,
        "double_tree": 21612,
    },
    ("torus:8x8", "256 KiB"): {"multitree": 19022, "ring": 56912, "ring_2d": 42706},
    ("torus:8x8", "1 MiB"): {"multitree": 57192, "ring": 165776, "ring_2d": 121018},
    ("bigraph:4x8", "32 KiB"): {
        "multitree": 5131,
        "ring": 33539,
        "double_tree": 18026,
        "hdrm": 9249,
    },
    ("bigraph:4x8", "1 MiB"): {"multitree": 128371, "ring": 171675, "hdrm": 147625},
}
COLUMNS = ("topology", "algorithm", "size", "load", "cycles", "x bound", "peer", "x peer", "exact")
ROW = "{:<12} {:<21} {:>7} {:>4} {:>8} {:>7} {:>7} {:>6} {:>5} {:>6}"


def measure(spec: str, algorithm: str, sizes: list[str], work: Working) -> list[dict[str, Any]]:
    """Rows of one algorithm, on one network that stays between sizes."""
    topology, model = parse_topology(spec), LinkModel()
    rows = []
    with Runner.timed(topology, "rtl", progress=work.count_cycles, say=work.say) as runner:
        for size in map(parse_size, sizes):
            cost_model = model.cost_model(topology, model.num_flits(size, 1))
            schedule = build(topology, algorithm, cost_model=cost_model)
            report, _ = runner.simulate(schedule, size)
            peer = PEER_CYCLES.get((spec, format_size(size)), {}).get(algorithm)
            rows.append(
                {
                    "topology": spec,
                    "algorithm": algorithm,
                    "size_bytes": size,
                    "max_link_load": schedule.max_link_load,
                    "cycles": report.cycles,
                    "bound_cycles": report.bound_cycles,
                    "ratio_to_bound": report.ratio_to_bound,
                    "peer_cycles": peer,
                    "ratio_to_peer": None if peer is None else report.cycles / peer,
                    "exact": report.exact,
                    "cpu_seconds": report.cpu_seconds,
                    "schedule_hash": schedule.hash,
                }
            )
    return rows


def show(row: dict[str, Any]) -> None:
    """Print one row for people; what is unknown stays empty."""
    peer = row["peer_cycles"]
    cells = [
        row["topology"],
        row["algorithm"],
        format_size(row["size_bytes"]),
        row["max_link_load"],
        row["cycles"],
        f"{row['ratio_to_bound']:.2f}",
        "" if peer is None else peer,
        "" if peer is None else f"{row['ratio_to_peer']:.2f}",
        "yes" if row["exact"] else "NO",
        f"{row['cpu_seconds']:.0f}",
    ]
    print(ROW.format(*cells), flush=True)


def main() -> int:
    """Run all cases; exit status 1 if one is not exact."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topologies", default=",".join(CASES), help="with commas between")
    parser.add_argument("--algorithms", help="with commas between; otherwise each network's")
    parser.add_argument("--sizes", default="32KiB,256KiB,1MiB")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    if not arguments.json:
        print(ROW.format(*COLUMNS, "CPU s"))
    rows = []
    for spec in arguments.topologies.split(","):
        chosen = arguments.algorithms
        for algorithm in chosen.split(",") if chosen else CASES[spec]:
            with Working(f"{algorithm} on {spec}") as work:
                measured = measure(spec, algorithm, arguments.sizes.split(","), work)
            rows += measured
            if not arguments.json:
                for row in measured:
                    show(row)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    return 0 if all(row["exact"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
