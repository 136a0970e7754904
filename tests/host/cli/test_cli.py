"""Every command: its keys, what people see, and how it refuses wrong input."""

import csv
import gzip
import json
import re
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import multitree
from multitree import Communicator
from multitree.host.cli import main as cli_main
from multitree.host.cli import verilog as cli_verilog
from multitree.host.cli.main import main
from multitree.host.cli.output import print_table
from multitree.host.design.manifest import DesignFile
from multitree.host.design.verilog_files import Delivery
from multitree.host.engines import needs_of
from multitree.nic.driver.config import LIMITS
from multitree.sim.emulator.verilator import why_not
from multitree.sim.rtl.loads import Loader, Upcoming
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.sizing import config_for, least_sizes
from multitree.topology.algorithms.build import build
from multitree.topology.checks.implicit import ImplicitSchedule
from multitree.topology.collectives import Op
from multitree.topology.families.direct import mesh, ring, torus
from multitree.topology.files.load_save import load_topology, save_schedule
from multitree.topology.lowering import lowered, with_switches
from multitree.topology.networks.subsets import among
from multitree.topology.specs import parse_topology
from tests.host.view.packed import data_of

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "json.md"
SWEEP = DOCUMENT.parents[1] / "examples" / "sweep.yaml"
needs_rtl = pytest.mark.skipif(why_not() is not None, reason=f"no RTL emulation here: {why_not()}")


def run(capsys, *arguments):
    """Status, standard output and standard error of one command."""
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def printed_json(capsys, *arguments):
    status, out, _ = run(capsys, *arguments, "--json")
    assert status == 0
    return json.loads(out)


def documented_keys(command):
    """Keys that docs/json.md lists for a command, in order."""
    text = DOCUMENT.read_text()
    section = re.search(rf"^## `multitree {command}`$(.*?)(?=^## |\Z)", text, re.S | re.M)
    return re.findall(r"^\| `([\w.\[\]]+)` \|", section.group(1), re.M)


def keys_of(data, command):
    """Keys of an object; those of objects and lists inside only where they are documented."""
    inside = {key.split("[")[0].split(".")[0] for key in documented_keys(command) if "." in key}
    keys = []
    for key, value in data.items():
        keys.append(key)
        if key in inside:
            mark = "[]." if isinstance(value, list) else "."
            entry = value[0] if isinstance(value, list) else value
            assert not isinstance(value, list) or all(set(one) == set(entry) for one in value)
            keys += [f"{key}{mark}{name}" for name in entry]
    return keys


COMMANDS = {
    "topology": ["torus:4x4"],
    "schedule": ["torus:4x4"],
    "verify": ["mesh:5x3"],
    "table": ["torus:4x4", "--rank", "5"],
    "verilog": ["fat_tree:2x2"],
    "cocotb": ["ring:2", "--sim", "icarus", "--dtypes", "int32", "--only", "after_a_reset"],
    "simulate": ["mesh:4x4", "--engine", "analytic"],
    "compare": ["mesh:3x3", "--engine", "analytic"],
    "figure": ["strong-scaling", "--networks", "torus:3x3", "--jobs", "1"],
    "sweep": [str(SWEEP), "--out", "results", "--jobs", "1"],
    "explain": ["torus:4x4", "--size", "4KiB"],
    "job": ["ncf", "torus:2x2"],
    "view": ["torus:4x4", "--size", "4KiB", "--out", "page.html"],
    "doctor": [],
}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.every_set
@pytest.mark.parametrize("command", COMMANDS)
def test_the_keys_printed_are_the_keys_documented(capsys, command):
    data = printed_json(capsys, command, *COMMANDS[command])
    assert keys_of(data, command) == documented_keys(command)


def test_every_command_is_documented_and_in_the_table_above():
    names = set(cli_main.COMMANDS)
    assert names == set(COMMANDS) | {"demo", "schema"}
    assert all(documented_keys(name) for name in names - {"schema"})


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "verilog"])
def test_without_json_people_read_lines(capsys, command):
    status, out, _ = run(capsys, command, *COMMANDS[command])
    assert status == 0
    assert len(out.splitlines()) > 3
    assert "{" not in out


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


def test_the_analytic_engine_times_switches(capsys):
    data = printed_json(capsys, "simulate", "fat_tree:4x4", "--engine", "analytic")
    assert data["cycles"] > data["bound_cycles"] and data["exact"] is None


def test_what_switches_cannot_do_is_refused_in_one_sentence(capsys):
    command = ("simulate", "fat_tree:4x4", "--engine", "analytic", "--dependency", "submessage")
    status, _, error = run(capsys, *command)
    assert status == 2
    assert re.fullmatch(r"multitree: [^\n]*must be chunk where links are shared, not .*\n", error)


def test_a_comparison_on_switches_has_steps_and_cycles(capsys):
    data = printed_json(capsys, "compare", "fat_tree:4x4", "--engine", "analytic")
    first = data["results"][0]
    assert (first["steps_reduce_scatter"], first["steps_all_gather"]) == (15, 15)
    assert first["cycles"] > data["bound_cycles"] and first["error"] is None


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


def test_a_file_of_a_broadcast_has_its_table(capsys):
    options = ["--collective", "broadcast", "--root", 3]
    table = ["--rank", 2, "--size", "4KiB"]
    built = printed_json(capsys, "table", "fat_tree:2x2", *options, *table)
    printed_json(capsys, "schedule", "fat_tree:2x2", *options, "--out", "saved.json")
    read = printed_json(capsys, "table", "saved.json", *table)
    assert read == built | {"topology": "saved.json"}


def test_an_interface_is_large_enough_for_the_schedule_of_a_file(capsys, monkeypatch):
    monkeypatch.setattr(cli_verilog, "write_verilog", not_written)
    options = ["--algorithm", "bidirectional_ring_2d"]
    printed_json(capsys, "schedule", "torus:8x8", *options, "--out", "saved.json")
    read, built, other = (
        printed_json(capsys, "verilog", *arguments)["config"]
        for arguments in (["saved.json"], ["torus:8x8", *options], ["torus:8x8"])
    )
    assert read == built != other


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


