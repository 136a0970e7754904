"""Bit layouts that the blocks share: head, row, flow, job, flit, arrival."""

from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.config import Config
from multitree.topology.collectives import Op

__all__ = [
    "CONTRIBUTION",
    "FLOW_ENTRY",
    "HOP_WIDTH",
    "NO_PORT",
    "NUM_HOPS",
    "OP_GATHER",
    "OP_NOP",
    "ORDER_WIDTH",
    "ROW",
    "SHARED_FLOW",
    "SHARED_ROW",
    "UNKNOWN",
    "descriptor_layout",
    "flit_stream",
    "head_layout",
    "job_layout",
    "mark_layout",
    "row_layout",
    "sequence_width",
    "words_of",
]

HOP_WIDTH = 6
"""Bits of a hop on a route: the switch's output port, then the class of its virtual channel."""
NUM_HOPS = 9
"""Switches that a route may lead through: across an 8x8 torus, and out of it."""
ORDER_WIDTH = 6
"""Bits of a contribution's place in the order of summation."""


def head_layout(config: Config):
    """Lowest bits of a head flit's payload.

    `sequence` counts collectives, modulo 2^32, or 2^22 with flits of 8 bytes; `continued` marks
    the packets of a message behind its first one; `size` is that of the whole message in flits,
    32 bits or, with flits of 8 bytes, the lowest 8: payload is counted, and has a CRC. On shared
    links `sequence` is modulo 256, since no rank is more than one collective ahead there; `step`
    is the row's, by which switches let older messages go first, `order` the contribution's place
    in its sum, and `route` what is ahead of the message, the next hop lowest.
    """
    if config.shared:
        return data.StructLayout(
            {
                "flow": 16,
                "step": 16,
                "op": 1,
                "order": ORDER_WIDTH,
                "reserved": 1,
                "sequence": 8,
                "size": 24,
                "unused": 2,
                "route": HOP_WIDTH * NUM_HOPS,
            }
        )
    fields = {"flow": 16, "wave": 16, "op": 1, "continued": 1}
    if config.flit_bytes < 16:
        return data.StructLayout(fields | {"size": 8, "sequence": 22})
    return data.StructLayout(fields | {"reserved": 14, "size": 32, "sequence": 32})


def sequence_width(config: Config) -> int:
    """Bits of the number of a collective, in heads and wherever collectives are counted."""
    return head_layout(config)["sequence"].width


OP_GATHER, OP_NOP = int(Op.GATHER), int(Op.NOP)
"""Codes of ops in rows and heads; REDUCE is 0."""

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
"""What a message's head needs on shared links in addition to flow, op and size."""


def row_layout(config: Config) -> data.StructLayout:
    """A row of this interface's table."""
    return SHARED_ROW if config.shared else ROW


def job_layout(config: Config) -> data.StructLayout:
    """A checked row for a port's sender, with the dependency it has to wait for."""
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


def words_of(layout: data.StructLayout, **fields: int) -> list[int]:
    """The 32-bit words, lowest first, of an entry whose other fields are 0.

    Raises
    ------
    ValueError
        If a number does not fit its field.

    Examples
    --------
    >>> [hex(word) for word in words_of(ROW, flow=3, port=2, step=7)]
    ['0x20003', '0x7']
    """
    entry = 0
    for name, value in fields.items():
        field = layout[name]
        if not 0 <= value < 1 << field.width:
            raise ValueError(f"{name.capitalize()} must fit {field.width} bits, not {value!r}")
        entry |= value << field.offset
    return [entry >> low & 0xFFFFFFFF for low in range(0, layout.size, 32)]
