"""All-reduces of MultiTree and its baselines in RTL, with the figures of a peer.

``python bench/baselines.py [--topologies torus:4x4] [--algorithms ring,swing] [--sizes 32KiB]
[--json]``. Every rank's memory is compared with `execute` bit for bit; exit status 1 where one
differs. The peer is the simulator of MultiTree's authors: BookSim 2, modified, with 4 virtual
channels x 318 flits, links and flits as here, without data. Its "ring" goes one way, and its
MultiTree is that with message-based flow control.
"""

import sys
from collections.abc import Iterator, Sequence

from _bench import Row, all_exact, ended, listed, options, reported, sizes

from multitree import build, parse_topology
from multitree.host.cli.output import Working
from multitree.host.runner import Runner
from multitree.host.sizes import format_size

ON_TORI = ("multitree", "ring", "ring_2d", "bidirectional_ring_2d", "double_tree", "swing")
ON_MESHES = ("multitree", "ring", "bidirectional_ring", "ring_2d", "tto", "forest")
ON_SWITCHES = ("multitree", "ring", "double_tree", "halving_doubling")
CASES = {
    **dict.fromkeys(("torus:4x4", "torus:8x8"), ON_TORI),
    **dict.fromkeys(("mesh:4x4", "mesh:8x8"), ON_MESHES),
    "fat_tree:4x4": ON_SWITCHES,
    "bigraph:4x8": (*ON_SWITCHES, "hdrm"),
    **dict.fromkeys(("dgx2", "dgx_a100:2"), (*ON_SWITCHES, "direct")),
}
OF_PEER = ("multitree", "ring", "ring_2d", "double_tree", "hdrm")
PEER_CYCLES = {
    (spec, size): {name: n for name, n in zip(OF_PEER, cycles, strict=True) if n is not None}
    for spec, size, *cycles in (
        ("torus:4x4", "32 KiB", 3272, 9344, 5860, 10175, None),
        ("torus:4x4", "1 MiB", 45909, 143264, 72178, None, None),
        ("torus:8x8", "32 KiB", 4501, 25916, 8790, 21612, None),
        ("torus:8x8", "256 KiB", 19022, 56912, 42706, None, None),
        ("torus:8x8", "1 MiB", 57192, 165776, 121018, None, None),
        ("bigraph:4x8", "32 KiB", 5131, 33539, None, 18026, 9249),
        ("bigraph:4x8", "1 MiB", 128371, 171675, None, None, 147625),
    )
}
COLUMNS = ("topology", "algorithm", "size_bytes", "max_link_load", "cycles", "ratio_to_bound")
COLUMNS += ("peer_cycles", "ratio_to_peer", "exact", "cpu_seconds")


def measure(spec: str, algorithm: str, sizes: Sequence[int], work: Working) -> Iterator[Row]:
    """Rows of one algorithm, on one network that stays between sizes."""
    topology = parse_topology(spec)
    with Runner.timed(topology, "rtl", progress=work.count_cycles, say=work.say) as runner:
        for size in sizes:
            schedule = build(topology, algorithm, cost_model=runner.cost_model(size))
            report, _ = runner.simulate(schedule, size)
            peer = PEER_CYCLES.get((spec, format_size(size)), {}).get(algorithm)
            yield {
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


def main() -> int:
    given = options(
        __doc__,
        topologies=listed(",".join(CASES)),
        algorithms=listed("none", about="commas between; otherwise each network's"),
        sizes=sizes("32KiB,256KiB,1MiB"),
    )

    def measured() -> Iterator[Row]:
        for spec in given.topologies:
            for algorithm in given.algorithms or CASES[spec]:
                with Working(f"{algorithm} on {spec}") as work:
                    yield from measure(spec, algorithm, given.sizes, work)

    rows = reported(given, measured(), *COLUMNS)
    return ended(given, all_exact(rows), rows)


if __name__ == "__main__":
    sys.exit(main())
