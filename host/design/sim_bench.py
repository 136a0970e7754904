"""A test bench in plain Verilog: two interfaces that all-reduce over one link."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.host.design.manifest import DesignFile
from multitree.host.design.names import DesignNames
from multitree.host.design.write_lists import WriteList
from multitree.hw.axi.bursts import byte_address_width
from multitree.hw.export.verilog import written_ports
from multitree.nic.driver.commands import ACKNOWLEDGE, COMMIT, START, RunSettings, run_writes
from multitree.nic.driver.config import Config
from multitree.nic.driver.registers import ADDRESS, ID, REGISTERS
from multitree.nic.driver.table import Table, compile_table, table_writes
from multitree.topology.algorithms.build import build
from multitree.topology.collectives import DTYPES
from multitree.topology.families.direct import ring
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule

__all__ = ["bench_files", "why_no_bench"]

_MOST_FLITS = 64
_WINDOW_BASE = 2
_LIMIT_CYCLES = 100_000
_WATCHDOG_CYCLES = 20_000
_PORT = "link_0_"
# The memory has no use for these, which are always the same.
_ATTRIBUTE = re.compile(r"_a[rw](id|size|burst|cache|prot)$")
_MEMORIES = {"sram": ("sim_sram.v.in", "memory_0_"), "axi": ("sim_axi.v.in", "m_axi_0_")}


@cache
def _schedule() -> Schedule:
    return build(ring(2), "multitree")


def why_no_bench(config: Config) -> str | None:
    """Why an interface is too small for the test bench; None if it is not."""
    needed = _schedule().num_flows
    if config.num_flows >= needed:
        return None
    return (
        f"an all-reduce of 2 ranks needs {needed} flows, and the interface has {config.num_flows}"
    )


@dataclass(frozen=True)
class _Run:
    """What the two interfaces do: their tables, data and sums."""

    tables: list[Table]
    settings: RunSettings
    images: npt.NDArray[np.uint8]

    @property
    def num_flits(self) -> int:
        return len(self.images[0])


def _run(config: Config) -> _Run:
    """An all-reduce that is long enough for more than one sub-message, where there is room."""
    room = (1 << config.address_width) - 1 - _WINDOW_BASE
    # On shared links each rank has a slot of half a buffer behind it.
    num_flits = min(2 * config.submessage_flits + 6, _MOST_FLITS, 2 * room // 3)
    tables = [compile_table(_schedule(), rank, num_flits, config) for rank in range(2)]
    dtype = config.dtypes[0]
    settings = RunSettings(
        dtype=dtype,
        window_base=_WINDOW_BASE,
        window_flits=max(table.end_flits for table in tables),
        watchdog_cycles=_WATCHDOG_CYCLES,
        first_arrival_cycles=_WATCHDOG_CYCLES,
    )
    buffers = _numbers(2, num_flits * config.flit_bytes // DTYPES[dtype].itemsize, dtype)
    sums = execute(_schedule(), buffers, flit_bytes=config.flit_bytes)
    images = np.concatenate([buffers, sums[:1]]).view(np.uint8)
    return _Run(tables, settings, images.reshape(3, num_flits, config.flit_bytes))


def _numbers(num_ranks: int, num_elements: int, dtype: str) -> npt.NDArray[Any]:
    """Numbers all over int32's range, whose sums wrap; as floats they are rounded."""
    mixed = np.arange(1, num_ranks * num_elements + 1, dtype=np.uint64) * 2_654_435_761
    numbers: npt.NDArray[Any] = (mixed ^ mixed >> 15).astype(np.uint32).view(np.int32)
    if dtype != "int32":
        numbers = numbers.astype(np.float32).astype(DTYPES[dtype])
    return numbers.reshape(num_ranks, num_elements)


def bench_files(config: Config, names: DesignNames, memory: str, verilog: str) -> list[DesignFile]:
    """The Verilog test bench, register writes of either rank, and contents of the memories."""
    run, bench = _run(config), names.bench
    lists = [_writes(run, rank, names) for rank in range(2)]
    marks = _marks(config, names, memory, written_ports(verilog, names.top(memory)), run)
    marks |= {f"NUM_WRITES_{listed.rank}": len(listed.writes) for listed in lists}
    text = _filled("sim_bench.v.in", marks) + _filled(_MEMORIES[memory][0], marks)
    flits = run.images.reshape(-1, config.flit_bytes)
    return [
        DesignFile(f"{bench}.v", "test bench", text),
        *(
            DesignFile(f"{bench}_writes_{w.rank}.hex", f"writes, rank {w.rank}", w.text("readmemh"))
            for w in lists
        ),
        DesignFile(
            f"{bench}_memory.hex",
            "data and sums",
            "// Flits of rank 0, then of rank 1, then of their sums.\n"
            + "".join(f"{int.from_bytes(flit.tobytes(), 'little'):x}\n" for flit in flits),
        ),
    ]


