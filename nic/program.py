"""Register writes that load and start a table, and faults read back in words."""

import zlib
from dataclasses import dataclass

from multitree.nic.config import LANE_TYPES
from multitree.nic.faults import Awaited, DeviceError, FaultCode
from multitree.nic.registers import ADDRESS, FLOW_WINDOW, ROUTE_WINDOW, TABLE_WINDOW, register_field
from multitree.nic.table import NO_PORT, Table
from multitree.topology.collectives import Op
from multitree.topology.elements import OPS

__all__ = [
    "ACKNOWLEDGE",
    "COMMIT",
    "DEPENDENCIES",
    "DTYPE_CODES",
    "FLOW_CONTROLS",
    "REDUCTIONS",
    "RESET",
    "START",
    "Fault",
    "RunSettings",
    "Writes",
    "decode_fault",
    "origin_of",
    "reset_writes",
    "run_writes",
    "table_writes",
]

Writes = list[tuple[int, int]]
"""Register writes in order: byte address and 32-bit value."""

COMMIT = (ADDRESS["CONTROL"], 1)
START = (ADDRESS["CONTROL"], 2)
ACKNOWLEDGE = (ADDRESS["CONTROL"], 4)
RESET = (ADDRESS["CONTROL"], 8)

DTYPE_CODES = {name: kind.value for name, kind in LANE_TYPES.items()}
"""Code of a NumPy dtype's name in the MODE register."""

REDUCTIONS = OPS
"""What becomes of the contributions, by its bit in the MODE register."""

DEPENDENCIES = ("chunk", "submessage")
"""What a row may wait for, by its bit in the MODE register."""
FLOW_CONTROLS = ("message", "packet")
"""How messages are framed, by its bit in the MODE register."""


@dataclass(frozen=True)
class RunSettings:
    """What a collective needs beside its table.

    Parameters
    ----------
    dtype : str
        "int32", "float32" or "bfloat16".
    window_base, window_flits : int
        Where the buffer lies in memory, in flits.
    watchdog_cycles, first_arrival_cycles : int
        Limits without progress; 0 switches a limit off.
    lockstep : bool
        Rows wait for the step counter.
    step_cycles : int
        Estimated time of a step in lockstep.
    dependency : str
        "chunk": a row waits for whole chunks; "submessage": for each sub-message it sends on.
    flow_control : str
        "message": one head flit per message; "packet": one per sub-message.
    reduction : str
        "sum", or "max": the larger one is kept.
    header_only : tuple of Op
        On shared links, the op whose messages are heads without payload.
    num_waves : int
        How many waves a periodic table is run for.

    Raises
    ------
    ValueError
        If the dtype is none that interfaces reduce, or a number does not fit 32 bits.
    """

    dtype: str
    window_base: int
    window_flits: int
    watchdog_cycles: int
    first_arrival_cycles: int
    lockstep: bool = False
    step_cycles: int = 0
    dependency: str = "chunk"
    flow_control: str = "message"
    reduction: str = "sum"
    header_only: tuple[Op, ...] = ()
    num_waves: int = 1

    def __post_init__(self) -> None:
        """Check the dtype and the ranges."""
        if self.dtype not in DTYPE_CODES:
            raise ValueError(f"Dtype must be one of {sorted(DTYPE_CODES)}, not {self.dtype!r}")
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


def table_writes(table: Table) -> Writes:
    """Writes that load a table and its flow memory; commit comes after `run_writes`.

    They may be made while another table runs, as long as no commit and no start waits.

    Parameters
    ----------
    table : Table

    Returns
    -------
    list of (address, value)
        Two writes per row, two more for its route on shared links, five per flow, two sizes, and
        the CRC-32 of rows and flows.
    """
    writes: Writes = []
    for row in range(table.num_rows):
        place = TABLE_WINDOW.base + TABLE_WINDOW.stride * row
        what = int(table.flow[row]) | int(table.port[row]) << 16 | int(table.op[row]) << 20
        if table.order is not None and table.vc_class is not None:
            what |= int(table.vc_class[row]) << 22 | int(table.order[row]) << 23
        writes.append((place, what))
        writes.append((place + 4, int(table.step[row]) | int(table.stage[row]) << 16))
        if table.route is not None:
            place, route = ROUTE_WINDOW.base + ROUTE_WINDOW.stride * row, int(table.route[row])
            writes += [(place, route & 0xFFFFFFFF), (place + 4, route >> 32)]
    for flow in range(table.num_flows):
        place = FLOW_WINDOW.base + FLOW_WINDOW.stride * flow
        words = [table.base[flow], table.size[flow], table.stride[flow]]
        if table.slots is None:
            children = sum(int(port) << 4 * k for k, port in enumerate(table.children[flow]))
            words += [children, table.parent[flow]]
        else:
            num_children = int((table.children[flow] != NO_PORT).sum())
            words += [table.slots[flow], num_children | (table.parent[flow] != NO_PORT) << 8]
        writes.extend((place + 4 * k, int(word)) for k, word in enumerate(words))
    content = b"".join(value.to_bytes(4, "little") for _, value in writes)
    writes.append((ADDRESS["RANK"], table.rank))
    writes.append((ADDRESS["NUM_ROWS"], table.num_rows))
    writes.append((ADDRESS["NUM_FLOWS"], table.num_flows))
    writes.append((ADDRESS["TABLE_CRC"], zlib.crc32(content)))
    return writes


