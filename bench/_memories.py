"""Memories of a netlist as black boxes, and what their pins are in Liberty.

A memory that reads and writes at the clock's edge becomes a cell without contents: its inputs end
paths before the edge, its outputs begin them behind it, and nothing leads through it. How long
before and behind is not known without a memory compiler, and is stated by who measures.
"""

from dataclasses import dataclass
from typing import Any

FEWEST_WORDS = 16
"""Of a memory that is worth a macro; one with fewer is made of flip-flops."""
MEMORY = "$mem_v2"
OUTPUT = "READ_DATA"
CLOCK = "CLK"


@dataclass(frozen=True)
class Memory:
    """A black box: words and bits of the memory, and the width of each of its pins."""

    words: int
    bits: int
    widths: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        sizes = "_".join(str(width) for _, width in self.widths)
        return f"memory_{self.words}x{self.bits}_{sizes}"


def _number(cell: dict[str, Any], parameter: str) -> int:
    return int(cell["parameters"][parameter], 2)


def _is_box(cell: dict[str, Any]) -> bool:
    """Whether a cell is a memory to leave out: one clock, an edge at every port, enough words."""
    if cell["type"] != MEMORY or _number(cell, "SIZE") < FEWEST_WORDS:
        return False
    ports = [_number(cell, f"{kind}_PORTS") for kind in ("RD", "WR")]
    if not all(ports):
        return False
    clocked = all(set(cell["parameters"][f"{kind}_CLK_ENABLE"]) == {"1"} for kind in ("RD", "WR"))
    wires = cell["connections"]
    resets = set(wires["RD_ARST"]) | set(wires["RD_SRST"])
    return clocked and resets == {"0"} and len({*wires["RD_CLK"], *wires["WR_CLK"]}) == 1


def _boxed(cell: dict[str, Any]) -> tuple[Memory, dict[str, list[Any]]]:
    wires = cell["connections"]
    pins = {
        CLOCK: wires["RD_CLK"][:1],
        "READ": wires["RD_EN"],
        "READ_ADDRESS": wires["RD_ADDR"],
        # Bits that are written together share one wire, as they would share a pin.
        "WRITE": list(dict.fromkeys(wires["WR_EN"])),
        "WRITE_ADDRESS": wires["WR_ADDR"],
        "WRITE_DATA": wires["WR_DATA"],
        OUTPUT: wires["RD_DATA"],
    }
    widths = tuple((pin, len(bits)) for pin, bits in pins.items())
    return Memory(_number(cell, "SIZE"), _number(cell, "WIDTH"), widths), pins


def leave_out(netlist: dict[str, Any]) -> dict[str, Memory]:
    """Replace memories of a netlist as Yosys writes it in JSON; black boxes by the cell's path."""
    boxes = {}
    for module in netlist["modules"].values():
        for path, cell in module["cells"].items():
            if _is_box(cell):
                boxes[path], pins = _boxed(cell)
                directions = {pin: "output" if pin == OUTPUT else "input" for pin in pins}
                cell.update(type=boxes[path].name, parameters={}, connections=pins)
                cell.update(port_directions=directions, attributes={"keep": f"{1:032b}"})
    for memory in boxes.values():
        netlist["modules"][memory.name] = _module(memory)
    return boxes


def _module(memory: Memory) -> dict[str, Any]:
    """The declaration of a black box in Yosys's JSON, which counts bits from 2 on."""
    ports, first = {}, 2
    for pin, width in memory.widths:
        direction = "output" if pin == OUTPUT else "input"
        ports[pin] = {"direction": direction, "bits": list(range(first, first + width))}
        first += width
    return {"attributes": {"blackbox": f"{1:032b}"}, "ports": ports, "cells": {}, "netnames": {}}


HEADER = """library (memories) {
  delay_model : table_lookup;
  time_unit : "1ps";
  voltage_unit : "1V";
  current_unit : "1mA";
  pulling_resistance_unit : "1kohm";
  leakage_power_unit : "1pW";
  capacitive_load_unit (1, ff);
  nom_process : 1;
  nom_temperature : 25;
  nom_voltage : 1;
  input_threshold_pct_rise : 50;
  input_threshold_pct_fall : 50;
  output_threshold_pct_rise : 50;
  output_threshold_pct_fall : 50;
  slew_lower_threshold_pct_rise : 20;
  slew_lower_threshold_pct_fall : 20;
  slew_upper_threshold_pct_rise : 80;
  slew_upper_threshold_pct_fall : 80;
"""
BUS = """  type (bits_{width}) {{
    base_type : array;
    data_type : bit;
    bit_width : {width};
    bit_from : {high};
    bit_to : 0;
    downto : true;
  }}
"""
SETUP = """      timing () {{
        related_pin : "CLK";
        timing_type : setup_rising;
        rise_constraint (scalar) {{ values ("{ps:g}"); }}
        fall_constraint (scalar) {{ values ("{ps:g}"); }}
      }}
"""
ACCESS = """      timing () {{
        related_pin : "CLK";
        timing_type : rising_edge;
        cell_rise (scalar) {{ values ("{ps:g}"); }}
        cell_fall (scalar) {{ values ("{ps:g}"); }}
        rise_transition (scalar) {{ values ("{slew:g}"); }}
        fall_transition (scalar) {{ values ("{slew:g}"); }}
      }}
"""


def liberty(memories: set[Memory], access_ps: float, setup_ps: float, pin_ff: float) -> str:
    """A Liberty library of black boxes: every pin loads the same, every output takes as long."""
    widths = sorted({width for memory in memories for _, width in memory.widths} - {1})
    text = HEADER + "".join(BUS.format(width=width, high=width - 1) for width in widths)
    for memory in sorted(memories, key=lambda memory: memory.name):
        text += f"  cell ({memory.name}) {{\n    area : 0;\n"
        for pin, width in memory.widths:
            text += f"    {'pin' if width == 1 else 'bus'} ({pin}) {{\n"
            text += f"      bus_type : bits_{width};\n" if width > 1 else ""
            if pin == OUTPUT:
                timing = ACCESS.format(ps=access_ps, slew=access_ps / 10)
                text += f"      direction : output;\n{timing}    }}\n"
                continue
            text += f"      direction : input;\n      capacitance : {pin_ff:g};\n"
            text += "      clock : true;\n" if pin == CLOCK else SETUP.format(ps=setup_ps)
            text += "    }\n"
        text += "  }\n"
    return text + "}\n"
