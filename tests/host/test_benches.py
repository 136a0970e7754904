"""Measurements of unequal links and of `auto`, small, and that they tell faults."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build
from multitree.topology.collectives import Op
from multitree.topology.families.direct import ring
from multitree.topology.schedules.schedule import Schedule
from multitree.topology.specs import parse_topology
from tests.benches import bench_module, ran
from tests.emulation import needs_rtl


@pytest.fixture
def unequal(monkeypatch):
    """The measurement with links that other tests have compiled."""
    module = bench_module("unequal")
    monkeypatch.setattr(module, "MODEL", LinkModel())
    return module


@pytest.fixture
def drawn(monkeypatch):
    """What is drawn, without a library that draws."""
    plots = []
    stub = SimpleNamespace(plot=lambda rows, folder: plots.append((rows, folder)))
    monkeypatch.setitem(sys.modules, "_size_plots", stub)
    monkeypatch.delitem(sys.modules, "auto", raising=False)
    yield plots
    sys.modules.pop("auto", None)


@pytest.fixture
def auto(drawn):
    return bench_module("auto")


def test_links_along_y_are_slower_and_longer_and_no_others(unequal):
    slow, whole = unequal.slower_along_y("torus:3x4", 4), parse_topology("torus:3x4")
    along_y = np.ptp(slow.links % 4, axis=1) == 0
    assert along_y.sum() == 12 * 2 and (slow.links == whole.links).all()
    assert set(slow.bandwidth_gbytes_per_s[along_y]) == {4.0}
    assert set(slow.bandwidth_gbytes_per_s[~along_y]) == {16.0}
    assert set(slow.latency_ns[along_y]) == {1000.0}
    assert set(slow.latency_ns[~along_y]) == {150.0}


def test_a_message_waits_from_the_last_arrival_that_it_needs(unequal):
    rows = [(0, Op.REDUCE, 0, 0, 1), (1, Op.REDUCE, 0, 1, 2), (2, Op.REDUCE, 0, 2, 3)]
    rows += [(3, Op.GATHER, 0, 3, 2), (4, Op.GATHER, 0, 2, 1), (5, Op.GATHER, 0, 1, 0)]
    kind = {"algorithm": "by hand", "collective": "all_reduce", "flow_offsets": [0, 1]}
    schedule = Schedule.from_rows(ring(4), **kind, rows=rows)
    sent, arrived = [0, 15, 29, 43, 56, 66], [10, 25, 40, 50, 64, 80]
    trace = SimpleNamespace(sent=np.array([sent]), arrived=np.array([arrived]))
    waits = [15 - 10, 29 - 25, 43 - 40, 56 - 50, 66 - 64]
    assert unequal.least_wait(schedule, trace) == min(waits)
    trace.sent[0, 5] = 90
    assert unequal.least_wait(schedule, trace) == min(waits[:-1])
    alone = build(ring(2), "ring", "broadcast", root=0)
    assert (
        unequal.least_wait(alone, SimpleNamespace(sent=np.zeros((1, 1)), arrived=np.ones((1, 1))))
        is None
    )


@pytest.mark.long
@needs_rtl
def test_unequal_links_are_measured_in_every_mode(unequal, monkeypatch, capsys):
    arguments = ("--topologies", "torus:3x3", "--algorithms", "multitree,symmetric")
    status, out = ran(unequal, monkeypatch, capsys, *arguments, "--sizes", "64KiB", "--json")
    reported = json.loads(out)
    assert status == 0 and reported["good"] and len(reported["rows"]) == 2 * 2 * 2
    for row in reported["rows"]:
        assert row["exact"] and row["causal"] and row["ratio_to_bound"] > 1
        assert row["analytic_ratio"] == pytest.approx(1, abs=0.04)
        assert row["least_wait_cycles"] == (2 if row["dependency"] == "chunk" else None)
    cycles = {tuple(list(row.values())[:3]): row["cycles"] for row in reported["rows"]}
    assert len(cycles) == 4


@pytest.mark.long
@needs_rtl
def test_unequal_links_with_a_wrong_sum_or_a_message_too_early_are_reported(
    unequal, monkeypatch, capsys
):
    arguments = ("--topologies", "torus:3x3", "--algorithms", "multitree", "--sizes", "1KiB")
    monkeypatch.setattr(unequal, "SLOWER", (2,))
    with monkeypatch.context() as patch:
        patch.setattr(unequal, "execute", lambda schedule, buffers: buffers)
        status, out = ran(unequal, patch, capsys, *arguments)
    assert status == 1 and out.count(" NO\n") == 2
    monkeypatch.setattr(unequal, "least_wait", lambda schedule, trace: -1)
    status, out = ran(unequal, monkeypatch, capsys, *arguments)
    assert status == 1 and out.count(" yes\n") == 2


AUTO = ("--topologies", "hypercube:2", "--sizes", "1KiB,64KiB", "--rtl-up-to", "1KiB")


@pytest.mark.slow
@needs_rtl
def test_auto_is_held_against_rtl_up_to_a_size(auto, drawn, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(auto, "NEAR", 1.5)
    status, out = ran(auto, monkeypatch, capsys, *AUTO, "--plots", str(tmp_path), "--json")
    reported = json.loads(out)
    small, large = reported["rows"]
    assert status == 0 and reported["exact"] and (reported["good"], reported["cases"]) == (1, 1)
    assert small["exact"] and small["num_rtl_runs"] >= 2
    in_rtl = [each["rtl"] for each in small["algorithms"].values() if "rtl" in each]
    assert small["ratio_to_best"] == small["rtl_cycles"] / min(in_rtl) < max(in_rtl) / min(in_rtl)
    assert [large[name] for name in ("rtl_cycles", "ratio_to_best", "num_rtl_runs")] == [None] * 3
    for row in reported["rows"]:
        fastest = min(each["analytic"] for each in row["algorithms"].values())
        assert row["analytic_cycles"] == fastest >= row["bound_cycles"]
    assert drawn == [(reported["rows"], tmp_path)]


@pytest.mark.slow
@needs_rtl
def test_auto_that_is_too_slow_or_not_exact_is_reported(auto, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(auto, "ENOUGH", 0.99)
        status, out = ran(auto, patch, capsys, *AUTO)
        assert status == 1 and "0 of 1 cases in RTL within 0.99 of the best; all results ex" in out
    run = auto.Runner.run

    def wrong(*arguments):
        outcome, report = run(*arguments)
        return outcome, SimpleNamespace(cycles=report.cycles, exact=False)

    monkeypatch.setattr(auto.Runner, "run", wrong)
    status, out = ran(auto, monkeypatch, capsys, *AUTO)
    assert status == 1 and "all results NOT exact" in out


@pytest.mark.slow
@needs_rtl
def test_forests_are_measured_large_and_in_rtl(monkeypatch, capsys):
    module = bench_module("forest")
    monkeypatch.setattr(module, "IN_RTL", ("mesh:4x4",))
    status, out = ran(
        module, monkeypatch, capsys, "--json", "--only", "mesh:4x4", "--sizes", "64KiB"
    )
    large, small = json.loads(out)
    assert status == (0 if small["within_limits"] else 1)
    assert large["within_limits"] and large["ratio_to_bound"] < 1.03 and large["most_rows"] == 20
    assert small["exact"] and small["engine"] == "rtl" and small["size_bytes"] == 65536


@pytest.mark.long
@needs_rtl
def test_forests_over_switches_are_measured_large_and_in_rtl(monkeypatch, capsys):
    module = bench_module("switch_forests")
    status, out = ran(
        module, monkeypatch, capsys, "--json", "--only", "kary_tree:2x3x2", "--rtl", "32KiB"
    )
    large, small = json.loads(out)
    assert status == 0 and small["exact"] and small["engine"] == "rtl"
    assert large["ratio_to_forestcoll"] < 1.03 and large["forestcoll_over_bandwidth"] == 1.75


def test_the_optimum_of_forestcoll_is_what_its_authors_have():
    """Steps of an all-gather on a torus and a mesh, and one switch for a rank that is slow."""
    module = bench_module("switch_forests")
    share = module.forestcoll_share
    assert [share(parse_topology(spec)) for spec in ("torus:8x8", "mesh:8x8")] == [15.75, 31.5]
    assert share(module.network_of(module.STAR)) == 14


def test_a_limit_that_a_forest_misses_is_reported(monkeypatch, capsys):
    module = bench_module("forest")
    monkeypatch.setattr(module, "MOST_RATIO", 1.0)
    arguments = ("--only", "mesh:4x4", "--sizes", "none")
    assert ran(module, monkeypatch, capsys, *arguments)[0] == 1
