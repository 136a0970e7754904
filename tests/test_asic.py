"""Mapping to a library: lane units, buffers, areas, paths, and what is printed."""

import json
from collections import Counter
from subprocess import CompletedProcess

import pytest

from tests.benches import bench_module
from tests.libraries import LIBRARY, read_library
from tests.programs import refused
from tests.refusals import refuses

asic, cells, mapped, memories, sta = map(
    bench_module, ("asic", "_liberty", "_mapped", "_memories", "_sta")
)
Case = bench_module("_cases").Case


@pytest.fixture
def library(tmp_path):
    return read_library(tmp_path)


def test_lane_units_are_found_by_their_class_in_modules_that_ports_share():
    text = "module multitree_nic(\nmodule \\multitree_nic.port.reducer.adder (a\nmodule \\other (\n"
    blocks = {
        "core": "nic.top.core.Core",
        "core.port_0.reducer.adder": mapped.LANE_UNIT,
        "core.port_1.reducer.adder": mapped.LANE_UNIT,
    }
    assert mapped.lane_units(text, blocks) == {"multitree_nic.port.reducer.adder"}
    known = "multitree_nic.core.adder"
    assert mapped.module_of("core.adder", {known}) == known
    with pytest.raises(ValueError, match=r"must have a module for core\.adder"):
        mapped.module_of("core.adder", {"multitree_nic.core"})


def inputs_of(module, library):
    loads = Counter()
    for cell in module["cells"].values():
        known = library.cells.get(cell["type"])
        outputs = known.outputs if known else {"Q"}
        for pin, bits in cell["connections"].items():
            if pin not in outputs:
                loads.update(bits)
    return loads


def test_no_output_drives_more_than_16_inputs(library):
    gates = {
        f"g{n}": {"type": "NAND2X1", "connections": {"A": [2], "B": [3 + n % 2], "Y": [10 + n]}}
        for n in range(300)
    }
    box = {"type": "memory", "port_directions": {"D": "input", "Q": "output"}}
    gates["m"] = {**box, "connections": {"D": [2, "0", 5], "Q": [3]}}
    module = {
        "cells": gates,
        "ports": {"clk": {"bits": [4]}, "rst": {"bits": [2]}},
        "netnames": {"unused": {"bits": [999, "x"]}},
    }
    added = mapped.spread({"modules": {"top": module}}, library, ("clk", "enable"))
    loads = inputs_of(module, library)
    assert loads.pop(4) == 150 and loads.pop("0") == 1
    assert max(loads.values()) <= mapped.MOST_LOADS == 16
    buffers = [cell for name, cell in module["cells"].items() if name.startswith("spread")]
    # 301 loads take 19 buffers and 2 before these, 150 take 10.
    assert added == len(buffers) == 19 + 2 + 10
    driven = [cell["connections"]["Y"][0] for cell in buffers]
    assert len(set(driven)) == len(driven) and min(driven) == 1000
    assert {cell["type"] for cell in buffers} == {"BUF2"}
    assert sum(loads[bit] for bit in driven) == 301 + 150 + 19


def test_areas_count_every_instance_and_the_share_of_lane_units():
    adder = "multitree_nic.port.adder"
    counted = {"multitree_nic": {"NAND": 10, "port": 2, "memory_64x4": 3}}
    counted |= {"port": {"NAND": 1, adder: 1}, adder: {"NAND": 4, "half": 2}, "half": {"DFF": 1}}
    found = mapped.Mapped(None, counted, frozenset({adder}), {})
    total, lanes, number = mapped.areas(found, {"NAND": 1.5, "DFF": 8.0})
    assert (total, lanes, number) == (15 + 2 * 1.5 + 2 * 22, 44.0, 10 + 2 + 2 * 6)