def reset_writes(sequence: int = 0) -> Writes:
    """Writes that reset an interface; its next collective has this number, of 32 bits."""
    if not 0 <= sequence < 1 << 32:
        raise ValueError(f"Sequence must fit 32 bits, not {sequence!r}")
    return [(ADDRESS["RESET_SEQUENCE"], sequence), RESET]


def run_writes(settings: RunSettings) -> Writes:
    """Writes that set how and where the next collective runs; not while a commit or start waits.

    Another `window_flits` needs a commit of a table, anything else does not.
    """
    mode = DTYPE_CODES[settings.dtype] | int(settings.lockstep) << 2
    mode |= DEPENDENCIES.index(settings.dependency) << 3
    mode |= FLOW_CONTROLS.index(settings.flow_control) << 4
    mode |= REDUCTIONS.index(settings.reduction) << 5
    mode |= sum(1 << op for op in settings.header_only) << 6
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
    """A fault as the interface reports it; None where it does not know.

    Parameters
    ----------
    code : FaultCode
    awaited : Awaited
        What was awaited.
    op : Op
        Op of what was awaited.
    port : int or None
        Port it was awaited from.
    at_port : int or None
        Port that waited or faulted.
    row, flow : int or None
        Row of the table, flow.
    wave : int or None
        Of a table that is repeated.
    """

    code: FaultCode
    awaited: Awaited
    op: Op
    port: int | None
    at_port: int | None
    row: int | None
    flow: int | None
    wave: int | None = None

    def error(self, rank: int) -> DeviceError:
        """The error that tells rank, port, flow and what was awaited."""
        places = {"port": self.at_port, "row": self.row, "flow": self.flow, "wave": self.wave}
        where = "".join(f", {name} {value}" for name, value in places.items() if value is not None)
        text = f"Rank {rank}{where}: {self.code.sentence} ({self.code.name})"
        if self.awaited != Awaited.NOTHING:
            text += f"; awaited {self.awaited.sentence}"
            if self.awaited in (Awaited.DEPENDENCY, Awaited.SIBLING, Awaited.FLIT):
                text += f": {self.op.name} of flow {self.flow} on port {self.port}"
        return DeviceError(text)


def decode_fault(fault: int, fault_row: int, fault_wave: int = 0) -> Fault:
    """Decode the registers FAULT, FAULT_ROW and, where there is one, FAULT_WAVE.

    Parameters
    ----------
    fault, fault_row, fault_wave : int
        Values of the registers.

    Returns
    -------
    Fault

    Raises
    ------
    DeviceError
        If they hold no fault that this register map knows: a card that is gone reads as ones.
    """
    try:
        code, awaited = FaultCode(fault & 0xFF), Awaited(fault >> 8 & 0x7)
    except ValueError as error:
        raise DeviceError(f"Register FAULT must hold a known fault, not {fault:#010x}") from error

    def known(value: int, unknown: int) -> int | None:
        return None if value == unknown else value

    return Fault(
        code=code,
        awaited=awaited,
        op=Op(fault >> 11 & 1),
        port=known(fault >> 12 & 0xF, NO_PORT),
        at_port=known(fault >> 16 & 0xF, NO_PORT),
        row=known(fault_row & 0xFFFF, 0xFFFF),
        flow=known(fault_row >> 16, 0xFFFF),
        wave=fault_wave & 0xFFFF if fault_wave >> 16 & 1 else None,
    )


def origin_of(word: int, num_ranks: int | None = None) -> str:
    """What the register FAULT_ORIGIN says, in words.

    Parameters
    ----------
    word : int
        The register's value.
    num_ranks : int, optional
        Numbers from here on are switches'; without it nobody knows.

    Returns
    -------
    str
        The node where the fault began, and its cause there.
    """
    number, code = (register_field("FAULT_ORIGIN", name, word) for name in ("rank", "code"))
    kind = "node" if num_ranks is None else "rank" if number < num_ranks else "switch"
    known = code in FaultCode.__members__.values()
    return f"origin {kind} {number} ({FaultCode(code).name if known else f'code {code}'})"