@pytest.mark.slow
@pytest.mark.parametrize("forwarding", [False, True])
def test_every_command_takes_the_ranks_that_take_part(capsys, forwarding):
    some = ["--ranks", "5,0-3,4-6"] + ["--forwarding"] * forwarding
    left = among(torus(2, 4), range(7), forwarding=forwarding)
    built = build(left, "multitree")
    for command, *arguments in (["schedule"], ["verify"], ["table", "--rank", 6], ["simulate"]):
        if command == "simulate" and forwarding:
            continue
        arguments += ["--engine", "analytic"] * (command == "simulate")
        data = printed_json(capsys, command, "torus:2x4", *some, *arguments)
        assert (data["topology"], data["schedule_hash"]) == (left.name, built.hash)
    data = printed_json(capsys, "topology", "torus:2x4", *some, "--out", "left.json")
    assert data["num_switches"] == int(forwarding)
    assert load_topology("left.json").links.tolist() == left.links.tolist()
    if not forwarding:
        data = printed_json(capsys, "explain", "torus:2x4", *some)
        assert (data["topology"], data["num_ranks"]) == (left.name, 7)
        arguments = ("--engine", "analytic", "--algorithm", "auto")
        data = printed_json(capsys, "simulate", "torus:2x4", *some, *arguments)
        assert data["topology"] == left.name
    arguments = ("--engine", "analytic", "--algorithms", "ring")
    assert printed_json(capsys, "compare", "torus:2x4", *some, *arguments)["topology"] == left.name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ranks", "3-1"], "Ranks must be like 0-3,8, not '3-1'"),
        (["--ranks", "0-3,"], "Ranks must be like 0-3,8, not '0-3,'"),
        (["--ranks", "0--3"], "Ranks must be like 0-3,8, not '0--3'"),
        (["--ranks", "0-999999999"], "Rank must be within 0..7, not 8"),
        (["--ranks", "999999999"], "Rank must be within 0..7, not 999999999"),
        (["--forwarding"], "Forwarding must come with ranks, which say who takes part"),
        (
            ["--forwarding", "--ranks", "4-7,0-3"],
            "Forwarding must come with ranks that leave some out, not '4-7,0-3'",
        ),
        (["--ranks", "0,3"], "Rank 3 of 'mesh:2x4' must be connected with rank 0 over ranks"),
    ],
)
def test_ranks_that_cannot_take_part_are_refused(capsys, options, message):
    status, out, error = run(capsys, "schedule", "mesh:2x4", *options)
    assert (status, out) == (2, "")
    assert error.startswith(f"multitree: {message}")


def test_a_file_of_a_schedule_is_of_its_own_ranks(capsys):
    printed_json(capsys, "schedule", "torus:2x2", "--out", "saved.json")
    for options in (["--ranks", "0,1"], ["--ranks", "0,1", "--forwarding"], ["--forwarding"]):
        status, _, error = run(capsys, "schedule", "saved.json", *options)
        assert (status, error) == (2, "multitree: saved.json: ranks must be the file's, 4\n")


@pytest.mark.parametrize("spec", ["ring:8", "bigraph:2x4"])
def test_a_table_names_the_ranks_at_the_far_ends_of_routes(capsys, spec):
    arguments = ("table", spec, "--algorithm", "halving_doubling", "--rank", "5")
    rows = printed_json(capsys, *arguments)["rows"]
    schedule = build(parse_topology(spec), "halving_doubling")
    assert [row["destination"] for row in rows] == schedule.dst[schedule.src == 5].tolist()
    for row in rows:
        came = (schedule.flow == row["flow_id"]) & (schedule.dst == 5)
        parent = schedule.src[came & (schedule.op == Op.GATHER)].tolist()
        assert ([] if row["parent"] is None else [row["parent"]]) == parent
        assert row["children"] == schedule.src[came & (schedule.op == Op.REDUCE)].tolist()


def test_a_table_has_the_columns_of_the_paper(capsys):
    _, out, _ = run(capsys, "table", "torus:4x4", "--rank", "5", "--size", "32KiB")
    columns = (
        r"Op +FlowID +Parent +at Port +Children +at Ports +Step +Start Addr \[bytes\] +\[flits\] "
    )
    assert re.search(rf"{columns}+Size \[bytes\] +\[flits\] +To +by Port$", out, re.M)
    rows = printed_json(capsys, "table", "torus:4x4", "--rank", "5", "--size", "32KiB")["rows"]
    assert {row["destination"] for row in rows} == {1, 4, 6, 9}
    own = [row for row in rows if row["flow_id"] == 5]
    assert {row["op"] for row in own} == {"GATHER"}
    assert all(row["parent"] is None and len(row["children"]) == 4 for row in own)
    assert all(row["start_address"] == 5 * 2048 and row["size"] == 2048 for row in own)


@pytest.mark.parametrize("spec", ["torus:4x4", "ring:3", "fat_tree:2x2"])
def test_a_table_has_beside_each_rank_the_port_and_beside_bytes_flits(capsys, spec):
    arguments = (spec, "--rank", "2", "--size", "1KiB")
    rows = printed_json(capsys, "table", *arguments)["rows"]
    topology = parse_topology(spec)
    behind = [int(topology.links[link, 1]) for link in topology.ports(2)]
    assert any(row["parent"] is None for row in rows) and any(row["children"] for row in rows)
    for row in rows:
        pairs = [(row["destination"], row["port"]), (row["parent"], row["parent_port"])]
        pairs += zip(row["children"], row["child_ports"], strict=True)
        for rank, port in pairs:
            assert (rank is None) == (port is None)
            # A switch is behind the only port there.
            assert rank is None or behind[port] == rank or topology.num_switches
        assert row["size"] == 16 * row["size_flits"]
        assert row["start_address"] == 16 * row["start_address_flits"]
    _, out, _ = run(capsys, "table", *arguments)
    lines = [line.split("  ") for line in out.splitlines() if re.match(r" +\d", line)]
    shown = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    for cells, row in zip(shown, rows, strict=True):
        reported = [row[name] for name in ("start_address", "start_address_flits")]
        reported += [row[name] for name in ("size", "size_flits", "destination", "port")]
        assert cells[-6:] == list(map(str, reported))
        assert cells[4] == str("-" if row["parent_port"] is None else row["parent_port"])
        assert cells[6] == (", ".join(map(str, row["child_ports"])) or "-")


