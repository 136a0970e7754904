"""Breakages of the Verilog change one line, and are told apart by their messages."""

import re

import pytest

from multitree.nic.driver.config import MODULE_NAME, Config
from multitree.nic.interface import Interface
from multitree.sim.cocotb.simulators import missing
from multitree.sim.emulator.library import cached_verilog
from tests.benches import bench_module


@pytest.fixture(scope="module")
def bench():
    return bench_module("cocotb_breakages")


@pytest.fixture(scope="module")
def verilog():
    return cached_verilog(Interface, Config(num_ports=2, dtypes=("int32",)), name=MODULE_NAME)


@pytest.mark.slow
def test_each_breakage_changes_one_line_of_its_module(bench, verilog):
    assert len({each.name for each in bench.BREAKAGES}) == len(bench.BREAKAGES) >= 40
    before = verilog.splitlines()
    for each in bench.BREAKAGES:
        after = each.applied(verilog).splitlines()
        (changed,) = [k for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        assert re.match(rf"  assign {each.signal} = ", after[changed])
        module = next(line for line in reversed(before[:changed]) if line.startswith("module "))
        assert each.module in module


@pytest.mark.parametrize(("module", "signal"), [("core.nowhere", "irq"), ("", "no_such_pin")])
def test_what_the_design_does_not_have_is_named(bench, module, signal):
    design = f"module {MODULE_NAME}(irq);\n  assign irq = 1'h0;\nendmodule\n"
    with pytest.raises(ValueError, match=f"{signal}.*no such"):
        bench.Breakage(module, signal, bench.LOW, "").applied(design)


@pytest.mark.parametrize(
    ("message", "located"),
    [
        ("cycle 7 (14 ns): link_0_tx: sequence is 1", True),
        ("link_0_tx: sequence is 1", False),
        ("cycle 7 (14 ns): memory of rank 0", False),
    ],
)
def test_a_message_has_to_name_cycle_signal_and_cause(bench, message, located):
    breakage = bench.Breakage("", "link_0_tx_sequence", bench.FLIPPED, "link_0_tx.*sequence")
    assert bench.Outcome(breakage, "bench.test", message).located is located


@pytest.mark.long
def test_broken_designs_are_caught_and_named(bench):
    if lack := missing("icarus"):
        pytest.skip(lack)
    chosen = [b for b in bench.BREAKAGES if b.signal in ("link_0_rx_credit", "s_axil_rdata")]
    assert [outcome.located for outcome in bench.outcomes(chosen, "icarus")] == [True] * 3
