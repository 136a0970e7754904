"""The register map, declared once for RTL, driver and documentation."""

from collections.abc import Iterable

from multitree.hw.codes import HOP_WIDTH
from multitree.hw.export.register_map import Field, Register, RegisterMap, Window
from multitree.nic.driver.config import LANE_TYPES, MOST_SHARED_ROWS, Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.formats import NO_PORT, ROW_FORMAT, SHARED_ROW_FORMAT, Format

__all__ = [
    "ADDRESS",
    "FLOW_WINDOW",
    "ID",
    "PORT_COUNTERS",
    "PORT_WINDOW",
    "REGISTERS",
    "ROUTE_WINDOW",
    "TABLE_WINDOW",
    "VERSION",
    "Writes",
    "fields_of",
    "identity",
    "register_field",
    "register_word",
]

ID = 0x4D544E49
"""'MTNI', the value of the ID register."""
VERSION = 3
"""Version of this register map."""


def _register(address: int, name: str, access: str, description: str, *fields: Field) -> Register:
    return Register(
        name=name, address=address, access=access, description=description, fields=fields
    )


def _field(
    name: str, lsb: int, width: int, description: str, values: Iterable[FaultCode | Awaited] = ()
) -> Field:
    named = tuple((value.name, int(value), value.sentence) for value in values)
    return Field(name=name, lsb=lsb, width=width, description=description, values=named)


def _bits(entry: Format, name: str) -> str:
    """Where in its word a field of an entry is."""
    low, width = entry[name].offset % 32, entry[name].width
    return f"{low + width - 1}:{low}" if width > 1 else f"{low}"


