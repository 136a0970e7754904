"""What the head of a message says on a link."""

from amaranth.lib import data

from multitree.nic.config import Config

__all__ = ["head_layout"]


def head_layout(config: Config):
    """Lowest bits of a head flit's payload.

    `sequence` counts collectives modulo 256; `continued` marks the packets of a message behind
    its first one; `size` is that of the whole message in flits, 32 bits or, with flits of 8
    bytes, the lowest 16.
    """
    fields = {"flow": 16, "wave": 16, "op": 1, "continued": 1, "reserved": 6, "sequence": 8}
    used = sum(fields.values())
    return data.StructLayout(fields | {"size": min(32, 8 * config.flit_bytes - used)})
