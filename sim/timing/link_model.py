"""Clock, flits, buffers, memory and pipelines: what turns messages into cycles."""

import math
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from multitree.hw.codes import LEAST_STAGES
from multitree.nic.driver.commands import DEPENDENCIES, FLOW_CONTROLS
from multitree.nic.driver.config import LEAST_FORWARD_FLITS, LIMITS, Config
from multitree.sim.timing.pipelines import Pipelines
from multitree.topology.errors import TopologyError
from multitree.topology.networks.bounds import link_occupancy
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "CLOCK_GHZ",
    "LEAST_MEMORY_CYCLES",
    "MOST_MEMORY_CYCLES",
    "LinkModel",
    "MemoryTiming",
    "problem_with",
]


@dataclass(frozen=True)
class MemoryTiming:
    """Random latency of memory beyond the fixed one; raises ValueError for numbers out of range."""

    extra_cycles: int = 0  # at most, drawn per channel and request
    stall_percent: int = 0  # of cycles in which a channel takes no request
    seed: int = 1  # equal seeds give equal runs

    def __post_init__(self) -> None:
        for name, most in (("extra_cycles", 2**20), ("stall_percent", 99), ("seed", 2**63 - 1)):
            value = getattr(self, name)
            if not 0 <= value <= most:
                raise ValueError(f"MemoryTiming {name} must be in 0..{most}, not {value!r}")


_CHOICES = {"dependency": DEPENDENCIES, "flow_control": FLOW_CONTROLS}
_LEAST_BUFFER_FLITS, _MOST_BUFFER_FLITS = Config().buffer_flits, LIMITS["buffer_flits"][1]
_MOST_PORTS = LIMITS["num_ports"][1]
_LEAST_QUEUE_FLITS = Config().memory_queue_flits
# It covers the three registers between read and write in nic/reduce/reducer.py.
_QUEUE_MARGIN = 16
_MOST_LATENCY_CYCLES = 2**40
CLOCK_GHZ = 0.001, 100
"""The slowest and the fastest clock."""
LEAST_MEMORY_CYCLES, MOST_MEMORY_CYCLES = 2 + LEAST_STAGES, 2**20
"""Of a read, the shortest addition and the acknowledgement together."""
_RANGES: dict[str, tuple[float, float]] = {
    **LIMITS,
    "clock_ghz": CLOCK_GHZ,
    "memory_read_cycles": (1, MOST_MEMORY_CYCLES),
    "memory_write_cycles": (1, MOST_MEMORY_CYCLES),
}
_POWERS_OF_TWO = "flit_bytes", "submessage_flits", "forward_flits"


def problem_with(name: str, value: float) -> str | None:
    """What is wrong with a size that interfaces are built with, their clock or their memory: the
    rule and the value, to stand behind the name; None where nothing is wrong.

    >>> problem_with("flit_bytes", 24), problem_with("flit_bytes", 32)
    ('must be a power of two, not 24', None)
    """
    low, high = _RANGES[name]
    if not low <= value <= high:
        return f"must be within {low}..{high}, not {value}"
    odd = name in _POWERS_OF_TWO and int(value) & (int(value) - 1)
    if name == "forward_flits" and (odd or 0 < value < LEAST_FORWARD_FLITS):
        return f"must be 0 or a power of two from {LEAST_FORWARD_FLITS} on, not {value}"
    return f"must be a power of two, not {value}" if odd else None


