"""The commands topology, schedule and verify, and files of their networks."""

import re
import time
from pathlib import Path

import pytest

from multitree.sim.rtl.loads import Loader, Upcoming
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.sizing import config_for, least_sizes
from multitree.topology.algorithms.build import build
from multitree.topology.checks.implicit import ImplicitSchedule
from multitree.topology.families.direct import torus
from multitree.topology.files.load_save import load_topology, save_schedule
from multitree.topology.lowering import lowered
from multitree.topology.specs import parse_topology
from tests.host.cli.commands import GRAPH, printed_json, run


def test_schedule_tells_what_the_schedule_has(capsys):
    data = printed_json(capsys, "schedule", "torus:4x4", "--algorithm", "multitree")
    schedule = build(torus(4, 4), "multitree")
    assert data["schedule_hash"] == schedule.hash
    assert data["steps_reduce_scatter"] == data["steps_all_gather"] == 4
    assert (data["bound_steps"], data["max_link_load"], data["num_transfers"]) == (4, 1, 480)
    assert 0 < data["build_seconds"] < 60


def test_schedule_saves_its_rows(capsys):
    printed_json(capsys, "schedule", "torus:2x2", "--out", "rows.csv")
    header, *rows = Path("rows.csv").read_text().splitlines()
    assert header == "step,op,flow,src,dst,order,links,classes"
    schedule = build(torus(2, 2), "multitree")
    assert len(rows) == schedule.num_transfers
    step, op, flow, src, dst, _, link, _ = rows[0].split(",")
    assert [int(step), int(flow), int(src), int(dst)] == [
        int(column[0]) for column in (schedule.step, schedule.flow, schedule.src, schedule.dst)
    ]
    assert op == "REDUCE"
    assert schedule.topology.links[int(link)].tolist() == [int(src), int(dst)]
    printed_json(capsys, "schedule", "bigraph:2x4", "--out", "rows.csv")
    routed = build(parse_topology("bigraph:2x4"), "multitree")
    *_, links, classes = Path("rows.csv").read_text().splitlines()[-1].split(",")
    start = routed.route_offsets[-2]
    assert links == " ".join(map(str, routed.route_links[start:].tolist()))
    assert classes == " ".join(map(str, routed.route_classes[start:].tolist()))


def test_topology_saves_a_file_that_every_command_reads(capsys):
    data = printed_json(capsys, "topology", "torus:4x4", "--out", "net.json")
    assert (data["num_links"], data["diameter"], data["bound_cycles"]) == (64, 4, 30720)
    assert load_topology("net.json").num_links == 64
    printed_json(capsys, "topology", "torus:4x4", "--out", "net.graphml")
    for file in ("net.json", "net.graphml"):
        again = printed_json(capsys, "schedule", file)
        assert again["schedule_hash"] == build(torus(4, 4), "multitree").hash


def test_schedule_saves_a_file_that_every_command_reads(capsys):
    file = "saved.json"
    saved = printed_json(capsys, "schedule", "torus:4x4", "--algorithm", "ring", "--out", file)
    expected = saved | {"topology": file}
    for command in ("schedule", "verify", "table", "simulate"):
        engine = ["--engine", "analytic"] if command == "simulate" else []
        reported = printed_json(capsys, command, file, *engine)
        for key in ("topology", "algorithm", "collective", "root", "schedule_hash"):
            assert reported[key] == expected[key]
        status, out, _ = run(capsys, command, file, *engine)
        assert status == 0 and "ring" in out and "multitree" not in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--algorithm", "ring"],
            "saved.json: algorithm must be the file's, multitree, not 'ring'",
        ),
        (["--collective", "reduce"], "collective must be the file's, all_reduce, not 'reduce'"),
        (["--root", "0"], "root must be the file's, None, not 0"),
    ],
)
def test_a_file_is_never_replaced_by_what_else_is_asked_for(capsys, options, says):
    printed_json(capsys, "schedule", "torus:2x2", "--out", "saved.json")
    status, out, error = run(capsys, "verify", "saved.json", *options)
    assert (status, out) == (2, "") and says in error
    asked = ["--algorithm", "multitree", "--collective", "all_reduce"]
    assert run(capsys, "verify", "saved.json", *asked)[0] == 0


def test_a_wrong_schedule_in_a_file_is_refused_by_its_row(capsys):
    printed_json(capsys, "schedule", "torus:2x2", "--out", "saved.json")
    path = Path("saved.json")
    path.write_text(path.read_text().replace('"REDUCE", 0, 1, 0,', '"REDUCE", 0, 1, 2,'))
    for command in ("schedule", "verify", "table", "simulate", "verilog"):
        status, out, error = run(capsys, command, "saved.json")
        assert (status, out) == (2, "")
        assert re.fullmatch(r"multitree: saved\.json: Row \d+ \(step .*\n", error)