def test_a_table_has_numbers_to_the_right_and_no_cell_cut_off(capsys):
    print_table("Title", ["name", "n", "long one"], [["a", "1", "-"], ["[b]" * 70, "23", "4 %"]])
    width = 210 + 2 + 2 + 2 + 8
    assert capsys.readouterr().out.splitlines() == [
        "Title",
        "",
        f" name{' ' * 206}   n  long one",
        f" {'─' * width}",
        f" a{' ' * 209}   1         -",
        f" {'[b]' * 70}  23       4 %",
        "",
    ]


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


def test_a_table_that_no_interface_holds_is_printed_and_says_so(capsys, monkeypatch):
    monkeypatch.setitem(LIMITS, "num_flows", (1, 128))
    monkeypatch.setitem(LIMITS, "table_depth", (2, 256))
    command = ("table", "torus:12x12", "--algorithm", "symmetric", "--rank", 143)
    problem = "rows must be at most 256, not 286; flows must be at most 128, not 144"
    reported = printed_json(capsys, *command)
    assert (reported["problem"], reported["num_rows"], reported["num_flows"]) == (problem, 286, 144)
    monkeypatch.undo()
    assert printed_json(capsys, *command) == reported | {"problem": None}
    status, out, error = run(capsys, *command[:-1], 144)
    assert (status, out, error) == (2, "", "multitree: Rank must be in 0..143, not 144\n")


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


def test_a_table_of_a_broadcast_over_switches_has_heads_that_carry_nothing(capsys):
    command = ("table", "fat_tree:2x2", "--collective", "broadcast", "--root", 1, "--size", "1KiB")
    rows = printed_json(capsys, *command, "--rank", 0)["rows"]
    assert [(row["op"], row["size"]) for row in rows] == [("REDUCE", 0), ("GATHER", 1024)]
    rows = printed_json(capsys, *command, "--rank", 1)["rows"]
    assert [(row["op"], row["size"]) for row in rows] == [("GATHER", 1024)] * 2


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


def test_broadcast_has_a_root(capsys):
    data = printed_json(capsys, "schedule", "torus:4x4", "--collective", "broadcast", "--root", 3)
    assert (data["root"], data["steps_reduce_scatter"]) == (3, 0)


def test_compare_says_where_an_algorithm_has_no_schedule(capsys):
    command = ("compare", "mesh:3x3", "--engine", "analytic", "--algorithms", "multitree,swing")
    results = printed_json(capsys, *command)["results"]
    assert [result["algorithm"] for result in results] == ["multitree", "swing"]
    assert results[0]["error"] is None and results[0]["cycles"] > 0
    assert "swing must have a ring or torus" in results[1]["error"]
    assert results[1]["cycles"] is None
    _, out, _ = run(capsys, *command)
    assert "swing must have a ring or torus" in out


def test_compare_takes_algorithms_by_name_and_says_what_the_engine_cannot_run(capsys):
    names = ["--algorithms", "ring_2d,double_tree"]
    data = printed_json(capsys, "compare", "torus:12x12", "--engine", "analytic", *names)
    ring_2d, double_tree = data["results"]
    assert (ring_2d["algorithm"], ring_2d["error"]) == ("ring_2d", None)
    assert ring_2d["cycles"] > data["bound_cycles"]
    assert double_tree["algorithm"] == "double_tree" and double_tree["cycles"] is None
    assert double_tree["steps_all_gather"] > 0
    assert "switches on the route must be at most 9" in double_tree["error"]
    _, out, _ = run(capsys, "compare", "torus:12x12", "--engine", "analytic", *names)
    assert "switches on the route must be at most 9" in out


def test_analytic_figures_belong_together(capsys):
    data = printed_json(capsys, "simulate", "torus:4x4", "--engine", "analytic")
    assert data["time_us"] == data["cycles"] / 1000
    assert data["bandwidth_gbytes_per_s"] == pytest.approx(1048576 / data["cycles"])
    assert data["ratio_to_bound"] == data["cycles"] / data["bound_cycles"] > 1
    assert data["exact"] is None
    assert data["link_utilization"] == pytest.approx(30 * 65536 / (64 * data["cycles"]))


def test_slower_memory_costs_cycles(capsys):
    command = ("simulate", "torus:4x4", "--size", "4KiB", "--engine", "analytic")
    default, slow = (
        printed_json(capsys, *command, *options) for options in ([], ["--memory-cycles", "41"])
    )
    assert (default["memory_cycles"], slow["memory_cycles"]) == (12, 41)
    assert slow["cycles"] > default["cycles"] + 5 * 29


TIMED = {
    "topology": ["ring:4"],
    "verify": ["ring:4"],
    "table": ["ring:4"],
    "simulate": ["ring:4", "--engine", "analytic"],
    "compare": ["ring:4", "--engine", "analytic"],
    "explain": ["ring:4"],
}
"""Commands for which time, or what interfaces are made of, means something."""


@pytest.mark.slow
@pytest.mark.parametrize("command", TIMED)
def test_links_that_are_not_used_at_their_speed_are_reported(capsys, command):
    links = ["--latency-ns", "1000", "--link-gbytes-per-s", "12"]
    data = printed_json(capsys, command, *TIMED[command], *links)
    assert (data["buffer_flits"], data["limits"], data["warnings"]) == (2048, [], [])
    short = [*links, "--buffer-flits", "512"]
    (limit,) = printed_json(capsys, command, *TIMED[command], *short)["limits"]
    assert limit == {
        "link": 0,
        "src": 0,
        "dst": 3,
        "num_links": 8,
        "bandwidth_gbytes_per_s": 12.0,
        "latency_ns": 1000.0,
        "reached_gbytes_per_s": 16 * 512 / 2006,
        "by": "buffer",
        "buffer_flits": 512,
        "needed_flits": 1505,
    }
    _, out, _ = run(capsys, command, *TIMED[command], *short)
    assert "link 0 (0 -> 3) and 7 more like it: 4.084 of 12 GB/s" in out
    _, out, _ = run(capsys, command, *TIMED[command])
    assert "more like it" not in out


@pytest.mark.parametrize("command", TIMED)
def test_fast_links_are_fed_by_wide_flits_and_fast_clocks(capsys, command):
    fast = ["--link-gbytes-per-s", "100", "--size", "64KiB"]
    (limit,) = printed_json(capsys, command, *TIMED[command], *fast)["limits"]
    assert (limit["by"], limit["reached_gbytes_per_s"]) == ("interface", 16.0)
    fed = ["--flit-bytes", "64", "--clock-ghz", "2"]
    data = printed_json(capsys, command, *TIMED[command], *fast, *fed)
    assert (data["limits"], data["flit_bytes"], data["clock_ghz"]) == ([], 64, 2.0)


