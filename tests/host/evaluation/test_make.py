"""Figures: values are what points of sweeps say, files are the same bytes."""

import csv
import math
from dataclasses import replace

import pytest

from multitree import LinkModel, build, parse_topology
from multitree.host.evaluation import make, sweep
from multitree.host.evaluation.figure import BOUND, COLUMNS, FigureError
from multitree.host.evaluation.make import FIGURES, make_figure
from multitree.host.evaluation.point import Point
from multitree.host.evaluation.point_run import run_point
from multitree.host.evaluation.schemes import rtl_cycles_of
from multitree.host.evaluation.sources import Source
from multitree.host.report import bound_of
from multitree.sim.timing.offload import Host
from tests.benches import bench_module
from tests.host.cli.commands import GRAPH
from tests.host.evaluation.workers import here

TORUS, FEW = ["torus:4x4"], [32768, 1 << 20]


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setattr(sweep, "answers_of_processes", here)


def cycles(made):
    """Cycles of a figure by panel, series and x."""
    return {(each.panel, each.series, each.x): each.cycles for each in made.values}


def ran(algorithm, size_bytes, engine="analytic", spec="torus:4x4", **more):
    """Cycles of a point that is run here."""
    return run_point(Point(spec, algorithm, size_bytes, engine, **more), Source(spec, None)).cycles


def test_bandwidth_is_that_of_the_paper_s_schemes_in_their_modes(tmp_path):
    made = make_figure("bandwidth", tmp_path, networks=TORUS, sizes=FEW)
    found = cycles(made)
    for size in FEW:
        at = ("torus:4x4", size)
        assert found[at[0], "ring", size] == ran("ring", size, flow_control="packet")
        assert found[at[0], "MultiTree, messages", size] == ran("multitree", size)
        packets = ran("multitree", size, flow_control="packet")
        assert found[at[0], "MultiTree, packets", size] == packets
        # It goes through ranks, where there are no packets.
        assert found[at[0], "double tree", size] == ran("double_tree", size)
        assert found[at[0], "HDRM", size] is None
    for each in made.values:
        if each.cycles is not None:
            assert each.y == pytest.approx(each.size_bytes / each.cycles)
    assert any("torus:4x4: HDRM: hdrm must have a BiGraph" in note for note in made.notes)


def test_comparisons_are_ratios_of_cycles(tmp_path):
    made = make_figure("bandwidth", tmp_path, networks=TORUS, sizes=FEW)
    ratios = [ran("ring", s, flow_control="packet") / ran("multitree", s) for s in FEW]
    over_ring = next(each for each in made.comparisons if each.over == "ring")
    assert (over_ring.first, over_ring.last, over_ring.num_points) == (*ratios, 2)
    assert (over_ring.least, over_ring.most) == (min(ratios), max(ratios))
    assert over_ring.mean == pytest.approx((ratios[0] * ratios[1]) ** 0.5)
    over = {each.over for each in made.comparisons}
    assert over == {"ring", "double tree", "2D ring", "MultiTree, packets"}


def test_on_shared_links_all_is_in_messages_and_the_figure_says_so(tmp_path):
    made = make_figure("bandwidth", tmp_path, networks=["fat_tree:2x2"], sizes=[4096])
    assert {each.flow_control for each in made.values if each.cycles} == {"message"}
    assert "MultiTree, packets" not in {each.series for each in made.values}
    assert any("no packets" in note or "whole messages only" in note for note in made.notes)


def test_packets_are_drawn_over_messages(tmp_path):
    made = make_figure("packets", tmp_path, networks=[*TORUS, "fat_tree:2x2"], sizes=[1 << 20])
    first, switched = made.values
    share = ran("multitree", 1 << 20, flow_control="packet") / ran("multitree", 1 << 20) - 1
    assert first.y == pytest.approx(100 * share) and 5 < first.y < 6.25
    assert switched.y is None and "private links" in switched.problem


@pytest.mark.parametrize("name", ["weak-scaling", "training"])
def test_multitree_in_packets_has_no_values_where_there_are_no_packets(tmp_path, name):
    made = make_figure(name, tmp_path, networks=["fat_tree:2x2"])
    found = [each for each in made.values if each.series == "MultiTree, packets"]
    assert found and all(each.y is None and "private links" in each.problem for each in found)


