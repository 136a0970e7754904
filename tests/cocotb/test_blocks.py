"""A module that a design has several times is compiled once, and counts as before."""

import pytest

from multitree.sim.cocotb.simulators import missing, simulate

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
