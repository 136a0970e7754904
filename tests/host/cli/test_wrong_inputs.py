"""Some wrong inputs, limits and signals, and what the campaign would find wrong."""

import os
import re
from pathlib import Path

import pytest

from multitree.sim.native_build import cache_folder
from multitree.topology.environment import VARIABLES
from tests.benches import bench_module
from tests.host.cli.commands import WORKLOAD
from tests.refusals import refuses
from tests.repository import listed_files

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
    ("fly", "No such command 'fly'"),
    ("topology", "Missing argument 'SPEC'"),
    ("topology torus:4y4", "'4y4'"),
    ("topology klein:4x4", "'klein'"),
    ("topology nowhere.json", "nowhere.json"),
    ("topology torus:4x4 --size 1PB", "not '1PB'"),
    ("topology torus:4x4 --out no/such/folder.json", "no/such/folder.json"),
    ("schedule torus:4x4 --algorithm tree", "not 'tree'"),
    ("schedule torus:4x4 --collective all_to_all", "not 'all_to_all'"),
    ("schedule torus:4x4 --collective reduce", "not None"),
    ("schedule torus:4x4 --root 0", "not 0"),
    ("schedule mesh:3x3 --algorithm swing", "mesh:3x3"),
    ("schedule torus:4x4 --out .", "not the folder '.'"),
    ("topology ring:4 --out net.xml", "File must end in .json or .graphml, not 'net.xml'"),
    ("schedule torus:4x4 --out rows.txt", "File must end in .json or .csv, not 'rows.txt'"),
    ("schedule torus:4x4 --out a.graphml", "in .json or .csv, not 'a.graphml'"),
    ("verify nowhere.graphml", "nowhere.graphml: file must be readable"),
    ("schedule torus:4x4 --fast", "No such option: --fast"),
    ("verify ring:1", "not 1"),
    ("verify torus:4x4 --size 6", "not '6'"),
    ("table torus:4x4 --rank 16", "not 16"),
    ("verilog torus:4x4 --dtypes fp32", "Config dtypes must be some of"),
    ("verilog torus:4x4 --modes waves", "Config modes must be some of"),
    ("simulate torus:2x2 --op min", "Op must be one of sum, max, average, avg, not 'min'"),
    ("table torus:4x4 --rank first", "--rank"),
    ("table full:12", "at most 8 ports"),
    ("verilog full:12", "at most 8 ports"),
    ("verilog torus:4x4 --out /dev/null/here", "not the file '/dev/null'"),
    ("verilog torus:4x4 --memory dram", "sram or axi, not 'dram'"),
    ("simulate torus:4x4 --engine numpy", "not 'numpy'"),
    ("simulate torus:4x4 --engine analytic --dtype float64", "not 'float64'"),
    ("simulate torus:4x4 --seed -1", "not -1"),
    ("simulate torus:4x4 --memory-cycles 5", "at least 6, not 5"),
    ("table ring:4 --bandwidth-key a:Gb/s", "must come with a file, not with 'ring:4'"),
    ("simulate torus:4x4 --buffer-flits 2", "--buffer-flits must be within 4..65536"),
    ("explain torus:4x4 --flit-bytes 24", "--flit-bytes must be a power of two, not 24"),
    ("table torus:4x4 --flit-bytes 128", "--flit-bytes must be within 8..64, not 128"),
    ("verilog torus:4x4 --clock-ghz 0", "--clock-ghz must be within 0.001..100, not 0"),
    ("compare torus:4x4 --latency-ns -1", "must be within 0.001..1e+09, not -1"),
    ("schedule ring:4 --link-gbytes-per-s nan", "must be within 0.1..100000, not nan"),
    (
        "simulate ring:4 --memory-cycles 100000000000000000000",
        "at most 1048576, not 100000000000000000000",
    ),
    ("verilog ring:4 --memory axi --clock-ghz nan", "0.001..100, not nan"),
    (
        "simulate ring:4 --engine exact --memory-cycles 1009",
        "1024 cycles that interfaces have queues for, reads and writes together, not 503 and 502",
    ),
    ("topology ring:4 --clock-ghz 1e99", "must be within 0.001..100, not 1e+99"),
    ("topology ring:4 --latency-ns 1e30", "must be within 0.001..1e+09, not 1e+30"),
    ("topology dgx2 --forward-flits 64", "must be 0 in interfaces on shared links"),
    ("verify fat_tree:4x4 --forward-flits 64", "must be 0 in interfaces on shared"),
    ("table ring:4 --format words --name a", "--name must come with --format c"),
    (
        "job alexnet ring:4 --algorithms ring/packet/message",
        "ring must have one flow control, not 'ring/packet/message'",
    ),
    ("simulate torus:4x4 --window 1:2", "--trace"),
    ("simulate torus:4x4 --trace a.vcd --window 2-1", "not '2-1'"),
    ("simulate torus:4x4 --ports-only", "--ports-only must come with --trace"),
    ("simulate ring:4 --trace a.json --ports-only", "with a waveform, not 'a.json'"),
    ("simulate torus:4x4 --trace a.vcd --window 2:1", "not 2:1"),
    ("simulate torus:4x4 --trace a.txt", "not 'a.txt'"),
    ("simulate torus:4x4 --trace a.gz", ".json, .json.gz, .vcd, .fst, not 'a.gz'"),
    ("simulate torus:4x4 --trace a.json --window 2:2", "not 2:2"),
    ("simulate torus:4x4 --trace a.json --size 4,8", "not a list, '4,8'"),
    (
        "simulate ring:2 --engine analytic --trace a.json --window 99999999:",
        "Window must begin before the run ends, which takes",
    ),
    (
        "simulate ring:4 --engine analytic --collective all_gather --op max",
        "Op must be sum where nothing is added, as in all_gather, not 'max'",
    ),
    ("view torus:4x4", "Missing option '--out'"),
    ("view torus:4x4 --out a.htm", "must end in .html, not 'a.htm'"),
    ("view torus:4x4 --out no/such.html", "no/such.html"),
    ("view torus:4x4 --out a.html --engine rtl", "--engine rtl must come with"),
    ("view torus:4x4 --out a.html --dependency chunk", "must come with --size"),
    ("view torus:4x4 --out a.html --memory-cycles 9", "must come with --size"),
    ("view torus:4x4 --out a.html --clock-ghz 2", "must come with --size"),
    ("view torus:4x4 --out a.html --algorithm auto", "must come with --size"),
    ("view torus:4x4 --out a.html --size 4,8", "not a list, '4,8'"),
    ("view torus:4x4 --out a.html --size 4KiB --engine numpy", "not 'numpy'"),
    ("simulate torus:4x4 --trace no/such.vcd", "no/such.vcd"),
    ("simulate torus:4x4 --engine analytic --trace a.vcd", "not 'analytic'"),
    ("simulate torus:4x4 --algorithm auto --lockstep", "named in lockstep"),
    ("simulate fat_tree:2x2 --algorithm forest", "waves must be one in interfaces"),
    (
        "simulate fat_tree:4x4 --engine analytic --dependency submessage",
        "must be chunk where links are shared, not ",
    ),
    ("compare torus:4x4 --engine model", "not 'model'"),
    ("compare torus:4x4 --size 0", "not '0'"),
    ("compare torus:4x4 --algorithms ring,tree", "not 'tree'"),
    ("demo --out /dev/null", "/dev/null"),
    ("demo torus:4x4", "unexpected extra argument"),
    ("doctor --clear", "--clear"),
    ("explain torus:2x2 --limit-s -1", "--limit-s must be within 0..1e+09, not -1"),
    ("figure packets --limit-s nan", "--limit-s must be within 0..1e+09, not nan"),
    ("explain torus:2x2 --collective ''", "--collective must have a value, not ''"),
    ("schedule torus:2x2 --algorithm=", "--algorithm must have a value, not ''"),
    ("schedule ''", "Argument must have a value, not ''"),
    ("sweep file.yaml --out ''", "--out must have a value, not ''"),
    ("figure --networks ''", "--networks must have a value, not ''"),
    ("compare torus:4x4 --algorithms ring,swing,ring", "once each, not 'ring' again"),
    ("simulate torus:4x4 --size 4KiB,4096", "once each, not '4096' again"),
    ("job ncf torus:4x4 --algorithms ring,ring/chunk", "not 'ring/chunk' again"),
    ("job ncf torus:4x4 --array-ghz 1e300", "within 0.001..100 GHz, not 1e+300"),
    ("verilog torus:4x4 --dtypes int32,int32", "once each, not 'int32' again"),
    ("verilog torus:4x4 --modes packets,packets", "once each, not 'packets' again"),
    ("verilog ring:4 --out /dev/null", "not the file '/dev/null'"),
    ("verilog ring:2 --crossings", "Crossings must come with --bench"),
    ("table fat_tree:2x2 --format words --dependency submessage", "chunk"),
    # job
    ("job vgg torus:4x4", "Job must be one of alexnet, "),
    ("job no.txt torus:4x4", "no.txt: file must be readable"),
    ("job ncf torus:4x4 --overlap all", "Overlap must be none, layers or buckets"),
    ("job job.txt torus:4x4 --overlap buckets", "job.txt: overlap must be none or layers"),
    ("job ncf torus:4x4 --buckets 1MiB,2MiB", "--buckets must come with --overlap"),
    ("job ncf torus:4x4 --overlap buckets --buckets 1MiB", "must be two sizes"),
    ("job ncf torus:4x4 --world-size 17", "World size must be within 2..16, not 17"),
    ("job job.txt torus:4x4 --world-size 6", "must be a multiple of the 4 of a tensor"),
    ("job job.txt torus:2x8", "data-parallel groups of 4 ranks must have links of their own"),
    ("job ncf torus:4x4 --algorithms tree", "Algorithm must be one of"),
    ("job ncf torus:4x4 --algorithms ring/fast", "Mode of ring must be one of chunk"),
    ("job ncf torus:4x4 --algorithms hdrm", "at least one algorithm must run, but hdrm"),
    ("job ncf torus:4x4 --array 32", "--array must be like 32x32, not '32'"),
    ("job ncf torus:4x4 --array 0x32", "Arrays' rows must be within"),
    ("job ncf torus:4x4 --folds none", "Folds must be separate or overlapped"),
    ("job ncf torus:4x4 --bytes-per-parameter 0", "ncf: bytes_per_parameter must be at"),
    ("job ncf torus:4x4 --dependency flit", "Dependency must be chunk or submessage"),
    ("job ncf torus:4x4 --json --csv", "Output must be --json or --csv, not both"),
    # figure
    ("figure nothing", "Figure must be one of bandwidth, packets"),
    ("figure table-size --networks torus", "Topology must be a spec"),
    ("figure table-size --engine rtl", "Engine of table-size must be analytic, not 'rtl'"),
    ("figure packets --size 5", "Size must be a positive multiple of 4 bytes"),
    ("figure packets --jobs 0", "Jobs must be within 1..1024, not 0"),
    ("figure --engine exact", "Options of a figure must come with the name of one"),
    ("figure --size 4KiB --json", "Options of a figure must come with the name of one"),
    ("figure packets --json --csv", "Output must be --json or --csv, not both"),
    # cocotb
    ("cocotb ring:2 --sim vcs", "icarus or verilator, not 'vcs'"),
    ("cocotb ring:2 --rank 2", "Rank must be in 0..1, not 2"),
    ("cocotb ring:2 --size 0", "a positive multiple of 4 bytes, not '0'"),
    ("cocotb ring:2 --waves nowhere/run.fst", "nowhere"),
    ("cocotb no_such_folder", "no_such_folder"),
    ("cocotb . --rank 1", "Options of a design must come with its topology, not with '.'"),
    ("cocotb .", "as `multitree verilog --bench` writes them, not ."),
    # schedule mesh:2x4
    ("schedule mesh:2x4 --ranks 3-1", "Ranks must be like 0-3,8, not '3-1'"),
    ("schedule mesh:2x4 --ranks 0-3,", "Ranks must be like 0-3,8, not '0-3,'"),
    ("schedule mesh:2x4 --ranks 0--3", "Ranks must be like 0-3,8, not '0--3'"),
    ("schedule mesh:2x4 --ranks 0-999999999", "Rank must be within 0..7, not 8"),
    ("schedule mesh:2x4 --ranks 999999999", "Rank must be within 0..7, not 999999999"),
    ("schedule mesh:2x4 --ranks 0-3,0", "Rank must be listed once, not 0 again"),
    ("schedule mesh:2x4 --kind-key role", "Keys of data must come with a file, not with 'mesh"),
    ("schedule mesh:2x4 --forwarding", "Forwarding must come with ranks, which say who takes part"),
    (
        "schedule mesh:2x4 --forwarding --ranks 4-7,0-3",
        "Forwarding must come with ranks that leave some out, not '4-7,0-3'",
    ),
    (
        "schedule mesh:2x4 --ranks 0,3",
        "Rank 3 of 'mesh:2x4' must be connected with rank 0 over ranks",
    ),
    # Words that are close to others
    ("schedule torus:4x4 --algorithm multitre", "not 'multitre'. Did you mean 'multitree'?"),
    ("schedule tours:4x4", "not 'tours'. Did you mean 'torus'?"),
    ("schedule torsu", "not 'torsu'. Did you mean 'torus'?"),
    ("sweep swep.yaml --out o", "No such file or directory. Did you mean 'sweep.yaml'?"),
    ("schedule jb.txt", "not 'jb.txt'. Did you mean 'job.txt'?"),
    ("simulate torus:4x4 --engine analitic", "not 'analitic'. Did you mean 'analytic'?"),
    ("figure bandwith", "not 'bandwith'. Did you mean 'bandwidth'?"),
    ("job alexnt torus:4x4", "not 'alexnt'. Did you mean 'alexnet'?"),
    ("sweep bad.yaml --out o", "not 'sizes'. Did you mean 'size'?"),
    ("simulate torus:4x4 --algoritm ring", "--algorithm"),
    # sweep
    ("sweep none.yaml --out o", "none.yaml: file must be readable, not: No such file"),
    ("sweep sweep.yaml", "Missing option '--out'"),
    ("sweep sweep.yaml --out sweep.yaml", "Folder must be a folder, not the file"),
    ("sweep sweep.yaml --out o --jobs 0", "Jobs must be within 1..1024, not 0"),
    ("sweep sweep.yaml --out o --jobs 1 --dask tcp://a:1", "not both"),
    ("sweep bad.yaml --out o", "bad.yaml: line 2, column 1: key must be one of topology"),
    # table ring:4
    ("table ring:4 --format hex", "Format must be one of words, readmemh, c, not 'hex'"),
    ("table ring:4 --dtype int32", "--dtype must come with --format"),
    ("table ring:4 --window-base 0", "--window-base must come with --format"),
    ("table ring:4 --out a.txt", "--out must come with --format"),
    ("table ring:4 --name a", "--name must come with --format"),
    ("table ring:4 --format words --json", "--format must come without --json"),
    ("table ring:4 --format words --dtype int8", "'int8'"),
    ("table ring:4 --format words --op min", "'min'"),
    ("table ring:4 --format words --dependency none", "'none'"),
    ("table ring:4 --format words --window-base -1", "must be in 0..4294967295, not -1"),
    ("table ring:4 --format words --window-base 4294967295", "flits of memory must be at most"),
    ("table ring:4 --format words --watchdog-cycles 4294967296", "not 4294967296"),
    ("table ring:4 --format words --rank 4", "Rank must be in 0..3, not 4"),
    ("table ring:4 --format words --rank -1", "Rank must be in 0..3, not -1"),
    ("table ring:4 --format c --name 4x", "Name must be a Verilog identifier, not '4x'"),
    ("table ring:4 --format c --out no/such.h", "no/such.h"),
    ("table ring:4 --format words --size 64GiB", "No interface holds it: flits of memory must be"),
]
GIVEN = {
    "job.txt": WORKLOAD,
    "sweep.yaml": "topology: ring:4\nalgorithm: ring\nsize: 4KiB\nengine: analytic\n",
    "bad.yaml": "topology: ring:4\nsizes: 4\n",
}


