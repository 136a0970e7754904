"""What a driver knows of a card: its bus, its sizes and its counters."""

from dataclasses import dataclass
from typing import Protocol

from multitree.nic.program import PortCounts

__all__ = ["Bus", "Counters", "Sizes"]


class Bus(Protocol):
    """A way to one interface's registers: a card's mapped memory, or an emulated AXI4-Lite."""

    def write(self, address: int, value: int) -> None:
        """Write 32 bits to a byte address."""

    def read(self, address: int) -> int:
        """Read 32 bits from a byte address."""

    def wait_interrupt(self, timeout_cycles: int) -> bool:
        """Wait until the interrupt is high; False if it is not after so many cycles."""


@dataclass(frozen=True)
class Sizes:
    """Sizes that an interface says it was built with.

    Parameters
    ----------
    num_ports, flit_bytes, submessage_flits, table_depth, num_flows, buffer_flits : int
        As in `nic.Config`.
    dtypes : tuple of str
        Types of elements that it can reduce, as in `nic.Config`.
    """

    num_ports: int
    flit_bytes: int
    submessage_flits: int
    table_depth: int
    num_flows: int
    buffer_flits: int
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class Counters:
    """Counters of the last collective.

    Parameters
    ----------
    cycles : int
        From start to done.
    ports : tuple of PortCounts
        Flits, stalls by cause and least credits, per link port of the interface.
    """

    cycles: int
    ports: tuple[PortCounts, ...]
