"""Faults on purpose in a network in RTL: what to break, where and when."""

import enum
from collections.abc import Collection
from dataclasses import dataclass

from multitree.nic.program import Writes
from multitree.sim.network import Network

__all__ = [
    "DeadRank",
    "DelayFlit",
    "DropFlit",
    "DuplicateFlit",
    "FlipBit",
    "FlipMemory",
    "FlipWrite",
    "FlitField",
    "Injection",
    "MemoryChannel",
    "ResetRank",
    "StuckMemory",
    "TableBank",
    "flipped",
    "inject",
    "resets_of",
]

_DROP, _DUPLICATE, _DELAY, _STICK, _SILENCE, _POKE = range(5, 11)
"""As the harness counts them; flipped fields come first."""


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


class TableBank(enum.IntEnum):
    """A memory of an interface: rows or flows, in the bank that is active first or the other."""

    ROWS_0 = 0
    FLOWS_0 = 1
    ROWS_1 = 2
    FLOWS_1 = 3


_ENTRY_BITS = (66, 165)
"""Of a row and of a flow: 33 for each word of 32 bits, the last of them its parity."""


@dataclass(frozen=True)
class Injection:
    """Something that goes wrong at a rank.

    Parameters
    ----------
    rank : int
    """

    rank: int

    def __post_init__(self) -> None:
        """Check that every number can be."""
        for name, value in vars(self).items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{name.capitalize()} must be an int of at least 0, not {value!r}")


@dataclass(frozen=True)
class _Timed(Injection):
    """Something that goes wrong at a rank, so many cycles after the hosts begin to run."""

    cycle: int

    def words(self) -> tuple[int, int, int] | None:
        """Kind, port and value for the harness; None for what a host does."""
        return None


@dataclass(frozen=True)
class _AtPort(_Timed):
    """Something that goes wrong at a rank's port: with the first flit it sends from then on."""

    port: int


@dataclass(frozen=True)
class FlipBit(_AtPort):
    """A bit of a flit arrives flipped.

    Parameters
    ----------
    rank, cycle, port : int
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
class DeadRank(_Timed):
    """All links of a rank fall silent: neither flits nor credits leave it."""

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return _SILENCE, 0, 0


@dataclass(frozen=True)
class FlipMemory(_Timed):
    """A bit flips in a table or flow memory; for networks whose library has `pokes`.

    Parameters
    ----------
    rank, cycle : int
        In that cycle.
    bank : TableBank
    entry, bit : int
        Taken modulo the depth of the memory and the bits of an entry, parities among them.
    """

    bank: TableBank
    entry: int
    bit: int

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        bit = self.bit % _ENTRY_BITS[self.bank % 2]
        return _POKE, 0, self.bank | bit << 2 | self.entry % 2**16 << 10


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
        If a rank or a port is none of the network's, or its library cannot flip bits of memory.
    """
    topology = network.topology
    for fault in faults:
        words = fault.words() if isinstance(fault, _Timed) else None
        ports = int(topology.num_ports[fault.rank]) if fault.rank < topology.num_nodes else 0
        if (words[1] if words else 0) >= ports:
            raise ValueError(f"Fault must be at a port of the network, not {fault!r}")
        if isinstance(fault, _Timed) and words is not None:
            kind, port, value = words
            if not network.inject((network.cycle + fault.cycle, kind, fault.rank, port, value)):
                raise ValueError("Library must be built with pokes for bits of memory to flip")


def resets_of(faults: Collection[Injection]) -> dict[int, int]:
    """Ranks whose host resets them, and the cycle in which it does."""
    return {fault.rank: fault.cycle for fault in faults if isinstance(fault, ResetRank)}


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
        if isinstance(fault, FlipWrite) and fault.rank == rank:
            address, value = arrived[fault.word % len(arrived)]
            arrived[fault.word % len(arrived)] = address, value ^ 1 << fault.bit % 32
    return arrived
