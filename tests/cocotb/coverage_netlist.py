"""Bits of a Verilog text that can only stand still, as its netlist shows."""

import json
import re
import tempfile
from pathlib import Path

from tests.benches import bench_module
from tests.cocotb.coverage_points import runs_of

__all__ = ["Netlist"]

yosys = bench_module("_yosys").yosys
FLATTEN = """
read_verilog top.v
hierarchy -top {top}
proc
flatten
write_rtlil top.il
delete t:*
write_json names.json
"""
SIMPLIFY = """
read_rtlil top.il
cd {top}
{ties}
cd ..
opt_expr
memory_map
pmuxtree
simplemap
opt_expr
opt_merge
opt_dff
opt_expr
opt_merge
opt_dff
opt_expr -fine
delete t:*
write_json bits.json
"""
"""Down to single bits, since most constants are a part of a word."""


class Netlist:
    """A design without hierarchy, whose signals have the names that a simulator shows."""

    def __init__(self, verilog, top):
        self._top = top
        self._folder = tempfile.TemporaryDirectory()
        (Path(self._folder.name) / "top.v").write_text(verilog)
        self._nets = names = self._run(FLATTEN.format(top=top), "names.json")
        scopes = {name.rpartition(".")[0] for name in names}
        self._scopes = {f"{top}.{scope}" if scope else top: scope for scope in scopes}
        self._names, self._places = set(names), {}

    def places(self, point):
        """Names of a toggle's signal in every instance that is counted in it; none of a memory."""
        key = point.instance, point.what
        if key not in self._places:
            pattern = re.escape(point.instance).replace(r"\*", r"\d+")
            scopes = [scope for path, scope in self._scopes.items() if re.fullmatch(pattern, path)]
            names = [f"{scope}.{point.what}".lstrip(".") for scope in scopes]
            self._places[key] = [name for name in names if name in self._names]
        return self._places[key]

    def bits(self, ties=()):
        """What every bit is by its signal's name: "0", "1", "x", or the number of its net.

        `ties` are bits (signal, number) that are taken to be 0 whatever drives them.
        """
        tied, lines = {self._nets[name][bit] for name, bit in ties}, []
        # A tie cuts a signal off from its other names: each has one of its own.
        for name, nets in self._nets.items():
            if tied.isdisjoint(nets):
                continue
            # The value at the start of what stays at 0 must not be another one.
            lines.append(f"setattr -unset init w:{re.sub(r'[][]', '?', name)}")
            for low, high in runs_of(bit for bit, net in enumerate(nets) if net in tied):
                lines.append(f"connect -set {name}[{high}:{low}] {high - low + 1}'b0")
        return self._run(SIMPLIFY.format(top=self._top, ties="\n".join(lines)), "bits.json")

    def _run(self, script, result):
        """The bits of every signal after a script."""
        folder = Path(self._folder.name)
        (folder / "passes.ys").write_text(script)
        yosys(folder, "top", ["tee -q script passes.ys"])
        module = json.loads((folder / result).read_text())["modules"][self._top]
        return {name: net["bits"] for name, net in module["netnames"].items()}
