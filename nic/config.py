"""Every size of one network interface, and the layouts of bits that follow.

Layouts are those that blocks share: head, row, flow, job, flit, arrival.
"""

from collections.abc import Collection
from dataclasses import dataclass

from amaranth.lib import data

from multitree.hw.lanes import LEAST_STAGES, MOST_STAGES, DType
from multitree.hw.link.link import Kind
from multitree.topology.collectives import Op

__all__ = [
    "CONTRIBUTION",
    "FLOW_ENTRY",
    "HOP_WIDTH",
    "JOB_QUEUE_DEPTH",
    "LANE_TYPES",
    "LEAST_FORWARD_FLITS",
    "LIMITS",
    "MODES",
    "MOST_SHARED_ROWS",
    "NO_PORT",
    "NUM_HOPS",
    "OP_GATHER",
    "OP_NOP",
    "ORDER_WIDTH",
    "ROW",
    "SHARED_FLOW",
    "SHARED_ROW",
    "UNKNOWN",
    "Config",
    "descriptor_layout",
    "flit_stream",
    "head_layout",
    "job_layout",
    "mark_layout",
    "row_layout",
    "sequence_width",
]

LANE_TYPES = {"int32": DType.INT32, "float32": DType.FP32, "bfloat16": DType.BF16}
"""Types of lanes by the names that NumPy and its extensions have for them."""
MODES = ("lockstep", "packets")
"""Modes that an interface can be built without, by their names in register MODE."""

LIMITS = {
    "num_ports": (1, 8),
    "flit_bytes": (8, 64),
    "table_depth": (2, 65536),
    "num_flows": (1, 4096),
    "buffer_flits": (4, 65536),
    "submessage_flits": (2, 1024),
    "memory_queue_flits": (4, 1024),
    "address_width": (4, 32),
    "num_classes": (0, 2),
    "max_children": (1, 64),
    "wave_width": (0, 16),
    "forward_flits": (0, 4096),
    "adder_stages": (LEAST_STAGES, MOST_STAGES),
}
"""The least and the most that each size may be."""
LEAST_FORWARD_FLITS = 32
MOST_SHARED_ROWS = 16384
"""Rows of a table on shared links: for so many the register bus has room for routes."""

JOB_QUEUE_DEPTH = 4
"""Rows a port may have queued: its wait does not hold up the other ports."""


