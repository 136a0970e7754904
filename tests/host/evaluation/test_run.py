"""A whole sweep: the same files whoever runs it, and however often it is ended."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from multitree import EngineError, SweepError, mesh, run_sweep, save_topology
from multitree.host.evaluation import sweep
from multitree.host.evaluation.point import COLUMNS, PointResult
from tests.host.evaluation.workers import here
from tests.refusals import refuses
from tests.sim.test_native_build import gone

SMALL = {
    "topology": ["ring:4", "mesh:2x3"],
    "algorithm": ["ring", "swing"],
    "engine": "analytic",
    "size": ["4KiB", "32KiB", 100],
}
FIVE_HUNDRED = {
    "topology": ["ring:4", "torus:3x3", "mesh:2x3", "hypercube:3", "fat_tree:2x2"],
    "algorithm": ["multitree", "ring", "bidirectional_ring", "swing", "double_tree"],
    "engine": "analytic",
    "dependency": ["chunk", "submessage"],
    "memory_cycles": [12, 40],
    "size": ["4KiB", "16KiB", "32KiB", "100kB", "1MiB"],
}


@pytest.fixture
def in_process(monkeypatch):
    monkeypatch.setattr(sweep, "answers_of_processes", here)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.glob("results.*")}


def logged(folder, line):
    """A line of the log; one before may have been cut off."""
    return json.loads((folder / "log.jsonl").read_text().splitlines()[line])


def test_one_process_two_and_none_write_the_same_files(tmp_path, monkeypatch):
    found = run_sweep(SMALL, tmp_path / "1", jobs=1, parquet=True)
    assert (found.num_run, found.num_stored, found.num_failed) == (12, 0, 3)
    run_sweep(SMALL, tmp_path / "2", jobs=2, parquet=True)
    assert files(tmp_path / "1") == files(tmp_path / "2")
    monkeypatch.setattr(sweep, "_answers", lambda *_: pytest.fail("all is stored"))
    again = run_sweep(SMALL, tmp_path / "2")
    assert (again.num_run, again.num_stored, again.num_failed) == (0, 12, 3)
    assert again.rows == found.rows and files(tmp_path / "2") == files(tmp_path / "1")


def test_rows_are_in_the_order_of_the_definition(tmp_path, in_process):
    statuses = []
    found = run_sweep(SMALL, tmp_path, jobs=1, progress=statuses.append)
    assert [(row["topology"], row["algorithm"], row["size_bytes"]) for row in found.rows] == [
        (topology, algorithm, size)
        for topology in SMALL["topology"]
        for algorithm in SMALL["algorithm"]
        for size in (4096, 32768, 100)
    ]
    assert all(list(row) == list(COLUMNS) for row in found.rows)
    assert [(each.num_done, each.num_left) for each in statuses] == [(k, 12 - k) for k in range(13)]
    assert {each.workers for each in statuses} == {"1 process"}
    errors = {row["error"] for row in found.rows if row["topology"] == "mesh:2x3"}
    assert len(errors) == 2 and None in errors


def test_csv_has_shortest_floats_and_whole_cycles(tmp_path, in_process):
    found = run_sweep(SMALL | {"clock_ghz": 0.7}, tmp_path)
    text = (tmp_path / "results.csv").read_bytes().decode()
    head, *lines = text.removesuffix("\n").split("\n")
    assert head.split(",") == list(COLUMNS) and len(lines) == 12 and "\r" not in text
    first = next(csv.DictReader(io.StringIO(text)))
    assert first["clock_ghz"] == "0.7" and first["cycles"] == str(found.rows[0]["cycles"])
    assert first["time_us"] == repr(found.rows[0]["time_us"]) and first["lockstep"] == "false"
    assert float(first["ratio_to_bound"]) == found.rows[0]["ratio_to_bound"]
    assert first["root"] == first["error"] == ""


def test_parquet_has_the_same_rows_with_types(tmp_path, in_process):
    found = run_sweep(SMALL, tmp_path, parquet=True)
    table = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    assert table.to_pylist() == found.rows
    kinds = {int: "int64", float: "double", bool: "bool", str: "string"}
    assert [str(kind) for kind in table.schema.types] == [kinds[kind] for kind in COLUMNS.values()]
    assert [path.name for path in found.files] == ["results.csv", "results.parquet"]
    smaller = run_sweep(SMALL | {"size": 4096}, tmp_path)  # renews what is there
    assert pyarrow.parquet.read_table(tmp_path / "results.parquet").to_pylist() == smaller.rows


def test_a_sweep_that_was_ended_goes_on_where_it_was(tmp_path, monkeypatch):
    def ends_after(count):
        def some(tasks, _):
            yield from list(here(tasks[:count]))
            raise KeyboardInterrupt

        return some

    for count in (5, 4):
        monkeypatch.setattr(sweep, "answers_of_processes", ends_after(count))
        with pytest.raises(KeyboardInterrupt):
            run_sweep(SMALL, tmp_path / "ended")
        assert files(tmp_path / "ended") == {}
    monkeypatch.setattr(sweep, "answers_of_processes", here)
    found = run_sweep(SMALL, tmp_path / "ended")
    assert (found.num_stored, found.num_run) == (9, 3)
    run_sweep(SMALL, tmp_path / "whole")
    assert files(tmp_path / "ended") == files(tmp_path / "whole")


def test_what_is_damaged_or_of_other_code_is_run_again(tmp_path, in_process, monkeypatch):
    run_sweep(SMALL, tmp_path)
    before = files(tmp_path)
    some = sorted((tmp_path / "points").iterdir())
    some[3].write_bytes(some[3].read_bytes()[:-40])
    some[5].unlink()
    found = run_sweep(SMALL, tmp_path)
    assert (found.num_stored, found.num_run, found.num_damaged) == (10, 2, 1)
    monkeypatch.setattr(sweep, "engine_key", lambda engine: "another version")
    found = run_sweep(SMALL, tmp_path)
    assert (found.num_stored, found.num_run, found.num_damaged) == (0, 12, 0)
    assert files(tmp_path) == before


def test_an_error_that_may_not_come_again_is_in_the_files_but_not_kept(tmp_path, monkeypatch):
    def some_die(tasks, _):
        for task, said in here(tasks):
            died = PointResult(error="WorkerDied: x")
            dies = task.index == 2
            yield task, replace(said, result=died, kept=False) if dies else said

    monkeypatch.setattr(sweep, "answers_of_processes", some_die)
    found = run_sweep(SMALL, tmp_path)
    assert (found.num_failed, found.num_unfinished) == (4, 1)
    assert found.rows[2]["error"] == "WorkerDied: x" and found.rows[2]["size_bytes"] == 100
    assert b"WorkerDied: x\n" in files(tmp_path)["results.csv"]
    monkeypatch.setattr(sweep, "answers_of_processes", here)
    found = run_sweep(SMALL, tmp_path)
    assert (found.num_run, found.num_failed, found.num_unfinished) == (1, 3, 0)


def test_the_log_has_what_differs_between_runs(tmp_path, in_process):
    run_sweep(SMALL, tmp_path)
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write('{"event": "cut o')  # a process was killed
    run_sweep(SMALL, tmp_path)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert lines[14] == '{"event": "cut o' and json.loads(lines[15])["event"] == "start"
    first = json.loads(lines[0])
    assert first["definition"]["size_bytes"] == [4096, 32768, 100] and first["host"]
    point = json.loads(lines[1])
    assert point["event"] == "point" and point["row"] == 0 and point["cpu_seconds"] >= 0
    assert json.loads(lines[13])["num_done"] == 12


def test_topologies_of_files_are_found_next_to_the_definition(tmp_path, in_process, monkeypatch):
    there = tmp_path / "there"
    there.mkdir()
    save_topology(mesh(2, 2), there / "net.json")
    (there / "sweep.yaml").write_text(as_yaml(SMALL).replace("mesh:2x3", "net.json"))
    found = run_sweep(there / "sweep.yaml", tmp_path / "a")
    direct = run_sweep(SMALL | {"topology": "mesh:2x2"}, tmp_path / "b")
    rows = [row for row in found.rows if row["topology"] == "net.json"]
    assert [row["cycles"] for row in rows[:3]] == [row["cycles"] for row in direct.rows[:3]]
    save_topology(mesh(2, 3), there / "net.json")
    assert run_sweep(there / "sweep.yaml", tmp_path / "a").num_run == 6
    (there / "net.json").write_text("{}")
    with pytest.raises(SweepError, match=r"topology must be one that can be read, but .*net\.json"):
        run_sweep(there / "sweep.yaml", tmp_path / "a")


GRAPH = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="s" for="edge" attr.name="capacity" attr.type="double"/>
<key id="c" for="edge" attr.name="colour" attr.type="string"/>
<graph edgedefault="undirected"><node id="0"/><node id="1"/>
<edge source="0" target="1"><data key="s">80</data><data key="c">red</data></edge>
</graph></graphml>"""


