"""What an interface's counters say of its ports after a collective."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from multitree.nic.registers import PORT_COUNTERS, PORT_WINDOW

__all__ = ["PortCounts", "count_addresses", "counts_of", "sum_of"]


@dataclass(frozen=True)
class PortCounts:
    """Counters of one port, or of many together, in one collective.

    Fields are in the order of the counters' registers, whose names they have.

    Parameters
    ----------
    flits_sent, flits_received : int
        Payload flits put on the link, and taken out of the link's buffer.
    stall_dependency_cycles, stall_credit_cycles, stall_memory_cycles, stall_sibling_cycles : int
        Cycles that a row waited for its dependency, a flit for a credit, a payload flit for
        memory, a contribution for a sibling that is added before it.
    credits_low : int
        Least credits that were left, in flits.
    """

    flits_sent: int
    flits_received: int
    stall_dependency_cycles: int
    stall_credit_cycles: int
    stall_memory_cycles: int
    stall_sibling_cycles: int
    credits_low: int


def count_addresses(ports: Iterable[int]) -> list[int]:
    """Byte addresses of all counters of some ports, port by port."""
    words = range(len(PORT_COUNTERS))
    return [PORT_WINDOW.address(port, word) for port in ports for word in words]


def counts_of(words: Sequence[int]) -> tuple[PortCounts, ...]:
    """Counters per port, of what was read at `count_addresses`."""
    step = len(PORT_COUNTERS)
    return tuple(PortCounts(*words[k : k + step]) for k in range(0, len(words), step))


def sum_of(ports: Iterable[PortCounts]) -> PortCounts:
    """Counters of ports together: sums, and the least credits that any had left.

    Raises
    ------
    ValueError
        If there are no ports.
    """
    every = list(ports)
    if not every:
        raise ValueError("Ports must be at least one, not none")
    sums = {
        field.name: sum(getattr(port, field.name) for port in every) for field in fields(PortCounts)
    }
    return PortCounts(**sums | {"credits_low": min(port.credits_low for port in every)})
