"""A mark of tests that emulate the Verilog, which takes a compiler."""

import pytest

from multitree.sim.emulator.verilator import why_not

__all__ = ["needs_rtl"]

needs_rtl = pytest.mark.skipif(why_not() is not None, reason=f"no RTL emulation here: {why_not()}")
