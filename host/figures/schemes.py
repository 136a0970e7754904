"""Schemes of the evaluation: an algorithm in its modes, and where it has packets."""

from dataclasses import dataclass
from functools import lru_cache

from multitree.sim.inputs import shares_links
from multitree.topology.algorithms.build import build
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
    "RING",
    "RING_2D",
    "Scheme",
    "schedule_of",
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
    """The all-reduce of an algorithm that is not in `PACED`; None where there is none."""
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
