"""The cocotb benches, each on every simulator that this machine has."""

import json
from dataclasses import asdict, replace

import pytest

from multitree.host.design.verilog_files import write_verilog
from multitree.hw.axi.lite import AxiLiteSubordinate
from multitree.hw.export.verilog import generate
from multitree.hw.lanes import LaneUnit
from multitree.nic.driver.config import MODULE_NAME
from multitree.nic.interface import AXI_MODULE_NAME, AxiInterface, Interface
from multitree.nic.reduce.reducer import Reducer
from multitree.sim.emulator.library import cached_verilog
from tests.cocotb.benches import bench_axi_memory, bench_link
from tests.cocotb.models.crossed import CROSSED, RESET, crossed_top
from tests.cocotb.models.network import (
    CONFIG,
    PAIR_CONFIG,
    network_verilog,
    pair_verilog,
    star_verilog,
)
from tests.cocotb.models.tops import AxiManagers, LinkPair
from tests.cocotb.simulators import run_bench

BLOCKS = {
    "bench_link": lambda: LinkPair(
        latency_cycles=bench_link.LATENCY_CYCLES, depth=bench_link.DEPTH, flit_bytes=16
    ),
    "bench_lane_unit": lambda: LaneUnit(flit_bytes=16),
    "bench_axi_memory": lambda: AxiManagers(**bench_axi_memory.SIZES),
    "bench_axi_lite": lambda: AxiLiteSubordinate(address_width=6),
    "bench_reducer": lambda: Reducer(CONFIG),
}

SIMULATORS = ("icarus", "verilator")
# Icarus takes minutes for these, which it does not for the other blocks.
_MINUTES = pytest.param("icarus", marks=pytest.mark.long)
interfaces_on_each_simulator = pytest.mark.parametrize("simulator", [_MINUTES, "verilator"])
BLOCK_RUNS = [
    pytest.param(bench, simulator, marks=_MINUTES.marks)
    if (bench, simulator) == ("bench_link", "icarus")
    else (bench, simulator)
    for bench in BLOCKS
    for simulator in SIMULATORS
]


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(("bench", "simulator"), BLOCK_RUNS)
def test_a_block_of_the_interface_passes_its_bench(bench, simulator, tmp_path):
    verilog = generate(BLOCKS[bench](), name="block")
    run_bench(simulator, verilog, tmp_path, top="block", bench=bench)


@pytest.mark.long
@interfaces_on_each_simulator
def test_four_interfaces_on_a_torus_pass_their_bench(simulator, tmp_path):
    verilog = network_verilog(cached_verilog(Interface, CONFIG, name=MODULE_NAME))
    run_bench(simulator, verilog, tmp_path, bench="bench_network")


@pytest.mark.long
@interfaces_on_each_simulator
def test_two_interfaces_with_axi_memories_pass_their_bench(simulator, tmp_path):
    verilog = pair_verilog(cached_verilog(AxiInterface, PAIR_CONFIG, name=AXI_MODULE_NAME))
    run_bench(simulator, verilog, tmp_path, bench="bench_axi_pair")


@pytest.mark.long
@interfaces_on_each_simulator
def test_four_interfaces_with_axi_memories_behind_a_switch_pass_their_bench(simulator, tmp_path):
    run_bench(simulator, star_verilog(), tmp_path, bench="bench_axi_star")


@pytest.mark.long
@interfaces_on_each_simulator
def test_what_is_written_for_a_fat_tree_passes_its_bench_with_a_clock_for_the_switches(
    simulator, tmp_path
):
    topology, config = CROSSED["fat_tree"]
    delivery = write_verilog(config, tmp_path / "written", topology=topology)
    sources = [file for file in delivery.files if file.name.endswith(".v")]
    text = "".join(file.text for file in sources if file.role != "test bench")
    verilog = text + RESET.read_text() + crossed_top(text, topology, config)
    run_bench(simulator, verilog, tmp_path, bench="bench_crossed")


PARTNERS = {
    "torus:2x2": (1, {"num_ports": 2}),
    "fat_tree:2x2": (2, {"num_ports": 1, "num_classes": 1, "max_children": 4}),
}
LONG_PARTNERS = ["fat_tree:2x2"]


@pytest.mark.slow
@pytest.mark.dear
@interfaces_on_each_simulator
@pytest.mark.parametrize(
    "spec",
    [pytest.param(spec, marks=[pytest.mark.long] * (spec in LONG_PARTNERS)) for spec in PARTNERS],
)
def test_one_interface_among_partners_in_python_passes_its_bench(spec, simulator, tmp_path):
    rank, sizes = PARTNERS[spec]
    config = replace(CONFIG, dtypes=("int32", "float32"), **sizes)
    case = {"topology": spec, "algorithm": "multitree", "rank": rank, "config": asdict(config)}
    (tmp_path / "case.json").write_text(json.dumps(case))
    verilog = cached_verilog(Interface, config, name=MODULE_NAME)
    run_bench(simulator, verilog, tmp_path, top=MODULE_NAME, bench="bench_partner")
