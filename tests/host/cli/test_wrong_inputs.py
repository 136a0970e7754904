"""Some wrong inputs, limits and signals, and what the campaign would find wrong."""

import os

import pytest

from tests.benches import bench_module
from tests.host.cli.commands import printed_json, run

wrong_inputs = bench_module("wrong_inputs")


def test_a_sample_of_wrong_inputs_breaks_nothing():
    seed = int.from_bytes(os.urandom(3))
    print(f"seed {seed}")
    found = wrong_inputs.campaign(20, seed)
    assert found["problems"] == {}
    assert sum(found["kinds"].values()) == 20


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ({"a": b""}, {}, "lost"),
        ({}, {".multitree-1.tmp": b""}, "left"),
        ({}, {"out.json": b"{"}, "broke"),
        ({"build/a": b"", "build/b": b""}, {"build/a": b"", "build/b": b"1"}, "only some"),
        ({"a": b""}, {"a": b""}, None),
    ],
)
def test_damage_is_seen(tmp_path, before, after, says):
    for name, data in after.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    found = wrong_inputs.damage(before, after, tmp_path, "build" if "build/a" in before else "out")
    assert (found is None) if says is None else found.startswith(says)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (lambda _: 0, "status 0"),
        (lambda _: 1 / 0, "Traceback"),
        (lambda _: 2, "not one sentence"),
    ],
)
def test_a_command_that_misbehaves_is_seen(tmp_path, monkeypatch, command, says):
    monkeypatch.setattr(wrong_inputs, "main", command)
    assert says in wrong_inputs.problem_of(wrong_inputs.Case("made", ["table"], {1, 2}), tmp_path)


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
