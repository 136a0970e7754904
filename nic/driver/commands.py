"""What a host does on an interface: operations, settings, counters and faults."""

import enum
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TypeVar

from multitree.nic.driver.config import LANE_TYPES
from multitree.nic.driver.faults import Awaited, DeviceError, FaultCode
from multitree.nic.driver.formats import NO_PORT, UNKNOWN
from multitree.nic.driver.registers import (
    ADDRESS,
    PORT_COUNTERS,
    PORT_WINDOW,
    Writes,
    register_field,
    register_word,
)
from multitree.topology.collectives import OPS, Op

__all__ = [
    "ACKNOWLEDGE",
    "COMMIT",
    "DEPENDENCIES",
    "FLOW_CONTROLS",
    "REDUCTIONS",
    "RESET",
    "START",
    "Fault",
    "HostOp",
    "OpKind",
    "PortCounts",
    "RunSettings",
    "Steps",
    "count_addresses",
    "counts_of",
    "decode_fault",
    "origin_of",
    "reset_writes",
    "run_writes",
    "sum_of",
]

T = TypeVar("T")


class OpKind(enum.IntEnum):
    """What a host does; the numbers are those of the emulation's harness."""

    WRITE = 0
    READ = 1
    WAIT = 2
    WAIT_IRQ = 3


@dataclass(frozen=True)
class HostOp:
    """One operation of a host: write or read a register, wait, wait for the interrupt."""

    kind: OpKind
    address: int = 0  # of a WRITE or READ, in bytes
    value: int = 0  # to WRITE; cycles to WAIT, or to WAIT_IRQ at most

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
        """Wait until the interrupt is high; a bus gives up after the timeout, in cycles."""
        return cls(OpKind.WAIT_IRQ, value=timeout_cycles)


Steps = Generator[Sequence[HostOp], Sequence[int], T]
"""Yields operations to do in order, is sent a value for each (0 but for reads), returns a T."""


@dataclass(frozen=True)
class PortCounts:
    """Counters of one port, or of many together, in one collective: the fields of the map's PORT
    window, in its order.
    """

    flits_sent: int  # payload flits put on the link
    flits_received: int  # payload flits taken out of the link's buffer
    stall_dependency_cycles: int  # a row waited for its dependency
    stall_credit_cycles: int  # a flit waited for a credit
    stall_memory_cycles: int  # a payload flit waited for memory
    stall_sibling_cycles: int  # a contribution waited for one added before it
    credits_low: int  # least credits left, in flits
    flits_forwarded: int  # payload flits sent from a port's ring, not from memory


_COUNTERS = [
    [PORT_WINDOW.address(port, word) for word in range(PORT_WINDOW.words)]
    for port in range(PORT_WINDOW.count)
]
"""Byte addresses of a port's counters, by port."""


def count_addresses(ports: Iterable[int]) -> list[int]:
    """Byte addresses of all counters of some ports, port by port."""
    return [address for port in ports for address in _COUNTERS[port]]


def counts_of(words: Sequence[int]) -> tuple[PortCounts, ...]:
    """Counters per port, of what was read at `count_addresses`."""
    step = len(PORT_COUNTERS)
    return tuple(PortCounts(*words[k : k + step]) for k in range(0, len(words), step))


def sum_of(ports: Iterable[PortCounts]) -> PortCounts:
    """Counters of one or more ports together: sums, and the least credits that any had left."""
    every = list(ports)
    if not every:
        raise ValueError("Ports must be at least one, not none")
    sums = {
        field.name: sum(getattr(port, field.name) for port in every) for field in fields(PortCounts)
    }
    return PortCounts(**sums | {"credits_low": min(port.credits_low for port in every)})


COMMIT, START, ACKNOWLEDGE, RESET = (
    (ADDRESS["CONTROL"], register_word("CONTROL", **{command: 1}))
    for command in ("commit", "start", "acknowledge", "reset")
)

REDUCTIONS = OPS
"""What becomes of the contributions, by its bit in the MODE register."""

DEPENDENCIES = ("chunk", "submessage")
"""What a row may wait for, by its bit in the MODE register."""
FLOW_CONTROLS = ("message", "packet")
"""How messages are framed, by its bit in the MODE register."""


@dataclass(frozen=True)
class RunSettings:
    """Settings of a collective in addition to its table; raises ValueError where a choice is not
    known or a number does not fit its register.
    """

    dtype: str  # of the elements: int32, float32 or bfloat16
    window_base: int  # of the buffer in memory, in flits
    window_flits: int
    watchdog_cycles: int  # longest time without progress; 0 is no limit
    first_arrival_cycles: int  # the same before the first message came in
    lockstep: bool = False  # rows wait for the step counter
    step_cycles: int = 0  # estimated time of a step in lockstep
    dependency: str = "chunk"  # a row waits for whole chunks, or for each sub-message
    flow_control: str = "message"  # one head flit per message, or one per sub-message (packet)
    reduction: str = "sum"  # sum, or max: the larger one is kept
    header_only: tuple[Op, ...] = ()  # on shared links, ops whose messages have no payload
    num_waves: int = 1  # times that a periodic table is run

    def __post_init__(self) -> None:
        if self.dtype not in LANE_TYPES:
            raise ValueError(f"Dtype must be one of {sorted(LANE_TYPES)}, not {self.dtype!r}")
        for name, known in (
            ("dependency", DEPENDENCIES),
            ("flow_control", FLOW_CONTROLS),
            ("reduction", REDUCTIONS),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name.capitalize()} must be one of {list(known)}, not {getattr(self, name)!r}"
                )
        for name in (
            "window_base",
            "window_flits",
            "watchdog_cycles",
            "first_arrival_cycles",
            "step_cycles",
        ):
            value = getattr(self, name)
            if not 0 <= value < 1 << 32:
                raise ValueError(f"RunSettings {name} must fit 32 bits, not {value!r}")
        if not 1 <= self.num_waves <= 1 << 16:
            raise ValueError(f"RunSettings num_waves must be in 1..2^16, not {self.num_waves!r}")