def test_mapping_leaves_memories_out_keeps_lane_units_and_buffers(library, tmp_path, monkeypatch):
    """What Yosys would do is made up, from the files that it is given to those that it writes."""
    adder, ran = "multitree_nic.port.adder", {}
    loads = {f"g{n}": {"type": "INV", "connections": {"A": [2], "Y": [9 + n]}} for n in range(17)}
    top = {"cells": loads, "ports": {"clk": {"bits": [3]}}, "netnames": {}}
    counted = {"\\multitree_nic": {"num_cells_by_type": {"INV": 17, "BUF2": 2}}}

    def yosys(folder, stem, lines):
        ran[stem] = lines
        if stem == "prepare":
            (folder / "prepared.json").write_text(json.dumps({"modules": {"top": {"cells": {}}}}))
        elif stem == "map":
            assert json.loads((folder / "boxed.json").read_text())["modules"]["box"] == {}
            (folder / "mapped.json").write_text(json.dumps({"modules": {"top": top}}))
        else:
            written = json.loads((folder / "spread.json").read_text())["modules"]["top"]["cells"]
            assert len(written) == 17 + 2
            (folder / "cells.json").write_text(json.dumps({"modules": counted}))

    def write_verilog(case, folder):
        (folder / "nic.v").write_text(f"module \\{adder} (a\n")
        return folder / "nic.v"

    def leave_out(netlist):
        netlist["modules"]["box"] = {}
        return {"m": "box"}

    monkeypatch.setattr(mapped, "yosys", yosys)
    monkeypatch.setattr(mapped, "leave_out", leave_out)
    monkeypatch.setattr(Case, "write_verilog", write_verilog)
    monkeypatch.setattr(Case, "blocks", lambda case: {"core.port_0.adder": mapped.LANE_UNIT})
    said = []
    found = mapped.map_to(library, Case(1), tmp_path, 1000.0, said.append)
    assert found.verilog == tmp_path / "mapped.v" and found.memories == {"m": "box"}
    assert found.cells == {"multitree_nic": {"INV": 17, "BUF2": 2}} and len(said) == 4
    assert ran["prepare"][:2] == ("read_verilog nic.v", "hierarchy -top multitree_nic")
    assert f"setattr -mod -set keep_hierarchy 1 {adder}" in ran["prepare"]
    assert ran["prepare"].index("flatten") > 2 and found.lane_units == {adder}
    mapping = next(line for line in ran["map"] if line.startswith("abc "))
    assert "-liberty library_0.lib -D 1000 -script mapping.abc" in mapping
    assert "buffer -N 16" in (tmp_path / "mapping.abc").read_text().splitlines()
    assert "dfflibmap -liberty library_0.lib" in ran["map"]
    assert ran["write"][0] == "read_json spread.json" and "mapped.v" in ran["write"][-1]


SAID = r"""OpenSTA 2.0.17
path 2.5e+01 970.0 18 core.port_0.a.x[3]$_DFF_P_/Q core.port_0.b.m/WRITE[2]
path -5.5 1000.5 20 core.port_1.a.x\[3\]$_DFF_P_/Q core.port_1.b.y$_DFF_P_/D
path 40.0 900.0 2 rst core.tables_x/D
path of something else
"""
BLOCKS = {
    "core": "C",
    **{f"core.port_{n}.{block}": block.upper() for n in (0, 1) for block in "ab"},
}


def test_paths_are_read_worst_first():
    paths = sta.parse(SAID)
    assert [path.slack_ps for path in paths] == [-5.5, 25.0, 40.0]
    worst = paths[0]
    assert (worst.delay_ps, worst.gates) == (1000.5, 9)
    assert worst.end == "core.port_1.b.y$_DFF_P_/D" and paths[2].gates == 0


def test_paths_are_named_by_the_blocks_that_they_join_and_equal_ports_are_one():
    rows = sta.between_blocks(sta.parse(SAID), BLOCKS)
    keys = ("from", "to", "delay_ps", "slack_ps", "gates", "end_points")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("core.port_1.a [A]", "core.port_1.b [B]", 1000.5, -5.5, 9, 2),
        ("top [nic.interface.Interface]", "core [C]", 900.0, 40.0, 0, 1),
    ]
    assert all(row.keys() == {*keys} for row in rows)
    pins = sta.parse("path 1 2 4 half/core.port_0.a/q core/port_0.b.z\n")
    assert sta.between_blocks(pins, BLOCKS)[0]["to"] == "core.port_0.b [B]"


def test_timing_reads_every_library_and_refuses_errors(tmp_path, monkeypatch):
    done = CompletedProcess([], 0, SAID, "")
    monkeypatch.setattr(sta, "run", lambda command, cwd, **_: done)
    paths = sta.timing(tmp_path, ["a.lib", "b.lib"], "n.v", 1000.0)
    assert len(paths) == 3
    script = (tmp_path / "timing.tcl").read_text()
    assert "read_liberty a.lib\nread_liberty b.lib\nread_verilog n.v\n" in script
    assert "create_clock -name clk -period 1000 [get_ports clk]" in script
    for out, status, message in [
        (f"{SAID}Error: timing.tcl, 3 no cell\n", 0, "Error: timing.tcl, 3 no cell"),
        ("nothing", 0, "it found no path"),
        (SAID, 1, "OpenSTA failed"),
    ]:
        done = CompletedProcess([], status, out, "")
        refuses(sta.ToolError, message, sta.timing, tmp_path, [], "n.v", 1000.0)


def test_opensta_is_named_with_the_package_that_brings_it(monkeypatch):
    monkeypatch.setattr(sta.shutil, "which", lambda name: None)
    assert "apt-get install opensta" in sta.missing_sta()
    monkeypatch.setattr(sta.shutil, "which", lambda name: f"/bin/{name}")
    assert sta.missing_sta() is None


def test_liberty_files_are_named_one_by_one_by_folder_or_by_the_environment(tmp_path, monkeypatch):
    for name in ("b.lib.gz", "a.lib", "README"):
        (tmp_path / name).touch()
    monkeypatch.setenv("CELLS", str(tmp_path))
    files = [tmp_path / name for name in ("a.lib", "b.lib.gz", "README")]
    assert asic.liberty_files(["$CELLS", str(tmp_path / "README")]) == files
    (tmp_path / "empty").mkdir()
    for name, message in (("$NO_SUCH", "NO_SUCH must be a Lib"), ("$CELLS/empty", "must have fi")):
        refuses(cells.LibertyError, message, asic.liberty_files, [name])


