"""Algorithms in their modes, and how figures count their cycles."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from multitree.host.evaluation.figure import FigureError, Request
from multitree.host.evaluation.point import Point, PointResult
from multitree.nic.driver.commands import DEPENDENCIES, FLOW_CONTROLS
from multitree.sim.analytic.engine import analytic
from multitree.sim.choice import AUTO
from multitree.sim.timing.inputs import shares_links
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build
from multitree.topology.algorithms.registry import ALGORITHMS
from multitree.topology.arrays import largest_group
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError
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
    "Scheme",
    "counted_cycles",
    "in_lockstep",
    "point_of",
    "published_cycles",
    "reduction_cycles",
    "schedule_of",
    "schemes_of",
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
    return [_scheme(name) for name in request.algorithms] or usual


def _scheme(text: str) -> Scheme:
    algorithm, *modes = text.split("/")
    if algorithm not in (*ALGORITHMS, AUTO):
        known = ", ".join((*ALGORITHMS, AUTO))
        raise FigureError(f"Algorithms must be of {known}, not {algorithm!r}")
    given: dict[str, str] = {}
    for mode in modes:
        for what, known_modes in (("dependency", DEPENDENCIES), ("flow_control", FLOW_CONTROLS)):
            if mode in known_modes:
                given[what] = mode
    if len(given) < len(modes):
        known = ", ".join((*DEPENDENCIES, *FLOW_CONTROLS))
        raise FigureError(f"Modes of {algorithm} must be one each of {known}, not {text!r}")
    return Scheme(text, algorithm, **given)


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