def test_warnings_of_networks_are_given_once(tmp_path, in_process, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.graphml").write_text(GRAPH)
    asked = SMALL | {"topology": "net.graphml", "bandwidth_key": [None, "capacity:Gb/s"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run_sweep(asked, tmp_path / "out")
    assert len(found.warnings) == 1 and "colour" in found.warnings[0]
    assert logged(tmp_path / "out", 0)["warnings"] == list(found.warnings)
    by_key = {row["bandwidth_key"]: row for row in found.rows if row["algorithm"] == "ring"}
    assert "capacity" in by_key[None]["error"] and by_key["capacity:Gb/s"]["cycles"] > 0


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"jobs": 0}, r"^Jobs must be within 1..1024, not 0$"),
        ({"jobs": True}, r"^Jobs must be within 1..1024, not True$"),
        ({"jobs": 1.0}, r"^Jobs must be within 1..1024, not 1.0$"),
        (
            {"jobs": 1, "dask": "tcp://a:1"},
            r"^Workers must be processes \(jobs\) or a D.* cluster",
        ),
    ],
)
def test_wrong_workers_are_refused(tmp_path, asked, problem):
    with pytest.raises(SweepError, match=problem):
        run_sweep(SMALL, tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()


def test_what_is_not_installed_is_said_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("multitree.host.evaluation.store.find_spec", lambda name: None)
    with pytest.raises(SweepError, match=r"pip install 'multitree\[parquet\]'"):
        run_sweep(SMALL, tmp_path / "out", parquet=True)

    monkeypatch.setattr(sweep, "find_spec", lambda name: None)
    with pytest.raises(SweepError, match=r"pip install 'multitree\[dask\]'"):
        run_sweep(SMALL, tmp_path / "out", dask="tcp://a:1")
    reasons = {"rtl": "no compiler"}
    monkeypatch.setattr("multitree.host.engines.why_not", reasons.get)
    with pytest.raises(EngineError, match="no compiler"):
        run_sweep(SMALL | {"engine": ["analytic", "rtl"]}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["results.csv", "results.parquet"])
def test_results_of_anything_but_a_sweep_are_not_replaced(tmp_path, in_process, name):
    (tmp_path / name).write_text("of another program")
    with pytest.raises(SweepError, match=rf"must have its log.jsonl .*{name}' is not of one"):
        run_sweep(SMALL, tmp_path)
    (path,) = tmp_path.iterdir()
    assert (path.name, path.read_text()) == (name, "of another program")


def test_results_of_another_file_are_replaced_by_force_only(tmp_path, in_process):
    out, small = tmp_path / "out", [f"{name}: {SMALL[name]}" for name in SMALL]
    texts = {
        "first.yaml": small,
        "other.yaml": [*small[:3], "size: 4KiB"],
        "seeds.yaml": [*small, "seed: 2"],
        "more.yaml": [*small, "seed: [1, 2]"],
    }
    path = {name: tmp_path / name for name in texts}
    for name, lines in texts.items():
        path[name].write_text("\n".join(lines))
    run_sweep(path["first.yaml"], out)
    before = files(out)
    for other, called in (
        (path["other.yaml"], path["other.yaml"]),
        (path["seeds.yaml"], path["seeds.yaml"]),
        (SMALL | {"size": 4096}, "values in Python"),
    ):
        says = f"results, which are of {path['first.yaml']} and not of {called}: .* --force"
        refuses(SweepError, says, run_sweep, other, out)
    assert files(out) == before
    # A file that has all of the points, and the same file with fewer, lose nothing unasked.
    assert len(run_sweep(path["more.yaml"], out).rows) == 24
    path["more.yaml"].write_text(path["other.yaml"].read_text())
    assert len(run_sweep(path["more.yaml"], out).rows) == 4
    assert len(run_sweep(path["first.yaml"], out).rows) == 12
    assert len(run_sweep(path["other.yaml"], out, force=True).rows) == 4


def test_an_emulation_has_the_cores_that_processes_leave_it(tmp_path, monkeypatch):
    seen = []

    def spied(tasks, _):
        seen.append({task.num_threads for task in tasks})
        return here(tasks)

    monkeypatch.setattr(sweep, "num_cores", lambda: 8)
    monkeypatch.setattr(sweep, "answers_of_processes", spied)
    for jobs in (1, 3, 16, None):
        run_sweep(SMALL, tmp_path / str(jobs), jobs=jobs)
    assert seen == [{8}, {2}, {1}, {1}]


def test_a_family_that_is_none_is_refused(tmp_path):
    with pytest.raises(SweepError, match=r"^sweep: topology must be one .*Sizes of 'torus'"):
        run_sweep(SMALL | {"topology": ["ring:4", "torus:0x"]}, tmp_path)


def as_yaml(definition):
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in definition.items())


