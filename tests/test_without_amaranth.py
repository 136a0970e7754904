"""What needs no HDL starts without one: drivers, models, hosts, commands."""

import subprocess
import sys

import pytest

_ALL_REDUCE = """
import numpy as np
from multitree import Communicator, torus
with Communicator(torus(2, 2), engine="numpy") as communicator:
    communicator.all_reduce(np.ones((4, 100), np.float32)).wait()
"""
PROGRAMS = {
    "driver": "import multitree.nic.driver.interface_driver, multitree.nic.driver.table",
    "link model": "from multitree import LinkModel; LinkModel()",
    "analytic": "import multitree.sim.analytic.engine",
    "exact": "import multitree.sim.exact.engine",
    "communicator": _ALL_REDUCE,
    "backend": "import multitree.torch",
}


def loads_amaranth(program):
    """Whether a fresh interpreter has Amaranth when a program is over."""
    program += "\nimport sys; sys.exit(3 if 'amaranth' in sys.modules else 0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode == 3


# About 1 CPU s each, of PyTorch 2.5.
@pytest.mark.every_set
@pytest.mark.parametrize("what", PROGRAMS)
def test_programs_without_rtl_load_no_amaranth(what):
    if what == "backend":
        pytest.importorskip("torch")
    assert not loads_amaranth(PROGRAMS[what])


def test_a_block_of_the_hardware_loads_amaranth():
    assert loads_amaranth("import multitree.nic.interface")
