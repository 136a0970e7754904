"""Why our speed-ups of MultiTree exceed those published, cause by cause.

On a torus MultiTree over the ring and over the 2D ring, both in packets: first as they are here,
then with each cause of a difference in addition, then the simulator of MultiTree's authors, then
the published means. All but those by the engine exact:
``python bench/ablation.py [--topologies torus:8x8] [--sizes 32KiB,1MiB] [--json]``.
"""

import sys
from collections.abc import Iterator

from _bench import Row, ended, listed, options, reported, sizes
from baselines import PEER_CYCLES

from multitree import LinkModel, build, exact, parse_topology
from multitree.host.cli.output import Working
from multitree.host.evaluation.schemes import reduction_cycles
from multitree.host.sizes import format_size
from multitree.topology.algorithms.multitree import build_multitree

PACKETS = LinkModel(flow_control="packet")
OVER = ("ring", "ring_2d")
PUBLISHED = {"ring": 2.3, "ring_2d": 1.56}
"""Means of seven networks' gradients on torus:8x8, MultiTree in messages."""
AS_HERE, STEPS, LOCKSTEP = "as here", "steps of the authors' code", "lockstep"
REDUCTION, PEER = "reduction time subtracted", "the authors' simulator"


def measure(spec: str, size_bytes: int, work: Working) -> Iterator[Row]:
    """Rows of one network and size: cycles of MultiTree and of both rings, and their ratios."""
    topology, num_flits = parse_topology(spec), PACKETS.num_flits(size_bytes, 1)
    work.update(f"{spec}, {format_size(size_bytes)}")
    schedules = {name: build(topology, name) for name in ("multitree", *OVER)}
    rings = {name: exact(schedules[name], num_flits, PACKETS).cycles for name in OVER}
    # The single order of growth that the published code has.
    one_order = {"root_order": "ascending", "neighbour_order": "ascending"}
    published_steps = build_multitree(topology, **one_order)
    trees = {
        "MultiTree in packets": exact(schedules["multitree"], num_flits, PACKETS).cycles,
        AS_HERE: exact(schedules["multitree"], num_flits).cycles,
        STEPS: exact(published_steps, num_flits).cycles,
        LOCKSTEP: exact(published_steps, num_flits, lockstep=True).cycles,
    }
    for cause, tree in trees.items():
        yield _row(spec, size_bytes, cause, {"multitree": tree} | rings)
    less = {"multitree": trees[LOCKSTEP] - reduction_cycles(published_steps, LinkModel())}
    less |= {name: rings[name] - reduction_cycles(schedules[name], PACKETS) for name in OVER}
    yield _row(spec, size_bytes, REDUCTION, less)
    if peer := PEER_CYCLES.get((spec, format_size(size_bytes))):
        # What none of the causes explains, scheme by scheme.
        residual = {f"residual_{name}": peer[name] / cycles for name, cycles in less.items()}
        yield _row(spec, size_bytes, PEER, peer) | residual


def _row(spec: str, size_bytes: int | None, cause: str, cycles: dict[str, int]) -> Row:
    """Cycles of all schemes and their ratios; without cycles, the published ratios."""
    row = {"topology": spec, "size_bytes": size_bytes, "cause": cause}
    row["multitree_cycles"] = cycles.get("multitree")
    for name in OVER:
        row[f"{name}_cycles"] = cycles.get(name)
        row[f"over_{name}"] = cycles[name] / cycles["multitree"] if cycles else PUBLISHED[name]
    return row


def main() -> int:
    given = options(
        __doc__,
        topologies=listed("torus:4x4,torus:8x8", about="tori of two dimensions, commas between"),
        sizes=sizes("32KiB,1MiB"),
    )

    def measured() -> Iterator[Row]:
        with Working("Ablation") as work:
            for spec in given.topologies:
                for size in given.sizes:
                    yield from measure(spec, size, work)
        yield _row("torus:8x8", None, "published means", {})

    columns = ("topology", "size_bytes", "cause", "multitree_cycles", "ring_cycles")
    columns += ("ring_2d_cycles", "over_ring", "over_ring_2d")
    return ended(given, True, reported(given, measured(), *columns))


if __name__ == "__main__":
    sys.exit(main())
