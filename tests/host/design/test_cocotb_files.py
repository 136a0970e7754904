"""The folder of benches of a design: complete, and replaced with it."""

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from multitree import build, fat_tree, ring, torus
from multitree.host.design.cocotb_files import BenchPlan
from multitree.host.design.verilog_files import write_verilog
from multitree.nic.driver.config import Config
from multitree.sim.cocotb.case import BenchCase

SMALL = {"num_ports": 2, "table_depth": 16, "num_flows": 8, "dtypes": ("int32",)}
CONFIG = Config(**SMALL)
PLAN = BenchPlan(build(ring(2), "multitree"), num_elements=20, rank=1)
FOLDER = "multitree_cocotb"


def write(folder, plan=PLAN, config=CONFIG, **options):
    topology = None if plan is None else plan.schedule.topology
    return write_verilog(config, folder, topology=topology, benches=plan, **options)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    write(folder)
    return folder


@pytest.mark.slow
def test_the_folder_has_all_that_it_runs_and_the_manifest_lists_it(written):
    names = {path.name for path in (written / FOLDER).iterdir()}
    assert names == {
        *("bench_interface.py", "bench_faults.py", "bench_network.py", "run.py"),
        *("test_benches.py", "Makefile", "case.json", "schedule.json", "multitree_network.v"),
    }
    manifest = json.loads((written / "multitree_manifest.json").read_text())
    assert {f"{FOLDER}/{name}" for name in names} <= {file["file"] for file in manifest["files"]}


def test_what_is_written_is_python_and_what_it_reads_is_the_plan(written):
    for path in (written / FOLDER).glob("*.py"):
        compile(path.read_text(), str(path), "exec")
    case = BenchCase.load(written / FOLDER, {})
    assert case.schedule.hash == PLAN.schedule.hash
    assert (case.rank, case.num_elements, case.config) == (1, 20, CONFIG)
    for top in case.tops:
        for source in top.sources:
            assert (written / FOLDER / source).is_file()
        for module in (*top.modules, *top.fault_modules):
            assert (written / FOLDER / f"{module}.py").is_file()
    assert [top.num_interfaces for top in case.tops] == [1, 2]


def test_the_core_runs_the_benches_of_one_interface_and_of_the_network(written):
    text = (written / "multitree_nic.core").read_text()
    core = yaml.safe_load(text.partition("\n")[2])
    case = BenchCase.load(written / FOLDER, {})
    for name, top in zip(("cocotb", "cocotb_network"), case.tops, strict=True):
        target = core["targets"][name]
        options = target["flow_options"]
        assert (target["flow"], options["tool"]) == ("sim", "icarus")
        assert (target["toplevel"], [options["cocotb_module"]]) == (top.top, list(top.modules))
        first, *others = [core["filesets"][fileset] for fileset in target["filesets"]]
        # Read first, it sets the time scale of all.
        assert first["files"] == [f"{FOLDER}/multitree_network.v"]
        assert "\n`timescale 1ns/1ps\nmodule" in (written / first["files"][0]).read_text()
        rtl, data = others
        sources = {str(Path(FOLDER, source)) for source in top.sources}
        assert {os.path.normpath(source) for source in sources} <= {*first["files"], *rtl["files"]}
        copied = {here: there["copyto"] for file in data["files"] for here, there in file.items()}
        assert set(copied.values()) >= {f"{top.modules[0]}.py", "case.json", "schedule.json"}
        assert all((written / here).name == there for here, there in copied.items())
        assert all((written / here).is_file() for here in copied)


def test_a_core_without_benches_has_no_target_for_them(tmp_path):
    write(tmp_path, None)
    assert "cocotb" not in (tmp_path / "multitree_nic.core").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("mine", [[], ["mine.py"]])
def test_a_design_without_benches_takes_the_folder_away_but_for_what_is_not_its(tmp_path, mine):
    write(tmp_path)
    for name in mine:
        (tmp_path / FOLDER / name).write_text("")
    assert f"{FOLDER}/run.py" in write(tmp_path, None).removed
    assert [path.name for path in tmp_path.glob(f"{FOLDER}/*")] == mine
    assert (tmp_path / FOLDER).exists() == bool(mine)


@pytest.mark.slow
def test_an_edited_bench_is_not_replaced_unless_forced(tmp_path):
    write(tmp_path)
    bench = tmp_path / FOLDER / "bench_network.py"
    before = bench.read_text()
    bench.write_text("edited")
    with pytest.raises(ValueError, match=r"bench_network\.py; --force replaces"):
        write(tmp_path)
    assert bench.read_text() == "edited"
    write(tmp_path, force=True)
    assert bench.read_text() == before


def test_a_rank_that_is_not_there_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"Rank must be in 0\.\.1, not 2"):
        write(tmp_path / "new", BenchPlan(PLAN.schedule, num_elements=20, rank=2))
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("topology", [torus(2, 2), fat_tree(2, 2)], ids=lambda t: t.name)
@pytest.mark.parametrize("crossings", [False, True])
def test_every_link_is_joined_at_both_ends_and_every_other_port_is_still(
    tmp_path, topology, crossings
):
    shared = {"num_classes": 1, "max_children": 4} if topology.num_switches else {}
    schedule = build(topology, "multitree")
    plan = BenchPlan(schedule, num_elements=20, crossings=crossings)
    write(tmp_path, plan, Config(**SMALL | shared))
    text = (tmp_path / FOLDER / "multitree_network.v").read_text()

    def wire(node, port, name):
        kind = "rank" if node < topology.num_ranks else "switch"
        return f"{kind}_{node}_link_{port}_{name}"

    driven = set()
    for link, (src, dst) in enumerate(topology.links.tolist()):
        here = topology.port_of_link(link)
        there = topology.port_of_link(int(topology.reverse[link]))
        for name in ("valid", "payload", "check", "kind", "vc", "sequence", "epoch"):
            source, target = wire(src, here, f"tx_{name}"), wire(dst, there, f"rx_{name}")
            assert f".i({source}), .o({target}));" in text
            driven.add(target)
        source, target = wire(dst, there, "rx_credit"), wire(src, here, "tx_credit")
        assert f".i({source}), .o({target}));" in text
        driven.add(target)
    assert text.count("_line (") == len(driven)
    for node in range(topology.num_ranks):
        for port in range(SMALL["num_ports"]):
            for name in ("rx_valid", "tx_credit"):
                end = wire(node, port, name)
                assert (f"assign {end} = 0;" in text) != (end in driven)
    assert text.count("multitree_link_crossing ") == crossings * topology.num_ranks * 2
    whole = BenchCase.load(tmp_path / FOLDER, {}).tops[-1]
    instances = set(re.findall(r"^  (\w+) (?:rank|switch)_\w+ \(", text, re.M))
    assert set(whole.blocks) == instances