def reset_writes(sequence: int = 0) -> Writes:
    """Writes that reset an interface; its next collective has this number, of 32 bits."""
    if not 0 <= sequence < 1 << 32:
        raise ValueError(f"Sequence must fit 32 bits, not {sequence!r}")
    return [(ADDRESS["RESET_SEQUENCE"], sequence), RESET]


def run_writes(settings: RunSettings) -> Writes:
    """Writes that set how and where the next collective runs; not while a commit or start waits.
    Another `window_flits` needs a commit of a table, anything else does not.
    """
    mode = register_word(
        "MODE",
        dtype=LANE_TYPES[settings.dtype],
        lockstep=int(settings.lockstep),
        cut_through=DEPENDENCIES.index(settings.dependency),
        packets=FLOW_CONTROLS.index(settings.flow_control),
        maximum=REDUCTIONS.index(settings.reduction),
        header_only=sum(1 << op for op in settings.header_only),
    )
    return [
        (ADDRESS["MODE"], mode),
        (ADDRESS["WINDOW_BASE"], settings.window_base),
        (ADDRESS["WINDOW_FLITS"], settings.window_flits),
        (ADDRESS["STEP_CYCLES"], settings.step_cycles),
        (ADDRESS["WATCHDOG_CYCLES"], settings.watchdog_cycles),
        (ADDRESS["FIRST_ARRIVAL_CYCLES"], settings.first_arrival_cycles),
        (ADDRESS["ITERATIONS"], settings.num_waves - 1),
    ]


@dataclass(frozen=True)
class Fault:
    """A fault as the interface reports it; None where it does not know."""

    code: FaultCode
    awaited: Awaited
    op: Op  # of the awaited message
    port: int | None  # port that was awaited
    at_port: int | None  # port that waited or faulted
    row: int | None
    flow: int | None
    wave: int | None = None  # of a table that is repeated

    def error(self, rank: int) -> DeviceError:
        """The error that names rank, port, flow and what was awaited."""
        places = {"port": self.at_port, "row": self.row, "flow": self.flow, "wave": self.wave}
        where = "".join(f", {name} {value}" for name, value in places.items() if value is not None)
        text = f"Rank {rank}{where}: {self.code.sentence} ({self.code.name})"
        if self.awaited != Awaited.NOTHING:
            text += f"; awaited {self.awaited.sentence}"
            if self.awaited in (Awaited.DEPENDENCY, Awaited.SIBLING, Awaited.FLIT):
                text += f": {self.op.name} of flow {self.flow} on port {self.port}"
        return DeviceError(text)


def decode_fault(fault: int, fault_row: int, fault_wave: int = 0) -> Fault:
    """Fault in the registers FAULT, FAULT_ROW and, where there is one, FAULT_WAVE. Raises
    DeviceError for codes that the map does not have: a card that is gone reads as ones.
    """
    of_fault = partial(register_field, "FAULT", word=fault)
    of_row = partial(register_field, "FAULT_ROW", word=fault_row)
    of_wave = partial(register_field, "FAULT_WAVE", word=fault_wave)
    try:
        code, awaited = FaultCode(of_fault("code")), Awaited(of_fault("awaited"))
    except ValueError as error:
        raise DeviceError(f"Register FAULT must hold a known fault, not {fault:#010x}") from error

    def known(value: int, unknown: int) -> int | None:
        return None if value == unknown else value

    return Fault(
        code=code,
        awaited=awaited,
        op=Op(of_fault("op")),
        port=known(of_fault("port"), NO_PORT),
        at_port=known(of_fault("at_port"), NO_PORT),
        row=known(of_row("row"), UNKNOWN),
        flow=known(of_row("flow"), UNKNOWN),
        wave=of_wave("wave") if of_wave("known") else None,
    )


def origin_of(word: int, num_ranks: int | None = None) -> str:
    """Node and cause in the register FAULT_ORIGIN, in words. Numbers from `num_ranks` on are
    switches; without it the kind of node is not known.
    """
    number, code = (register_field("FAULT_ORIGIN", name, word) for name in ("rank", "code"))
    kind = "node" if num_ranks is None else "rank" if number < num_ranks else "switch"
    known = code in FaultCode.__members__.values()
    return f"origin {kind} {number} ({FaultCode(code).name if known else f'code {code}'})"
