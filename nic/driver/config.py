"""Every size of one network interface."""

from collections.abc import Collection
from dataclasses import dataclass

from multitree.hw.codes import LEAST_STAGES, MOST_STAGES, DType
from multitree.topology.checks.proofs import MOST_SWITCH_CLASSES

__all__ = [
    "JOB_QUEUE_DEPTH",
    "LANE_TYPES",
    "LEAST_FORWARD_FLITS",
    "LIMITS",
    "MODES",
    "MODULE_NAME",
    "MOST_SHARED_ROWS",
    "SWITCH_MODULE_NAME",
    "Config",
]

MODULE_NAME, SWITCH_MODULE_NAME = "multitree_nic", "multitree_switch"
"""Names of the Verilog modules of an interface and of a switch."""
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
    "num_classes": (0, MOST_SWITCH_CLASSES),
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
    """Sizes of a network interface: all that changes its Verilog.

    The defaults are the paper's: flits of 16 bytes, sub-messages of 256, and link buffers for 150
    cycles. Wrong types and ranges raise TypeError and ValueError.
    """

    num_ports: int = 4  # link ports, each one flit per cycle in and out
    flit_bytes: int = 16  # payload of a flit, a power of two: a head has to fit
    table_depth: int = 256  # rows of the schedule table
    num_flows: int = 128  # entries of the flow memory
    # Link buffer of a port: below twice the link latency, a sub-message and a sibling's wait for
    # the one before it, the link cannot be kept busy.
    buffer_flits: int = 512
    submessage_flits: int = 16  # granularity at which arrivals are counted, a power of two
    # flits in flight in memory per channel: its round trip, for line rate
    memory_queue_flits: int = 64
    address_width: int = 24  # bits of a memory address; addresses count flits
    dtypes: tuple[str, ...] = tuple(LANE_TYPES)  # types of lanes it can reduce, sorted
    # Virtual-channel classes: 0 on private links, which join two interfaces; on shared links 1 or
    # 2, each class twice, for two collectives in flight.
    num_classes: int = 0
    max_children: int = 8  # contributions to one sum that a rank may get over shared links
    # Bits of a wave's number, which counts of 32 bits hold, too: a table is repeated at most so
    # often, on private links only; with 0 tables run once.
    wave_width: int = 0
    # Flits that each port keeps of its last writes, for messages that send them on: 0, or on
    # private links a power of two.
    forward_flits: int = 0
    adder_stages: int = LEAST_STAGES  # cycles of an addition: more for a faster clock
    modes: tuple[str, ...] = MODES  # modes that are built, any of `MODES`, sorted

    def __post_init__(self) -> None:
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
        """Check a field of names, and bring it into the order of the known ones."""
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
    def part_width(self) -> int:
        """Bits of a count of sub-messages of one message: the whole address range fits."""
        # One bit more: the sub-messages of a chunk over all addresses are a power of two.
        return max(self.address_width - (self.submessage_flits.bit_length() - 1), 0) + 1

    @property
    def count_width(self) -> int:
        """Bits of a flow's count of arrivals: sub-messages, and above them the wave's number."""
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
