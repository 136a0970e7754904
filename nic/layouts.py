"""Bit layouts that the interface's blocks share: row, flow, job, flit, arrival."""

from amaranth.lib import data

from multitree.hw.link import Kind
from multitree.nic.config import Config
from multitree.nic.message import HOP_WIDTH, NUM_HOPS, ORDER_WIDTH

__all__ = [
    "CONTRIBUTION",
    "FLOW_ENTRY",
    "NO_PORT",
    "ROW",
    "SHARED_FLOW",
    "SHARED_ROW",
    "UNKNOWN",
    "descriptor_layout",
    "flit_stream",
    "job_layout",
    "mark_layout",
    "row_layout",
]

NO_PORT = 15
"""Port number that stands for no port."""

UNKNOWN = 0xFFFF
"""Row or flow that is not known."""

ROW = data.StructLayout({"flow": 16, "port": 4, "op": 2, "reserved": 10, "step": 16, "stage": 16})
"""A row of the table memory: two words of 32 bits."""

FLOW_ENTRY = data.StructLayout(
    {
        "base": 32,
        "size": 32,
        "stride": 32,
        "children": data.ArrayLayout(4, 8),
        "parent": 4,
        "reserved": 28,
    }
)
"""An entry of the flow memory: five words of 32 bits; base and size in flits."""

SHARED_ROW = data.StructLayout(
    {
        "flow": 16,
        "port": 4,
        "op": 2,
        "vc_class": 1,
        "order": ORDER_WIDTH,
        "reserved": 3,
        "step": 16,
        "stage": 16,
        "route": HOP_WIDTH * NUM_HOPS,
        "unused": 10,
    }
)
"""A row of the table memory: four words of 32 bits, the first two as on private links."""

SHARED_FLOW = data.StructLayout(
    {
        "base": 32,
        "size": 32,
        "stride": 32,
        "staging": 32,
        "num_children": 8,
        "parent": 1,
        "reserved": 23,
    }
)
"""An entry of the flow memory: five words of 32 bits; base, size and staging in flits.

Contribution k that comes out of order waits in memory from `staging + k * size` on.
"""

CONTRIBUTION = data.StructLayout({"flow": 16, "order": ORDER_WIDTH})
"""A contribution by its flow and its place in the order of summation."""

_ROUTED = {"order": ORDER_WIDTH, "vc_class": 1, "step": 16, "route": HOP_WIDTH * NUM_HOPS}
"""What a message's head needs on shared links beside flow, op and size."""


def row_layout(config: Config) -> data.StructLayout:
    """A row of this interface's table."""
    return SHARED_ROW if config.shared else ROW


def job_layout(config: Config) -> data.StructLayout:
    """A checked row on its way to a port's sender, with the dependency it has to wait for."""
    return data.StructLayout(
        {
            "row": 16,
            "flow": 16,
            "op": 1,
            "base": config.address_width,
            "size": config.address_width,
            "wave": config.wave_width,
            "needs": 1,
            "need_port": 4,
            "need_op": 1,
            **(_ROUTED if config.shared else {}),
        }
    )


def descriptor_layout(config: Config) -> data.StructLayout:
    """A message to frame: what its head says, its size in flits, and its row of the table."""
    fields = {"flow": 16, "op": 1, "size": config.address_width, "row": 16}
    fields |= {"wave": config.wave_width}
    return data.StructLayout(fields | (_ROUTED if config.shared else {}))


def flit_stream(config: Config) -> data.StructLayout:
    """Payload of the streams between a port and its link: kind and payload of a flit."""
    return data.StructLayout({"kind": Kind, "payload": 8 * config.flit_bytes})


def mark_layout(config: Config) -> data.StructLayout:
    """What an arrival reports: of whole messages and with their place on shared links."""
    fields = {"op": 1, "flow": 16, "count": config.count_width, "last": 1}
    place = {"order": ORDER_WIDTH, "staged": 1, "final": 1} if config.shared else {}
    return data.StructLayout(fields | place)
