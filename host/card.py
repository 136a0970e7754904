"""A card: one interface behind a bus, and the driver that runs tables on it."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from multitree.nic.driver.commands import HostOp, OpKind, Steps
from multitree.nic.driver.interface_driver import Driver

__all__ = ["Bus", "Card"]

P = ParamSpec("P")
T = TypeVar("T")


class Bus(Protocol):
    """Access to one interface's registers: a card's mapped memory, or an emulated AXI4-Lite."""

    def write(self, address: int, value: int) -> None:
        """Write 32 bits to a byte address."""

    def read(self, address: int) -> int:
        """Read 32 bits from a byte address."""

    def wait_interrupt(self, timeout_cycles: int) -> bool:
        """Wait until the interrupt is high; False if it is not after so many cycles."""


def _over_the_bus(
    method: Callable[Concatenate[Driver, P], Steps[T]],
) -> "Callable[Concatenate[Card, P], T]":
    """The driver's method as one of a card: its steps done over the card's bus."""

    @wraps(method)
    def call(card: "Card", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return card.perform(method(card.driver, *args, **kwargs))

    return call


class Card:
    """One interface behind a bus; its methods are those of `nic.driver.interface_driver.Driver`.

    The rank is for messages. After `max_polls` reads of a register a wait is given up.
    """

    def __init__(self, bus: Bus, rank: int, *, max_polls: int = 100_000) -> None:
        self.bus = bus
        self.driver = Driver(rank, max_polls=max_polls)

    probe = _over_the_bus(Driver.probe)
    reset = _over_the_bus(Driver.reset)
    sequence = _over_the_bus(Driver.sequence)
    await_delivery = _over_the_bus(Driver.await_delivery)
    rejoin = _over_the_bus(Driver.rejoin)
    load_table = _over_the_bus(Driver.load_table)
    commit = _over_the_bus(Driver.commit)
    preload = _over_the_bus(Driver.preload)
    start = _over_the_bus(Driver.start)
    wait = _over_the_bus(Driver.wait)
    counters = _over_the_bus(Driver.counters)

    def perform(self, steps: Steps[T]) -> T:
        """Do over the bus what a driver's method says; returns what that returns."""
        try:
            ops = next(steps)
            while True:
                ops = steps.send([self._do(op) for op in ops])
        except StopIteration as end:
            result: T = end.value
            return result

    def _do(self, op: HostOp) -> int:
        """One operation; a bus has no cycles to count, so a plain wait is none."""
        match op.kind:
            case OpKind.WRITE:
                self.bus.write(op.address, op.value)
            case OpKind.READ:
                return self.bus.read(op.address)
            case OpKind.WAIT_IRQ:
                return int(self.bus.wait_interrupt(op.value))
        return 0
