"""What a rank's host does on its register bus, one operation at a time."""

from dataclasses import dataclass

from multitree.sim.native import OpKind

__all__ = ["HostOp"]


@dataclass(frozen=True)
class HostOp:
    """One thing a rank's host does: write or read a register, wait, wait for the interrupt.

    Parameters
    ----------
    kind : OpKind
    address : int
        Byte address of a WRITE or READ.
    value : int
        What to WRITE, or how many cycles to WAIT.
    """

    kind: OpKind
    address: int = 0
    value: int = 0

    @classmethod
    def write(cls, address: int, value: int) -> "HostOp":
        """Write a register."""
        return cls(OpKind.WRITE, address, value)

    @classmethod
    def read(cls, address: int) -> "HostOp":
        """Read a register; the value is in the operation's result."""
        return cls(OpKind.READ, address)

    @classmethod
    def wait(cls, cycles: int) -> "HostOp":
        """Let cycles pass."""
        return cls(OpKind.WAIT, value=cycles)

    @classmethod
    def wait_irq(cls) -> "HostOp":
        """Wait until the interrupt is high."""
        return cls(OpKind.WAIT_IRQ)
