"""The commands topology, schedule and verify, and files of their networks."""

import re
import time
from pathlib import Path

import pytest

from multitree import (
    ImplicitSchedule,
    LinkModel,
    build,
    load_topology,
    parse_topology,
    save_schedule,
    torus,
)
from multitree.sim.rtl.loads import Loader, Upcoming
from multitree.sim.timing.link_model import MemoryTiming
from multitree.sim.timing.sizing import config_for, least_sizes
from multitree.topology.lowering import lowered
from tests.host.cli.commands import GRAPH


def test_schedule_tells_what_the_schedule_has(run):
    data = run.json("schedule torus:4x4 --algorithm multitree")
    schedule = build(torus(4, 4), "multitree")
    assert data["schedule_hash"] == schedule.hash
    assert data["steps_reduce_scatter"] == data["steps_all_gather"] == 4
    assert (data["bound_steps"], data["max_link_load"], data["num_transfers"]) == (4, 1, 480)
    assert 0 < data["build_seconds"] < 60


def test_schedule_saves_its_rows(run):
    run.json("schedule torus:2x2 --out rows.csv")
    header, *rows = Path("rows.csv").read_text().splitlines()
    assert header == "step,op,flow,src,dst,order,links,classes"
    schedule = build(torus(2, 2), "multitree")
    assert len(rows) == schedule.num_transfers
    step, op, flow, src, dst, _, link, _ = rows[0].split(",")
    columns = (schedule.step, schedule.flow, schedule.src, schedule.dst)
    assert [int(step), int(flow), int(src), int(dst)] == [int(column[0]) for column in columns]
    assert op == "REDUCE"
    assert schedule.topology.links[int(link)].tolist() == [int(src), int(dst)]
    run.json("schedule bigraph:2x4 --out rows.csv")
    routed = build(parse_topology("bigraph:2x4"), "multitree")
    *_, links, classes = Path("rows.csv").read_text().splitlines()[-1].split(",")
    start = routed.route_offsets[-2]
    assert links == " ".join(map(str, routed.route_links[start:].tolist()))
    assert classes == " ".join(map(str, routed.route_classes[start:].tolist()))


def test_topology_saves_a_file_that_every_command_reads(run):
    data = run.json("topology torus:4x4 --out net.json")
    assert (data["num_links"], data["diameter"], data["bound_cycles"]) == (64, 4, 30720)
    assert load_topology("net.json").num_links == 64
    run.json("topology torus:4x4 --out net.graphml")
    for file in ("net.json", "net.graphml"):
        assert run.json(f"schedule {file}")["schedule_hash"] == build(torus(4, 4), "multitree").hash


def test_schedule_saves_a_file_that_every_command_reads(run):
    saved = run.json("schedule torus:4x4 --algorithm ring --out saved.json")
    expected = saved | {"topology": "saved.json"}
    for command in ("schedule", "verify", "table", "simulate --engine analytic"):
        line = f"{command} saved.json"
        reported = run.json(line)
        for key in ("topology", "algorithm", "collective", "root", "schedule_hash"):
            assert reported[key] == expected[key]
        out = run.printed(line)
        assert "ring" in out and "multitree" not in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--algorithm ring", "saved.json: algorithm must be the file's, multitree, not 'ring'"),
        ("--collective reduce", "collective must be the file's, all_reduce, not 'reduce'"),
        ("--root 0", "root must be the file's, None, not 0"),
    ],
)
def test_a_file_is_never_replaced_by_what_else_is_asked_for(run, options, says):
    run.json("schedule torus:2x2 --out saved.json")
    assert says in run.refused(f"verify saved.json {options}")
    run.printed("verify saved.json --algorithm multitree --collective all_reduce")


def test_a_wrong_schedule_in_a_file_is_refused_by_its_row(run):
    run.json("schedule torus:2x2 --out saved.json")
    path = Path("saved.json")
    path.write_text(path.read_text().replace('"REDUCE", 0, 1, 0,', '"REDUCE", 0, 1, 2,'))
    for command in ("schedule", "verify", "table", "simulate", "verilog"):
        says = run.refused(f"{command} saved.json")
        assert re.fullmatch(r"saved\.json: Row \d+ \(step .*", says)


