"""Tests of what goes with the Verilog: the core file names what is there."""

import re

import pytest
import yaml

from multitree.host.verilog_files import CROSSING_NAME, MEMORIES, top_module, write_verilog
from multitree.hw.core_file import core_file
from multitree.nic.config import Config
from multitree.nic.registers import VERSION


@pytest.fixture(scope="module", params=MEMORIES)
def memory(request):
    return request.param


@pytest.fixture(scope="module")
def written(memory, tmp_path_factory):
    return write_verilog(Config(num_ports=1), tmp_path_factory.mktemp("written"), memory=memory)


@pytest.fixture(scope="module")
def core(written):
    (file,) = [path for path in written if path.suffix == ".core"]
    text = file.read_text()
    assert text.splitlines()[0] == "CAPI=2:"
    return yaml.safe_load(text.partition("\n")[2])


def test_the_core_lists_every_file_beside_it_once(written, core):
    listed = [file for fileset in core["filesets"].values() for file in fileset["files"]]
    assert sorted(listed) == sorted(path.name for path in written if path.suffix != ".core")
    assert all((written[0].parent / file).is_file() for file in listed)


def test_every_target_has_the_interface_as_its_top_and_its_verilog(written, core, memory):
    top = top_module(memory)
    assert set(core["targets"]) == {"default", "lint", "synth"}
    for target in core["targets"].values():
        assert target["toplevel"] == top
        files = [f for name in target["filesets"] for f in core["filesets"][name]["files"]]
        assert f"{top}.v" in files
        assert "parameters" not in target
    verilog = core["filesets"]["rtl"]
    assert verilog["file_type"] == "verilogSource"
    text = "".join((written[0].parent / file).read_text() for file in verilog["files"])
    modules = set(re.findall(r"^module (\w+)\(", text, re.M))
    assert {top, CROSSING_NAME} <= modules


def test_lint_is_verilators_and_synthesis_yosys(core):
    lint, synth = core["targets"]["lint"], core["targets"]["synth"]
    assert (lint["flow"], lint["flow_options"]["tool"]) == ("lint", "verilator")
    assert lint["flow_options"]["verilator_options"] == ["-Wall", "-Wno-style"]
    assert (synth["flow"], synth["flow_options"]["tool"]) == ("generic", "yosys")
    assert synth["flow_options"]["arch"] == "ecp5"


def test_the_core_is_as_old_as_the_register_map(core, memory):
    assert core["name"] == f"multitree:hw:{top_module(memory)}:{VERSION}.0.0"


def test_the_crossing_has_the_pins_of_the_interface_s_links(written):
    verilog, crossing, *_ = (path.read_text() for path in written)

    def declared(text, prefix):
        pattern = rf"^  (?:input|output) (\[\d+:0\] )?{prefix}_([tr]x_\w+);"
        return {(name, width) for width, name in re.findall(pattern, text, re.M)}

    pins = declared(verilog, "link_0")
    assert len(pins) > 8
    assert declared(crossing, "link") - {("rx_lost", "")} == pins


def test_a_core_without_documents_has_one_fileset():
    text = core_file(name="a", version="1.2.3", description="A.", top="b", sources=["c.v", "d.v"])
    core = yaml.safe_load(text.partition("\n")[2])
    assert core["filesets"] == {"rtl": {"files": ["c.v", "d.v"], "file_type": "verilogSource"}}
    assert {tuple(target["filesets"]) for target in core["targets"].values()} == {("rtl",)}
