"""Faults on purpose in a network in RTL: what to break, where and when."""

import enum
from collections.abc import Collection
from dataclasses import dataclass

from multitree.nic.registers import Writes
from multitree.sim.emulator.network import Network

__all__ = [
    "EVERY_ENTRY",
    "DeadNode",
    "DelayFlit",
    "DoubleCredit",
    "DropFlit",
    "DuplicateFlit",
    "FailedMemory",
    "FlipBit",
    "FlipState",
    "FlipWrite",
    "FlitField",
    "Injection",
    "LoseCredit",
    "MemoryChannel",
    "MuteLink",
    "ResetRank",
    "StuckMemory",
    "flipped",
    "inject",
    "resets_of",
]

_DROP, _DUPLICATE, _DELAY, _STICK, _SILENCE, _POKE = range(5, 11)
_LOSE_CREDIT, _DOUBLE_CREDIT, _MUTE, _ERROR = range(11, 15)
"""As the harness counts them; flipped fields come first."""
# In the value of a POKE each of the two bits has ten bits (harness_poke.h).
_MOST_BITS = 1024


class FlitField(enum.IntEnum):
    """What of a flit a bit is flipped in; `bit` is taken modulo its width."""

    PAYLOAD = 0
    KIND = 1
    SEQUENCE = 2
    CHECK = 3
    EPOCH = 4


class MemoryChannel(enum.IntEnum):
    """A memory channel of a port."""

    SEND = 0
    FETCH = 1
    WRITE = 2


EVERY_ENTRY = 2**12 - 1
"""Stands for all entries of a state."""


@dataclass(frozen=True)
class Injection:
    """Something that goes wrong at a node.

    Parameters
    ----------
    node : int
        A rank; a switch too where a link or a state is struck.
    """

    node: int

    def __post_init__(self) -> None:
        """Check that every number can be."""
        for name, value in vars(self).items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{name.capitalize()} must be an int of at least 0, not {value!r}")


@dataclass(frozen=True)
class _Timed(Injection):
    """Something that goes wrong at a node, so many cycles after the hosts begin to run."""

    cycle: int

    def words(self) -> tuple[int, int, int] | None:
        """Kind, port and value for the harness; None for what a host does."""
        return None


@dataclass(frozen=True)
class _AtPort(_Timed):
    """Something that goes wrong at a port: with the first flit it sends from then on."""

    port: int


@dataclass(frozen=True)
class FlipBit(_AtPort):
    """A bit of a flit arrives flipped.

    Parameters
    ----------
    node, cycle, port : int
        The first flit that leaves there from that cycle on.
    field : FlitField
    bit : int
    """

    field: FlitField
    bit: int

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return int(self.field), self.port, self.bit


@dataclass(frozen=True)
class DropFlit(_AtPort):
    """A flit never arrives."""

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return _DROP, self.port, 0


@dataclass(frozen=True)
class DuplicateFlit(_AtPort):
    """A flit arrives twice, one behind the other."""

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return _DUPLICATE, self.port, 0


@dataclass(frozen=True)
class DelayFlit(_AtPort):
    """A flit arrives so many cycles later, in the first free one; others overtake it."""

    cycles: int

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return _DELAY, self.port, self.cycles


@dataclass(frozen=True)
class StuckMemory(_AtPort):
    """A memory channel takes no more requests from then on."""

    channel: MemoryChannel

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return _STICK, self.port, int(self.channel)


@dataclass(frozen=True)
class FailedMemory(_AtPort):
    """Memory answers with an error, once, on a channel of a rank's port."""

    channel: MemoryChannel

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return _ERROR, self.port, int(self.channel)


@dataclass(frozen=True)
class LoseCredit(_AtPort):
    """A credit that the port gives back never arrives."""

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return _LOSE_CREDIT, self.port, 0


@dataclass(frozen=True)
class DoubleCredit(_AtPort):
    """A credit that the port gives back arrives twice."""

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return _DOUBLE_CREDIT, self.port, 0


@dataclass(frozen=True)
class MuteLink(_AtPort):
    """All that leaves by a port is lost, flits and credits, for so many cycles; 0 is for good."""

    cycles: int

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return _MUTE, self.port, self.cycles


@dataclass(frozen=True)
class DeadNode(_Timed):
    """All links of a node fall silent: neither flits nor credits leave it."""

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return _SILENCE, 0, 0


@dataclass(frozen=True)
class FlipState(_Timed):
    """One or two bits of an entry of a node's state flip; where a library has `pokes`.

    Parameters
    ----------
    node, cycle : int
        In that cycle.
    state : int
        Number of the memory or register, see `states.expose`.
    entry, bit : int
        Taken modulo the entries of the state, but for `EVERY_ENTRY`, and the bits of an entry,
        check bits among them.
    distance : int
        A second bit so much further flips, too; none if that is the same one.
    """

    state: int
    entry: int
    bit: int
    distance: int = 0

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        first, second = self.bit % _MOST_BITS, (self.bit + self.distance) % _MOST_BITS
        return _POKE, self.state, first | second << 10 | self.entry % 2**12 << 20


@dataclass(frozen=True)
class FlipWrite(Injection):
    """A bit of a table arrives flipped when the host writes it, ahead of time or not.

    Parameters
    ----------
    rank : int
    word, bit : int
        Which of the table's words, its sizes and its CRC; both are taken modulo their number.
    """

    word: int
    bit: int


@dataclass(frozen=True)
class ResetRank(_Timed):
    """A rank's host writes CONTROL.reset, that many cycles after it could start."""


def inject(network: Network, faults: Collection[Injection]) -> None:
    """Let faults strike, counted from now; those that a host makes are left out.

    Parameters
    ----------
    network : Network
    faults : collection of Injection

    Raises
    ------
    ValueError
        If a node or a port is none of the network's, or its library cannot flip such a bit.
    """
    topology = network.topology
    for fault in faults:
        ports = int(topology.num_ports[fault.node]) if fault.node < topology.num_nodes else 0
        if not ports or (isinstance(fault, _AtPort) and fault.port >= ports):
            raise ValueError(f"Fault must be at a port of the network, not {fault!r}")
        words = fault.words() if isinstance(fault, _Timed) else None
        if isinstance(fault, _Timed) and words is not None:
            kind, port, value = words
            if not network.inject((network.cycle + fault.cycle, kind, fault.node, port, value)):
                where = "in a library with pokes" if kind == _POKE else "at a rank"
                raise ValueError(f"Fault must be {where}, not {fault!r}")


def resets_of(faults: Collection[Injection]) -> dict[int, int]:
    """Ranks whose host resets them, and the cycle in which it does."""
    return {fault.node: fault.cycle for fault in faults if isinstance(fault, ResetRank)}


def flipped(writes: Writes, rank: int, faults: Collection[Injection]) -> Writes:
    """Writes that load a rank's table as they arrive.

    Parameters
    ----------
    writes : list of (address, value)
    rank : int
    faults : collection of Injection

    Returns
    -------
    list of (address, value)
    """
    arrived = list(writes)
    for fault in faults:
        if isinstance(fault, FlipWrite) and fault.node == rank:
            address, value = arrived[fault.word % len(arrived)]
            arrived[fault.word % len(arrived)] = address, value ^ 1 << fault.bit % 32
    return arrived
