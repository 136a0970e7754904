"""What the head of a message says on a link."""

from amaranth.lib import data

from multitree.nic.config import Config

__all__ = ["HOP_WIDTH", "NUM_HOPS", "ORDER_WIDTH", "head_layout", "sequence_width"]

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
