"""Algorithms in their modes, and the values that figures have of them."""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from multitree.host.evaluation.figure import BOUND, FigureError, Request, RunPoints, Value
from multitree.host.evaluation.point import Point, PointResult
from multitree.host.parameters import modes_of
from multitree.sim.analytic.engine import analytic
from multitree.sim.choice import AUTO
from multitree.sim.timing.inputs import shares_links
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build
from multitree.topology.algorithms.registry import ALGORITHMS
from multitree.topology.arrays import largest_group
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError, not_one_of
from multitree.topology.schedules.schedule import Schedule
from multitree.topology.specs import parse_topology

__all__ = [
    "BIDIRECTIONAL_RING_2D",
    "DOUBLE_TREE",
    "HDRM",
    "MULTITREE",
    "MULTITREE_PACKETS",
    "NO_PACKETS",
    "PAPER",
    "PUBLISHED_NOTES",
    "RING",
    "RING_2D",
    "RTL_POINTS",
    "Scheme",
    "Timed",
    "Wanted",
    "bounds_of",
    "counted_cycles",
    "in_lockstep",
    "point_of",
    "published_cycles",
    "reduction_cycles",
    "rtl_cycles_of",
    "schedule_of",
    "schemes_of",
    "timed",
    "value_of",
]

_KEPT = 8


@dataclass(frozen=True)
class Scheme:
    """An algorithm in its modes."""

    name: str  # as it stands in figures
    algorithm: str
    dependency: str = "chunk"
    flow_control: str = "message"

    def flow_control_on(self, spec: str) -> str:
        """The flow control on a network: messages where links are shared, which have no packets."""
        if self.flow_control == "packet":
            schedule = schedule_of(spec, self.algorithm)
            if schedule is not None and shares_links(schedule):
                return "message"
        return self.flow_control

    def lacks_packets_on(self, spec: str) -> bool:
        """Whether its name says packets, but a network has none: figures have no value there."""
        return self is MULTITREE_PACKETS and self.flow_control_on(spec) != self.flow_control


@lru_cache(_KEPT)
def schedule_of(spec: str, algorithm: str) -> Schedule | None:
    """The all-reduce of an algorithm that is not in `SIZED`; None where there is none."""
    try:
        return build(parse_topology(spec), algorithm)
    except ScheduleError:
        return None


NO_PACKETS = (
    "Packets are for private links: where links are shared, through switches or through ranks, "
    "interfaces send whole messages only, and so all schemes are in messages there"
)
RING = Scheme("ring", "ring", flow_control="packet")
DOUBLE_TREE = Scheme("double tree", "double_tree", flow_control="packet")
RING_2D = Scheme("2D ring", "ring_2d", flow_control="packet")
BIDIRECTIONAL_RING_2D = Scheme(
    "2D ring, both directions", "bidirectional_ring_2d", flow_control="packet"
)
HDRM = Scheme("HDRM", "hdrm", flow_control="packet")
MULTITREE_PACKETS = Scheme("MultiTree, packets", "multitree", flow_control="packet")
MULTITREE = Scheme("MultiTree, messages", "multitree")
PAPER = (RING, DOUBLE_TREE, RING_2D, HDRM, MULTITREE_PACKETS, MULTITREE)
"""Those of the paper; baselines in packets, as there."""


def schemes_of(request: Request, usual: Sequence[Scheme]) -> Sequence[Scheme]:
    """The schemes that are asked for, or the usual ones of a figure.

    An algorithm is in messages, whole chunk by whole chunk, unless modes follow its name:
    "ring/packet", "multitree/submessage". FigureError if there is no such algorithm or mode.
    """
    try:
        return [_scheme(name) for name in request.algorithms] or usual
    except ValueError as error:
        raise FigureError(str(error)) from None


def _scheme(text: str) -> Scheme:
    algorithm, modes = modes_of(text)
    if algorithm not in (*ALGORITHMS, AUTO):
        raise ValueError(not_one_of("Algorithm", algorithm, (*ALGORITHMS, AUTO)))
    return Scheme(text, algorithm, **modes)


_LOCKSTEP = "multitree"
PUBLISHED_NOTES = (
    "Rule published: MultiTree in lockstep; the reduction time of the rank with the most additions "
    "that follow each other is subtracted; GiB per second",
)


def point_of(request: Request, scheme: Scheme, spec: str, size_bytes: int) -> Point:
    """The point of a scheme on a network, with the rule's modes.

    By the rule "published" MultiTree waits out the estimated time of each step.
    """
    return Point(
        spec,
        scheme.algorithm,
        size_bytes,
        request.engine,
        dependency=scheme.dependency,
        flow_control=scheme.flow_control_on(spec),
        lockstep=in_lockstep(request.rule, scheme.algorithm),
        **dict(request.links),
    )


def in_lockstep(rule: str, algorithm: str) -> bool:
    """Whether an algorithm waits out the estimated time of each step by a rule."""
    return rule == "published" and algorithm == _LOCKSTEP


