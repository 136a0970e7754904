"""One point: the figures of the engine, or why there are none."""

from dataclasses import asdict, fields, replace

import pytest

from multitree import (
    DeviceError,
    LinkModel,
    SweepError,
    WorkReport,
    build,
    estimate,
    mesh,
    save_topology,
    torus,
)
from multitree.host.evaluation import point_run
from multitree.host.evaluation.point import Point, PointResult
from multitree.host.evaluation.point_run import Task, answer, code_key, engine_key, run_point
from multitree.host.evaluation.sources import Source, network_of
from multitree.host.runner import Runner
from multitree.host.sizes import format_size
from multitree.nic.driver.commands import PortCounts
from multitree.topology.errors import report
from tests.emulation import needs_rtl

POINT = Point("torus:4x4", "multitree", 32768, "analytic")


def result(**changes):
    point = replace(POINT, **changes)
    return run_point(point, Source(point.topology, None))


def test_figures_are_those_of_the_runner():
    schedule = build(torus(4, 4), "multitree")
    model = LinkModel(clock_ghz=2.0, dependency="submessage").with_memory(40)
    with Runner.timed(torus(4, 4), "analytic", link_model=model) as runner:
        report, _ = runner.simulate(schedule, 32768)
    found = result(clock_ghz=2.0, memory_cycles=40, dependency="submessage")
    results, reported = ({field.name for field in fields(of)} for of in (PointResult, WorkReport))
    for name in results & reported:
        assert getattr(found, name) == asdict(report)[name]
    assert (found.error, found.steps_reduce_scatter, found.num_ranks) == (None, 4, 16)
    assert {field.name for field in fields(PortCounts)} <= set(asdict(found))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"topology": "mesh:4x4", "algorithm": "swing"}, "swing must have"),
        ({"ranks": "0-99"}, "Rank must be within 0..15, not 16"),
        ({"ranks": "none"}, "Ranks must be like 0-3,8, not 'none'"),
        ({"forwarding": True}, "Forwarding must come with ranks, which say who takes part"),
        ({"collective": "broadcast"}, "Root must be a rank 0..15, not None"),
        ({"root": 3}, "Root of all_reduce must be None, not 3"),
        ({"memory_cycles": 5}, "Memory cycles must be at least 6, not 5"),
        ({"dtype": "int32", "op": "average"}, "Buffers must be floats for an average, not int32"),
        ({"lockstep": True, "algorithm": "auto"}, "Algorithm must be named in lockstep"),
        ({"bandwidth_key": "a:Gb/s"}, "must come with a file, not with 'torus:4x4'"),
        ({"topology": "fat_tree:2x4", "forward_flits": 64}, "forward_flits must be 0"),
    ],
)
def test_what_is_not_supported_is_a_result(changes, problem):
    found = result(**changes)
    assert problem in found.error and found.cycles is None
    assert "\n" not in found.error


def test_auto_says_what_it_took():
    asked = {"topology": "mesh:2x3", "algorithm": "auto", "size_bytes": 4096}
    found = result(**asked)
    best = estimate(mesh(2, 3), 4096, algorithm="auto")
    assert found.cycles == best.cycles
    assert found.chosen_algorithm == best.trace.schedule.algorithm
    assert found.chosen_dependency == best.link_model.dependency
    other = {"chunk": "submessage", "submessage": "chunk"}[found.chosen_dependency]
    assert result(**asked, dependency=other).chosen_dependency == other


def test_what_is_suited_to_a_size_is_built_for_each():
    asked = {"topology": "mesh:2x3", "algorithm": "forest"}
    hashes = {result(**asked, size_bytes=size).schedule_hash for size in (4096, 1 << 20)}
    assert len(hashes) == 2


def test_links_and_ranks_are_those_asked_for():
    slow = result(link_gbytes_per_s=4.0, latency_ns=300.0, ranks="0-3", buffer_flits=64)
    assert slow.num_ranks == 4 and slow.link_buffer_flits == 64
    assert "is the most that is used, since a buffer of 64 flits" in slow.limited
    assert slow.cycles > 3 * result(ranks="0-3").cycles


