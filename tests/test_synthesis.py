"""Synthesis for ECP5: interfaces, seeds, limits of time, names of blocks."""

import json
from itertools import pairwise
from subprocess import CompletedProcess, TimeoutExpired

import pytest

from tests.benches import bench_module
from tests.programs import refused

synthesis, place, cases = map(bench_module, ("synthesis", "_place", "_cases"))
Case = cases.Case
BLOCKS = {
    "": "nic.interface.Interface",
    "core": "nic.top.core.Core",
    "core.port_0.sender": "nic.send.sender.Sender",
    "core.port_0.sender.framer": "nic.send.sender.Framer",
}


def part(kind, delay, first, last):
    return {"type": kind, "delay": delay, "from": {"cell": first}, "to": {"cell": last}}


SHORT = [part("clk-to-q", 0.5, "core.x_TRELLIS_FF_Q", "core.x_TRELLIS_FF_Q")]
LONG = [
    part("clk-to-q", 0.5, "core.port_0.sender.framer.state_TRELLIS_FF_Q_2", "?"),
    part("routing", 4.0, "?", "core.y_LUT4_Z"),
    part("logic", 0.25, "core.y_LUT4_Z", "core.y_LUT4_Z"),
    part("routing", 2.0, "?", "core.count_TRELLIS_FF_Q_DI"),
    part("setup", 0.25, "core.count_TRELLIS_FF_Q_DI", "core.count_TRELLIS_FF_Q_DI"),
]
REPORT = {
    "fmax": {"clk": {"achieved": 142.5, "constraint": 100.0}},
    "critical_paths": [
        {"from": "posedge clk", "to": "posedge clk", "path": SHORT},
        {"from": "posedge clk", "to": "posedge clk", "path": LONG},
        {"from": "<async>", "to": "posedge clk", "path": [part("routing", 99.0, "rst", "core.x")]},
    ],
}
FOUND = {"seed": 1, "mhz": 60.0, "path": "a to b"}


def seeds(*reached):
    return [{"seed": n, "mhz": mhz, "path": f"path of {n}"} for n, mhz in enumerate(reached)]


def test_an_interface_is_named_by_four_sizes_with_forwarding_and_adder_if_any():
    assert Case.parse("4:16:int32:9") == Case(4, 16, "int32", 9, 0)
    case = Case.parse("1:64:float32:0:512")
    assert case == Case(1, 64, "float32", 0, 512)
    config = case.config()
    assert (config.num_ports, config.flit_bytes, config.dtypes) == (1, 64, ("float32",))
    assert (config.wave_width, config.forward_flits) == (0, 512)
    assert Case.parse("1:16:int32:9").config().wave_width == 9
    sizes = [1, 512, "float32", 0, 512, 4]
    assert list(case.columns().values()) == [*sizes, "lockstep+packets"]
    assert Case.parse("1:64:float32:0:512:6").config().adder_stages == 6
    assert Case.parse("1:64:float32:0:512:4:packets").config().modes == ("packets",)
    assert Case.parse("1:64:float32:0:512:4:none").config().modes == ()


def test_blocks_are_known_by_their_path_and_their_class():
    blocks = Case(1, lanes="int32").blocks()
    assert blocks["core.port_0.receiver.reducer.adder"] == "hw.lanes.LaneUnit"
    assert blocks[""] == cases.TOP_CLASS and not any("amaranth" in name for name in blocks.values())


@pytest.mark.parametrize(
    "name, block",
    [
        (
            "core.port_0.sender.framer.state_FF",
            "core.port_0.sender.framer [nic.send.sender.Framer]",
        ),
        (r"\core.port_0.sender.state", "core.port_0.sender [nic.send.sender.Sender]"),
        ("core.port_0.other.state", "core [nic.top.core.Core]"),
        ("core", "core [nic.top.core.Core]"),
        ("link_0_tx_valid", "top [nic.interface.Interface]"),
    ],
)
def test_a_name_belongs_to_the_innermost_block_on_its_path(name, block):
    assert cases.block_of(name, BLOCKS) == block


