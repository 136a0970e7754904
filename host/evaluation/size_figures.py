"""Figures over size and over the number of ranks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from multitree.host.evaluation.figure import Axis, Figure, Request, RunPoints, Value
from multitree.host.evaluation.schemes import (
    BIDIRECTIONAL_RING_2D,
    MULTITREE,
    MULTITREE_PACKETS,
    NO_PACKETS,
    PAPER,
    RING,
    RING_2D,
    Scheme,
    Timed,
    Wanted,
    bounds_of,
    point_of,
    schedule_of,
    schemes_of,
    timed,
    value_of,
)
from multitree.nic.driver.formats import flow_format, row_format
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import config_for, least_sizes
from multitree.topology.algorithms.registry import ALGORITHMS
from multitree.topology.lowering import as_sent
from multitree.topology.specs import parse_topology

__all__ = [
    "BANDWIDTH",
    "BASELINES",
    "PACKETS",
    "STRONG_SCALING",
    "TABLE_SIZE",
    "TORI",
    "WEAK_SCALING",
]

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
        for scheme in schemes_of(request, PAPER)
        if not scheme.lacks_packets_on(spec)
        for size in request.sizes
    ]
    unit = _GIB_PER_GB if request.rule == "published" else 1.0

    def per_second(each: Timed) -> float | None:
        return each.wanted.point.size_bytes / each.time_us / 1000 * unit if each.time_us else None

    return _with_bounds(timed(request, run, wanted), per_second)


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
    schemes = schemes_of(request, [Scheme(name, name) for name in ALGORITHMS])
    wanted = [
        Wanted(spec, scheme.name, size, point_of(request, scheme, spec, size))
        for spec in request.networks
        for scheme in schemes
        for size in request.sizes
    ]

    def over_bound(each: Timed) -> float | None:
        assert each.cycles is not None, "asked for only where there are cycles"
        return each.cycles / each.bound_cycles if each.bound_cycles else None

    return _with_bounds(timed(request, run, wanted), over_bound)


def _with_bounds(found: Sequence[Timed], y: Callable[[Timed], float | None]) -> list[Value]:
    return [value_of(each, y) for each in found] + bounds_of(found, y)


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
    own_schemes=True,
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


TORI = tuple(f"torus:{side}x{side}" for side in range(4, 17, 2))
WEAK_BYTES_PER_RANK = 98_304 * 4
STRONG_BYTES = 32 << 20
SCHEMES = (RING, RING_2D, BIDIRECTIONAL_RING_2D, MULTITREE_PACKETS, MULTITREE)


def _scaling(request: Request, run: RunPoints, *, weak: bool) -> list[Value]:
    """Time over that of the ring, or the first algorithm, on the first network."""
    ranks = {spec: parse_topology(spec).num_ranks for spec in request.networks}
    sizes = {spec: WEAK_BYTES_PER_RANK * ranks[spec] if weak else STRONG_BYTES for spec in ranks}
    wanted = [
        Wanted("", scheme.name, ranks[spec], point_of(request, scheme, spec, sizes[spec]))
        for scheme in schemes_of(request, SCHEMES)
        for spec in request.networks
    ]
    found = [_in_packets(each) for each in timed(request, run, wanted)]
    base = found[0].cycles

    def over_first_ring(each: Timed) -> float | None:
        return each.cycles / base if base and each.cycles else None

    return _with_bounds(found, over_first_ring)


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
    Axis("time over the first series' on the first network", "log"),
    partial(_scaling, weak=True),
    TORI,
    subjects=(MULTITREE.name,),
)
STRONG_SCALING = Figure(
    "strong-scaling",
    "Strong scaling on tori, 32 MiB",
    "Time over ranks, the same 32 MiB on all, on tori.",
    Axis("ranks"),
    Axis("time over the first series' on the first network"),
    partial(_scaling, weak=False),
    TORI,
    subjects=(MULTITREE.name,),
)


USED, BUILT, PUBLISHED = (
    "entries in use",
    "memory of the interface, two banks",
    "published: 200 bits x 2 N",
)
_PUBLISHED_BITS = 200
_FLITS = 1 << 16


def _table_size(request: Request, run: RunPoints) -> list[Value]:
    """Bytes of a rank's table: rows and flow memory."""
    values = []
    for spec in request.networks:
        ranks = parse_topology(spec).num_ranks
        for series, size_bytes in _sizes(spec, ranks).items():
            algorithm = None if series == PUBLISHED else MULTITREE.algorithm
            values.append(
                Value("", series, ranks, size_bytes, topology=spec, algorithm=algorithm)
                if size_bytes is not None
                else Value("", series, ranks, None, problem=f"{spec}: MultiTree has no schedule")
            )
    return values


def _sizes(spec: str, num_ranks: int) -> dict[str, float | None]:
    """Bytes by series; the published entries are two per rank."""
    published = _PUBLISHED_BITS / 8 * 2 * num_ranks
    schedule = schedule_of(spec, MULTITREE.algorithm)
    if schedule is None:
        return {USED: None, BUILT: None, PUBLISHED: published}
    sent = as_sent(schedule)
    config = config_for(sent.topology, LinkModel(), **least_sizes(schedule, _FLITS))
    row_bytes = row_format(config).size // 8
    flow_bytes = flow_format(config).size // 8
    num_rows = int(np.bincount(sent.src).max())
    return {
        USED: num_rows * row_bytes + sent.num_flows * flow_bytes,
        BUILT: 2 * (config.table_depth * row_bytes + config.num_flows * flow_bytes),
        PUBLISHED: published,
    }


TABLE_SIZE = Figure(
    "table-size",
    "Schedule table of one rank, MultiTree on tori",
    "Bytes of a rank's schedule table over ranks, on tori.",
    Axis("ranks", "log2"),
    Axis("bytes", "log"),
    _table_size,
    TORI,
    own_schemes=True,
    engines=("analytic",),
    no_published_rule="tables have no cycles",
)