def test_by_the_published_rule_multitree_is_in_lockstep_and_additions_are_free(tmp_path):
    rule = {"rule": "published", "jobs": 1}
    made = make_figure("bandwidth", tmp_path, networks=TORUS, sizes=[32768], **rule)
    found = cycles(made)
    tree = ran("multitree", 32768, lockstep=True)
    # In 4 steps a rank adds at most 4 times, in 15 steps of a ring 15 times: 13 cycles each.
    assert found["torus:4x4", "MultiTree, messages", 32768] == tree - 4 * 13
    ring = ran("ring", 32768, flow_control="packet")
    assert found["torus:4x4", "ring", 32768] == ring - 15 * 13
    assert tree > ran("multitree", 32768)
    # Other cycles than those that were measured.
    assert made.num_in_rtl == 0
    value = next(each for each in made.values if each.series == "ring")
    assert value.y == pytest.approx(32768 / 2**30 / (value.cycles * 1e-9))


def test_scaling_is_over_the_ring_on_the_first_network(tmp_path):
    tori = ["torus:2x2", "torus:3x3"]
    weak = make_figure("weak-scaling", tmp_path, networks=tori)
    sizes = {each.topology: each.size_bytes for each in weak.values}
    assert sizes == {"torus:2x2": 4 * 98304 * 4, "torus:3x3": 9 * 98304 * 4}
    assert weak.values[0].y == 1.0 and weak.values[0].series == "ring"
    for each in weak.values:
        if each.series == BOUND:
            bound = bound_of(parse_topology(each.topology), each.size_bytes, LinkModel())
            assert each.y == math.ceil(bound) / weak.values[0].cycles
        else:
            assert each.y is None or each.y == each.cycles / weak.values[0].cycles
    timed = make_figure("weak-scaling", tmp_path, networks=tori, rule="published")
    tree = [each for each in timed.values if each.series == "MultiTree, messages"]
    assert [each.lockstep for each in tree] == [True, True]
    strong = make_figure("strong-scaling", tmp_path, networks=tori)
    assert {each.size_bytes for each in strong.values} == {32 << 20}


def test_baselines_have_every_algorithm_or_say_why_not(tmp_path):
    made = make_figure("baselines", tmp_path, networks=["mesh:3x3"], sizes=[4096])
    by_name = {each.series: each for each in made.values}
    assert by_name.pop(BOUND).y == 1.0
    assert {each.flow_control for each in by_name.values()} == {"message"}
    assert by_name["tto"].cycles == ran("tto", 4096, spec="mesh:3x3")
    assert "torus" in by_name["swing"].problem and by_name["swing"].y is None
    assert all((each.y is None) == (each.problem is not None) for each in made.values)


def test_tables_are_rows_and_flows(tmp_path):
    made = make_figure("table-size", tmp_path, networks=["torus:8x8"])
    used, built, published = (each.y for each in made.values)
    # 126 rows of 8 bytes and 64 flows of 20; published 128 entries of 25 bytes.
    assert (used, published) == (126 * 8 + 64 * 20, 3200)
    assert built >= 2 * used


def test_sensitivity_changes_one_parameter_at_a_time(tmp_path):
    made = make_figure("sensitivity", tmp_path, networks=["torus:3x3"], sizes=[4096])
    found = {(each.panel.rsplit(": ", 1)[1], each.series, each.x): each for each in made.values}
    usual = ran("multitree", 4096, spec="torus:3x3")
    for name, value, point in (
        ("memory, cycles", "500", {"memory_cycles": 500}),
        ("link buffer, flits", "128", {"buffer_flits": 128}),
        ("link latency, ns", "20", {"latency_ns": 20.0}),
    ):
        each = found[name, "ring_2d", value]
        assert each.cycles == ran("ring_2d", 4096, spec="torus:3x3", **point)
        assert each.y == pytest.approx(each.cycles / usual)
    clock = found["clock, GHz", "multitree", "0.5"]
    assert clock.y == pytest.approx(clock.cycles / 0.5 / usual)
    assert found["link speed of all wires", "multitree", "payload"].y == 1.0
    assert found["link speed of all wires", "multitree", "payload and control"].y > 1.0
    together = found["starts apart, cycles", "multitree", "0"]
    assert together.cycles == ran("multitree", 4096, "exact", spec="torus:3x3")
    assert found["starts apart, cycles", "multitree", "2000"].cycles > together.cycles + 1000
    loaded = "loading, cycles per write"
    loading = Host(50).loading_cycles(build(parse_topology("torus:3x3"), "ring"), 256, LinkModel())
    ring = found["memory, cycles", "ring", "12"]
    assert found[loaded, "ring", "0"].y == ring.y
    assert found[loaded, "ring", "50"].y == pytest.approx((ring.cycles + loading) / usual)
    assert found[loaded, "ring", "50"].rtl_cycles is None
    assert found["host, µs", "ring", "2"].y == pytest.approx((ring.cycles + 2000) / usual)


