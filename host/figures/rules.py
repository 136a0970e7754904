"""How cycles are counted: as they are, or by the rule of the paper."""

import numpy as np

from multitree.host.figures.figure import Request
from multitree.host.figures.schemes import Scheme, schedule_of
from multitree.host.sweep.point import Point, PointResult
from multitree.sim.analytic.engine import analytic
from multitree.sim.link_model import LinkModel
from multitree.topology.arrays import largest_group
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "PUBLISHED_NOTES",
    "counted_cycles",
    "in_lockstep",
    "point_of",
    "published_cycles",
    "reduction_cycles",
]

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