@pytest.mark.slow
def test_interfaces_are_written_with_buffers_for_their_links(capsys):
    far = ["--latency-ns", "1000", "--link-gbytes-per-s", "64"]
    data = printed_json(capsys, "verilog", "ring:4", *far, "--flit-bytes", "32")
    config = data["config"]
    assert (config["flit_bytes"], config["buffer_flits"], data["buffer_flits"]) == (32, 2048, 2048)
    assert [limit["by"] for limit in data["limits"]] == ["interface"]
    assert data["warnings"] == []


GRAPH = """<graphml><key id="c" for="edge" attr.name="capacity"/>
<key id="k" for="edge" attr.name="colour"/>
<graph edgedefault="undirected"><node id="left"/><node id="right"/><node id="top"/>
<edge source="left" target="right"><data key="c">400</data></edge>
<edge source="right" target="top"><data key="c">100</data><data key="k">red</data></edge>
<edge source="top" target="left"><data key="c">100</data></edge></graph></graphml>"""


@pytest.mark.parametrize("command", [*TIMED, "schedule"])
def test_capacities_of_a_graph_are_read_by_a_key_and_never_passed_over(capsys, command):
    Path("net.graphml").write_text(GRAPH)
    options = ["net.graphml", *TIMED.get(command, ["ring:4"])[1:]]
    status, out, error = run(capsys, command, *options)
    assert (status, out) == (2, "")
    assert "attribute 'capacity' of links must be called bandwidth_gbytes_per_s" in error
    assert "--bandwidth-key NAME:UNIT" in error and error.count("\n") == 1
    status, out, error = run(
        capsys, command, *options, "--bandwidth-key", "capacity:Gb/s", "--json"
    )
    reported = "net.graphml: attributes of links that are not read: 'colour'"
    assert (status, error) == (0, f"multitree: warning: {reported}\n")
    data = json.loads(out)
    assert data["warnings"] == [reported]
    if command != "schedule":
        assert [limit["bandwidth_gbytes_per_s"] for limit in data["limits"]] == [50.0]


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


def test_a_family_s_links_stay_in_proportion(capsys):
    options = ["--link-gbytes-per-s", "50", "--latency-ns", "700"]
    data = printed_json(capsys, "topology", "dgx_a100:2", *options)
    speeds = (data["bandwidth_gbytes_per_s_min"], data["bandwidth_gbytes_per_s_max"])
    assert speeds == (25.0, 50.0)
    assert (data["latency_ns_min"], data["latency_ns_max"]) == (700.0, 700.0)
    slow, fast = (
        printed_json(capsys, "simulate", "torus:4x4", "--engine", "analytic", *speed)["time_us"]
        for speed in (["--link-gbytes-per-s", "4"], [])
    )
    assert slow > 3.5 * fast


@pytest.mark.slow
@needs_rtl
@pytest.mark.parametrize(
    ("dtype", "op"), [("float32", "sum"), ("int32", "max"), ("bfloat16", "sum")]
)
def test_simulate_in_rtl_is_exact(capsys, dtype, op):
    options = ["--size", "4100", "--engine", "rtl", "--dtype", dtype, "--op", op]
    data = printed_json(capsys, "simulate", "torus:4x4", *options)
    assert (data["dtype"], data["op"]) == (dtype, op)
    assert keys_of(data, "simulate") == documented_keys("simulate")
    assert data["exact"] is True
    assert data["cycles"] > data["bound_cycles"]
    assert data["schedule_hash"] == build(torus(4, 4), "multitree").hash


@pytest.mark.slow
@needs_rtl
def test_routes_that_lead_through_ranks_run_in_rtl_by_themselves(capsys):
    small = ["--size", "4KiB", "--buffer-flits", "64"]
    data = printed_json(capsys, "simulate", "ring:8", "--algorithm", "swing", *small)
    assert data["buffer_flits"] == 64 and data["limits"][0]["by"] == "buffer"
    assert (data["engine"], data["exact"]) == ("rtl", True)
    assert data["schedule_hash"] == build(ring(8), "swing").hash
    options = {"engine": "rtl", "link_model": LinkModel(buffer_flits=64), "check": True}
    with Communicator(ring(8), algorithm="double_tree", **options) as comm:
        works = [comm.all_reduce(np.ones((8, n), np.float32)) for n in (40, 40, 90)]
        assert [work.report.exact for work in works] == [True] * 3


@pytest.mark.slow
def test_auto_runs_what_explain_puts_first_and_says_why(capsys):
    size = ["--size", "32KiB"]
    explained = printed_json(capsys, "explain", "mesh:4x4", *size)
    first = explained["candidates"][0]
    options = ["--engine", "analytic", "--algorithm", "auto"]
    data = printed_json(capsys, "simulate", "mesh:4x4", *size, *options)
    for key in ("algorithm", "dependency", "schedule_hash", "cycles"):
        assert data[key] == first[key]
    assert data["reason"] == explained["reason"]
    assert set(explained["problems"]) >= {"swing", "symmetric", "hdrm"}
    whole = printed_json(capsys, "simulate", "mesh:4x4", *size, *options, "--dependency", "chunk")
    assert (whole["dependency"], first["dependency"]) == ("chunk", "submessage")
    _, out, _ = run(capsys, "simulate", "mesh:4x4", *size, *options)
    assert f"  chosen: {data['reason']}" in out.splitlines()


@pytest.mark.slow
@needs_rtl
def test_lockstep_waits_out_every_step(capsys):
    command = ["mesh:4x4", "--size", "4100", "--engine", "rtl"]
    free = printed_json(capsys, "simulate", *command)
    lockstep = printed_json(capsys, "simulate", *command, "--lockstep")
    assert (free["lockstep"], lockstep["lockstep"]) == (False, True)
    assert free["exact"] is lockstep["exact"] is True
    # Each step lasts a chunk of at least 16 flits and a link of 150 cycles.
    num_steps = build(mesh(4, 4), "multitree").num_steps
    assert lockstep["cycles"] > num_steps * (16 + 150) > free["cycles"]