def counted_cycles(request: Request, point: Point, result: PointResult) -> int | None:
    """Cycles of a result by the rule; None where there is none."""
    if result.cycles is None or request.rule != "published":
        return result.cycles
    schedule = schedule_of(point.topology, point.algorithm)
    assert schedule is not None, "what ran has a schedule"
    return result.cycles - reduction_cycles(schedule, point.link_model())


def published_cycles(schedule: Schedule, num_flits: int, model: LinkModel) -> int:
    """Cycles of a schedule by the published rule, by the engine analytic."""
    trace = analytic(
        schedule, num_flits, model, lockstep=in_lockstep("published", schedule.algorithm)
    )
    return trace.cycles - reduction_cycles(schedule, model)


def reduction_cycles(schedule: Schedule, model: LinkModel) -> int:
    """The largest reduction time of a rank: additions that follow each other, without their flits.

    Flits are added as they come, so that an addition costs its latency alone: the read of what is
    added to, the adder, the write. Contributions of one step are added at the same time.
    """
    adds = schedule.op == Op.REDUCE
    pairs = np.unique(np.stack([schedule.dst[adds], schedule.step[adds]]), axis=1)
    latency = model.memory_read_cycles + model.fetch_cycles
    latency += model.add_cycles + model.memory_write_cycles
    return largest_group(pairs[0]) * latency


@dataclass(frozen=True)
class Wanted:
    """A point, and where its value stands."""

    panel: str
    series: str
    x: int | float | str
    point: Point


@dataclass(frozen=True)
class Timed:
    """What came of a wanted point; without cycles there is a problem."""

    wanted: Wanted
    cycles: int | None
    time_us: float | None
    bound_cycles: float | None
    rtl_cycles: int | None
    limited: str | None
    problem: str | None


def timed(request: Request, run: RunPoints, wanted: Sequence[Wanted]) -> list[Timed]:
    """Run points that are wanted, each once, and count their cycles by the rule."""
    points = list(dict.fromkeys(each.point for each in wanted))
    results = dict(zip(points, run(points), strict=True))
    found = []
    for each in wanted:
        result = results[each.point]
        cycles = counted_cycles(request, each.point, result)
        time_us = None if cycles is None else each.point.link_model().microseconds(cycles)
        # What was measured before is counted as it is.
        measured = rtl_cycles_of(each.point) if request.rule == "ours" else None
        rtl = cycles if each.point.engine == "rtl" else measured
        said = result.limited, result.error
        found.append(Timed(each, cycles, time_us, result.bound_cycles, rtl, *said))
    return found


def value_of(each: Timed, y: Callable[[Timed], float | None]) -> Value:
    """The value of a point; `y` is asked only where there are cycles."""
    point = each.wanted.point
    return Value(
        each.wanted.panel,
        each.wanted.series,
        each.wanted.x,
        None if each.cycles is None else y(each),
        topology=point.topology,
        algorithm=point.algorithm,
        dependency=point.dependency,
        flow_control=point.flow_control,
        lockstep=point.lockstep,
        size_bytes=point.size_bytes,
        engine=point.engine,
        cycles=each.cycles,
        rtl_cycles=each.rtl_cycles,
        limited=each.limited,
        problem=each.problem,
    )


def bounds_of(found: Sequence[Timed], y: Callable[[Timed], float | None]) -> list[Value]:
    """The bound at each x of each panel, as a value is of cycles."""
    bounds: dict[tuple[str, int | float | str], Value] = {}
    for each in found:
        if each.bound_cycles is not None:
            cycles, point = math.ceil(each.bound_cycles), each.wanted.point
            least = replace(each, cycles=cycles, time_us=point.link_model().microseconds(cycles))
            panel, x = each.wanted.panel, each.wanted.x
            bound = Value(panel, BOUND, x, y(least), topology=point.topology)
            bounds.setdefault((panel, x), replace(bound, size_bytes=point.size_bytes))
    return [*bounds.values()]


RTL_POINTS = Path(__file__).with_name("rtl_points.csv")
"""Written by `bench/rtl_points.py`; all that is not in its columns is as usual."""
_Key = tuple[str, str, str, str, int]


def rtl_cycles_of(point: Point) -> int | None:
    """Cycles of a point in RTL, whatever its engine is; None if not measured."""
    dependency = point.dependency or "chunk"
    usual = Point(
        point.topology,
        point.algorithm,
        point.size_bytes,
        point.engine,
        dependency=point.dependency,
        flow_control=point.flow_control,
    )
    if asdict(usual) != asdict(point):
        return None
    key = point.topology, point.algorithm, dependency, point.flow_control, point.size_bytes
    return _measured().get(key)


@cache
def _measured() -> dict[_Key, int]:
    with RTL_POINTS.open(encoding="utf-8", newline="") as file:
        return {
            (
                row["topology"],
                row["algorithm"],
                row["dependency"],
                row["flow_control"],
                int(row["size_bytes"]),
            ): int(row["cycles"])
            for row in csv.DictReader(file)
        }
