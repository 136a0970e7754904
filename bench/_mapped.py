"""An interface as a netlist of a library's cells, lane units kept apart.

Yosys reads and flattens it, lane units stay modules of their own; memories become black boxes;
flip-flops and logic are mapped, logic with buffers and sizes by ABC. What ABC does not buffer,
outputs of flip-flops, memories and ports, gets trees of buffers here.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _cases import Case
from _liberty import Library
from _memories import Memory, leave_out
from _yosys import yosys

from multitree.nic.driver.config import MODULE_NAME

LANE_UNIT = "hw.lanes.LaneUnit"
MOST_LOADS = 16
"""Inputs that one output drives, and a buffer."""
ABC = (
    *("strash", "&get -n", "&fraig -x", "&put", "scorr", "dc2", "strash"),
    *("&get -n", "&dch -f", "&nf {D}", "&put", f"buffer -N {MOST_LOADS}", "topo"),
    *("upsize {D}", "dnsize {D}", "stime -p"),
)
PREPARE = (
    *("proc", "flatten", "opt -full", "wreduce", "peepopt", "opt_clean", "alumacc", "opt -fast"),
    *("opt_mem", "opt_mem_priority", "opt_mem_feedback", "memory_dff", "memory_share"),
    *("opt_mem_widen", "memory_collect", "opt_clean"),
)
Netlist = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Mapped:
    """A mapped netlist: its Verilog, cells of every module by type, lane units, black boxes."""

    verilog: Path
    cells: dict[str, dict[str, int]]
    lane_units: frozenset[str]
    memories: dict[str, Memory]


def module_of(path: str, modules: Collection[str]) -> str:
    """The Verilog module of a block: equal blocks, numbered in a path, share one."""
    parts = path.split(".")
    shared = [".".join([re.sub(r"_\d+$", "", p), *parts[k + 1 :]]) for k, p in enumerate(parts)]
    for name in (path, *shared):
        if f"{MODULE_NAME}.{name}" in modules:
            return f"{MODULE_NAME}.{name}"
    raise ValueError(f"The Verilog must have a module for {path}")


def lane_units(verilog: str, blocks: Mapping[str, str]) -> frozenset[str]:
    modules = set(re.findall(r"^module \\?(\S+)", verilog, re.MULTILINE))
    return frozenset(module_of(path, modules) for path, cls in blocks.items() if cls == LANE_UNIT)


def buffer_cell(library: Library) -> tuple[str, str, str]:
    """A buffer for trees, and its pins: a quarter of the buffers are smaller."""
    buffers = sorted(library.buffers(), key=lambda each: library.cells[each[0]].area_um2)
    return buffers[len(buffers) // 4]


def spread(netlist: Netlist, library: Library, keep: Collection[str]) -> int:
    """Put trees of buffers behind all that drives too much but ports called so; their number."""
    return sum(_spread(each, library, keep) for each in netlist["modules"].values())


def _inputs(cell: dict[str, Any], library: Library) -> Iterator[list[Any]]:
    """What the inputs of a cell are connected to: Yosys does not know the library's pins."""
    known = library.cells.get(cell["type"])
    for pin, bits in cell["connections"].items():
        if pin not in known.outputs if known else cell["port_directions"][pin] == "input":
            yield bits


def _spread(module: dict[str, Any], library: Library, keep: Collection[str]) -> int:
    cell_name, pin_in, pin_out = buffer_cell(library)
    kept = {
        bit for name in keep if name in module["ports"] for bit in module["ports"][name]["bits"]
    }
    loads: dict[int, list[list[Any]]] = {}
    for cell in module["cells"].values():
        for bits in _inputs(cell, library):
            for place, bit in enumerate(bits):
                if isinstance(bit, int) and bit not in kept:
                    loads.setdefault(bit, []).append([bits, place])
    bits_of_nets = (bit for net in module["netnames"].values() for bit in net["bits"])
    free = 1 + max((bit for bit in (*loads, *bits_of_nets) if isinstance(bit, int)), default=1)
    added = 0
    for driver, places in loads.items():
        while len(places) > MOST_LOADS:
            inputs = []
            for first in range(0, len(places), MOST_LOADS):
                for bits, place in places[first : first + MOST_LOADS]:
                    bits[place] = free
                wires: dict[str, list[int]] = {pin_in: [driver], pin_out: [free]}
                directions = {pin_in: "input", pin_out: "output"}
                module["cells"][f"spread_{free}"] = {
                    "type": cell_name,
                    "parameters": {},
                    "attributes": {},
                    "port_directions": directions,
                    "connections": wires,
                }
                inputs.append([wires[pin_in], 0])
                free, added = free + 1, added + 1
            places = inputs
    return added


def _json(path: Path) -> Netlist:
    netlist: Netlist = json.loads(path.read_text())
    return netlist


def map_to(library: Library, case: Case, folder: Path, period_ps: float, say: Say) -> Mapped:
    """Map an interface to a library's cells, in a folder."""
    say("Verilog")
    verilog, blocks = case.write_verilog(folder), case.blocks()
    units = lane_units(verilog.read_text(), blocks)
    keep = [f"setattr -mod -set keep_hierarchy 1 {unit}" for unit in sorted(units)]
    say("flatten, and leave memories out")
    read = (f"read_verilog {verilog.name}", f"hierarchy -top {MODULE_NAME}")
    yosys(folder, "prepare", (*read, *keep, *PREPARE, "write_json prepared.json"))
    netlist = _json(folder / "prepared.json")
    memories = leave_out(netlist)
    (folder / "boxed.json").write_text(json.dumps(netlist))
    say("map flip-flops and logic")
    (folder / "mapping.abc").write_text("\n".join([*ABC, ""]))
    files = " ".join(f"-liberty {path.name}" for path in library.files)
    yosys(
        folder,
        "map",
        (
            *("read_json boxed.json", "memory_map", "opt -fast", "techmap", "opt -fast"),
            # Flip-flops keep these names: paths are named after what they begin and end at.
            *("rename -wire t:$_*DFF*_", f"dfflibmap {files}", "opt_clean", "setundef -zero"),
            *("opt -fast", f"abc {files} -D {period_ps:.0f} -script mapping.abc"),
            *("splitnets -ports", "opt_clean -purge", "write_json mapped.json"),
        ),
    )
    say("buffer what drives much")
    netlist = _json(folder / "mapped.json")
    spread(netlist, library, ("clk",))
    (folder / "spread.json").write_text(json.dumps(netlist))
    write = ("tee -q -o cells.json stat -json", "write_verilog -noattr -noexpr mapped.v")
    yosys(folder, "write", ("read_json spread.json", "delete t:$scopeinfo", *write))
    modules = _json(folder / "cells.json")["modules"]
    cells = {name.lstrip("\\"): each["num_cells_by_type"] for name, each in modules.items()}
    return Mapped(folder / "mapped.v", cells, units, memories)


def areas(mapped: Mapped, area_um2: Mapping[str, float]) -> tuple[float, float, int]:
    """Area of the interface, of its lane units, and how many cells it has; no black boxes."""

    def of(module: str, inside: bool) -> tuple[float, float, int]:
        total, lanes, number = 0.0, 0.0, 0
        inside = inside or module in mapped.lane_units
        for name, count in mapped.cells[module].items():
            if name in area_um2:
                each = area_um2[name]
                found = each, each * inside, 1
            elif name in mapped.cells:
                found = of(name, inside)
            else:
                continue
            total, lanes = total + count * found[0], lanes + count * found[1]
            number += count * found[2]
        return total, lanes, number

    return of(MODULE_NAME, False)
