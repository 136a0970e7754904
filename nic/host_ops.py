"""What a host does on the bus of an interface, and a sequence of such operations."""

import enum
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["HostOp", "OpKind", "Steps"]

T = TypeVar("T")


class OpKind(enum.IntEnum):
    """What a host does; the numbers are those of the emulation's harness."""

    WRITE = 0
    READ = 1
    WAIT = 2
    WAIT_IRQ = 3


@dataclass(frozen=True)
class HostOp:
    """One thing a host does: write or read a register, wait, wait for the interrupt.

    Parameters
    ----------
    kind : OpKind
    address : int
        Byte address of a WRITE or READ.
    value : int
        What to WRITE, how many cycles to WAIT, or to WAIT_IRQ at most.
    """

    kind: OpKind
    address: int = 0
    value: int = 0

    @classmethod
    def write(cls, address: int, value: int) -> "HostOp":
        """Write a register."""
        return cls(OpKind.WRITE, address, value)

    @classmethod
    def writes(cls, pairs: Iterable[tuple[int, int]]) -> "list[HostOp]":
        """Write registers, each a byte address and a value."""
        return [cls.write(*pair) for pair in pairs]

    @classmethod
    def read(cls, address: int) -> "HostOp":
        """Read a register; the value is in the operation's result."""
        return cls(OpKind.READ, address)

    @classmethod
    def wait(cls, cycles: int) -> "HostOp":
        """Let cycles pass."""
        return cls(OpKind.WAIT, value=cycles)

    @classmethod
    def wait_irq(cls, timeout_cycles: int = 0) -> "HostOp":
        """Wait until the interrupt is high; a bus gives up after the timeout."""
        return cls(OpKind.WAIT_IRQ, value=timeout_cycles)


Steps = Generator[Sequence[HostOp], Sequence[int], T]
"""Yields operations to do in order, is sent a value for each (0 but for reads), returns a T."""