@dataclass(frozen=True)
class LinkModel(Pipelines):
    """Everything about time that is not the topology's: units, depths, modes and pipelines.

    A topology says how fast its links are and how long; this says what a cycle and a flit are,
    how deep the link buffers are and how long the memory takes. What the pipelines of interfaces
    and switches add is the hardware's.

    Parameters
    ----------
    clock_ghz : float
        Clock of interfaces and links.
    flit_bytes : int
        Payload of one flit; a link takes at most one flit per cycle.
    buffer_flits : int, optional
        Link buffer of a port, in flits, which is also what a sender starts with in credits. By
        default it is as large as the topology's links need it, see `buffer_flits_on`.
    submessage_flits : int
        Granularity at which a receiver passes partial sums on to the next sibling.
    dependency : str
        "chunk": a row waits for whole chunks, as in the paper. "submessage": cut-through, a row
        waits for each sub-message that it sends on.
    flow_control : str
        "message": one head flit per message. "packet": one per sub-message.
    memory_read_cycles, memory_write_cycles : int
        From a read taken to its data, and from a write taken to its acknowledgement.
    forward_flits : int
        Flits that a port keeps for those that go on with them before memory has acknowledged them,
        see `Config`; with 0 they wait for memory. On private links only.
    add_cycles : int
        Latency of the adder.

    Raises
    ------
    TypeError, ValueError
        If a figure is of the wrong kind or out of its range.
    """

    clock_ghz: float = 1.0
    flit_bytes: int = 16
    buffer_flits: int | None = None
    submessage_flits: int = 16
    dependency: str = "chunk"
    flow_control: str = "message"
    memory_read_cycles: int = 4
    memory_write_cycles: int = 4
    forward_flits: int = 0
    add_cycles: int = LEAST_STAGES

    def __post_init__(self) -> None:
        """Check every figure."""
        clock = self.clock_ghz
        if isinstance(clock, bool) or not isinstance(clock, int | float):
            raise TypeError(f"LinkModel clock_ghz must be a number, not {clock!r}")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _CHOICES:
                known = " or ".join(_CHOICES[field.name])
                if value not in _CHOICES[field.name]:
                    name = field.name.replace("_", " ").capitalize()
                    raise ValueError(f"{name} must be {known}, not {value!r}")
                continue
            if field.name == "buffer_flits" and value is None:
                continue
            is_int = isinstance(value, int) and not isinstance(value, bool)
            if not is_int and field.name != "clock_ghz":
                raise TypeError(f"LinkModel {field.name} must be an int, not {value!r}")
            # The adder's latency is the number of its stages.
            size = "adder_stages" if field.name == "add_cycles" else field.name
            problem = problem_with(size, value)
            if problem is not None:
                raise ValueError(f"LinkModel {field.name} {problem}")

    def with_memory(self, memory_cycles: int) -> "LinkModel":
        """The same with another memory, whose reads take as long as its writes, or one more.

        Parameters
        ----------
        memory_cycles : int
            A read, the addition and the acknowledgement of the write together.

        Raises
        ------
        ValueError
            If that leaves less than a cycle each for reads and writes, or is more than
            `MOST_MEMORY_CYCLES`.
        """
        if memory_cycles > MOST_MEMORY_CYCLES:
            most = MOST_MEMORY_CYCLES
            raise ValueError(f"Memory cycles must be at most {most}, not {memory_cycles!r}")
        both = memory_cycles - self.add_cycles
        if both < 2:
            least = 2 + self.add_cycles
            raise ValueError(f"Memory cycles must be at least {least}, not {memory_cycles!r}")
        write = both // 2
        return replace(self, memory_read_cycles=both - write, memory_write_cycles=write)

    @property
    def written_cycles(self) -> int:
        """From a write to where it counts: an acknowledgement waits for what it belongs to."""
        return max(self.memory_write_cycles, self.least_write_cycles)

    @property
    def memory_queue_flits(self) -> int:
        """Accesses to memory in flight that have room: they cover its latency, whatever it is."""
        access = self.memory_read_cycles + self.memory_write_cycles + self.add_cycles
        needed: int = 1 << (access + _QUEUE_MARGIN - 1).bit_length()
        return max(_LEAST_QUEUE_FLITS, needed)

    @property
    def link_gbytes_per_s(self) -> float:
        """What one flit per cycle comes to, the fastest link an interface can feed."""
        return self.flit_bytes * self.clock_ghz

    def num_flits(self, num_elements: int, itemsize: int) -> int:
        """Flits of a buffer of `num_elements` elements of `itemsize` bytes, padded to whole flits.

        Raises
        ------
        ValueError
            If a number is negative, or an element does not fit a flit without remainder.
        """
        if num_elements < 0:
            raise ValueError(f"Number of elements must be at least 0, not {num_elements!r}")
        if itemsize < 1 or self.flit_bytes % itemsize:
            raise ValueError(f"Item size must divide {self.flit_bytes} bytes, not {itemsize!r}")
        return -(-num_elements * itemsize // self.flit_bytes)

    def latency_cycles(self, topology: Topology) -> npt.NDArray[np.int64]:
        """Cycles from a flit on each link's near end to its far end, at least 1, rounded up.

        Returns
        -------
        int64 array, shape (num_links,)

        Raises
        ------
        TopologyError
            If a link takes longer than can be counted.
        """
        # The product may be a rounding error above a whole number; `ceil` would add a cycle.
        cycles = np.ceil(np.round(topology.latency_ns * self.clock_ghz, 9))
        if cycles.max(initial=0) > _MOST_LATENCY_CYCLES:
            raise TopologyError(
                f"{topology.name}: latency must be at most {_MOST_LATENCY_CYCLES} cycles of "
                f"{self.clock_ghz:g} GHz, not {cycles.max():g}"
            )
        return np.maximum(cycles, 1).astype(np.int64)

    def credit_latency_cycles(self, topology: Topology) -> npt.NDArray[np.int64]:
        """Cycles that a credit takes back from each link's far end to its near end, at least 1.

        Credits go over the link's reverse; where that is longer, they take as long as flits do.

        Returns
        -------
        int64 array, shape (num_links,)
        """
        latency, reverse = self.latency_cycles(topology), topology.reverse
        return np.where(reverse < 0, latency, np.minimum(latency, latency[reverse]))

    def cycles_per_flit(self, topology: Topology) -> npt.NDArray[np.float64]:
        """Cycles that one flit occupies each link, 1.0 where the link is as fast as the port.

        Of a link that is faster, too: no port feeds it more. `link_limits` names such links.

        Returns
        -------
        float64 array, shape (num_links,)
        """
        return np.maximum(self.link_gbytes_per_s / topology.bandwidth_gbytes_per_s, 1.0)

    def round_trip_cycles(self, topology: Topology) -> npt.NDArray[np.int64]:
        """Cycles from a flit on each link to the flit that has its credit again.

        Returns
        -------
        int64 array, shape (num_links,)
        """
        return 2 * self.latency_cycles(topology) + self.receive_cycles + self.credit_cycles

    def buffer_flits_on(self, topology: Topology) -> int:
        """Flits of every link buffer: `buffer_flits`, or what keeps all links of a topology busy.

        That covers what is in flight on a link for a round trip, one sub-message, and what comes
        while siblings wait for each other at all other ports of a rank: rounded up to a power of
        two, from 512 to 65 536.
        """
        if self.buffer_flits is not None:
            return self.buffer_flits
        under_way = self.round_trip_cycles(topology) / self.cycles_per_flit(topology)
        # This is what docs/reference/links.md, "Buffer size", gives as 18 cycles.
        sibling = self.memory_read_cycles + self.fetch_cycles + self.add_cycles
        sibling += self.memory_write_cycles + self.complete_cycles + self.sibling_cycles
        ports = min(int(topology.num_ports[: topology.num_ranks].max(initial=1)), _MOST_PORTS)
        needed = math.ceil(under_way.max(initial=0)) + self.submessage_flits
        needed += max(ports - 1, 0) * sibling
        room: int = max(_LEAST_BUFFER_FLITS, 1 << (needed - 1).bit_length())
        return min(room, _MOST_BUFFER_FLITS)

    def cost_model(self, topology: Topology, num_flits: int) -> CostModel:
        """What builders that suit a schedule to a size have to know, for one rank's buffer."""
        # A hop of a REDUCE takes 2R + W + 15 (docs/reference/interface.md, "Latency of a hop").
        memory = 2 * self.memory_read_cycles + self.memory_write_cycles
        pipelines = self.receive_cycles + self.fetch_cycles + self.add_cycles
        pipelines += self.complete_cycles + self.dependency_cycles + self.payload_cycles
        if self.forward_flits and self.dependency == "submessage":
            memory, pipelines = 0, self.receive_cycles + self.add_cycles + self.added_cycles
            pipelines += self.forward_cycles
        return CostModel(
            num_flits,
            self.cycles_per_flit(topology),
            self.latency_cycles(topology).astype(np.float64) + (memory + pipelines),
            self.issue_cycles + self.head_cycles,
            self.submessage_flits if self.dependency == "submessage" else None,
        )

    def estimated_step_cycles(self, schedule: Schedule, num_flits: int) -> int:
        """What a step of lockstep lasts: a slot of the longest chunk, and a link's latency.

        A slot is what a chunk takes of a link, divided by the steps for which builders hold that
        link: the slower it is, the more, see `link_occupancy`.
        """
        longest = int(np.diff(schedule.chunks(num_flits)).max(initial=0))
        slots = link_occupancy(schedule.topology)
        interval = float((self.cycles_per_flit(schedule.topology) / slots).max(initial=0))
        latency = int(self.latency_cycles(schedule.topology).max(initial=1))
        return math.ceil((longest + 1) * interval) + latency

    def microseconds(self, cycles: int) -> float:
        """Time that `cycles` take."""
        return cycles / self.clock_ghz / 1000.0
