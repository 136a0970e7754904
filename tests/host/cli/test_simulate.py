"""The commands simulate, compare and explain."""

import csv
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from multitree import Communicator
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build
from multitree.topology.families.direct import mesh, ring, torus
from tests.host.cli.commands import needs_rtl, printed_json, run


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


@pytest.mark.slow
@needs_rtl
@pytest.mark.parametrize(
    ("dtype", "op"), [("float32", "sum"), ("int32", "max"), ("bfloat16", "sum")]
)
def test_simulate_in_rtl_is_exact(capsys, dtype, op):
    options = ["--size", "4100", "--engine", "rtl", "--dtype", dtype, "--op", op]
    data = printed_json(capsys, "simulate", "torus:4x4", *options)
    assert (data["dtype"], data["op"]) == (dtype, op)
    assert data["exact"] is True
    assert data["cycles"] > data["bound_cycles"]
    assert data["schedule_hash"] == build(torus(4, 4), "multitree").hash


@pytest.mark.long
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


@pytest.mark.long
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


def without_seconds(data):
    """An object without what differs from run to run."""
    if isinstance(data, list):
        return [without_seconds(each) for each in data]
    return {
        key: without_seconds(value) if key == "results" else value
        for key, value in data.items()
        if not key.endswith("_seconds")
    }
