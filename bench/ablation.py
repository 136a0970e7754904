"""Why our speed-ups of MultiTree exceed those published, cause by cause.

On a torus MultiTree over the ring and over the 2D ring, both in packets: first as they are here,
then with each cause of a difference in addition, then the simulator of MultiTree's authors, then
the published means. All but those by the engine exact:
``python bench/ablation.py [--topologies torus:8x8] [--sizes 32KiB,1MiB] [--json]``.
"""

import argparse
import json
import sys
from typing import Any

from baselines import PEER_CYCLES

from multitree.host.cli.output import Working
from multitree.host.evaluation.schemes import reduction_cycles
from multitree.host.sizes import format_size, parse_sizes
from multitree.sim.exact.engine import exact
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.networks.topology import Topology
from multitree.topology.specs import parse_topology

PACKETS = LinkModel(flow_control="packet")
OVER = ("ring", "ring_2d")
PUBLISHED = {"ring": 2.3, "ring_2d": 1.56}
"""Means of seven networks' gradients on torus:8x8, MultiTree in messages."""
AS_HERE, STEPS, LOCKSTEP = "as here", "steps of the authors' code", "lockstep"
REDUCTION, PEER = "reduction time subtracted", "the authors' simulator"
COLUMNS = ("topology", "size", "cause, with those above", "MultiTree", "ring", "2D ring")
ROW = "{:<10} {:>7} {:<38} {:>10} {:>8} {:>8} {:>7} {:>7}"


def measure(spec: str, size_bytes: int, work: Working) -> list[dict[str, Any]]:
    """Rows of one network and size: cycles of MultiTree and of both rings, and their ratios."""
    topology, num_flits = parse_topology(spec), PACKETS.num_flits(size_bytes, 1)
    work.update(f"{spec}, {format_size(size_bytes)}")
    schedules = {name: build(topology, name) for name in ("multitree", *OVER)}
    rings = {name: exact(schedules[name], num_flits, PACKETS).cycles for name in OVER}
    published_steps = _one_order(topology)
    trees = {
        "MultiTree in packets": exact(schedules["multitree"], num_flits, PACKETS).cycles,
        AS_HERE: exact(schedules["multitree"], num_flits).cycles,
        STEPS: exact(published_steps, num_flits).cycles,
        LOCKSTEP: exact(published_steps, num_flits, lockstep=True).cycles,
    }
    rows = [_row(spec, size_bytes, cause, tree, rings) for cause, tree in trees.items()]
    tree = trees[LOCKSTEP] - reduction_cycles(published_steps, LinkModel())
    less = {name: rings[name] - reduction_cycles(schedules[name], PACKETS) for name in OVER}
    rows.append(_row(spec, size_bytes, REDUCTION, tree, less))
    peer = PEER_CYCLES.get((spec, format_size(size_bytes)), {})
    if peer:
        rows.append(_row(spec, size_bytes, PEER, peer["multitree"], peer))
        # What none of the causes explains, scheme by scheme.
        ours = {"multitree": tree} | less
        rows[-1] |= {f"residual_{name}": peer[name] / cycles for name, cycles in ours.items()}
    return rows


def _one_order(topology: Topology) -> Any:
    """MultiTree with the single order of growth that the published code has."""
    return build_multitree(topology, root_order="ascending", neighbour_order="ascending")


def _row(
    spec: str, size_bytes: int, cause: str, tree_cycles: int, rings: dict[str, int]
) -> dict[str, Any]:
    row: dict[str, Any] = {"topology": spec, "size_bytes": size_bytes, "cause": cause}
    row["multitree_cycles"] = tree_cycles
    for name in OVER:
        row[f"{name}_cycles"] = rings[name]
        row[f"over_{name}"] = rings[name] / tree_cycles
    return row


def _published() -> dict[str, Any]:
    """A last row, without cycles."""
    row: dict[str, Any] = {"topology": "torus:8x8", "size_bytes": None, "cause": "published means"}
    row["multitree_cycles"] = None
    for name in OVER:
        row |= {f"{name}_cycles": None, f"over_{name}": PUBLISHED[name]}
    return row


def show(rows: list[dict[str, Any]]) -> None:
    """Print rows for people."""
    print(ROW.format(*COLUMNS, "x ring", "x 2D"))
    for row in rows:
        size = "" if row["size_bytes"] is None else format_size(row["size_bytes"])
        cycles = [row[f"{name}_cycles"] or "" for name in ("multitree", *OVER)]
        ratios = [f"{row[f'over_{name}']:.2f}" for name in OVER]
        print(ROW.format(row["topology"], size, row["cause"], *cycles, *ratios))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--topologies", default="torus:4x4,torus:8x8", help="tori of two dimensions"
    )
    parser.add_argument("--sizes", default="32KiB,1MiB", help="of one rank's buffer")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    sizes = parse_sizes(arguments.sizes)
    with Working("Ablation") as work:
        rows = [
            row
            for spec in arguments.topologies.split(",")
            for size in sizes
            for row in measure(spec, size, work)
        ]
    rows.append(_published())
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