@pytest.fixture
def arguments(tmp_path, monkeypatch):
    (tmp_path / "one.lib").write_text(LIBRARY)
    for name in ("missing_yosys", "missing_sta"):
        monkeypatch.setattr(asic, name, lambda: None)
    return ["--liberty", str(tmp_path / "one.lib"), "--folder", str(tmp_path / "build")]


@pytest.mark.parametrize(
    "more, message",
    [
        ("--liberty none.lib", "none.lib must be a Liberty file"),
        ("--liberty", "argument --liberty: expected at least one argument"),
        ("--ports 9", "Config num_ports must be in 1..8, not 9"),
        ("--lanes int8", "Config dtypes must be some of"),
        ("--forward-flits 7", "Config forward_flits must be 0, or"),
        ("--clock-ghz 0", "--clock-ghz must be above 0"),
        ("--clock-ghz nan", "--clock-ghz must be above 0"),
        ("--memory-access 1", "must be from 0 to less than a cycle"),
        ("--memory-setup -0.1", "must be from 0 to less than a cycle"),
        ("--memory-access -0.5", "must be from 0 to less than a cycle"),
        ("--dont-use NAND2*", "must have a NAND of two inputs"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, more, message, capsys):
    assert message in refused(asic.parse, [*arguments, *more.split()], capsys)


@pytest.mark.parametrize("tool", ["missing_yosys", "missing_sta"])
def test_a_tool_that_is_missing_is_named(tool, arguments, monkeypatch, capsys):
    monkeypatch.setattr(asic, tool, lambda: f"no {tool}")
    assert f"no {tool}" in refused(asic.parse, arguments, capsys)


@pytest.fixture
def run(arguments, monkeypatch):
    """Run main with a netlist and paths that are made up."""
    box = memories.Memory(64, 4, (("CLK", 1), ("READ", 1), ("READ_DATA", 4)))
    boxes = {"m": box, "n": box, "big": memories.Memory(512, 29, box.widths)}
    counted = {"multitree_nic": {"NAND2X1": 10, "adder": 2}, "adder": {"DFF1": 1}}
    netlist = mapped.Mapped(asic.Path("mapped.v"), counted, frozenset({"adder"}), boxes)

    def map_to(library, case, folder, period_ps, say):
        assert (case, period_ps) == (Case(2, forward_flits=64), 2000.0)
        say("mapped")
        return netlist

    def timing(folder, names, verilog, period_ps):
        assert names == ["library_0.lib", "memories.lib"]
        assert (verilog, period_ps) == ("mapped.v", 2000.0)
        text = (folder / "memories.lib").read_text()
        assert 'values ("500")' in text and 'values ("100")' in text and "itance : 12.5" in text
        return sta.parse(SAID)

    monkeypatch.setattr(asic, "map_to", map_to)
    monkeypatch.setattr(asic, "timing", timing)
    monkeypatch.setattr(Case, "blocks", lambda case: BLOCKS)

    def main(*more):
        given = ["--ports", "2", "--forward-flits", "64", "--clock-ghz", "0.5", *more]
        monkeypatch.setattr("sys.argv", ["asic.py", *arguments, *given])
        return asic.main()

    return main


def test_area_slack_and_paths_are_printed_for_programs(run, capsys):
    assert run("--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["worst_slack_ps"], found["slowest_ps"]) == (-5.5, 2005.5)
    assert (found["cells"], found["area_um2"], found["gate_equivalents"]) == (12, 432.0, 18)
    assert (found["reduction_um2"], found["reduction_share"]) == (192.0, 192 / 432)
    kept = [tuple(each[key] for key in ("words", "bits", "count")) for each in found["memories"]]
    assert kept == [(512, 29, 1), (64, 4, 2)]
    assert found["memory_bits"] == 512 * 29 + 2 * 64 * 4
    assert (found["memory_access_ps"], found["memory_setup_ps"]) == (500.0, 100.0)
    assert found["liberty"] == ["one.lib"] and found["nand2"] == "NAND2X1"
    assert found["paths"][0]["from"] == "core.port_1.a [A]"


def test_and_for_people(run, capsys):
    assert run() == 0
    printed = capsys.readouterr()
    assert "worst slack -6 ps at 0.5 GHz: the slowest path takes 2006 ps" in printed.out
    assert "area 432 um2, 12 cells, 18 gate equivalents (NAND2X1, 24 um2)" in printed.out
    assert "the reduction has 192 um2 of it, 44.4 %" in printed.out
    assert "forwarding of 64 flits" in printed.out and "1 of 512 x 29, 2 of 64 x 4" in printed.out
    assert "core.port_1.a [A]\n" in printed.out and "mapped" in printed.err


def test_a_tool_that_fails_ends_with_its_message(run, monkeypatch, capsys):
    def fail(*_):
        raise sta.ToolError("OpenSTA failed: it found no path")

    monkeypatch.setattr(asic, "timing", fail)
    assert run() == 1 and "it found no path" in capsys.readouterr().err