def test_the_slowest_path_inside_the_clock_domain_is_named_by_its_blocks():
    path = place.slowest_path(REPORT, BLOCKS)
    assert path["from"] == "core.port_0.sender.framer [nic.send.sender.Framer]"
    assert path["to"] == "core [nic.top.core.Core]"
    assert (path["path_ns"], path["routing_ns"]) == (7.0, 6.0)
    assert path["path"] == f"{path['from']} to {path['to']}, 7.0 ns of which 6.0 routing"


def test_the_slowest_seed_counts_and_none_where_one_was_not_routed():
    found = seeds(61.0, 55.5, 58.0)
    assert place.worst(found) == {"mhz": 55.5, "path": "path of 1", "seeds": found}
    found = seeds(61.0, None, 58.0)
    assert place.worst(found) == {"mhz": None, "path": "seed 1 path of 1", "seeds": found}


def routing(tmp_path, monkeypatch, run, seconds=5.0):
    monkeypatch.setattr(place, "run", run)
    return place.route(tmp_path / "nic.v", 3, seconds, BLOCKS)


def test_a_seed_s_clock_is_that_of_its_own_report(tmp_path, monkeypatch):
    def run(command, cwd, timeout, **_):
        given = dict(pairwise(command))
        assert (given["--seed"], given["--json"], timeout) == ("3", "nic.ecp5.json", 5.0)
        assert "3" in given["--report"] and "--85k" in command and given["--speed"] == "6"
        (cwd / given["--report"]).write_text(json.dumps(REPORT))
        return CompletedProcess(command, 0, "", "")

    found = routing(tmp_path, monkeypatch, run)
    assert (found["seed"], found["mhz"], found["path_ns"]) == (3, 142.5, 7.0)


def test_what_is_not_routed_says_why(tmp_path, monkeypatch):
    def late(command, timeout, **_):
        raise TimeoutExpired(command, timeout)

    def failed(command, **_):
        return CompletedProcess(command, 1, "", "INFO\nERROR: no place for a block RAM\n")

    for run, seconds, why in (
        (late, 5.0, " within 5 s"),
        (failed, 5.0, ": ERROR: no place for a block RAM"),
        (None, 0, ": no time was left"),
    ):
        found = routing(tmp_path, monkeypatch, run, seconds)
        assert found == {"seed": 3, "mhz": None, "path": f"not routed{why}"}


def test_every_netlist_is_routed_with_every_seed(tmp_path, monkeypatch, capsys):
    def route(verilog, seed, seconds, blocks):
        assert 50 < seconds <= 60 and blocks is BLOCKS
        return {"seed": seed, "mhz": {"a": 50.0, "b": 90.0}[verilog.stem] - seed, "path": "p"}

    monkeypatch.setattr(place, "route", route)
    rows = {}, {}
    jobs = [(tmp_path / f"{name}.v", row, BLOCKS) for name, row in zip("ab", rows, strict=True)]
    place.route_all(jobs, [1, 2, 3], 60.0, 2)
    assert [row["mhz"] for row in rows] == [47.0, 87.0]
    assert [each["seed"] for each in rows[1]["seeds"]] == [1, 2, 3]
    assert "route 6 of 6: b, seed 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--only 4:16:int32", f"--only: An interface must be {cases.SPEC}, not '4:16:int32'"),
        ("--only 4:16:int32:0:0:4:none:0", f"--only: An interface must be {cases.SPEC}, not "),
        ("--only 4:16:int32:0:0:4:slow", "--only: Config modes must be some of "),
        ("--only 4:wide:int32:0", f"--only: An interface must be {cases.SPEC}, not "),
        ("--only 9:16:int32:0", "--only: Config num_ports must be in 1..8, not 9"),
        ("--only 4:16:int8:0", "--only: Config dtypes must be some of "),
        ("--only 4:16:int32:0:5", "--only: Config forward_flits must be 0, or "),
        ("--only 4:16:int32:0,4:16:int32:0:0", "--only: An interface must be listed once"),
        ("--seeds 1,x", "--seeds must be different numbers from 0 on, not '1,x'"),
        ("--seeds 1,2,1", "--seeds must be different numbers from 0 on, not '1,2,1'"),
        ("--seeds=-1", "--seeds must be different numbers from 0 on, not '-1'"),
        ("--seeds=", "--seeds must be different numbers from 0 on, not ''"),
        ("--seeds 1 --families xcup", "--seeds are of place and route"),
        ("--families ecp4", "--families must be some of ecp5, xcup, not 'ecp4'"),
        ("--jobs 0", "--jobs must be at least 1"),
        ("--route-minutes -1", "--route-minutes above 0 and finite"),
        ("--route-minutes 0", "--route-minutes above 0 and finite"),
        ("--route-minutes inf", "--route-minutes above 0 and finite"),
        ("--folder {file}", "--folder: "),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, message, tmp_path, capsys):
    (tmp_path / "file").touch()
    words = arguments.format(file=tmp_path / "file").split()
    assert message in refused(synthesis.parse, words, capsys)