@pytest.fixture
def given(monkeypatch):
    """Files to be read, and cocotb on any simulator."""
    monkeypatch.setattr("multitree.sim.cocotb.runs.missing", lambda name: "")
    for name, text in GIVEN.items():
        Path(name).write_text(text)


@pytest.mark.every_set
@pytest.mark.parametrize(("line", "says"), WRONG, ids=lambda value: value[:60])
def test_wrong_input_is_one_sentence_and_status_2(run, given, line, says):
    assert says in run.refused(line)
    assert {path.name for path in Path().iterdir()} == GIVEN.keys()


@pytest.mark.parametrize(
    "option",
    [
        *("--array=8x8", "--arrays=4", "--samples=2", "--array-ghz=2", "--folds=overlapped"),
        *("--bytes-per-parameter=2", "--no-first-input-gradient"),
    ],
)
def test_arrays_are_not_asked_for_where_a_file_has_the_times(run, given, option):
    says = run.refused("job job.txt ring:4", option)
    assert "job.txt: arrays, bytes per parameter" in says and "not of a workload" in says


def test_a_variable_of_ours_that_nothing_reads_is_refused_by_its_name(run, monkeypatch):
    for name, hint in (("TOPOLGY", "Did you mean 'TOPOLOGY'?"), ("XYZW", "are read CACHE, ")):
        with monkeypatch.context() as changed:
            changed.setenv(f"MULTITREE_{name}", "ring:4")
            says = run.refused("doctor")
            assert f"Variable MULTITREE_{name} must be one that is read" in says and hint in says
            # Whoever reads one says so, too: here the cache's folder, without a command.
            refuses(ValueError, f"MULTITREE_{name} must be", cache_folder)


def test_every_variable_that_is_read_is_listed():
    read = re.compile(r"""(?:environ\S*|variable|putenv)[(\[]\W*(MULTITREE_[A-Z_]+)""")
    found = {name for path in listed_files("*.py") for name in read.findall(path.read_text())}
    assert {"MULTITREE_CACHE", "MULTITREE_CI", "MULTITREE_SEED"} <= found <= VARIABLES.keys()


def test_an_engine_that_cannot_run_is_status_2_and_names_the_next_down(run, monkeypatch):
    monkeypatch.setattr("multitree.sim.emulator.verilator.why_not", lambda: "there is no compiler")
    reason = "cannot run here: there is no compiler; the next engine down is 'exact'"
    assert run.refused("simulate torus:4x4") == f"Engine 'rtl' {reason}"
    entry = {"name": "rtl", "can_run": False, "reason": "there is no compiler"}
    assert entry in run.json("doctor")["engines"]