@dataclass(frozen=True)
class Config:
    """Sizes of a network interface; everything that changes its Verilog.

    The defaults are the paper's parameters: 16-byte flits and sub-messages of 256 bytes, with a
    link buffer that covers 150-cycle links.

    Parameters
    ----------
    num_ports : int
        Link ports, each one flit per cycle in and out (1..8).
    flit_bytes : int
        Payload of a flit in bytes, a power of two (8..64): a head has to fit.
    table_depth : int
        Rows of the schedule table.
    num_flows : int
        Entries of the flow memory.
    buffer_flits : int
        Link buffer of a port in flits: twice the link latency, a sub-message and a sibling's wait
        for the one before it, or the link cannot be kept busy. A smaller one is legal and slower.
    submessage_flits : int
        Granularity in flits at which arrivals are counted, a power of two.
    memory_queue_flits : int
        Flits a channel may have in flight in memory: its round trip in cycles, for line rate.
    address_width : int
        Bits of a memory address; addresses count flits.
    dtypes : tuple of str
        Types of lanes it can reduce, one or more of "int32", "float32", "bfloat16"; it sorts them.
    num_classes : int
        Virtual-channel classes of the links: 0 for private links, which join two interfaces and
        have no virtual channels; 1 or 2 for links shared with others, each class twice, for two
        collectives in flight.
    max_children : int
        Contributions to one sum that one rank may get over shared links.
    wave_width : int
        Bits of a wave's number, which counts of 32 bits hold, too: how often a periodic table can
        be repeated, on private links only; with 0 tables run once.
    forward_flits : int
        Flits that each port keeps of what it wrote last, for those that go on with them: 0, or on
        private links a power of two from 32 on.
    adder_stages : int
        Cycles of an addition (4..6): more for a faster clock.
    modes : tuple of str
        What it can run in, any of `MODES`; it sorts them.

    Raises
    ------
    TypeError, ValueError
        If a size is no int, out of its range, or has to be a power of two and is not; if there is
        no type, or a type or mode that is not known; if flits are too short for a routed head.
    """

    num_ports: int = 4
    flit_bytes: int = 16
    table_depth: int = 256
    num_flows: int = 128
    buffer_flits: int = 512
    submessage_flits: int = 16
    memory_queue_flits: int = 64
    address_width: int = 24
    dtypes: tuple[str, ...] = tuple(LANE_TYPES)
    num_classes: int = 0
    max_children: int = 8
    wave_width: int = 0
    forward_flits: int = 0
    adder_stages: int = LEAST_STAGES
    modes: tuple[str, ...] = MODES

    def __post_init__(self) -> None:
        """Check every field against its range."""
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"Config {name} must be an int, not {value!r}")
            if not low <= value <= high:
                raise ValueError(f"Config {name} must be in {low}..{high}, not {value!r}")
        for name in ("flit_bytes", "submessage_flits"):
            value = getattr(self, name)
            if value & (value - 1):
                raise ValueError(f"Config {name} must be a power of two, not {value!r}")
        if self.shared and self.flit_bytes < 16:
            raise ValueError(
                f"Config flit_bytes must be at least 16 on shared links, not {self.flit_bytes!r}"
            )
        if self.shared and self.table_depth > MOST_SHARED_ROWS:
            raise ValueError(
                f"Config table_depth must be at most {MOST_SHARED_ROWS} on shared links, "
                f"not {self.table_depth!r}"
            )
        if self.shared and self.wave_width:
            given = self.wave_width
            raise ValueError(f"Config wave_width must be 0 on shared links, not {given!r}")
        self._check_forwarding()
        if self.wave_width > self.most_wave_width:
            raise ValueError(
                f"Config wave_width must be at most {self.most_wave_width} where addresses have "
                f"{self.address_width} bits, not {self.wave_width!r}"
            )
        self._sort("dtypes", LANE_TYPES, least=1)
        self._sort("modes", MODES, least=0)

    def _check_forwarding(self) -> None:
        flits = self.forward_flits
        if flits and (self.shared or flits & (flits - 1) or flits < LEAST_FORWARD_FLITS):
            raise ValueError(
                "Config forward_flits must be 0, or on private links a power of two from "
                f"{LEAST_FORWARD_FLITS} on, not {flits!r}"
            )

    def _sort(self, field: str, known: Collection[str], *, least: int) -> None:
        """Check a field of names, and bring it into the order of those that are known."""
        names = getattr(self, field)
        if not isinstance(names, tuple):
            raise TypeError(f"Config {field} must be a tuple of names, not {names!r}")
        if len(names) < least or not set(names) <= set(known):
            listed, given = ", ".join(known), ", ".join(map(str, names)) or "none"
            raise ValueError(f"Config {field} must be some of {listed}, not {given}")
        object.__setattr__(self, field, tuple(name for name in known if name in names))

    @property
    def shared(self) -> bool:
        """Whether its links may carry messages between others, too."""
        return self.num_classes > 0

    @property
    def num_vcs(self) -> int:
        """Virtual channels of a link: each class for even and for odd collectives."""
        return max(2 * self.num_classes, 1)

    @property
    def num_lookups(self) -> int:
        """Blocks that look flows up: every port, the fetcher, and what adds staged messages."""
        return self.num_ports + 1 + self.shared

    @property
    def most_reads(self) -> int:
        """Reads in flight on a channel, which staging or forwarding gives two readers."""
        return self.memory_queue_flits * (1 + (self.shared or self.forward_flits > 0))

    @property
    def lane_types(self) -> tuple[DType, ...]:
        """The types of lanes it can reduce, as the hardware has them."""
        return tuple(LANE_TYPES[name] for name in self.dtypes)

    @property
    def part_width(self) -> int:
        """Bits of a count of sub-messages of one message: the whole address range fits."""
        # One bit more: the sub-messages of a chunk over all addresses are a power of two.
        return max(self.address_width - (self.submessage_flits.bit_length() - 1), 0) + 1

    @property
    def count_width(self) -> int:
        """Bits of a count of arrivals of one flow: sub-messages, and above them the wave's number.

        A later wave counts for more than all of an earlier one, and waves come in order, so that
        counts are compared as they are.
        """
        return self.part_width + self.wave_width

    @property
    def most_wave_width(self) -> int:
        """The most bits that counts of 32 bits leave for a wave's number."""
        return min(32 - self.part_width, LIMITS["wave_width"][1])

    @property
    def run_width(self) -> int:
        """Bits of the number of a run of a periodic table, of which there are some more."""
        # The last run's number is the sum of a wave's and a stage's, of `wave_width` bits each.
        return self.wave_width + 1 if self.wave_width else 0


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