@pytest.fixture
def tools(monkeypatch):
    """None is missing."""
    for name in ("missing_yosys", "missing_nextpnr"):
        monkeypatch.setattr(synthesis, name, lambda: None)


@pytest.mark.parametrize("tool", ["pyosys", "nextpnr"])
def test_a_tool_that_is_missing_is_named_with_what_brings_it(
    tool, tools, tmp_path, monkeypatch, capsys
):
    name = {"pyosys": "missing_yosys", "nextpnr": "missing_nextpnr"}[tool]
    monkeypatch.setattr(synthesis, name, lambda: f"there is no {tool}")
    folder = ["--folder", str(tmp_path)]
    assert f"there is no {tool}" in refused(synthesis.parse, [*folder, "--seeds", "1"], capsys)
    if tool == "nextpnr":
        assert synthesis.parse(folder).seed_numbers == []


def test_nextpnr_is_looked_for_on_the_path(monkeypatch):
    monkeypatch.setattr(place.shutil, "which", lambda name: f"/bin/{name}")
    assert place.missing_nextpnr() is None
    monkeypatch.setattr(place.shutil, "which", lambda name: None)
    assert "pip install 'multitree[synth]'" in place.missing_nextpnr()


@pytest.fixture
def without_tools(tools, tmp_path, monkeypatch):
    """Run main with counts and clocks that are made up; returns what was routed."""
    routed = []

    def route_all(jobs, numbers, seconds, parallel):
        for verilog, row, _ in jobs:
            routed.append((verilog.stem, tuple(numbers), seconds))
            row.update(place.worst([{**FOUND, "seed": seed} for seed in numbers]))

    counts = dict.fromkeys(synthesis.RESOURCES, 7.0) | {"lut": 4000.0}
    monkeypatch.setattr(synthesis, "route_all", route_all)
    monkeypatch.setattr(synthesis, "synthesise", lambda verilog, family: counts)
    monkeypatch.setattr(Case, "blocks", lambda case: BLOCKS)

    def write_verilog(case, folder):
        return folder / f"{case.ports}_{case.forward_flits}.v"

    monkeypatch.setattr(Case, "write_verilog", write_verilog)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["synthesis.py", "--folder", str(tmp_path), *arguments])
        assert synthesis.main() == 0
        return routed

    return run


