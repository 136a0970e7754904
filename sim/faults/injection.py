"""Faults on purpose in a network in RTL: what to break, where and when."""

import enum
from collections.abc import Collection
from dataclasses import dataclass

from multitree.nic.driver.registers import Writes
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
    """Field of a flit in which a bit is flipped; `bit` is taken modulo its width."""

    PAYLOAD = 0
    KIND = 1
    SEQUENCE = 2
    CHECK = 3
    EPOCH = 4


class MemoryChannel(enum.IntEnum):
    """Memory channel of a port."""

    SEND = 0
    FETCH = 1
    WRITE = 2


EVERY_ENTRY = 2**12 - 1
"""Stands for all entries of a state."""


@dataclass(frozen=True)
class Injection:
    """Fault at a node: a rank, or also a switch where a link or a state is struck."""

    node: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{name.capitalize()} must be an int of at least 0, not {value!r}")


@dataclass(frozen=True)
class _Timed(Injection):
    """Fault at a node, `cycle` cycles after the hosts begin to run."""

    cycle: int

    def words(self) -> tuple[int, int, int] | None:
        """Kind, port and value for the harness; None for a fault that a host makes."""
        return None


@dataclass(frozen=True)
class _AtPort(_Timed):
    """Fault at a port, of the first flit that it sends from that cycle on."""

    port: int


@dataclass(frozen=True)
class FlipBit(_AtPort):
    """Flip of a bit of a flit."""

    field: FlitField
    bit: int

    def words(self) -> tuple[int, int, int]:
        return int(self.field), self.port, self.bit


@dataclass(frozen=True)
class DropFlit(_AtPort):
    """Loss of a flit."""

    def words(self) -> tuple[int, int, int]:
        return _DROP, self.port, 0


@dataclass(frozen=True)
class DuplicateFlit(_AtPort):
    """Repetition of a flit."""

    def words(self) -> tuple[int, int, int]:
        return _DUPLICATE, self.port, 0


@dataclass(frozen=True)
class DelayFlit(_AtPort):
    """Delay of a flit, which others overtake, to the first free cycle after so many."""

    cycles: int

    def words(self) -> tuple[int, int, int]:
        return _DELAY, self.port, self.cycles


@dataclass(frozen=True)
class StuckMemory(_AtPort):
    """Memory channel that takes no more requests."""

    channel: MemoryChannel

    def words(self) -> tuple[int, int, int]:
        return _STICK, self.port, int(self.channel)


@dataclass(frozen=True)
class FailedMemory(_AtPort):
    """Error response of memory, once, on a channel of a rank's port."""

    channel: MemoryChannel

    def words(self) -> tuple[int, int, int]:
        return _ERROR, self.port, int(self.channel)


@dataclass(frozen=True)
class LoseCredit(_AtPort):
    """Loss of a credit that the port returns."""

    def words(self) -> tuple[int, int, int]:
        return _LOSE_CREDIT, self.port, 0


@dataclass(frozen=True)
class DoubleCredit(_AtPort):
    """Repetition of a credit that the port returns."""

    def words(self) -> tuple[int, int, int]:
        return _DOUBLE_CREDIT, self.port, 0


@dataclass(frozen=True)
class MuteLink(_AtPort):
    """Loss of all flits and credits that leave a port, for so many cycles, or for good if 0."""

    cycles: int

    def words(self) -> tuple[int, int, int]:
        return _MUTE, self.port, self.cycles


@dataclass(frozen=True)
class DeadNode(_Timed):
    """Loss of all flits and credits that leave a node."""

    def words(self) -> tuple[int, int, int]:
        return _SILENCE, 0, 0


@dataclass(frozen=True)
class FlipState(_Timed):
    """Flip of one or two bits of an entry of a node's state, in a library with `pokes`.

    `state` numbers the memory or register (`library.expose`); `entry`, but for `EVERY_ENTRY`, and
    `bit` are taken modulo the state's size, check bits included. A second bit flips at `distance`,
    if that is another one.
    """

    state: int
    entry: int
    bit: int
    distance: int = 0

    def words(self) -> tuple[int, int, int]:
        first, second = self.bit % _MOST_BITS, (self.bit + self.distance) % _MOST_BITS
        return _POKE, self.state, first | second << 10 | self.entry % 2**12 << 20


@dataclass(frozen=True)
class FlipWrite(Injection):
    """Flip of a bit of a table while the host writes it.

    `word`, sizes and CRC included, and `bit` are taken modulo their number.
    """

    word: int
    bit: int


@dataclass(frozen=True)
class ResetRank(_Timed):
    """Reset of a rank by its host, that many cycles after it could start."""


def inject(network: Network, faults: Collection[Injection]) -> None:
    """Schedule faults, in cycles from now, except those that a host makes.

    ValueError if the network has no such node, port or state.
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
    """Cycle of each rank's reset by its host."""
    return {fault.node: fault.cycle for fault in faults if isinstance(fault, ResetRank)}


def flipped(writes: Writes, rank: int, faults: Collection[Injection]) -> Writes:
    """Writes of a rank's table as they arrive."""
    arrived = list(writes)
    for fault in faults:
        if isinstance(fault, FlipWrite) and fault.node == rank:
            address, value = arrived[fault.word % len(arrived)]
            arrived[fault.word % len(arrived)] = address, value ^ 1 << fault.bit % 32
    return arrived
