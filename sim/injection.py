"""Faults on purpose in a network in RTL: what to break, where and when."""

import enum
from collections.abc import Collection
from dataclasses import dataclass

from multitree.sim.network import Network

__all__ = [
    "DeadRank",
    "DelayFlit",
    "DropFlit",
    "DuplicateFlit",
    "FlipBit",
    "FlitField",
    "Injection",
    "MemoryChannel",
    "ResetRank",
    "StuckMemory",
    "inject",
    "resets_of",
]

_DROP, _DUPLICATE, _DELAY, _STICK, _SILENCE = range(5, 10)
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


@dataclass(frozen=True)
class Injection:
    """Something that goes wrong at a rank.

    Parameters
    ----------
    rank : int
    cycle : int
        Cycles after the hosts begin to run.
    """

    rank: int
    cycle: int

    def __post_init__(self) -> None:
        """Check that every number can be."""
        for name, value in vars(self).items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{name.capitalize()} must be an int of at least 0, not {value!r}")

    def words(self) -> tuple[int, int, int] | None:
        """Kind, port and value for the harness; None for what a host does."""
        return None


@dataclass(frozen=True)
class _AtPort(Injection):
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
class DeadRank(Injection):
    """All links of a rank fall silent: neither flits nor credits leave it."""

    def words(self) -> tuple[int, int, int]:
        """As the harness takes it."""
        return _SILENCE, 0, 0


@dataclass(frozen=True)
class ResetRank(Injection):
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
        If a rank or a port is none of the network's.
    """
    degree = network.topology.degree
    for fault in faults:
        words = fault.words()
        ports = int(degree[fault.rank]) if fault.rank < len(degree) else 0
        if (words[1] if words else 0) >= ports:
            raise ValueError(f"Fault must be at a port of the network, not {fault!r}")
        if words is not None:
            kind, port, value = words
            network.inject((network.cycle + fault.cycle, kind, fault.rank, port, value))


def resets_of(faults: Collection[Injection]) -> dict[int, int]:
    """Ranks whose host resets them, and the cycle in which it does."""
    return {fault.rank: fault.cycle for fault in faults if isinstance(fault, ResetRank)}