def test_with_seeds_all_of_the_list_is_routed(without_tools, capsys):
    only = "1:16:float32:0:0,4:16:float32:0:512:6"
    routed = without_tools("--only", only, "--seeds", "1,2,3", "--route-minutes", "2", "--json")
    assert routed == [("1_0", (1, 2, 3), 120.0), ("4_512", (1, 2, 3), 120.0)]
    rows = json.loads(capsys.readouterr().out)["rows"]
    ecp5 = [row for row in rows if row["family"] == "ecp5"]
    assert [row["lut_per_port"] for row in ecp5] == [4000.0, 1000.0]
    assert [row["forward_flits"] for row in ecp5] == [0, 512]
    assert all(row["mhz"] == 60.0 and len(row["seeds"]) == 3 for row in ecp5)
    assert all(row["mhz"] is None for row in rows if row["family"] == "xcup")


def test_each_interface_is_a_line_a_family_and_each_clock_has_its_seeds_below(
    without_tools, capsys
):
    routed = without_tools("--only", "4:16:int32:0", "--seeds", "1")
    assert routed == [("4_0", (1,), 28800.0)]
    lines = capsys.readouterr().out.splitlines()
    for line, family in zip(lines[1:3], ("ecp5", "xcup"), strict=True):
        assert line.split()[:8] == [family, "4", "128", "int32", "0", "0", "4", "4000"]
    assert sum("60.0 MHz" in line and line.startswith("ecp5") for line in lines) == 1
    assert "      seed 1: 60.0 MHz, a to b" in lines


def test_without_a_list_every_size_is_measured_and_without_seeds_none_is_routed(
    without_tools, capsys
):
    assert not without_tools("--json")
    rows = json.loads(capsys.readouterr().out)["rows"]
    keys = "ports", "flit_bits", "lanes", "wave_width"
    found = [tuple(row[key] for key in keys) for row in rows if row["family"] == "ecp5"]
    sizes = [(c.ports, 8 * c.flit_bytes, c.lanes, c.wave_width) for c in synthesis.SIZES]
    assert found == sizes
    assert len(rows) == 2 * len(found) and all(row["path"] is None for row in rows)


def test_a_tool_that_fails_ends_with_its_message(without_tools, monkeypatch, capsys):
    def fail(*_):
        raise synthesis.ToolError("Yosys failed: no memory")

    monkeypatch.setattr(synthesis, "synthesise", fail)
    with pytest.raises(AssertionError):
        without_tools("--only", "1:16:int32:0")
    assert "Yosys failed: no memory" in capsys.readouterr().err


def test_resources_are_counted_from_the_cells_of_a_netlist(tmp_path, monkeypatch):
    ecp5 = {"LUT4": 10, "CCU2C": 3, "TRELLIS_DPR16X4": 2, "TRELLIS_FF": 5, "DP16KD": 7}
    cells = {"ecp5": ecp5 | {"MULT18X18D": 1, "PFUMX": 9}, "xcup": {"LUT1": 2, "LUT6": 3}}
    cells["xcup"] |= {"FDRE": 4, "RAM32M16": 1, "RAMB18E2": 3, "RAMB36E2": 1, "DSP48E2": 6}

    def yosys(folder, stem, lines):
        family = stem.rpartition(".")[2]
        assert lines[0] == "read_verilog nic.v" and f"{stem}.stat" in lines[2]
        assert f"synth_{'ecp5' if family == 'ecp5' else 'xilinx'} " in lines[1]
        counted = {"design": {"num_cells_by_type": cells[family]}}
        (folder / f"{stem}.stat").write_text(json.dumps(counted))

    monkeypatch.setattr(synthesis, "yosys", yosys)
    found = synthesis.synthesise(tmp_path / "nic.v", "ecp5")
    assert found == {"lut": 16, "lut_ram": 8, "ff": 5, "block_ram": 7, "dsp": 1}
    found = synthesis.synthesise(tmp_path / "nic.v", "xcup")
    assert found == {"lut": 5, "lut_ram": 8, "ff": 4, "block_ram": 2.5, "dsp": 6}


def test_seeds_begin_at_0(tools, tmp_path):
    given = synthesis.parse(["--folder", str(tmp_path), "--seeds", "0,7"])
    assert given.seed_numbers == [0, 7]
