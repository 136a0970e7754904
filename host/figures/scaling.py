"""Figures over the number of ranks: weak and strong scaling on tori."""

from dataclasses import replace
from functools import partial

from multitree.host.figures.figure import Axis, Figure, Request, RunPoints, Value
from multitree.host.figures.rules import point_of
from multitree.host.figures.schemes import (
    BIDIRECTIONAL_RING_2D,
    MULTITREE,
    MULTITREE_PACKETS,
    NO_PACKETS,
    RING,
    RING_2D,
)
from multitree.host.figures.timed import Timed, Wanted, timed, value_of
from multitree.topology.specs import parse_topology

__all__ = ["STRONG_SCALING", "TORI", "WEAK_SCALING"]

TORI = tuple(f"torus:{side}x{side}" for side in range(4, 17, 2))
WEAK_BYTES_PER_RANK = 98_304 * 4
STRONG_BYTES = 32 << 20
SCHEMES = (RING, RING_2D, BIDIRECTIONAL_RING_2D, MULTITREE_PACKETS, MULTITREE)


def _scaling(request: Request, run: RunPoints, *, weak: bool) -> list[Value]:
    """Time over that of the ring on the first network."""
    ranks = {spec: parse_topology(spec).num_ranks for spec in request.networks}
    sizes = {spec: WEAK_BYTES_PER_RANK * ranks[spec] if weak else STRONG_BYTES for spec in ranks}
    wanted = [
        Wanted("", scheme.name, ranks[spec], point_of(request, scheme, spec, sizes[spec]))
        for scheme in SCHEMES
        for spec in request.networks
    ]
    found = [_in_packets(each) for each in timed(request, run, wanted)]
    base = found[0].cycles

    def over_first_ring(each: Timed) -> float | None:
        return each.cycles / base if base and each.cycles else None

    return [value_of(each, over_first_ring) for each in found]


def _in_packets(each: Timed) -> Timed:
    """The same, but no cycles of MultiTree in packets where those are of its messages."""
    is_packets = each.wanted.series == MULTITREE_PACKETS.name
    if is_packets and MULTITREE_PACKETS.lacks_packets_on(each.wanted.point.topology):
        return replace(each, cycles=None, rtl_cycles=None, problem=each.problem or NO_PACKETS)
    return each


WEAK_SCALING = Figure(
    "weak-scaling",
    "Weak scaling on tori, 98 304 float32 per rank",
    "Figure 10: time over ranks, a buffer that grows with them, on tori.",
    Axis("ranks"),
    Axis("time over the ring's on the first network", "log"),
    partial(_scaling, weak=True),
    TORI,
    subjects=(MULTITREE.name,),
)
STRONG_SCALING = Figure(
    "strong-scaling",
    "Strong scaling on tori, 32 MiB",
    "Time over ranks, the same 32 MiB on all, on tori.",
    Axis("ranks"),
    Axis("time over the ring's on the first network"),
    partial(_scaling, weak=False),
    TORI,
    subjects=(MULTITREE.name,),
)
