"""Breakages of the Verilog are told apart; the speed of benches is measured."""

import json
import re
from types import SimpleNamespace

import pytest

from multitree.nic.driver.config import MODULE_NAME, Config
from multitree.nic.interface import Interface
from multitree.sim.cocotb.simulators import missing
from multitree.sim.emulator.library import cached_verilog
from tests.benches import BENCH, bench_module, ran
from tests.programs import python


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


ROW = {
    "topology": "ring:2",
    "simulator": "icarus",
    "num_ranks": 2,
    "size_bytes": 64,
    "cycles": 1200,
    "run_cpu_seconds": 4.0,
    "cycles_per_cpu_second": 300.0,
    "build_cpu_seconds": 1.0,
    "memory_mib": 80.0,
    "exact": True,
}


@pytest.fixture
def measured(monkeypatch, capsys):
    """Exit status and JSON of the measurement, of rows that are given."""
    module, rows = bench_module("cocotb_speed"), []

    class Pool:
        __init__ = __exit__ = lambda self, *arguments, **options: None

        def __enter__(self):
            return self

        def submit(self, measure, *arguments):
            return SimpleNamespace(result=lambda: rows.pop(0))

    monkeypatch.setattr(module, "ProcessPoolExecutor", Pool)

    def run(*given):
        rows[:] = [ROW | row for row in given]
        runs = ",".join("x/y" for _ in given)
        status, printed = ran(module, monkeypatch, capsys, "--runs", runs, "--json")
        return status, json.loads(printed)

    return run


def test_verilator_is_held_against_icarus_on_one_network_only(measured):
    fast = {"simulator": "verilator", "cycles_per_cpu_second": 450.0}
    for others, ratio in (([fast], 1.5), ([fast | {"topology": "ring:3"}], None), ([], None)):
        status, found = measured({}, *others)
        assert (status, found["verilator_over_icarus"]) == (0, ratio)


def test_a_memory_that_is_wrong_is_reported(measured):
    status, found = measured({}, {"exact": False})
    assert (status, found["good"]) == (1, False)


@pytest.mark.long
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_a_network_is_measured_on_each_simulator(simulator):
    if lack := missing(simulator):
        pytest.skip(lack)
    done = python(BENCH / "cocotb_speed.py", "--runs", f"ring:2/{simulator}", "--size", "64")
    name, on, *numbers, exact = done.stdout.strip().splitlines()[-1].split()
    assert (name, on, exact) == ("ring:2", simulator, "yes")
    cycles, run, speed, build, memory = (float(cell.replace(",", "")) for cell in numbers)
    assert cycles > 1000 and run > 0.5 and build > 0.1 and memory > 30
    assert speed == pytest.approx(cycles / run, rel=0.2)