@pytest.mark.slow
@needs_rtl
def test_a_window_of_a_waveform_is_dumped(capsys):
    for window in ("100:200", None):
        options = ["--window", window] if window else []
        path = f"{window}.vcd".replace(":", "-")
        data = printed_json(capsys, "simulate", "ring:2", "--size", "64", "--trace", path, *options)
        assert data["trace"] == path
    sizes = [Path(path).stat().st_size for path in ("100-200.vcd", "None.vcd")]
    assert 0 < sizes[0] < sizes[1]


@pytest.mark.slow
@needs_rtl
def test_a_waveform_of_ports_has_no_module_below_the_interfaces(capsys):
    options = ["ring:2", "--size", "64", "--ports-only", "--trace", "ports.vcd"]
    assert run(capsys, "simulate", *options)[0] == 0
    text = Path("ports.vcd").read_text()
    scope, with_signals = [], set()
    for line in text.splitlines():
        match line.split():
            case ["$scope", "module", name, "$end"]:
                scope.append(name)
            case ["$upscope", "$end"]:
                scope.pop()
            case ["$var", *_]:
                with_signals.add(".".join(scope))
    ranks = {"rank_0", "rank_1"}
    assert with_signals == ranks | {f"{rank}.multitree_nic" for rank in ranks}


def test_messages_of_a_run_are_written_for_perfetto(capsys):
    options = ["torus:4x4", "--engine", "analytic", "--size", "64KiB", "--trace"]
    data = printed_json(capsys, "simulate", *options, "run.json.gz")
    assert data["trace"] == "run.json.gz"
    whole = json.loads(gzip.decompress(Path("run.json.gz").read_bytes()))
    assert whole["otherData"]["cycles"] == data["cycles"]
    status, out, _ = run(capsys, "simulate", *options, "part.json", "--window", "1000:1500")
    assert status == 0 and "messages, for ui.perfetto.dev, in part.json" in out
    part = json.loads(Path("part.json").read_text())
    times = [event["ts"] for event in part["traceEvents"] if "ts" in event]
    assert min(times) >= 1.0 and max(times) < 1.5
    assert 0 < len(part["traceEvents"]) < len(whole["traceEvents"])


@pytest.mark.slow
@needs_rtl
def test_both_engines_have_messages_to_write(capsys):
    for engine in ("rtl", "analytic"):
        options = ("--engine", engine, "--size", "4KiB", "--trace", f"{engine}.json")
        printed_json(capsys, "simulate", "ring:4", *options)
    names = [
        sorted(
            (event["name"], event["pid"])
            for event in json.loads(Path(f"{engine}.json").read_text())["traceEvents"]
            if event["ph"] == "X"
        )
        for engine in ("rtl", "analytic")
    ]
    assert names[0] == names[1]


def test_a_page_plays_what_was_asked_for(capsys):
    options = ["ring:6", "--algorithm", "ring", "--collective", "broadcast", "--root", "3"]
    data = printed_json(capsys, "view", *options, "--out", "page.html")
    assert (data["engine"], data["cycles"], data["size_bytes"]) == (None, None, None)
    header, _ = data_of(Path("page.html").read_text())
    assert (header["algorithm"], header["collective"], header["root"]) == ("ring", "broadcast", 3)
    assert data["page_bytes"] == Path("page.html").stat().st_size
    options = ["torus:4x4", "--size", "64KiB", "--dependency", "submessage"]
    data = printed_json(capsys, "view", *options, "--out", "page.html")
    ran = printed_json(capsys, "simulate", *options, "--engine", "analytic")
    assert (data["cycles"], data["dependency"]) == (ran["cycles"], "submessage")
    header, columns = data_of(Path("page.html").read_text())
    assert header["cycles"] == ran["cycles"] == columns["done"].max()


def test_a_page_plays_a_schedule_from_a_file_and_the_fastest_one(capsys):
    save_schedule(build(torus(3, 3), "multitree"), "plan.json")
    data = printed_json(capsys, "view", "plan.json", "--out", "page.html")
    assert data["topology"] == "plan.json" and data["num_ranks"] == 9
    options = ("torus:4x4", "--algorithm", "auto", "--size", "4KiB")
    data = printed_json(capsys, "view", *options, "--out", "page.html")
    best = printed_json(capsys, "explain", "torus:4x4", "--size", "4KiB")["candidates"][0]
    assert (data["algorithm"], data["cycles"]) == (best["algorithm"], best["cycles"])


@pytest.mark.slow
@needs_rtl
def test_a_page_plays_a_run_of_the_interfaces(capsys):
    options = ("--engine", "rtl", "--size", "4KiB", "--out", "page.html")
    data = printed_json(capsys, "view", "ring:4", *options)
    header, columns = data_of(Path("page.html").read_text())
    assert data["engine"] == header["engine"] == "rtl"
    assert data["cycles"] == header["cycles"] == columns["done"].max()


@pytest.mark.slow
@needs_rtl
def test_the_demo_compares_three_algorithms_and_writes_verilog(capsys, monkeypatch):
    monkeypatch.setattr(cli_verilog, "SIZE_BYTES", 4096)
    data = printed_json(capsys, "demo", "--out", "written")
    assert keys_of(data, "demo") == documented_keys("demo")
    assert data["exact"] is True
    assert [result["exact"] for result in data["results"]] == [True] * 3
    assert "module multitree_nic(" in Path(data["files"][0]).read_text()
    status, out, _ = run(capsys, "demo", "--out", "written")
    assert status == 0
    assert "bit for bit" in out and "Start Addr" in out and "written/multitree_nic.v" in out


@pytest.mark.slow
@needs_rtl
def test_a_result_that_is_not_exact_is_status_1(capsys, monkeypatch):
    monkeypatch.setattr("multitree.host.runner._is_exact", lambda *_: False)
    status, out, _ = run(capsys, "simulate", "torus:4x4", "--size", "64")
    assert status == 1
    assert "equal to execute: NO" in out
    status, out, _ = run(capsys, "compare", "torus:4x4", "--size", "64")
    assert status == 1
    assert "NO" in out


def not_written(*_, **__):
    return Delivery(Path("built"), (), "manifest", (), None)