def test_the_csv_has_the_values_and_files_are_the_same_bytes(tmp_path):
    made = make_figure("packets", tmp_path / "a", networks=TORUS, sizes=FEW)
    again = make_figure("packets", tmp_path / "b", networks=TORUS, sizes=FEW)
    assert [path.name for path in made.files] == ["packets.svg", "packets.csv"]
    for one, other in zip(made.files, again.files, strict=True):
        assert one.read_bytes() == other.read_bytes()
    with made.files[1].open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert tuple(rows[0]) == COLUMNS
    assert [int(row["cycles"]) for row in rows] == [each.cycles for each in made.values]


def test_the_ending_chooses_the_format_and_algorithms_their_modes(tmp_path):
    names = ["auto", "ring/packet", "multitree/submessage", "swing"]
    file = tmp_path / "mine.graphml"
    graph = GRAPH.replace('<data key="k">red</data>', "")
    file.write_text(graph.replace("capacity", "bandwidth_gbytes_per_s"))
    options = {"networks": [str(file)], "sizes": [4096], "algorithms": names}
    for kind, begin in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")):
        made = make_figure("bandwidth", tmp_path / f"out.{kind}", **options)
        assert [path.name for path in made.files] == [f"out.{kind}", "out.csv"]
        assert made.files[0].read_bytes().startswith(begin)
    with pytest.raises(FigureError, match=r"end in svg or pdf or png, not be 'a.JPG'"):
        make_figure("bandwidth", tmp_path / "a.JPG", **options)
    text = made.files[0].read_text()
    # The panel has the file's name, and says what could not run; the bound is a line.
    assert ">mine.graphml<" in text and str(tmp_path) not in text
    assert ">no value: swing<" in text and BOUND in text
    by_series = {each.series: each for each in made.values}
    assert [*by_series] == [*names, BOUND]
    assert by_series["ring/packet"].flow_control == "packet"
    assert by_series["multitree/submessage"].dependency == "submessage"
    assert {each.series for each in made.comparisons} == {"auto"}
    assert all(each.y <= by_series[BOUND].y for each in made.values if each.y)


def test_without_matplotlib_there_is_the_csv_and_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(make, "can_draw", lambda: False)
    made = make_figure("table-size", tmp_path, networks=TORUS)
    assert [path.name for path in made.files] == ["table-size.csv"]
    assert any("pip install 'multitree[plots]'" in note for note in made.notes)


def test_results_are_stored_and_not_run_again(tmp_path, monkeypatch):
    make_figure("packets", tmp_path, networks=TORUS, sizes=FEW)
    monkeypatch.setattr(sweep, "answers_of_processes", None)
    make_figure("packets", tmp_path, networks=TORUS, sizes=FEW)


def test_points_of_the_rtl_are_those_of_the_book_and_marked(tmp_path):
    bench = bench_module("rtl_points")
    rows = bench.rows_of(bench.read())
    assert bench.RTL_POINTS.read_text() == bench.text_of(rows)
    point = Point("torus:4x4", "multitree", 32768, "analytic")
    assert rtl_cycles_of(point) == ran("multitree", 32768, "exact")
    assert rtl_cycles_of(replace(point, memory_cycles=50)) is None
    made = make_figure("baselines", tmp_path, networks=TORUS, sizes=[32768])
    assert made.num_in_rtl > 3 and 0 <= made.most_off_rtl < 0.02


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("bandwith", {}, "Figure must be one of bandwidth, packets, "),
        ("bandwidth", {"rule": "paper"}, "Rule must be ours or published, not 'paper'"),
        ("baselines", {"rule": "published"}, "Rule of baselines must be ours"),
        ("training", {"engine": "rtl"}, "Engine of training must be analytic, not 'rtl'"),
        ("packets", {"sizes": [4096, 4096]}, r"Sizes must come once each, not twice: \[4096, 4096"),
        ("packets", {"networks": ["dgx2", "dgx2"]}, "Networks must come once each, not twice"),
        ("weak-scaling", {"sizes": [4096]}, "Sizes of weak-scaling must be its own"),
        ("training", {"algorithms": ["ring"]}, "Algorithms of training must be its own"),
        ("bandwidth", {"algorithms": ["rnig"]}, "Algorithm must be one of .*, not 'rnig'"),
        ("bandwidth", {"algorithms": ["ring/fast"]}, "Mode of ring must be one of .*, not 'fast'"),
        (
            "bandwidth",
            {"algorithms": ["ring/chunk/submessage"]},
            "ring must have one dependency, n",
        ),
        ("bandwidth", {"algorithms": ["ring", "ring"]}, "Algorithms must come once each"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path, name, more, says):
    with pytest.raises(FigureError, match=says):
        make_figure(name, tmp_path, **more)
    assert not [*tmp_path.iterdir()]


def test_every_figure_has_one_line_about_it():
    for name, figure in FIGURES.items():
        assert figure.name == name
        assert len(figure.summary) <= 80 and figure.summary.endswith(".")
