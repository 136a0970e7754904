"""The commands verilog and demo: what is written, and for which design."""

import re
from dataclasses import asdict
from pathlib import Path

import pytest

from multitree import LinkModel, build, ring
from multitree.host.cli import verilog as cli_verilog
from multitree.host.design import verilog_files
from multitree.host.design.manifest import DesignFile
from multitree.host.design.verilog_files import Delivery
from multitree.host.engines import needs_of
from multitree.sim.timing.sizing import config_for
from multitree.topology.lowering import with_switches
from tests.emulation import needs_rtl

# All files of a design by the name of the interface's module.
FILES = """
{0}.v multitree_link_crossing.v multitree_nic.h multitree_nic_registers.md multitree_nic.rdl
{0}_template.vh multitree_sim.v multitree_sim_writes_0.hex multitree_sim_writes_1.hex
multitree_sim_memory.hex {0}.core multitree_manifest.json
"""


def names_of(data):
    return [Path(path).name for path in data["files"]]


def not_written(*_, **__):
    return Delivery(Path("built"), (), "manifest", (), None)


def test_an_interface_is_large_enough_for_the_schedule_of_a_file(run, monkeypatch):
    monkeypatch.setattr(verilog_files, "write_verilog", not_written)
    spec = "torus:8x8 --algorithm bidirectional_ring_2d"
    run.json(f"schedule {spec} --out saved.json")
    lines = (f"verilog {what}" for what in ("saved.json", spec, "torus:8x8"))
    read, built, other = (run.json(line)["config"] for line in lines)
    assert read == built != other


@pytest.mark.long
def test_interfaces_are_written_with_buffers_for_their_links(run):
    data = run.json("verilog ring:4 --latency-ns 1000 --link-gbytes-per-s 64 --flit-bytes 32")
    config = data["config"]
    assert (config["flit_bytes"], config["buffer_flits"], data["buffer_flits"]) == (32, 2048, 2048)
    assert [limit["by"] for limit in data["limits"]] == ["interface"]
    assert data["warnings"] == []


@pytest.mark.slow
@needs_rtl
def test_the_demo_compares_three_algorithms_and_writes_verilog(run, monkeypatch):
    monkeypatch.setattr(cli_verilog, "SIZE_BYTES", 4096)
    data = run.json("demo --out written")
    assert data["exact"] is True
    assert [result["exact"] for result in data["results"]] == [True] * 3
    assert "module multitree_nic(" in Path(data["files"][0]).read_text()
    out = run.printed("demo --out written")
    assert "bit for bit" in out and "Start Addr" in out and "written/multitree_nic.v" in out


@pytest.mark.slow
def test_verilog_writes_twelve_files_and_says_where(run):
    data = run.json("verilog torus:4x4 --out built")
    assert names_of(data) == FILES.format("multitree_nic").split()
    text = [Path(path).read_text() for path in data["files"]]
    assert text[0].startswith("// SPDX-License-Identifier: Apache-2.0")
    assert "#define MULTITREE_NIC_CONTROL 0x00018u" in text[2]
    assert "CONTROL" in text[3]
    assert "addrmap multitree_nic {" in text[4]
    assert "multitree_nic multitree_nic_instance (" in text[5]
    assert text[10].startswith("CAPI=2:")
    assert data["no_test_bench"] is None
    assert data["config"]["num_ports"] == 4


@pytest.mark.long
def test_verilog_of_a_network_with_switches_has_a_module_per_shape_of_them(run):
    data = run.json("verilog fat_tree:2x2 --size 1KiB --out built")
    first, second, *others = FILES.format("multitree_nic").split()
    assert names_of(data)[:4] == [first, second, "multitree_switch.v", others[0]]
    small, large = (f"multitree_switch_{ports}x2" for ports in (2, 4))
    assert data["switches"] == [
        {"module": small, "num_ports": 2, "nodes": [6, 7]},
        {"module": large, "num_ports": 4, "nodes": [4, 5]},
    ]
    assert data["switches_beside_ranks"] is False
    text = Path(data["files"][2]).read_text()
    assert f"\nmodule {small}(" in text and f"\nmodule {large}(" in text
    crossing = Path(data["files"][1]).read_text()
    assert "output [1:0] tx_credit;" in crossing and "input [1:0] rx_credit;" in crossing


def test_verilog_tells_people_of_switches_and_of_those_beside_ranks(run, monkeypatch):
    written = []

    def not_written(*_, topology, **__):
        written.append(topology)
        roles = ["Verilog", *["switches"] * bool(topology.num_switches)]
        files = tuple(DesignFile(f"file_{k}", role, "") for k, role in enumerate(roles))
        return Delivery(Path("built"), files, "manifest", (), None)

    monkeypatch.setattr(verilog_files, "write_verilog", not_written)
    out = run.printed("verilog fat_tree:2x4")
    assert re.search(r"^  switches +built/file_1$", out, re.M)
    assert re.search(r"^  multitree_switch_8x2  8, 9$", out, re.M)
    assert "beside" not in out
    assert "switch" not in run.printed("verilog torus:4x4")
    line = "verilog torus:8 --algorithm swing"
    assert "rank r is attached to switch 8 + r" in run.printed(line)
    data = run.json(line)
    shape = {"module": "multitree_switch_4x4", "num_ports": 4, "nodes": list(range(8, 16))}
    assert (data["switches"], data["switches_beside_ranks"]) == ([shape], True)
    wired = with_switches(ring(8))
    assert (written[-1].links == wired.links).all()
    # What the emulation compiles for the same.
    needs = needs_of(build(ring(8), "swing"), LinkModel(), 2**20)
    dtypes = tuple(data["config"]["dtypes"])
    assert data["config"] == asdict(config_for(wired, LinkModel(), **needs, dtypes=dtypes)) | {
        "dtypes": list(dtypes),
        "modes": ["lockstep", "packets"],
    }


@pytest.mark.slow
def test_verilog_with_axi_is_the_other_module_with_the_same_registers(run):
    line = "verilog torus:2x2 --out built --dtypes float32,int32 --modes packets"
    data = run.json(f"{line} --memory axi")
    assert data["config"]["dtypes"] == ["int32", "float32"]
    assert data["config"]["modes"] == ["packets"]
    files = {Path(path).name: Path(path).read_text() for path in data["files"]}
    assert (data["memory"], data["top_module"]) == ("axi", "multitree_nic_axi")
    assert list(files) == FILES.format("multitree_nic_axi").split()
    assert "module multitree_nic_axi(" in files["multitree_nic_axi.v"]
    assert "m_axi_1_receive_awvalid" in files["multitree_nic_axi_template.vh"]
    assert "memory_0_send_valid" not in files["multitree_nic_axi_template.vh"]
    plain = run.json(line)
    assert plain["memory"] == "sram"
    axi = [f"multitree_nic_axi{ending}" for ending in (".core", ".v", "_template.vh")]
    assert plain["removed"] == axi
    assert {path.name for path in Path("built").iterdir()} == {*names_of(plain)}
    for name in ("multitree_nic.h", "multitree_nic_registers.md"):
        assert (Path("built") / name).read_text() == files[name]
