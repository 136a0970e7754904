"""What needs no HDL starts without one: drivers, models, hosts, commands."""

import json

import pytest

from multitree.host.cli.main import COMMANDS
from tests.programs import python

_ALL_REDUCE = """
import numpy as np
from multitree import Communicator, torus
with Communicator(torus(2, 2), engine="{}") as communicator:
    communicator.all_reduce(np.ones((4, 100), np.float32)).wait()
"""
PROGRAMS = {
    "driver": "import multitree.nic.driver.interface_driver, multitree.nic.driver.table",
    "link model": "from multitree import LinkModel; LinkModel()",
    "analytic": "import multitree.sim.analytic.engine",
    "exact": "import multitree.sim.exact.engine",
    "communicator": _ALL_REDUCE.format("numpy"),
    "backend": "from multitree.torch import Options; Options()",
}
WRITE_VERILOG = {"verilog", "cocotb", "demo"}
CALLS = [
    *("topology ring:4", "schedule ring:4", "verify ring:4 --algorithm ring"),
    *("table ring:4", "table ring:4 --size 64 --format words", "compare ring:4 --engine analytic"),
    *("simulate ring:4 --engine analytic --size 4KiB", "explain ring:4 --size 4KiB"),
    *("job ncf ring:4", "view ring:4 --out page.html", "figure", "doctor", "schema"),
    "sweep sweep.yaml --out results --jobs 1",
]
_SWEEP = "topology: [ring:4]\nalgorithm: [ring]\nsize: [4KiB]\nengine: [analytic]\n"
_CALL_ALL = """
import contextlib, io, json, sys
from multitree.host.cli.main import main
for call in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(call.split()) == 0, call
    assert "amaranth" not in sys.modules, call
"""


def loads_amaranth(program):
    """Whether a fresh interpreter has Amaranth when a program is over."""
    program += "\nimport sys; sys.exit(3 if 'amaranth' in sys.modules else 0)"
    done = python("-c", program, status=None)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode == 3


# About 1 CPU s each, of PyTorch 2.5.
@pytest.mark.every_set
@pytest.mark.parametrize("what", PROGRAMS)
def test_programs_without_rtl_load_no_amaranth(what):
    if what == "backend":
        pytest.importorskip("torch")
    assert not loads_amaranth(PROGRAMS[what])


def test_rtl_runs_without_amaranth_once_its_verilog_is_in_the_cache():
    program = _ALL_REDUCE.format("rtl")
    loads_amaranth(program)
    assert not loads_amaranth(program)


def test_a_block_of_the_hardware_loads_amaranth():
    assert loads_amaranth("import multitree.nic.interface")


# 2 CPU s.
def test_commands_that_write_no_verilog_load_no_amaranth(tmp_path):
    assert {call.split()[0] for call in CALLS} == COMMANDS.keys() - WRITE_VERILOG
    (tmp_path / "sweep.yaml").write_text(_SWEEP)
    python("-c", _CALL_ALL, json.dumps(CALLS), folder=tmp_path)
