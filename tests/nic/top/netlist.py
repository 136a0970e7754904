"""Combinational paths of a component, found in its netlist."""

import json

from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil

__all__ = ["combinational_paths"]


def _flat_netlist(component):
    """The top module of a component's flattened netlist: ports and cells, bit by bit."""
    yosys = find_yosys(lambda version: True)
    text = rtlil.convert(component, name="top")
    script = f"read_rtlil <<rtlil\n{text}\nrtlil\nproc\nflatten\nopt_clean\nwrite_json -\n"
    output = yosys.run(["-q", "-"], script)
    return json.loads(output[output.index("{") :])["modules"]["top"]


def _is_clocked(cell):
    """True for what passes nothing on within a cycle."""
    if cell["type"] == "$memrd_v2":
        return int(cell["parameters"]["CLK_ENABLE"], 2) == 1
    return cell["type"] in ("$dff", "$memwr_v2", "$meminit_v2")


def combinational_paths(component):
    """All (output, input) where an output may depend on an input within a cycle.

    A cell that is not clocked is taken to pass on any of its inputs to any of its outputs.
    """
    top = _flat_netlist(component)
    feeds = {}
    for cell in top["cells"].values():
        if _is_clocked(cell):
            continue
        ends = {"input": [], "output": []}
        for port, direction in cell["port_directions"].items():
            ends[direction] += [bit for bit in cell["connections"][port] if isinstance(bit, int)]
        for bit in ends["output"]:
            feeds[bit] = ends["input"]
    inputs = {
        bit: name
        for name, port in top["ports"].items()
        for bit in port["bits"]
        if port["direction"] == "input"
    }
    paths = set()
    for name, port in top["ports"].items():
        if port["direction"] == "output":
            seen, left = set(), list(port["bits"])
            while left:
                bit = left.pop()
                if bit not in seen:
                    seen.add(bit)
                    left += feeds.get(bit, [])
            paths |= {(name, inputs[bit]) for bit in seen if bit in inputs}
    return paths
