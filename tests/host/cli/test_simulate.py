"""The commands simulate, compare and explain."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from multitree import Communicator, LinkModel, build, mesh, ring, torus
from multitree.host.cli import compare, output
from multitree.host.evaluation.point import Point
from multitree.host.evaluation.point_run import run_point
from multitree.host.evaluation.sources import Source
from multitree.host.report import UNKNOWN_OFFLOAD
from multitree.sim import choice
from multitree.sim.analytic.engine import analytic
from multitree.topology import errors
from multitree.topology.checks import implicit
from multitree.topology.errors import report
from tests.emulation import needs_rtl
from tests.host.cli.commands import TIMED


def test_the_analytic_engine_times_switches(run):
    data = run.json("simulate fat_tree:4x4 --engine analytic")
    assert data["cycles"] > data["bound_cycles"] and data["exact"] is None


def test_a_comparison_on_switches_has_steps_and_cycles(run):
    data = run.json("compare fat_tree:4x4 --engine analytic")
    first = data["results"][0]
    assert (first["steps_reduce_scatter"], first["steps_all_gather"]) == (15, 15)
    assert first["cycles"] > data["bound_cycles"] and first["error"] is None


@pytest.mark.parametrize(
    ("spec", "algorithms", "steps", "says"),
    [
        ("mesh:3x3", "multitree,swing", None, "swing must have a ring or torus"),
        (
            "torus:12x12",
            "ring_2d,double_tree",
            158,
            "double_tree sends from rank 64 to rank 128, and heads have no room for its way: ",
        ),
    ],
)
def test_compare_says_what_has_no_schedule_or_the_engine_cannot_run(
    run, spec, algorithms, steps, says
):
    line = f"compare {spec} --engine analytic --algorithms {algorithms}"
    data = run.json(line)
    runs, other = data["results"]
    assert f"{runs['algorithm']},{other['algorithm']}" == algorithms
    assert runs["error"] is None and runs["cycles"] > data["bound_cycles"]
    assert (other["cycles"], other["steps_all_gather"]) == (None, steps)
    assert says in other["error"] and says in run.printed(line)


@pytest.mark.parametrize("option", ["--algorithm", "--algorithms"])
def test_both_spellings_name_one_algorithm_or_several(run, option):
    line = f"{option} swing ring:4 --engine analytic"
    (compared,) = run.json(f"compare {line}")["results"]
    assert compared["cycles"] == run.json(f"simulate {line}")["cycles"]
    assert run.json(f"job {option} swing,ring ncf ring:4")["results"][0]["algorithm"] == "swing"
    assert "not 'rnig'" in run.refused(f"figure bandwidth {option} rnig")
    said = run.refused(f"schedule ring:4 {option} ring,swing")
    assert said == "Algorithm must be one, not 'ring,swing'; `multitree compare` takes several"


def test_blanks_between_the_entries_of_lists_are_passed_over(run):
    data = run.json(
        "compare torus:3x3 --engine analytic --algorithms 'ring, multitree' "
        "--size '1KiB, 4KiB' --ranks '0-2, 4'"
    )
    assert [size["size_bytes"] for size in data["sizes"]] == [1024, 4096]
    assert {result["algorithm"] for result in data["sizes"][0]["results"]} == {"ring", "multitree"}
    assert data["sizes"][0]["num_ranks"] == 4


def test_analytic_figures_belong_together(run):
    data = run.json("simulate torus:4x4 --engine analytic")
    assert data["time_us"] == data["cycles"] / 1000
    assert data["bandwidth_gbytes_per_s"] == pytest.approx(1048576 / data["cycles"])
    assert data["ratio_to_bound"] == data["cycles"] / data["bound_cycles"] > 1
    assert data["exact"] is None
    assert data["link_utilization"] == pytest.approx(30 * 65536 / (64 * data["cycles"]))


def test_slower_memory_costs_cycles(run):
    line = "simulate torus:4x4 --size 4KiB --engine analytic"
    default, slow = run.json(line), run.json(f"{line} --memory-cycles 41")
    assert (default["memory_cycles"], slow["memory_cycles"]) == (12, 41)
    assert slow["cycles"] > default["cycles"] + 5 * 29


@pytest.mark.slow
@needs_rtl
@pytest.mark.parametrize(
    ("dtype", "op"), [("float32", "sum"), ("int32", "max"), ("bfloat16", "sum")]
)
def test_simulate_in_rtl_is_exact(run, dtype, op):
    data = run.json(f"simulate torus:4x4 --size 4100 --engine rtl --dtype {dtype} --op {op}")
    assert (data["dtype"], data["op"]) == (dtype, op)
    assert data["exact"] is True
    assert data["cycles"] > data["bound_cycles"]
    assert data["schedule_hash"] == build(torus(4, 4), "multitree").hash


@pytest.mark.long
@needs_rtl
def test_routes_that_lead_through_ranks_run_in_rtl_by_themselves(run):
    data = run.json("simulate ring:8 --algorithm swing --size 4KiB --buffer-flits 64")
    assert data["buffer_flits"] == 64 and data["limits"][0]["by"] == "buffer"
    assert (data["engine"], data["exact"]) == ("rtl", True)
    assert data["schedule_hash"] == build(ring(8), "swing").hash
    options = {"engine": "rtl", "link_model": LinkModel(buffer_flits=64), "check": True}
    with Communicator(ring(8), algorithm="double_tree", **options) as comm:
        works = [comm.all_reduce(np.ones((8, n), np.float32)) for n in (40, 40, 90)]
        assert [work.report.exact for work in works] == [True] * 3


@pytest.mark.slow
def test_auto_runs_what_explain_puts_first_and_says_why(run):
    explained = run.json("explain mesh:4x4 --size 32KiB")
    first = explained["candidates"][0]
    line = "simulate mesh:4x4 --size 32KiB --engine analytic --algorithm auto"
    data = run.json(line)
    for key in ("algorithm", "dependency", "schedule_hash", "cycles"):
        assert data[key] == first[key]
    assert data["reason"] == explained["reason"]
    assert set(explained["problems"]) >= {"swing", "symmetric", "hdrm"}
    whole = run.json(f"{line} --dependency chunk")
    assert (whole["dependency"], first["dependency"]) == ("chunk", "submessage")
    assert f"  chosen: {data['reason']}" in run.printed(line).splitlines()


def test_a_command_takes_any_number_of_elements(run):
    for line in ("simulate", "compare"):
        line += " ring:4 --engine analytic --size 1022,2 --dtype"
        sizes = run.json(f"{line} bfloat16")["sizes"]
        assert [each["size_bytes"] for each in sizes] == [1022, 2]
        assert "multiple of 4 bytes, not '1022'" in run.refused(f"{line} float32")


def test_what_each_link_carried_is_written_with_the_names_of_its_ends(run):
    Path("own.graphml").write_text(
        '<graphml><key id="k" for="node" attr.name="kind"/>'
        '<key id="b" for="edge" attr.name="bandwidth_gbytes_per_s"/>'
        '<graph edgedefault="undirected"><node id="tor"><data key="k">switch</data></node>'
        '<node id="a"/><node id="b"/><node id="c"/>'
        + "".join(
            f'<edge source="{end}" target="tor"><data key="b">{speed}</data></edge>'
            for end, speed in (("a", 16), ("b", 16), ("c", 8))
        )
        + "</graph></graphml>"
    )
    line = "simulate own.graphml --engine analytic --size 4KiB,96KiB --links"
    total = run.json(f"{line} used.json")["sizes"]
    run.printed(f"{line} used.csv")
    rows = json.loads(Path("used.json").read_text())["links"]
    read = [*csv.DictReader(Path("used.csv").read_text().splitlines())]
    assert [{k: str(v) for k, v in row.items()} for row in rows] == read
    ends = {(row["src_name"], row["dst_name"]) for row in rows}
    assert ends == {(end, "tor") for end in "abc"} | {("tor", end) for end in "abc"}
    for one in total:
        of_size = [row for row in rows if row["size_bytes"] == one["size_bytes"]]
        assert sum(row["utilization"] for row in of_size) / 6 == pytest.approx(
            one["link_utilization"]
        )
        for row in of_size:
            slow = 16 / row["bandwidth_gbytes_per_s"]
            assert row["utilization"] == row["payload_flits"] / one["cycles"] > 0
            assert row["busy"] == pytest.approx(slow * row["utilization"])
    assert "Links must end in .csv or .json" in run.refused(f"{line} used.txt")


def test_what_has_too_many_rows_is_timed_by_one_tree_on_every_way(run, monkeypatch):
    def figures(line):
        found = run.json(line)
        found = next(iter(found.get("results", found.get("candidates", [found]))))
        return found["algorithm"], found["schedule_hash"], found["cycles"]

    lines = [
        "simulate torus:4x4 --algorithm symmetric --engine analytic",
        "compare torus:4x4 --algorithms symmetric,ring --engine analytic",
    ]
    _, known, cycles = figures(lines[0])
    assert known is not None
    monkeypatch.setattr(implicit, "MAX_ROWS", 100)
    assert [figures(line) for line in lines] == [("symmetric", None, cycles)] * 2
    problems = run.json("explain torus:4x4 --size 4KiB")["problems"]
    assert "Rows of multitree on 'torus:4x4' must be at most 100" in problems["multitree"]
    assert "symmetric" not in problems
    assert "at most 100" in run.refused("simulate torus:4x4 --algorithm symmetric --engine exact")
    point = Point("torus:4x4", "symmetric", 1 << 20, "analytic")
    found = run_point(point, Source("torus:4x4", None))
    assert (found.schedule_hash, found.cycles, found.error) == (None, cycles, None)


def test_explain_prints_a_size_as_soon_as_it_is_known_and_leaves_out_what_takes_long(
    run, capsys, monkeypatch
):
    printed, listening = [], []

    def shown(*given):
        listening.append(errors._listener.get())
        show(*given)

    def timed(schedule, num_flits, model):
        if num_flits == 4096:
            printed.append(capsys.readouterr())
        while schedule.algorithm == "ring":
            report("for ever")
        return analytic(schedule, num_flits, model)

    show = compare._show_choice
    monkeypatch.setattr(compare, "_show_choice", shown)
    monkeypatch.setattr(choice, "analytic", timed)
    for seconds in ("QUIET_SECONDS", "EVERY_LINE_SECONDS"):
        monkeypatch.setattr(output, seconds, 0)
    status, *last = run("explain ring:4 --size 4KiB,64KiB --limit-s 0.05")
    says = "ring: timing ring, submessage, built takes longer than the limit of 0.05 CPU s"
    assert status == 0
    for out in (printed[0].out, "".join([*(each.out for each in printed[1:]), last[0]])):
        assert out.count("all_reduce of ") == 1 and says in out.splitlines()
    assert "64 KiB per rank" not in printed[0].out
    # The line of progress, which changes, is gone where a table is printed.
    assert listening == [None, None]
    assert "at most 0.05 CPU s" in printed[0].err
    assert "timing ring, submessage, built: for ever" in printed[0].err
    assert "multitree, chunk, built: " in printed[0].err
    assert "must be timed, not none: building multitree" in run.refused(
        "explain ring:4 --limit-s 1e-9"
    )


@pytest.mark.slow
@needs_rtl
def test_lockstep_waits_out_every_step(run):
    line = "simulate mesh:4x4 --size 4100 --engine rtl"
    free, lockstep = run.json(line), run.json(f"{line} --lockstep")
    assert (free["lockstep"], lockstep["lockstep"]) == (False, True)
    assert free["exact"] is lockstep["exact"] is True
    # Each step lasts a chunk of at least 16 flits and a link of 150 cycles.
    num_steps = build(mesh(4, 4), "multitree").num_steps
    assert lockstep["cycles"] > num_steps * (16 + 150) > free["cycles"]


@pytest.mark.long
@needs_rtl
def test_a_window_of_a_waveform_is_dumped(run):
    sizes = []
    for path, window in (("part.vcd", "--window 100:200"), ("whole.vcd", "")):
        data = run.json(f"simulate ring:2 --size 64 --trace {path} {window}")
        assert data["trace"] == path
        sizes.append(Path(path).stat().st_size)
    assert 0 < sizes[0] < sizes[1]


@pytest.mark.slow
@needs_rtl
def test_a_waveform_of_ports_has_no_module_below_the_interfaces(run):
    run.printed("simulate ring:2 --size 64 --ports-only --trace ports.vcd")
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


def test_messages_of_a_run_are_written_for_perfetto(run):
    line = "simulate torus:4x4 --engine analytic --size 64KiB --trace"
    data = run.json(f"{line} run.json.gz")
    assert data["trace"] == "run.json.gz"
    whole = json.loads(gzip.decompress(Path("run.json.gz").read_bytes()))
    assert whole["otherData"]["cycles"] == data["cycles"]
    out = run.printed(f"{line} part.json --window 1000:1500")
    assert "messages, for ui.perfetto.dev, in part.json" in out
    part = json.loads(Path("part.json").read_text())
    times = [event["ts"] for event in part["traceEvents"] if "ts" in event]
    assert min(times) >= 1.0 and max(times) < 1.5
    assert 0 < len(part["traceEvents"]) < len(whole["traceEvents"])


@pytest.mark.slow
@needs_rtl
def test_both_engines_have_messages_to_write(run):
    names = []
    for engine in ("rtl", "analytic"):
        run.printed(f"simulate ring:4 --engine {engine} --size 4KiB --trace {engine}.json")
        events = json.loads(Path(f"{engine}.json").read_text())["traceEvents"]
        names.append(sorted((each["name"], each["pid"]) for each in events if each["ph"] == "X"))
    assert names[0] == names[1]


@pytest.mark.slow
@needs_rtl
def test_a_result_that_is_not_exact_is_status_1(run, monkeypatch):
    monkeypatch.setattr("multitree.host.runner._is_exact", lambda *_: False)
    out = run.printed("simulate torus:4x4 --size 64", status=1)
    assert "equal to execute: NO" in out
    assert "NO" in run.printed("compare torus:4x4 --size 64", status=1)


def test_a_comparison_that_ran_nothing_is_an_error_that_says_why(run):
    line = "compare torus:3x3 --engine analytic --algorithms"
    run.printed(f"{line} hdrm,double_tree")
    says = run.refused(f"{line} hdrm,swing --size 4,8")
    assert says.startswith("torus:3x3: at least one algorithm must run, but hdrm: ")
    assert "; swing: swing must have a ring or torus whose sides are powers of two" in says


@pytest.mark.slow
@pytest.mark.parametrize("command", ["simulate", "compare", "explain"])
def test_several_sizes_are_the_single_ones_side_by_side(run, command):
    line = f"{command} {TIMED[command]} --size"
    both = run.json(f"{line} 4KiB,1MB")
    assert list(both) == ["schema", "sizes"]
    for one, size in zip(both["sizes"], ("4096", "1000kB"), strict=True):
        alone = run.json(f"{line} {size}")
        assert alone.pop("schema") == both["schema"] == f"multitree.{command}.v1"
        assert without_seconds(one) == without_seconds(alone)
    out = run.printed(f"{line} 4KiB,1MB")
    assert "4 KiB" in out and "1000000 bytes" in out


@pytest.mark.parametrize(
    ("command", "inside"), [("simulate", None), ("compare", "results"), ("explain", "candidates")]
)
def test_csv_has_a_row_per_result_with_the_keys_of_json(run, command, inside):
    line, expected = f"{command} {TIMED[command]} --size 4KiB,8kB", []
    for one in run.json(line)["sizes"]:
        head = {k: v for k, v in one.items() if k not in (inside, "reason", "problems")}
        if command == "simulate":
            at = [*head].index("clock_ghz")
            head = dict([*[*head.items()][:at], ("reason", None), *[*head.items()][at:]])
        expected += [head | entry for entry in one[inside]] if inside else [head]
    rows = [*csv.DictReader(run.printed(f"{line} --csv").splitlines())]
    assert [*rows[0]] == [*expected[0]]
    assert len(rows) == len(expected)
    for row, one in zip(rows, expected, strict=True):
        for key, value in without_seconds(one).items():
            text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
            assert row[key] == text
    run.refused(f"{line} --csv --json")


def test_avg_is_reported_as_the_average_it_is(run):
    line = "simulate ring:4 --engine analytic --op avg"
    assert run.json(line)["op"] == "average"
    assert "not int32" in run.refused(f"{line} --dtype int32")


def without_seconds(data):
    """An object without what differs from run to run."""
    if isinstance(data, list):
        return [without_seconds(each) for each in data]
    return {
        key: without_seconds(value) if key == "results" else value
        for key, value in data.items()
        if not key.endswith("_seconds")
    }


def test_every_command_says_the_same_of_a_forest_over_switches_and_of_its_offload(run):
    on = "fat_tree:2x2 --size 32KiB"
    grid = "topology: fat_tree:2x2\nalgorithm: forest\nsize: 32KiB\nengine: analytic\n"
    Path("grid.yaml").write_text(grid + "lockstep: [false, true]\n")
    (row, in_lockstep) = run.json("sweep grid.yaml --out o --jobs 1")["results"]
    assert in_lockstep["note"] is None and row["cycles"] != in_lockstep["cycles"]
    assert row["note"] in run.json(f"explain {on}")["problems"]["forest"]
    for line in ("simulate {} --algorithm forest", "compare {} --algorithms forest,ring"):
        line = line.format(on) + " --engine analytic"
        assert run.json(line)["warnings"] == [f"fat_tree:2x2: {row['note']}"]
        assert run.json(f"{line} --lockstep")["warnings"] == []
        assert run.printed(line).count(UNKNOWN_OFFLOAD) == 1