def command(tmp_path, definition, out, *more):
    """A process that runs a sweep."""
    path = tmp_path / "sweep.yaml"
    path.write_text(as_yaml(definition))
    words = ["sweep", str(path), "--out", str(tmp_path / out), *more]
    return subprocess.Popen([sys.executable, "-m", "multitree", *words], stderr=subprocess.PIPE)


def wait_for(folder, count):
    """Until so many results are stored."""
    end = time.monotonic() + 300
    while len(list((folder / "points").glob("*.json"))) < count and time.monotonic() < end:
        time.sleep(0.01)


def workers_of(process):
    """Numbers of the processes that a process has started."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(number) for number in path.read_text().split()]


@pytest.mark.slow
def test_an_interrupt_ends_a_sweep_and_says_how_to_go_on(tmp_path):
    process = command(tmp_path, FIVE_HUNDRED, "out", "--jobs", "2")
    wait_for(tmp_path / "out", 20)
    pids = workers_of(process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130 and gone(pids)
    *_, kept, ended = said.decode().splitlines()
    # The signal may come after a result is stored and before it is counted.
    count = len(list((tmp_path / "out" / "points").glob("*.json")))
    assert kept in {
        f"multitree: {number} of 500 points are kept in {tmp_path / 'out'}; "
        "the same command goes on from there"
        for number in (count - 1, count)
    }
    assert ended == "multitree: ended by SIGINT"


@pytest.mark.long
def test_500_points_on_processes_and_a_cluster_killed_and_resumed_are_the_same(tmp_path):
    distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    whole = run_sweep(FIVE_HUNDRED, tmp_path / "1", jobs=1, parquet=True)
    assert len(whole.rows) == 500 and 0 < whole.num_failed < 250 and whole.num_unfinished == 0
    run_sweep(FIVE_HUNDRED, tmp_path / "2", jobs=2, parquet=True)
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=":0") as cluster:
        address = cluster.scheduler_address
        run_sweep(FIVE_HUNDRED, tmp_path / "dask", dask=address, parquet=True)
    process = command(tmp_path, FIVE_HUNDRED, "killed", "--jobs", "2", "--parquet")
    wait_for(tmp_path / "killed", 250)
    pids = workers_of(process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert gone(pids)
    process = command(tmp_path, FIVE_HUNDRED, "killed", "--parquet")
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert 250 <= logged(tmp_path / "killed", -1)["num_stored"] < 500
    for other in ("2", "dask", "killed"):
        assert files(tmp_path / other) == files(tmp_path / "1")