def _writes(run: _Run, rank: int, names: DesignNames) -> WriteList:
    table = run.tables[rank]
    about = f"All-reduce of {run.num_flits} flits on ring:2, rank {rank}."
    return WriteList(
        name=names.prefix,
        rank=rank,
        about=(about,),
        ports=sum(1 << port for port in table.ports_in_use()),
        writes=[*table_writes(table), *run_writes(run.settings), COMMIT],
    )


def _filled(template: str, marks: dict[str, Any]) -> str:
    text = (Path(__file__).parent / template).read_text(encoding="utf-8")
    for mark, value in marks.items():
        text = text.replace(f"@{mark}@", str(value))
    return text


def _marks(
    config: Config,
    names: DesignNames,
    memory: str,
    ports: dict[str, tuple[int, bool]],
    run: _Run,
) -> dict[str, Any]:
    """What stands at the marks of the templates."""
    window_end = _WINDOW_BASE + run.settings.window_flits
    index_width = window_end.bit_length()
    low = config.flit_bytes.bit_length() - 1 if memory == "axi" else 0
    sizes = {"address_width": config.address_width, "flit_bytes": config.flit_bytes}
    address_width = byte_address_width(**sizes) if memory == "axi" else config.address_width
    link = sum(ports[f"{_PORT}tx_{name}"][0] for name in _link_fields(ports))
    return {
        "BENCH": names.bench,
        "TOP": names.top(memory),
        "NUM_FLITS": run.num_flits,
        "FLIT_BYTES": config.flit_bytes,
        "WINDOW_BASE": _WINDOW_BASE,
        "WINDOW_END": window_end,
        "LIMIT_CYCLES": _LIMIT_CYCLES,
        "DTYPE": run.settings.dtype,
        "FLIT": 8 * config.flit_bytes - 1,
        "STROBE": config.flit_bytes - 1,
        "ADDRESS": address_width - 1,
        "DEPTH": 1 << index_width,
        "INDEX": index_width - 1,
        "INDEX_LOW": low,
        "INDEX_END": low + index_width - 1,
        "LINK": link - 1,
        "REGISTERS": _registers(),
        **_instances(memory, ports),
    }


def _registers() -> str:
    """Addresses and values that the host knows."""
    (status,) = (register for register in REGISTERS.registers if register.name == "STATUS")
    known = ("ID", "CONTROL", "STATUS", "LINKS", "FAULT", "FAULT_ROW")
    lines = [f"localparam [19:0] {name} = 20'h{ADDRESS[name]:x};" for name in known]
    values = {"ID_VALUE": ID, "START": START[1], "ACKNOWLEDGE": ACKNOWLEDGE[1]}
    lines += [f"localparam [31:0] {name} = 32'h{value:x};" for name, value in values.items()]
    bits = {field.name.upper(): field.lsb for field in status.fields}
    shown = ("BUSY", "COMMITTED", "DONE", "FAULT")
    lines += [f"localparam {name}_BIT = {bits[name]};" for name in shown]
    return "\n".join(f"  {line}" for line in lines)


def _instances(memory: str, ports: dict[str, tuple[int, bool]]) -> dict[str, str]:
    """The wires of a rank, and what is at the pins of its interface, host and memory."""
    prefix = _MEMORIES[memory][1]
    common, used = ("clk", "rst"), (_PORT, prefix, "s_axil_", "irq")
    wires, pins = [], {}
    for name, (width, is_output) in ports.items():
        if name.startswith(used):
            wires.append(f"  wire {f'[{width - 1}:0] ' if width > 1 else ''}{name};")
        # Ports without a link are tied off; what an observer needs is left open.
        known = name in common or name.startswith(used)
        pins[name] = name if known else "" if is_output else f"{width}'d0"
    way, fields = ("tx", "rx"), _link_fields(ports)
    host = {name.removeprefix("s_axil_"): name for name in ports if name.startswith("s_axil_")}
    inside = {
        name.removeprefix(prefix): name
        for name in ports
        if name.startswith(prefix) and not _ATTRIBUTE.search(name)
    }
    return {
        "WIRES": "\n".join(wires),
        "SENT": ", ".join(f"{_PORT}{way[name == 'credit']}_{name}" for name in fields),
        "RECEIVED": ", ".join(f"{_PORT}{way[name != 'credit']}_{name}" for name in fields),
        "PINS": _joined(pins),
        "HOST_PINS": _joined({n: n for n in (*common, "irq", "done")} | host),
        "MEMORY_PINS": _joined({n: n for n in common} | inside),
    }


def _link_fields(ports: dict[str, tuple[int, bool]]) -> list[str]:
    """Names of a link's signals: credits go against the others."""
    start = f"{_PORT}tx_"
    return [name.removeprefix(start) for name in ports if name.startswith(start)]


def _joined(pins: dict[str, str]) -> str:
    return ",\n".join(f"    .{pin}({net})" for pin, net in pins.items())
