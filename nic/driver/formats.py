"""Formats of entries and heads: fields as names and bits, packed into integers."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from multitree.hw.codes import HOP_WIDTH
from multitree.nic.driver.config import Config
from multitree.topology.checks.proofs import MOST_SWITCHES
from multitree.topology.collectives import Op

__all__ = [
    "FLOW_FORMAT",
    "NO_PORT",
    "NUM_CHILD_PORTS",
    "NUM_HOPS",
    "OP_GATHER",
    "OP_NOP",
    "ORDER_WIDTH",
    "PORT_FIELD_WIDTH",
    "ROUTE_WIDTH",
    "ROW_FORMAT",
    "SHARED_FLOW_FORMAT",
    "SHARED_ROW_FORMAT",
    "UNKNOWN",
    "Bits",
    "Format",
    "flow_format",
    "head_format",
    "row_format",
    "sequence_width",
]

WORD_BITS = 32
NUM_HOPS = MOST_SWITCHES
"""Switches that a route may lead through: across an 8x8 torus, and out of it."""
ROUTE_WIDTH = HOP_WIDTH * NUM_HOPS
"""Bits of a route; a hop is the switch's output port, then the class of its virtual channel."""
ORDER_WIDTH = 6
"""Bits of a contribution's place in the order of summation."""
NUM_CHILD_PORTS, PORT_FIELD_WIDTH = 8, 4
"""Child ports of a flow on private links, and bits of a port's number."""
OP_GATHER, OP_NOP = int(Op.GATHER), int(Op.NOP)
"""Codes of ops in rows and heads; REDUCE is 0."""
NO_PORT = 15
"""Port number that stands for no port."""
UNKNOWN = 0xFFFF
"""Row or flow that is not known."""


class Bits(NamedTuple):
    """Where a field lies in its entry, in bits."""

    offset: int
    width: int


class Format:
    """Fields of an entry by name, the lowest bits first, and the number of all bits.

    >>> [hex(word) for word in ROW_FORMAT.words(flow=3, port=2, step=7)]
    ['0x20003', '0x7']
    """

    def __init__(self, widths: Mapping[str, int]) -> None:
        self.fields: dict[str, Bits] = {}
        self.size = 0
        for name, width in widths.items():
            self.fields[name] = Bits(self.size, width)
            self.size += width

    def __getitem__(self, name: str) -> Bits:
        """The place of a field."""
        return self.fields[name]

    def mask(self, name: str) -> int:
        """The largest number that fits a field."""
        return (1 << self.fields[name].width) - 1

    def pack(self, **values: int) -> int:
        """The entry whose other fields are 0; raises ValueError if a value does not fit."""
        entry = 0
        for name, value in values.items():
            offset, width = self.fields[name]
            if not 0 <= value < 1 << width:
                raise ValueError(f"{name.capitalize()} must fit {width} bits, not {value!r}")
            entry |= value << offset
        return entry

    def unpack(self, entry: int) -> dict[str, int]:
        """The values of all fields; bits above the last field are ignored."""
        return {
            name: entry >> offset & (1 << width) - 1
            for name, (offset, width) in self.fields.items()
        }

    def words(self, **values: int) -> list[int]:
        """The 32-bit words of `pack`, lowest first."""
        entry = self.pack(**values)
        return [entry >> low & (1 << WORD_BITS) - 1 for low in range(0, self.size, WORD_BITS)]


# The first two words of a row are the same on all links.
_ROW_END = {"step": 16, "stage": 16}
ROW_FORMAT = Format({"flow": 16, "port": PORT_FIELD_WIDTH, "op": 2, "reserved": 10} | _ROW_END)
"""A row of the table memory on private links: two words of 32 bits."""
SHARED_ROW_FORMAT = Format(
    {"flow": 16, "port": PORT_FIELD_WIDTH, "op": 2, "vc_class": 1, "order": ORDER_WIDTH}
    | {"reserved": 3, **_ROW_END}
    | {"route": ROUTE_WIDTH, "unused": 10}
)
"""A row of the table memory on shared links: four words of 32 bits."""

_PLACE = {"base": 32, "size": 32, "stride": 32}
FLOW_FORMAT = Format(
    _PLACE
    | {"children": NUM_CHILD_PORTS * PORT_FIELD_WIDTH, "parent": PORT_FIELD_WIDTH, "reserved": 28}
)
"""An entry of the flow memory on private links: five words of 32 bits; base and size in flits."""
SHARED_FLOW_FORMAT = Format(
    _PLACE | {"staging": 32, "num_children": 8, "parent": 1, "reserved": 23}
)
"""An entry of the flow memory on shared links: five words; base, size and staging in flits.

Contribution k that comes out of order waits in memory from `staging + k * size` on.
"""


def row_format(config: Config) -> Format:
    """A row of this interface's table."""
    return SHARED_ROW_FORMAT if config.shared else ROW_FORMAT


def flow_format(config: Config) -> Format:
    """An entry of this interface's flow memory."""
    return SHARED_FLOW_FORMAT if config.shared else FLOW_FORMAT


@cache
def head_format(config: Config) -> Format:
    """Lowest bits of a head flit's payload."""
    if config.shared:
        return Format(
            {
                "flow": 16,
                # That of the row: switches let older messages go first.
                "step": 16,
                "op": 1,
                # The contribution's place in its sum.
                "order": ORDER_WIDTH,
                "reserved": 1,
                # Modulo 256: no rank is more than one collective ahead.
                "sequence": 8,
                "size": 24,
                "unused": 2,
                # The hops that are left, the next one lowest.
                "route": ROUTE_WIDTH,
            }
        )
    # `continued` marks the packets of a message behind its first one.
    fields = {"flow": 16, "wave": 16, "op": 1, "continued": 1}
    if config.flit_bytes < 16:
        # The lowest bits of the message's size are enough: payload is counted, and has a CRC.
        return Format(fields | {"size": 8, "sequence": 22})
    return Format(fields | {"reserved": 14, "size": 32, "sequence": 32})


def sequence_width(config: Config) -> int:
    """Bits of the number of a collective, in heads and wherever collectives are counted."""
    return head_format(config)["sequence"].width
