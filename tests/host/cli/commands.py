"""Command lines of every command, and how tests run them."""

import json

import pytest

from multitree.host.cli.main import main
from multitree.sim.emulator.verilator import why_not
from tests.repository import ROOT

SWEEP = ROOT / "examples" / "sweep.yaml"
needs_rtl = pytest.mark.skipif(why_not() is not None, reason=f"no RTL emulation here: {why_not()}")
COMMANDS = {
    "topology": ["torus:4x4"],
    "schedule": ["torus:4x4"],
    "verify": ["mesh:5x3"],
    "table": ["torus:4x4", "--rank", "5"],
    "verilog": ["fat_tree:2x2"],
    "cocotb": ["ring:2", "--sim", "icarus", "--dtypes", "int32", "--only", "after_a_reset"],
    "simulate": ["mesh:4x4", "--engine", "analytic"],
    "compare": ["mesh:3x3", "--engine", "analytic"],
    "figure": ["strong-scaling", "--networks", "torus:3x3", "--jobs", "1"],
    "sweep": [str(SWEEP), "--out", "results", "--jobs", "1"],
    "explain": ["torus:4x4", "--size", "4KiB"],
    "job": ["ncf", "torus:2x2"],
    "view": ["torus:4x4", "--size", "4KiB", "--out", "page.html"],
    "doctor": [],
}
TIMED = {
    "topology": ["ring:4"],
    "verify": ["ring:4"],
    "table": ["ring:4"],
    "simulate": ["ring:4", "--engine", "analytic"],
    "compare": ["ring:4", "--engine", "analytic"],
    "explain": ["ring:4"],
}
"""Commands for which time, or what interfaces are made of, means something."""
GRAPH = """<graphml><key id="c" for="edge" attr.name="capacity"/>
<key id="k" for="edge" attr.name="colour"/>
<graph edgedefault="undirected"><node id="left"/><node id="right"/><node id="top"/>
<edge source="left" target="right"><data key="c">400</data></edge>
<edge source="right" target="top"><data key="c">100</data><data key="k">red</data></edge>
<edge source="top" target="left"><data key="c">100</data></edge></graph></graphml>"""


def run(capsys, *arguments):
    """Status, standard output and standard error of one command."""
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def printed_json(capsys, *arguments):
    status, out, _ = run(capsys, *arguments, "--json")
    assert status == 0
    return json.loads(out)
