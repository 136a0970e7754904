"""The command cocotb: benches pass, and fail with a name where a design is broken."""

import json
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from multitree.host.cli.main import main
from multitree.sim.cocotb.simulators import SIMULATORS, missing

FAST = ["--dtypes", "int32", "--size", "512"]


def needs(simulator):
    if lack := missing(simulator):
        pytest.skip(lack)


def printed(capsys, *arguments, status=0):
    """The object that the command prints."""
    assert main(["cocotb", *arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(
    ("arguments", "simulator"),
    [
        pytest.param(["torus:2x2", "--faults"], "icarus", marks=pytest.mark.long),
        pytest.param(
            ["torus:2x2", "--memory", "axi", "--stalls", "heavy"],
            "verilator",
            marks=pytest.mark.long,
        ),
        (["fat_tree:2x2", "--crossings", "--faults", "--rank", "2"], "icarus"),
        pytest.param(
            ["mesh:2x3", "--algorithm", "forest", "--stalls", "none", "--rank", "4"],
            "verilator",
            marks=pytest.mark.long,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_all_benches_of_a_network_pass(capsys, arguments, simulator):
    needs(simulator)
    data = printed(capsys, *arguments, *FAST, "--sim", simulator, "--seed", "3")
    assert [test["name"] for test in data["tests"] if not test["passed"]] == []
    modules = {test["name"].split(".")[0] for test in data["tests"]}
    faults = {"bench_faults"} if "--faults" in arguments else set()
    assert modules == {"bench_interface", "bench_network"} | faults
    bins = {group["name"]: group for group in data["coverage"]}
    for name in ["type x reduction", "message", *(["fault of a link"] if faults else [])]:
        assert bins[name]["missing"] == []
    cases = [case.get("name") for case in ElementTree.parse(data["junit"]).iter("testcase")]
    assert len(cases) == len(data["tests"])


@pytest.mark.long
def test_a_folder_is_run_again_as_it_is_and_a_broken_design_fails_with_a_name(capsys, tmp_path):
    needs("icarus")
    only = ["--sim", "icarus", "--only", "bench_interface.every"]
    assert main(["verilog", "ring:2", "--bench", "--dtypes", "int32", "--out", "design"]) == 0
    capsys.readouterr()
    folder = "design/multitree_cocotb"
    waves = tmp_path / "run.fst"
    first = printed(capsys, folder, *only, "--waves", str(waves))
    assert waves.stat().st_size > 10_000 and first["waves"] == [str(waves)]
    assert printed(capsys, folder, *only)["tests"][0]["cycles"] == first["tests"][0]["cycles"]
    case = tmp_path / folder / "case.json"
    right = case.read_text()
    case.write_text(right.replace('"table_depth": ', '"table_depth": 1'))
    assert main(["cocotb", folder, *only]) == 1
    assert re.search(r"cycle \d+ .*: s_axil: table_depth is \d+ instead", capsys.readouterr().out)
    case.write_text(right)
    design = tmp_path / "design" / "multitree_nic.v"
    text = design.read_text()
    broken = text.replace("assign link_0_tx_epoch = ", "assign link_0_tx_epoch = ~", 1)
    assert broken != text
    design.write_text(broken)
    assert main(["cocotb", folder, *only]) == 1
    shown = capsys.readouterr().out
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
def test_a_written_folder_runs_by_itself(capsys, tmp_path, command, output):
    if all(map(missing, SIMULATORS)):
        pytest.skip("no simulator is installed")
    options = ["--bench", "--dtypes", "int32", "--out", "design"]
    assert main(["verilog", "ring:2", *options]) == 0
    folder = tmp_path / "design" / "multitree_cocotb"
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert output in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ring:2", "--sim", "vcs"], "icarus or verilator, not 'vcs'"),
        (["ring:2", "--rank", "2"], "Rank must be in 0..1, not 2"),
        (["ring:2", "--size", "0"], "a positive multiple of 4 bytes, not '0'"),
        (["ring:2", "--waves", "nowhere/run.fst"], "nowhere"),
        (["no_such_folder"], "no_such_folder"),
        ([".", "--rank", "1"], "Options of a design must come with its topology, not with '.'"),
        (["."], "case.json"),
    ],
)
def test_wrong_input_is_named(capsys, monkeypatch, arguments, message):
    monkeypatch.setattr("multitree.sim.cocotb.runs.missing", lambda name: "")
    assert main(["cocotb", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_cocotb_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("multitree.host.cli.cocotb_benches._is_installed", lambda name: False)
    assert main(["cocotb", "ring:2"]) == 2
    assert "pip install 'multitree[cocotb]'" in capsys.readouterr().err


def test_crossings_without_benches_are_refused(capsys):
    assert main(["verilog", "ring:2", "--crossings"]) == 2
    assert "Crossings must come with --bench" in capsys.readouterr().err
