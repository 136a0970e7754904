"""The measurement of benches' speed, small; a wrong memory is told."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from multitree.sim.cocotb.simulators import missing
from tests.benches import BENCH, bench_module

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
def measured(monkeypatch):
    """The measurement, of rows that are given."""
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
        monkeypatch.setattr(sys, "argv", ["", "--runs", ",".join("x/y" for _ in given), "--json"])
        return module.main()

    return run


def test_verilator_is_held_against_icarus_on_one_network_only(measured, capsys):
    fast = {"simulator": "verilator", "cycles_per_cpu_second": 450.0}
    for others, ratio in (([fast], 1.5), ([fast | {"topology": "ring:3"}], None), ([], None)):
        assert measured({}, *others) == 0
        assert json.loads(capsys.readouterr().out)["verilator_over_icarus"] == ratio


def test_a_memory_that_is_wrong_is_reported(measured, capsys):
    assert measured({}, {"exact": False}) == 1
    assert not json.loads(capsys.readouterr().out)["good"]


@pytest.mark.long
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_a_network_is_measured_on_each_simulator(simulator):
    if lack := missing(simulator):
        pytest.skip(lack)
    command = ["cocotb_speed.py", "--runs", f"ring:2/{simulator}", "--size", "64"]
    done = subprocess.run(
        [sys.executable, *command], cwd=BENCH, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    name, on, *numbers, exact = done.stdout.strip().splitlines()[-1].split()
    assert (name, on, exact) == ("ring:2", simulator, "yes")
    cycles, run, speed, build, memory = (float(cell.replace(",", "")) for cell in numbers)
    assert cycles > 1000 and run > 0.5 and build > 0.1 and memory > 30
    assert speed == pytest.approx(cycles / run, rel=0.2)