def task(point=POINT, code=None):
    return Task(0, "key", point, Source(point.topology, None), code or code_key(), 1)


def test_an_answer_is_kept_where_it_would_be_the_same_again(monkeypatch):
    said = answer(task())
    assert said.kept and said.result == result()
    assert {"started", "host", "pid", "wall_seconds", "cpu_seconds"} == set(said.costs)
    assert answer(task(replace(POINT, memory_cycles=5))).kept

    def fails(*_, **__):
        raise DeviceError("rank 3\n faulted")

    monkeypatch.setattr(point_run, "run_point", fails)
    said = answer(task())
    assert (said.kept, said.result) == (False, PointResult(error="DeviceError: rank 3 faulted"))
    assert "faulted" in said.costs["traceback"]


def test_what_takes_longer_than_its_limit_is_run_again(monkeypatch):
    limited = replace(task(replace(POINT, algorithm="multitree")), limit_s=1e-9)
    says = f"multitree on {POINT.topology}, {format_size(POINT.size_bytes)} takes longer than the"
    said = answer(limited)
    assert not said.kept and said.result.error == f"{says} limit of 1e-09 CPU s"
    assert answer(replace(limited, limit_s=0)).result.cycles
    # It is that of the engine analytic: a long run of another one must not end behind it.
    monkeypatch.setattr(point_run, "run_point", lambda *_, **__: report("bounds") or PointResult())
    for engine, is_kept in (("analytic", False), ("exact", True), ("rtl", True)):
        assert answer(replace(limited, point=replace(POINT, engine=engine))).kept == is_kept


def test_a_worker_of_other_code_answers_nothing():
    with pytest.raises(SweepError, match=r"^Code of all workers must be that of the sweep"):
        answer(task(code="other"))


def test_a_file_must_stay_as_it_was(tmp_path):
    path = tmp_path / "net.json"
    save_topology(mesh(2, 2), path)
    with pytest.raises(SweepError, match="must stay as it was when the sweep began"):
        network_of(POINT, Source(str(path), "0" * 64))
    path.unlink()
    with pytest.raises(SweepError, match="must be readable, not: No such file"):
        network_of(POINT, Source(str(path), "0" * 63))


def test_the_key_of_the_code_changes_with_each_file_of_it(tmp_path, monkeypatch):
    names = ["topology/a.py", "hw/b/c.py", "nic/d.py", "sim/e.cpp", "sim/f.h", "host/g.py"]
    runs = [f"host/evaluation/{name}.py" for name in ("point", "sources", "point_run")]
    names += [*runs, "host/evaluation/not.py", "host/cli/not.py", "sim/not.pyc"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(point_run, "__file__", str(tmp_path / "host/evaluation/point_run.py"))
    keys = {"": code_key.__wrapped__()}
    for name in names:
        (tmp_path / name).write_text("changed")
        keys[name] = code_key.__wrapped__()
        (tmp_path / name).write_text(name)
    (tmp_path / "nic/d.py").rename(tmp_path / "nic/z.py")
    keys["renamed"] = code_key.__wrapped__()
    assert len({key for name, key in keys.items() if "not" not in name}) == 11
    assert {key for name, key in keys.items() if "not" in name} == {keys[""]}


def test_results_of_rtl_depend_on_its_version_and_its_tools(monkeypatch):
    before = engine_key("rtl")
    assert "registers " in before and "verilator " in before and engine_key("analytic") == ""
    monkeypatch.setattr(point_run, "VERSION", -1)
    assert engine_key("rtl") != before


@needs_rtl
@pytest.mark.slow
def test_on_rtl_data_are_compared_and_counters_read():
    found = result(topology="ring:2", engine="rtl", size_bytes=4096)
    assert found.exact is True and found.flits_sent > 0 and found.loading_cycles > 0