def test_a_file_of_a_schedule_is_of_its_own_ranks(run):
    run.json("schedule torus:2x2 --out saved.json")
    for options in ("--ranks 0,1", "--ranks 0,1 --forwarding", "--forwarding"):
        says = run.refused(f"schedule saved.json {options}")
        assert says == "saved.json: ranks must be the file's, 4"


def test_broadcast_has_a_root(run):
    data = run.json("schedule torus:4x4 --collective broadcast --root 3")
    assert (data["root"], data["steps_reduce_scatter"]) == (3, 0)


@pytest.mark.parametrize("algorithm", ["multitree", "halving_doubling"])
@pytest.mark.parametrize("spec", ["ring:8", "fat_tree:2x2"])
def test_a_broadcast_ends_within_what_its_load_allows_silent_phase_included(run, spec, algorithm):
    options = f"--algorithm {algorithm} --collective broadcast --root 1 --size 64KiB"
    reported = run.json(f"verify {spec} {options}")
    schedule, model = build(parse_topology(spec), algorithm, "broadcast", root=1), LinkModel()
    topology, num_elements = lowered(schedule).topology, 2**14
    sizes = least_sizes(schedule, model.num_flits(num_elements, 4))
    loader = Loader(topology, config_for(topology, model, **sizes), model, MemoryTiming())
    load = loader.load(Upcoming(schedule, num_elements, "float32"))
    assert reported["termination_cycles"] == load.limits.collective_cycles


def test_nodes_are_called_by_their_names(run):
    Path("net.graphml").write_text(GRAPH)
    data = run.json("topology net.graphml --bandwidth-key capacity:Gb/s --out net.json")
    assert data["names"] == ["left", "right", "top"]
    speeds = data["bandwidth_gbytes_per_s_min"], data["bandwidth_gbytes_per_s_max"]
    assert speeds == (12.5, 50.0)
    assert run.json("topology net.json")["names"] == data["names"]
    assert run.json("topology ring:3")["names"] is None
    assert "0 (left), 1 (right), 2 (top)" in run.printed("topology net.json")
    out = run.printed("table net.json --rank 2")
    assert "Schedule table of rank 2 (top)" in out and "0 (left)" in out


@pytest.mark.long
def test_the_largest_network_has_its_figures_and_tables_within_seconds(run):
    spec = "torus:256x256 --algorithm symmetric"
    begin = time.process_time()
    reported = run.json(f"schedule {spec}")
    assert (reported["steps_all_gather"], reported["max_link_load"]) == (16_384, 1)
    assert (reported["num_transfers"], reported["schedule_hash"]) == (2 * 65_536 * 65_535, None)
    out = run.printed(f"table {spec} --rank 5")
    assert out.count("\n") == 131_070 + 7
    assert "No interface holds it: rows must be at most 65536, not 131070; flows must" in out
    assert time.process_time() - begin < 30
    says = run.refused(f"simulate {spec} --engine analytic")
    assert "must be at most 33554432 to be written out, not 8589803520" in says


@pytest.mark.parametrize("spec", ["torus:4x4", "torus:2x3", "hypercube:3", "full:5"])
def test_one_tree_translated_is_reported_as_the_schedule_written_out(run, monkeypatch, spec):
    whole = build(parse_topology(spec), "symmetric")
    save_schedule(whole, "whole.json")
    monkeypatch.setattr(ImplicitSchedule, "schedule", None)
    for command in ("schedule", "table --rank 2 --size 1KiB"):
        reported = run.json(f"{command} {spec} --algorithm symmetric")
        read = run.json(f"{command} whole.json")
        assert reported["schedule_hash"] == whole.hash
        for key in ("topology", "build_seconds"):
            reported.pop(key, None), read.pop(key, None)
        assert reported == read
        out = run.printed(f"{command} {spec} --algorithm symmetric")
        assert f"by symmetric on {spec}" in out
