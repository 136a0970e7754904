"""The command cocotb: benches pass, and fail with a name where a design is broken."""

import re
from xml.etree import ElementTree

import pytest

from multitree.sim.cocotb.simulators import SIMULATORS, missing
from tests.programs import python

WRITE = "verilog ring:2 --bench --dtypes int32 --out design"


def needs(simulator):
    if lack := missing(simulator):
        pytest.skip(lack)


@pytest.mark.long
@pytest.mark.every_set
@pytest.mark.parametrize(
    ("line", "simulator"),
    [
        ("torus:2x2 --faults", "icarus"),
        ("torus:2x2 --memory axi --stalls heavy", "verilator"),
        ("fat_tree:2x2 --crossings --faults --rank 2", "icarus"),
        ("mesh:2x3 --algorithm forest --stalls none --rank 4", "verilator"),
    ],
)
def test_all_benches_of_a_network_pass(run, line, simulator):
    needs(simulator)
    data = run.json(f"cocotb {line} --dtypes int32 --size 512 --sim {simulator} --seed 3")
    assert [test["name"] for test in data["tests"] if not test["passed"]] == []
    modules = {test["name"].split(".")[0] for test in data["tests"]}
    faults = {"bench_faults"} if "--faults" in line else set()
    assert modules == {"bench_interface", "bench_network"} | faults
    bins = {group["name"]: group for group in data["coverage"]}
    for name in ["type x reduction", "message", *(["fault of a link"] if faults else [])]:
        assert bins[name]["missing"] == []
    cases = [case.get("name") for case in ElementTree.parse(data["junit"]).iter("testcase")]
    assert len(cases) == len(data["tests"])


@pytest.mark.long
def test_a_folder_is_run_again_as_it_is_and_a_broken_design_fails_with_a_name(run, tmp_path):
    needs("icarus")
    run.printed(WRITE)
    line = "cocotb design/multitree_cocotb --sim icarus --only bench_interface.every"
    waves = tmp_path / "run.fst"
    first = run.json(line)
    (built,) = tmp_path.rglob("sim.vvp")
    built.write_bytes(built.read_bytes()[:1000])
    # What was built without waves writes none.
    again = run.json(f"{line} --waves {waves}")
    assert waves.stat().st_size > 10_000 and again["waves"] == [str(waves)]
    assert again["tests"][0]["cycles"] == first["tests"][0]["cycles"]
    case = tmp_path / "design" / "multitree_cocotb" / "case.json"
    right = case.read_text()
    case.write_text(right.replace('"table_depth": ', '"table_depth": 1'))
    shown = run.printed(line, status=1)
    assert re.search(r"cycle \d+ .*: s_axil: table_depth is \d+ instead", shown)
    case.write_text(right)
    design = tmp_path / "design" / "multitree_nic.v"
    text = design.read_text()
    broken = text.replace("assign link_0_tx_epoch = ", "assign link_0_tx_epoch = ~", 1)
    assert broken != text
    design.write_text(broken)
    shown = run.printed(line, status=1)
    assert "FAILED" in shown and "0 passed, 1 failed" in shown
    assert "link_0" in shown and "  cycle " in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "output"),
    [
        (["run.py", "--only", "interface"], " passed"),
        (["-m", "pytest", "-q", "--collect-only"], "test_all_benches_pass[icarus]"),
        pytest.param(["-m", "pytest", "-q"], " passed", marks=pytest.mark.long),
    ],
)
def test_a_written_folder_runs_by_itself(run, tmp_path, command, output):
    if all(map(missing, SIMULATORS)):
        pytest.skip("no simulator is installed")
    run.printed(WRITE)
    folder = tmp_path / "design" / "multitree_cocotb"
    assert output in python(*command, folder=folder).stdout


def test_without_cocotb_it_says_what_to_install(run, monkeypatch):
    monkeypatch.setattr("multitree.host.cli.cocotb_benches._is_installed", lambda name: False)
    assert "pip install 'multitree[cocotb]'" in run.refused("cocotb ring:2")


def test_a_folder_above_the_benches_is_refused_with_the_one_below(run, tmp_path):
    (tmp_path / "benches").mkdir()
    (tmp_path / "benches" / "case.json").write_text("{}")
    assert run.refused(f"cocotb {tmp_path}").endswith(f"; {tmp_path}/benches is one")