@pytest.mark.slow
def test_verilog_writes_twelve_files_and_says_where(capsys):
    data = printed_json(capsys, "verilog", "torus:4x4", "--out", "built")
    names = [Path(path).name for path in data["files"]]
    assert names == [
        "multitree_nic.v",
        "multitree_link_crossing.v",
        "multitree_nic.h",
        "multitree_nic_registers.md",
        "multitree_nic.rdl",
        "multitree_nic_template.vh",
        "multitree_sim.v",
        "multitree_sim_writes_0.hex",
        "multitree_sim_writes_1.hex",
        "multitree_sim_memory.hex",
        "multitree_nic.core",
        "multitree_manifest.json",
    ]
    text = [Path(path).read_text() for path in data["files"]]
    assert text[0].startswith("// SPDX-License-Identifier: Apache-2.0")
    assert "#define MULTITREE_NIC_CONTROL 0x00018u" in text[2]
    assert "CONTROL" in text[3]
    assert "addrmap multitree_nic {" in text[4]
    assert "multitree_nic multitree_nic_instance (" in text[5]
    assert text[10].startswith("CAPI=2:")
    assert data["no_test_bench"] is None
    assert data["config"]["num_ports"] == 4


@pytest.mark.slow
def test_verilog_of_a_network_with_switches_has_a_module_per_shape_of_them(capsys):
    data = printed_json(capsys, "verilog", "fat_tree:2x2", "--size", "1KiB", "--out", "built")
    names = [Path(path).name for path in data["files"]]
    assert names[:4] == [
        "multitree_nic.v",
        "multitree_link_crossing.v",
        "multitree_switch.v",
        "multitree_nic.h",
    ]
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


def test_verilog_tells_people_of_switches_and_of_those_beside_ranks(capsys, monkeypatch):
    written = []

    def not_written(*_, topology, **__):
        written.append(topology)
        roles = ["Verilog", *["switches"] * bool(topology.num_switches)]
        files = tuple(DesignFile(f"file_{k}", role, "") for k, role in enumerate(roles))
        return Delivery(Path("built"), files, "manifest", (), None)

    monkeypatch.setattr(cli_verilog, "write_verilog", not_written)
    _, out, _ = run(capsys, "verilog", "fat_tree:2x4")
    assert re.search(r"^  switches +built/file_1$", out, re.M)
    assert re.search(r"^  multitree_switch_8x2  8, 9$", out, re.M)
    assert "beside" not in out
    _, out, _ = run(capsys, "verilog", "torus:4x4")
    assert "switch" not in out
    _, out, _ = run(capsys, "verilog", "torus:8", "--algorithm", "swing")
    assert "rank r is attached to switch 8 + r" in out
    data = printed_json(capsys, "verilog", "torus:8", "--algorithm", "swing")
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
def test_verilog_with_axi_is_the_other_module_with_the_same_registers(capsys):
    options = ["--out", "built", "--dtypes", "float32,int32", "--modes", "packets"]
    data = printed_json(capsys, "verilog", "torus:2x2", "--memory", "axi", *options)
    assert data["config"]["dtypes"] == ["int32", "float32"]
    assert data["config"]["modes"] == ["packets"]
    files = {Path(path).name: Path(path).read_text() for path in data["files"]}
    assert (data["memory"], data["top_module"]) == ("axi", "multitree_nic_axi")
    assert list(files) == [
        "multitree_nic_axi.v",
        "multitree_link_crossing.v",
        "multitree_nic.h",
        "multitree_nic_registers.md",
        "multitree_nic.rdl",
        "multitree_nic_axi_template.vh",
        "multitree_sim.v",
        "multitree_sim_writes_0.hex",
        "multitree_sim_writes_1.hex",
        "multitree_sim_memory.hex",
        "multitree_nic_axi.core",
        "multitree_manifest.json",
    ]
    assert "module multitree_nic_axi(" in files["multitree_nic_axi.v"]
    assert "m_axi_1_receive_awvalid" in files["multitree_nic_axi_template.vh"]
    assert "memory_0_send_valid" not in files["multitree_nic_axi_template.vh"]
    plain = printed_json(capsys, "verilog", "torus:2x2", *options)
    assert plain["memory"] == "sram"
    axi = [f"multitree_nic_axi{ending}" for ending in (".core", ".v", "_template.vh")]
    assert plain["removed"] == axi
    assert {path.name for path in Path("built").iterdir()} == {
        Path(path).name for path in plain["files"]
    }
    for name in ("multitree_nic.h", "multitree_nic_registers.md"):
        assert (Path("built") / name).read_text() == files[name]


@pytest.mark.parametrize("command", [*TIMED, "schedule"])
def test_a_file_s_links_have_the_speed_that_the_file_says(capsys, command):
    printed_json(capsys, "topology", "ring:4", "--out", "net.json")
    options = TIMED.get(command, ["ring:4"])[1:]
    for option in ("--link-gbytes-per-s", "--latency-ns"):
        status, out, error = run(capsys, command, "net.json", *options, option, "100")
        assert (status, out) == (2, "")
        assert f"{option} must come with a family such as torus:4x4, not with the file" in error


def test_doctor_empties_the_cache(capsys, monkeypatch, tmp_path):
    cache = tmp_path / "cache"
    (cache / "library-0123").mkdir(parents=True)
    (cache / "library-0123" / "network.so").write_bytes(b"x" * 1000)
    monkeypatch.setenv("MULTITREE_CACHE", str(cache))
    data = printed_json(capsys, "doctor")
    assert data["cache"] == {"path": str(cache), "size_bytes": 1000}
    assert data["cleared_bytes"] is None
    data = printed_json(capsys, "doctor", "--clear-cache")
    assert (data["cleared_bytes"], data["cache"]["size_bytes"]) == (1000, 0)


