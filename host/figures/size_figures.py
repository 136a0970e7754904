"""Figures over the size of a buffer: bandwidth, packets, all baselines."""

from functools import partial

from multitree.host.figures.figure import Axis, Figure, Request, RunPoints, Value
from multitree.host.figures.rules import point_of
from multitree.host.figures.schemes import (
    MULTITREE,
    MULTITREE_PACKETS,
    NO_PACKETS,
    PAPER,
    Scheme,
)
from multitree.host.figures.timed import Timed, Wanted, timed, value_of
from multitree.topology.algorithms.registry import ALGORITHMS

__all__ = ["BANDWIDTH", "BASELINES", "PACKETS"]

KIB, MIB = 1 << 10, 1 << 20
DIRECT = ("torus:4x4", "torus:8x8", "mesh:4x4", "mesh:8x8")
SWITCHED = ("dgx2", "fat_tree:8x8", "bigraph:4x8", "bigraph:4x16")
PAPER_SIZES = tuple(32 * KIB << power for power in range(12))
_GIB_PER_GB = 1e9 / (1 << 30)


def _bandwidth(request: Request, run: RunPoints) -> list[Value]:
    """Buffer over time, as in figure 9 of the paper."""
    wanted = [
        Wanted(spec, scheme.name, size, point_of(request, scheme, spec, size))
        for spec in request.networks
        for scheme in PAPER
        if not scheme.lacks_packets_on(spec)
        for size in request.sizes
    ]
    unit = _GIB_PER_GB if request.rule == "published" else 1.0

    def per_second(each: Timed) -> float | None:
        return each.wanted.point.size_bytes / each.time_us / 1000 * unit if each.time_us else None

    return [value_of(each, per_second) for each in timed(request, run, wanted)]


def _packets(request: Request, run: RunPoints) -> list[Value]:
    """How many more cycles packets take than messages."""
    wanted = [
        Wanted("", spec, size, point_of(request, scheme, spec, size))
        for spec in request.networks
        for size in request.sizes
        for scheme in (MULTITREE_PACKETS, MULTITREE)
    ]
    found = timed(request, run, wanted)
    values = []
    for packets, messages in zip(found[::2], found[1::2], strict=True):
        lacks_packets = MULTITREE_PACKETS.lacks_packets_on(packets.wanted.point.topology)
        if messages.cycles and not lacks_packets:
            values.append(value_of(packets, partial(_more, base_cycles=messages.cycles)))
        else:
            wanted_of, problem = messages.wanted, messages.problem or NO_PACKETS
            values.append(Value("", wanted_of.series, wanted_of.x, None, problem=problem))
    return values


def _more(each: Timed, base_cycles: int) -> float:
    assert each.cycles is not None, "asked for only where there are cycles"
    return 100 * (each.cycles / base_cycles - 1)


def _baselines(request: Request, run: RunPoints) -> list[Value]:
    """Every algorithm in the same mode: whole chunks in messages, the same buffers."""
    schemes = [Scheme(name, name) for name in ALGORITHMS]
    wanted = [
        Wanted(spec, scheme.name, size, point_of(request, scheme, spec, size))
        for spec in request.networks
        for scheme in schemes
        for size in request.sizes
    ]

    def over_bound(each: Timed) -> float | None:
        assert each.cycles is not None, "asked for only where there are cycles"
        return each.cycles / each.bound_cycles if each.bound_cycles else None

    return [value_of(each, over_bound) for each in timed(request, run, wanted)]


_SIZE = Axis("buffer of one rank", "sizes")
BANDWIDTH = Figure(
    "bandwidth",
    "All-reduce bandwidth over size",
    "Figure 9: bandwidth over size on eight networks, schemes of the paper.",
    _SIZE,
    Axis("GB/s", "log"),
    _bandwidth,
    DIRECT + SWITCHED,
    PAPER_SIZES,
    subjects=(MULTITREE.name,),
    notes=(NO_PACKETS,),
)
PACKETS = Figure(
    "packets",
    "MultiTree in packets of 256 bytes over MultiTree in messages",
    "Message-based flow control: what packets cost, on tori and meshes.",
    _SIZE,
    Axis("more cycles in packets, %"),
    _packets,
    DIRECT,
    PAPER_SIZES,
    notes=(NO_PACKETS, "A head per 16 flits costs at most 6.25 %"),
)
BASELINES = Figure(
    "baselines",
    "All algorithms in messages, whole chunks, same buffers",
    "The honest one: all algorithms in the same mode, over the bound of the network.",
    _SIZE,
    Axis("cycles over the bound", "log"),
    _baselines,
    ("torus:4x4", "torus:8x8", "mesh:8x8", "dgx2"),
    (32 * KIB, MIB, 64 * MIB),
    subjects=("multitree",),
    no_published_rule="it has all algorithms in one mode",
)