def test_a_file_of_a_schedule_is_of_its_own_ranks(capsys):
    printed_json(capsys, "schedule", "torus:2x2", "--out", "saved.json")
    for options in (["--ranks", "0,1"], ["--ranks", "0,1", "--forwarding"], ["--forwarding"]):
        status, _, error = run(capsys, "schedule", "saved.json", *options)
        assert (status, error) == (2, "multitree: saved.json: ranks must be the file's, 4\n")


def test_broadcast_has_a_root(capsys):
    data = printed_json(capsys, "schedule", "torus:4x4", "--collective", "broadcast", "--root", 3)
    assert (data["root"], data["steps_reduce_scatter"]) == (3, 0)


@pytest.mark.parametrize("algorithm", ["multitree", "halving_doubling"])
@pytest.mark.parametrize("spec", ["ring:8", "fat_tree:2x2"])
def test_a_broadcast_ends_within_what_its_load_allows_silent_phase_included(
    capsys, spec, algorithm
):
    arguments = ("--algorithm", algorithm, "--collective", "broadcast", "--root", 1)
    reported = printed_json(capsys, "verify", spec, *arguments, "--size", "64KiB")
    schedule, model = build(parse_topology(spec), algorithm, "broadcast", root=1), LinkModel()
    topology, num_elements = lowered(schedule).topology, 2**14
    sizes = least_sizes(schedule, model.num_flits(num_elements, 4))
    loader = Loader(topology, config_for(topology, model, **sizes), model, MemoryTiming())
    load = loader.load(Upcoming(schedule, num_elements, "float32"))
    assert reported["termination_cycles"] == load.limits.collective_cycles


def test_nodes_are_called_by_their_names(capsys):
    Path("net.graphml").write_text(GRAPH)
    options = ["net.graphml", "--bandwidth-key", "capacity:Gb/s"]
    data = printed_json(capsys, "topology", *options, "--out", "net.json")
    assert data["names"] == ["left", "right", "top"]
    speeds = data["bandwidth_gbytes_per_s_min"], data["bandwidth_gbytes_per_s_max"]
    assert speeds == (12.5, 50.0)
    assert printed_json(capsys, "topology", "net.json")["names"] == data["names"]
    assert printed_json(capsys, "topology", "ring:3")["names"] is None
    assert "0 (left), 1 (right), 2 (top)" in run(capsys, "topology", "net.json")[1]
    _, out, _ = run(capsys, "table", "net.json", "--rank", "2")
    assert "Schedule table of rank 2 (top)" in out and "0 (left)" in out


@pytest.mark.long
def test_the_largest_network_has_its_figures_and_tables_within_seconds(capsys):
    arguments = ("torus:256x256", "--algorithm", "symmetric")
    begin = time.process_time()
    reported = printed_json(capsys, "schedule", *arguments)
    assert (reported["steps_all_gather"], reported["max_link_load"]) == (16_384, 1)
    assert (reported["num_transfers"], reported["schedule_hash"]) == (2 * 65_536 * 65_535, None)
    status, out, _ = run(capsys, "table", *arguments, "--rank", 5)
    assert status == 0 and out.count("\n") == 131_070 + 7
    assert "No interface holds it: rows must be at most 65536, not 131070; flows must" in out
    assert time.process_time() - begin < 30
    status, out, error = run(capsys, "simulate", *arguments, "--engine", "analytic")
    assert (status, out) == (2, "")
    assert "must be at most 33554432 to be written out, not 8589803520" in error


@pytest.mark.parametrize("spec", ["torus:4x4", "torus:2x3", "hypercube:3", "full:5"])
def test_one_tree_translated_is_reported_as_the_schedule_written_out(capsys, monkeypatch, spec):
    whole = build(parse_topology(spec), "symmetric")
    arguments = (spec, "--algorithm", "symmetric")
    save_schedule(whole, "whole.json")
    monkeypatch.setattr(ImplicitSchedule, "schedule", None)
    for command, *more in (["schedule"], ["table", "--rank", 2, "--size", "1KiB"]):
        reported = printed_json(capsys, command, *arguments, *more)
        read = printed_json(capsys, command, "whole.json", *more)
        assert reported["schedule_hash"] == whole.hash
        for key in ("topology", "build_seconds"):
            reported.pop(key, None), read.pop(key, None)
        assert reported == read
        _, out, _ = run(capsys, command, *arguments, *more)
        assert f"by symmetric on {spec}" in out