WRONG = [
    (["fly"], "No such command 'fly'"),
    (["topology"], "Missing argument 'SPEC'"),
    (["topology", "torus:4y4"], "'4y4'"),
    (["topology", "klein:4x4"], "'klein'"),
    (["topology", "nowhere.json"], "nowhere.json"),
    (["topology", "torus:4x4", "--size", "1PB"], "not '1PB'"),
    (["topology", "torus:4x4", "--out", "no/such/folder.json"], "no/such/folder.json"),
    (["schedule", "torus:4x4", "--algorithm", "tree"], "not 'tree'"),
    (["schedule", "torus:4x4", "--collective", "all_to_all"], "not 'all_to_all'"),
    (["schedule", "torus:4x4", "--collective", "reduce"], "not None"),
    (["schedule", "torus:4x4", "--root", "0"], "not 0"),
    (["schedule", "mesh:3x3", "--algorithm", "swing"], "mesh:3x3"),
    (["schedule", "torus:4x4", "--out", "."], "not the folder '.'"),
    (["schedule", "torus:4x4", "--out", "rows.txt"], "in .json or .csv, not 'rows.txt'"),
    (["schedule", "torus:4x4", "--out", "a.graphml"], "in .json or .csv, not 'a.graphml'"),
    (["verify", "nowhere.graphml"], "nowhere.graphml: file must be readable"),
    (["schedule", "torus:4x4", "--fast"], "No such option: --fast"),
    (["verify", "ring:1"], "not 1"),
    (["verify", "torus:4x4", "--size", "6"], "not '6'"),
    (["table", "torus:4x4", "--rank", "16"], "not 16"),
    (["verilog", "torus:4x4", "--dtypes", "fp32"], "Config dtypes must be some of"),
    (["verilog", "torus:4x4", "--modes", "waves"], "Config modes must be some of"),
    (
        ["simulate", "torus:2x2", "--op", "min"],
        "Op must be one of sum, max, average, avg, not 'min'",
    ),
    (["table", "torus:4x4", "--rank", "first"], "--rank"),
    (["table", "full:12"], "at most 8 ports"),
    (["verilog", "full:12"], "at most 8 ports"),
    (["verilog", "torus:4x4", "--out", "/dev/null/here"], "not the file '/dev/null'"),
    (["verilog", "torus:4x4", "--memory", "dram"], "sram or axi, not 'dram'"),
    (["simulate", "torus:4x4", "--engine", "numpy"], "not 'numpy'"),
    (["simulate", "torus:4x4", "--engine", "analytic", "--dtype", "float64"], "not 'float64'"),
    (["simulate", "torus:4x4", "--seed", "-1"], "not -1"),
    (["simulate", "torus:4x4", "--memory-cycles", "5"], "at least 6, not 5"),
    (["table", "ring:4", "--bandwidth-key", "a:Gb/s"], "must come with a file, not with 'ring:4'"),
    (["simulate", "torus:4x4", "--buffer-flits", "2"], "--buffer-flits must be within 4..65536"),
    (["explain", "torus:4x4", "--flit-bytes", "24"], "--flit-bytes must be a power of two, not 24"),
    (["table", "torus:4x4", "--flit-bytes", "128"], "--flit-bytes must be within 8..64, not 128"),
    (["verilog", "torus:4x4", "--clock-ghz", "0"], "--clock-ghz must be within 0.001..100, not 0"),
    (["compare", "torus:4x4", "--latency-ns", "-1"], "must be within 0.001..1e+09, not -1"),
    (["schedule", "ring:4", "--link-gbytes-per-s", "nan"], "must be within 0.1..100000, not nan"),
    (["simulate", "ring:4", "--memory-cycles", str(10**20)], f"at most 1048576, not {10**20}"),
    (["verilog", "ring:4", "--memory", "axi", "--clock-ghz", "nan"], "0.001..100, not nan"),
    (
        ["simulate", "ring:4", "--engine", "exact", "--memory-cycles", "1009"],
        "1024 cycles that interfaces have queues for, reads and writes together, not 503 and 502",
    ),
    (["topology", "ring:4", "--clock-ghz", "1e99"], "must be within 0.001..100, not 1e+99"),
    (["topology", "ring:4", "--latency-ns", "1e30"], "must be within 0.001..1e+09, not 1e+30"),
    (["topology", "dgx2", "--forward-flits", "64"], "must be 0 in interfaces on shared links"),
    (["verify", "fat_tree:4x4", "--forward-flits", "64"], "must be 0 in interfaces on shared"),
    (["table", "ring:4", "--format", "words", "--name", "a"], "--name must come with --format c"),
    (
        ["job", "alexnet", "ring:4", "--algorithms", "ring/packet/message"],
        "ring must have one flow control, not 'ring/packet/message'",
    ),
    (["simulate", "torus:4x4", "--window", "1:2"], "--trace"),
    (["simulate", "torus:4x4", "--trace", "a.vcd", "--window", "2-1"], "not '2-1'"),
    (["simulate", "torus:4x4", "--ports-only"], "--ports-only must come with --trace"),
    (["simulate", "ring:4", "--trace", "a.json", "--ports-only"], "with a waveform, not 'a.json'"),
    (["simulate", "torus:4x4", "--trace", "a.vcd", "--window", "2:1"], "not 2:1"),
    (["simulate", "torus:4x4", "--trace", "a.txt"], "not 'a.txt'"),
    (["simulate", "torus:4x4", "--trace", "a.gz"], ".json, .json.gz, .vcd, .fst, not 'a.gz'"),
    (["simulate", "torus:4x4", "--trace", "a.json", "--window", "2:2"], "not 2:2"),
    (["simulate", "torus:4x4", "--trace", "a.json", "--size", "4,8"], "not a list, '4,8'"),
    (
        [
            "simulate",
            "ring:2",
            "--engine",
            "analytic",
            "--trace",
            "a.json",
            "--window",
            "99999999:",
        ],
        "Window must begin before the run ends, which takes",
    ),
    (
        ["simulate", "ring:4", "--engine", "analytic", "--collective", "all_gather", "--op", "max"],
        "Op must be sum where nothing is added, as in all_gather, not 'max'",
    ),
    (["view", "torus:4x4"], "Missing option '--out'"),
    (["view", "torus:4x4", "--out", "a.htm"], "must end in .html, not 'a.htm'"),
    (["view", "torus:4x4", "--out", "no/such.html"], "no/such.html"),
    (["view", "torus:4x4", "--out", "a.html", "--engine", "rtl"], "--engine rtl must come with"),
    (["view", "torus:4x4", "--out", "a.html", "--dependency", "chunk"], "must come with --size"),
    (["view", "torus:4x4", "--out", "a.html", "--memory-cycles", "9"], "must come with --size"),
    (["view", "torus:4x4", "--out", "a.html", "--clock-ghz", "2"], "must come with --size"),
    (["view", "torus:4x4", "--out", "a.html", "--algorithm", "auto"], "must come with --size"),
    (["view", "torus:4x4", "--out", "a.html", "--size", "4,8"], "not a list, '4,8'"),
    (
        ["view", "torus:4x4", "--out", "a.html", "--size", "4KiB", "--engine", "numpy"],
        "not 'numpy'",
    ),
    (["simulate", "torus:4x4", "--trace", "no/such.vcd"], "no/such.vcd"),
    (["simulate", "torus:4x4", "--engine", "analytic", "--trace", "a.vcd"], "not 'analytic'"),
    (["simulate", "torus:4x4", "--algorithm", "auto", "--lockstep"], "named in lockstep"),
    (["simulate", "fat_tree:2x2", "--algorithm", "forest"], "waves must be one in interfaces"),
    (["compare", "torus:4x4", "--engine", "model"], "not 'model'"),
    (["compare", "torus:4x4", "--size", "0"], "not '0'"),
    (["compare", "torus:4x4", "--algorithms", "ring,tree"], "not 'tree'"),
    (["demo", "--out", "/dev/null"], "/dev/null"),
    (["demo", "torus:4x4"], "unexpected extra argument"),
    (["doctor", "--clear"], "--clear"),
    (["explain", "torus:2x2", "--collective", ""], "--collective must have a value, not ''"),
    (["schedule", "torus:2x2", "--algorithm="], "--algorithm must have a value, not ''"),
    (["schedule", ""], "Argument must have a value, not ''"),
    (["sweep", "file.yaml", "--out", ""], "--out must have a value, not ''"),
    (["figure", "--networks", ""], "--networks must have a value, not ''"),
    (["compare", "torus:4x4", "--algorithms", "ring,swing,ring"], "once each, not 'ring' again"),
    (["simulate", "torus:4x4", "--size", "4KiB,4096"], "once each, not '4096' again"),
    (["job", "ncf", "torus:4x4", "--algorithms", "ring,ring/chunk"], "not 'ring/chunk' again"),
    (["job", "ncf", "torus:4x4", "--array-ghz", "1e300"], "within 0.001..100 GHz, not 1e+300"),
    (["verilog", "torus:4x4", "--dtypes", "int32,int32"], "once each, not 'int32' again"),
    (["verilog", "torus:4x4", "--modes", "packets,packets"], "once each, not 'packets' again"),
    (["verilog", "ring:4", "--out", "/dev/null"], "not the file '/dev/null'"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=lambda value: " ".join(value)[:60])
def test_wrong_input_is_one_sentence_and_status_2(capsys, arguments, says):
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert says in err
    assert err.startswith("multitree: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_an_engine_that_cannot_run_is_status_2_and_names_the_next_down(capsys, monkeypatch):
    monkeypatch.setattr("multitree.sim.emulator.verilator.why_not", lambda: "there is no compiler")
    status, out, err = run(capsys, "simulate", "torus:4x4")
    assert (status, out) == (2, "")
    assert err == (
        "multitree: Engine 'rtl' cannot run here: there is no compiler; "
        "the next engine down is 'exact'\n"
    )
    data = printed_json(capsys, "doctor")
    assert {"name": "rtl", "can_run": False, "reason": "there is no compiler"} in data["engines"]


def test_every_name_of_the_door_can_be_imported():
    assert all(getattr(multitree, name) for name in multitree.__all__)
    assert set(multitree.__all__) <= set(dir(multitree))
    with pytest.raises(AttributeError, match="no attribute 'all_reduce'"):
        _ = multitree.all_reduce


def test_a_comparison_that_ran_nothing_is_an_error_that_says_why(capsys):
    arguments = ("compare", "torus:3x3", "--engine", "analytic", "--algorithms", "hdrm,double_tree")
    assert run(capsys, *arguments)[0] == 0
    status, out, error = run(capsys, *arguments[:-1], "hdrm,swing", "--size", "4,8")
    assert (status, out) == (2, "")
    assert error.startswith("multitree: torus:3x3: at least one algorithm must run, but hdrm: ")
    assert "; swing: swing must have a ring or torus whose sides are powers of two" in error


@pytest.mark.slow
@pytest.mark.parametrize("command", ["simulate", "compare", "explain"])
def test_several_sizes_are_the_single_ones_side_by_side(capsys, command):
    engine = [] if command == "explain" else ["--engine", "analytic"]
    arguments = [command, "ring:4", *engine]
    both = printed_json(capsys, *arguments, "--size", "4KiB,1MB")
    assert list(both) == ["schema", "sizes"]
    for one, size in zip(both["sizes"], ("4096", "1000kB"), strict=True):
        alone = printed_json(capsys, *arguments, "--size", size)
        assert alone.pop("schema") == both["schema"] == f"multitree.{command}.v1"
        assert without_seconds(one) == without_seconds(alone)
    status, out, _ = run(capsys, *arguments, "--size", "4KiB,1MB")
    assert status == 0 and "4 KiB" in out and "1000000 bytes" in out


def without_seconds(data):
    """An object without what differs from run to run."""
    if isinstance(data, list):
        return [without_seconds(each) for each in data]
    return {
        key: without_seconds(value) if key == "results" else value
        for key, value in data.items()
        if not key.endswith("_seconds")
    }


@pytest.mark.parametrize(
    ("command", "inside"), [("simulate", None), ("compare", "results"), ("explain", "candidates")]
)
def test_csv_has_a_row_per_result_with_the_keys_of_json(capsys, command, inside):
    engine = [] if command == "explain" else ["--engine", "analytic"]
    arguments = [command, "ring:4", *engine, "--size", "4KiB,8kB"]
    expected = []
    for one in printed_json(capsys, *arguments)["sizes"]:
        head = {k: v for k, v in one.items() if k not in (inside, "reason", "problems")}
        if command == "simulate":
            at = [*head].index("clock_ghz")
            head = dict([*[*head.items()][:at], ("reason", None), *[*head.items()][at:]])
        expected += [head | entry for entry in one[inside]] if inside else [head]
    status, out, _ = run(capsys, *arguments, "--csv")
    rows = [*csv.DictReader(out.splitlines())]
    assert status == 0 and [*rows[0]] == [*expected[0]]
    assert len(rows) == len(expected)
    for row, one in zip(rows, expected, strict=True):
        for key, value in without_seconds(one).items():
            text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
            assert row[key] == text
    assert run(capsys, *arguments, "--csv", "--json")[0] == 2


def test_avg_is_reported_as_the_average_it_is(capsys):
    arguments = ("simulate", "ring:4", "--engine", "analytic", "--op")
    assert printed_json(capsys, *arguments, "avg")["op"] == "average"
    assert "not int32" in run(capsys, *arguments, "avg", "--dtype", "int32")[2]