def _words(entry: Format) -> str:
    """The fields of an entry, word by word."""
    texts: dict[int, list[str]] = {}
    for name, bits in entry.fields.items():
        if name != "reserved":
            texts.setdefault(bits.offset // 32, []).append(f"{name}[{_bits(entry, name)}]")
    return ", ".join(f"word {word} {' '.join(fields)}" for word, fields in texts.items())


TABLE_WINDOW = Window(
    name="TABLE",
    base=0x80000,
    stride=8,
    count=65536,
    words=2,
    access="wo",
    description=f"Rows: {_words(ROW_FORMAT)}. "
    "Of the next table, also while one runs: all rows in use, then commit.",
)
ROUTE_WINDOW = Window(
    name="ROUTE",
    base=0x60000,
    stride=8,
    count=MOST_SHARED_ROWS,
    words=2,
    access="wo",
    description=f"Routes of rows, on shared links only: {HOP_WIDTH} bits per switch from word 0, "
    f"bit 0 on, output port[{HOP_WIDTH - 2}:0] class[{HOP_WIDTH - 1}]; row bits "
    f"{_bits(SHARED_ROW_FORMAT, 'vc_class')} and {_bits(SHARED_ROW_FORMAT, 'order')} "
    "are the first link's class and the order.",
)
FLOW_WINDOW = Window(
    name="FLOW",
    base=0x40000,
    stride=32,
    count=4096,
    words=5,
    access="wo",
    description="Flows: word 0 base, 1 size, 2 wave stride (all in flits), 3 child ports, 4 bits "
    f"each in the order of summation, 4 parent port; port {NO_PORT} is none. As rows.",
)

PORT_COUNTERS = (
    "FLITS_SENT",
    "FLITS_RECEIVED",
    "STALL_DEPENDENCY",
    "STALL_CREDIT",
    "STALL_MEMORY",
    "STALL_SIBLING",
    "CREDITS_LOW",
    "FLITS_FORWARDED",
)
"""Counters of a port, in the order of their words."""

_COUNTED = (
    "Payload flits put on the link.",
    "Payload flits taken out of the link's buffer.",
    "Cycles a row waited for its dependency.",
    "Cycles a flit waited for a credit.",
    "Cycles a payload flit waited for memory.",
    "Cycles a contribution waited for a sibling.",
    "Least credits left.",
    "Payload flits taken from what ports keep, not from memory, to be sent.",
)

PORT_WINDOW = Window(
    name="PORT",
    base=0x100,
    stride=0x40,
    count=8,
    words=len(PORT_COUNTERS),
    access="ro",
    description="Counters per port, of the collective that runs or ran last.",
    registers=tuple(
        _register(4 * word, name, "ro", meaning)
        for word, (name, meaning) in enumerate(zip(PORT_COUNTERS, _COUNTED, strict=True))
    ),
)

REGISTERS = RegisterMap(
    name="multitree_nic",
    description="Registers of the MultiTree network interface, 32 bits each on AXI4-Lite.",
    registers=(
        _register(0x000, "ID", "ro", "0x4D544E49, 'MTNI'."),
        _register(0x004, "VERSION", "ro", "Version of this map."),
        _register(
            0x008,
            "PARAMETERS",
            "ro",
            "Sizes the interface was built with.",
            _field("num_ports", 0, 4, "Link ports."),
            _field("dtypes", 4, 3, "Types of lanes: bit 0 int32, bit 1 fp32, bit 2 bf16."),
            _field("shared", 7, 1, "Links are shared: rows have routes."),
            _field("flit_bytes", 8, 8, "Bytes of a flit."),
            _field("submessage_flits", 16, 11, "Flits of a sub-message."),
            _field("wave_width", 27, 5, "Bits of a wave's number; 0: tables are not repeated."),
        ),
        _register(0x00C, "TABLE_DEPTH", "ro", "Rows the table can hold."),
        _register(0x010, "FLOW_DEPTH", "ro", "Flows the flow memory can hold."),
        _register(0x014, "BUFFER_FLITS", "ro", "Link buffer of a port in flits."),
        _register(
            0x018,
            "CONTROL",
            "wo",
            "Commands; commit and start may be written at once, all others alone.",
            _field("commit", 0, 1, "Check the table that was written; starts after it are of it."),
            _field("start", 1, 1, "Run the committed table once, after what runs and is checked."),
            _field("acknowledge", 2, 1, "Take one done and its interrupt back."),
            _field(
                "reset",
                3,
                1,
                "Reset all but the bus and the written registers, busy until memory has answered; "
                "the links go down and come up again, and a neighbour that runs takes a fault.",
            ),
        ),
        _register(
            0x01C,
            "STATUS",
            "ro",
            "What the interface is doing.",
            _field("busy", 0, 1, "A check, a collective or a reset runs, or something waits."),
            _field("committed", 1, 1, "A table was checked and may be started."),
            _field("done", 2, 1, "A collective is complete, not acknowledged."),
            _field("fault", 3, 1, "A fault stopped the interface; see FAULT."),
            _field("locked", 4, 1, "A commit or start waits: tables and settings stay."),
            _field(
                "delivered", 5, 1, "Nothing runs; the links' other ends took all that was sent."
            ),
            _field("step", 16, 16, "The step reached."),
        ),
        _register(
            0x020,
            "MODE",
            "rw",
            "How to run; as all settings, of the next start.",
            _field("dtype", 0, 2, "Lanes: 0 int32, 1 fp32, 2 bf16; one that is built."),
            _field("lockstep", 2, 1, "Rows wait for the step counter."),
            _field("cut_through", 3, 1, "A row waits sub-message by sub-message."),
            _field("packets", 4, 1, "A head flit per sub-message; equal on all ranks."),
            _field("maximum", 5, 1, "Keep the larger one instead of the sum."),
            _field("header_only", 6, 2, "Shared links: REDUCE, GATHER are heads without payload."),
        ),
        _register(0x024, "NUM_ROWS", "rw", "Rows in use."),
        _register(0x028, "NUM_FLOWS", "rw", "Flows in use."),
        _register(0x02C, "WINDOW_BASE", "rw", "First flit of the buffer in memory."),
        _register(0x030, "WINDOW_FLITS", "rw", "Length of the buffer in flits, of a table."),
        _register(
            0x034, "ITERATIONS", "rw", "Waves of a start beyond the first, of a periodic table."
        ),
        _register(0x038, "STEP_CYCLES", "rw", "Estimated time of a step in lockstep, in cycles."),
        _register(0x03C, "WATCHDOG_CYCLES", "rw", "Longest time without progress; 0 is for ever."),
        _register(
            0x040,
            "FIRST_ARRIVAL_CYCLES",
            "rw",
            "Longest time without progress before the first message of a collective came in.",
        ),
        _register(0x044, "SEQUENCE", "ro", "Number of the collective that runs or is next."),
        _register(
            0x048,
            "FAULT",
            "ro",
            "The first fault, kept until reset.",
            _field("code", 0, 8, "Cause.", FaultCode),
            _field("awaited", 8, 3, "What was awaited.", Awaited),
            _field("op", 11, 1, "Op of what was awaited."),
            _field("port", 12, 4, "Port of what was awaited; 15 unknown."),
            _field("at_port", 16, 4, "Port that waited or faulted; 15 none."),
        ),
        _register(
            0x04C,
            "FAULT_ROW",
            "ro",
            "Where the fault is.",
            _field("row", 0, 16, "Row of the table; 0xFFFF unknown."),
            _field("flow", 16, 16, "Flow; 0xFFFF unknown."),
        ),
        _register(0x050, "CYCLES", "ro", "Cycles from start to done of the last collective."),
        _register(
            0x054,
            "STAGED",
            "ro",
            "Shared links only: contributions that waited in memory, since reset, modulo 2^32.",
        ),
        _register(
            0x058,
            "FAULT_WAVE",
            "ro",
            "Where tables are repeated only: the wave of the fault.",
            _field("wave", 0, 16, "The wave that waited, or whose message is wrong."),
            _field("known", 16, 1, "There is one."),
        ),
        _register(
            0x064, "ARRIVALS_MISSING", "ro", "Messages of the last wave that have not come in yet."
        ),
        _register(
            0x068,
            "COUNT_SELECT",
            "rw",
            "Which arrival count COUNT shows; may be written at any time.",
            _field("flow", 0, 16, "Flow."),
            _field("port", 16, 4, "Port it comes in on."),
            _field("op", 20, 1, "0 REDUCE, 1 GATHER."),
        ),
        _register(
            0x06C,
            "COUNT",
            "ro",
            "Sub-messages that came in, as selected 32 cycles before, "
            "and above them the wave's number.",
        ),
        _register(0x070, "LINKS", "ro", "Ports whose link is up at both ends, bit by bit."),
        _register(0x074, "RANK", "rw", "Number sent to neighbours with a fault."),
        _register(
            0x078,
            "FAULT_ORIGIN",
            "ro",
            "Where the fault began.",
            _field("rank", 0, 16, "RANK of the interface there, or number of the switch."),
            _field("code", 16, 8, "Cause there."),
            _field("valid", 24, 1, "There is a fault."),
        ),
        _register(0x07C, "RESET_SEQUENCE", "rw", "SEQUENCE after a reset; write it at any time."),
        _register(0x080, "TABLE_CRC", "rw", "CRC-32 of all rows' and flows' words, for commit."),
        _register(0x084, "ACTIVE_CRC", "ro", "TABLE_CRC of the table that is run by a start."),
    ),
    windows=(PORT_WINDOW, FLOW_WINDOW, ROUTE_WINDOW, TABLE_WINDOW),
)

ADDRESS = {register.name: register.address for register in REGISTERS.registers}
"""Address of every register by name."""

_FIELDS = {
    (register.name, field.name): field
    for register in REGISTERS.registers
    for field in register.fields
}


Writes = list[tuple[int, int]]
"""Register writes in order: byte address and 32-bit value."""


def fields_of(register: str) -> tuple[Field, ...]:
    """The fields of a register, lowest first, by the names of the register map."""
    return tuple(field for (of, _), field in _FIELDS.items() if of == register)


def identity(config: Config) -> dict[str, int]:
    """Values of the registers that say how an interface was built."""
    dtypes = sum(1 << LANE_TYPES[name] for name in config.dtypes)
    return {
        "ID": ID,
        "VERSION": VERSION,
        "PARAMETERS": register_word(
            "PARAMETERS",
            num_ports=config.num_ports,
            dtypes=dtypes,
            shared=int(config.shared),
            flit_bytes=config.flit_bytes,
            submessage_flits=config.submessage_flits,
            wave_width=config.wave_width,
        ),
        "TABLE_DEPTH": config.table_depth,
        "FLOW_DEPTH": config.num_flows,
        "BUFFER_FLITS": config.buffer_flits,
    }


def register_word(register: str, **fields: int) -> int:
    """A register's word whose other fields are 0; raises ValueError if a value does not fit."""
    word = 0
    for name, value in fields.items():
        place = _FIELDS[register, name]
        if not 0 <= value < 1 << place.width:
            raise ValueError(f"{register}.{name} must fit {place.width} bits, not {value!r}")
        word |= value << place.lsb
    return word


def register_field(register: str, field: str, word: int) -> int:
    """A field of a register's word, by the names of the register map."""
    place = _FIELDS[register, field]
    return word >> place.lsb & (1 << place.width) - 1
