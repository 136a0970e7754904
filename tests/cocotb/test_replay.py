"""Runs of campaigns, the example of the page, and blocks compiled once."""

import re
import subprocess
import sys

import numpy as np
import pytest

from multitree.sim.cocotb.simulators import SIMULATORS, missing, simulate
from tests.benches import bench_module
from tests.repository import ROOT


@pytest.fixture(scope="module")
def bench():
    return bench_module("cocotb_replay")


@pytest.mark.parametrize("campaign", ["skew", "switched"])
def test_a_seed_draws_the_same_run_each_time_and_another_one_another(bench, campaign):
    first, again, other = (bench.CAMPAIGNS[campaign](seed) for seed in (3, 3, 4))
    assert first.skews == again.skews != other.skews
    assert all(map(np.array_equal, first.buffers, again.buffers))
    assert first.queue[0].schedule.hash == again.queue[0].schedule.hash
    assert first.config.shared is (campaign == "switched")


@pytest.mark.long
@pytest.mark.parametrize(("campaign", "seed"), [("skew", 44), ("switched", 43)])
def test_a_run_of_a_campaign_is_exact_under_cocotb(bench, campaign, seed, tmp_path):
    if lack := missing("verilator"):
        pytest.skip(lack)
    drawn = bench.CAMPAIGNS[campaign](seed)
    result = bench.replay(campaign, drawn, "verilator", tmp_path)
    assert result.passed, result.message


PAGE = ROOT / "docs" / "reference" / "cocotb.md"


@pytest.mark.slow
def test_the_bench_of_the_page_passes_and_says_what_it_ran(tmp_path):
    if all(map(missing, SIMULATORS)):
        pytest.skip("no simulator is installed")
    blocks = re.findall(r"^`(\w+\.py)`.*?\n```python\n(.*?)```", PAGE.read_text(), re.M | re.S)
    assert [name for name, _ in blocks] == ["bench_interface.py", "run.py"]
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    command = [sys.executable, "run.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    lines = [line for line in done.stdout.splitlines() if line.endswith("  passed")]
    assert len(lines) == 5


DESIGN = """
module step (input wire clk, input wire [7:0] by, output reg [7:0] sum);
  initial sum = 0;
  always @(posedge clk) sum <= sum + by;
endmodule

module twice (input wire clk, input wire [7:0] by, output wire [7:0] sum, output wire [7:0] again);
  step one (.clk(clk), .by(by), .sum(sum));
  step two (.clk(clk), .by(sum), .sum(again));
endmodule
"""
BENCH = """
import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge

@cocotb.test()
async def sums_of_sums(dut):
    dut.by.value = 3
    Clock(dut.clk, 2, "ns").start(start_high=False)
    await ClockCycles(dut.clk, 5)
    await FallingEdge(dut.clk)
    assert (int(dut.sum.value), int(dut.again.value)) == (15, 30)
"""


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize("waves", [False, True])
def test_a_block_is_compiled_once_and_not_with_waves(tmp_path, simulator, waves):
    if lack := missing(simulator):
        pytest.skip(lack)
    (tmp_path / "twice.v").write_text(DESIGN)
    (tmp_path / "bench_twice.py").write_text(BENCH)
    folder, said = tmp_path / "run", []
    folder.mkdir()
    (result,) = simulate(
        simulator,
        sources=[tmp_path / "twice.v"],
        top="twice",
        modules=["bench_twice"],
        folder=folder,
        seed=1,
        waves=waves,
        blocks=["step"],
        python_path=tmp_path,
        say=said.append,
    )
    assert result.passed, result.message
    assert said == [f"Building twice on {simulator}", f"bench_twice on {simulator}"]
    alone = list(folder.rglob("libstep.a"))
    assert len(alone) == (simulator == "verilator" and not waves)
    assert len(list(folder.rglob("*.fst"))) == waves
