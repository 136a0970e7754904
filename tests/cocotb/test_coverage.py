"""The benches reach every bin, and as many lines and toggles as they have to."""

from types import SimpleNamespace

import pytest

from multitree.sim.cocotb.coverage import Coverage, Group
from multitree.sim.emulator.verilator import verilator_home
from tests.cocotb.code_coverage import HEADER, LEAST, count_toggles_right, judge, measured, report
from tests.cocotb.coverage_exclusions import Exclusion, read_exclusions, settle
from tests.cocotb.coverage_netlist import Netlist
from tests.cocotb.coverage_points import Point, by_module, read_points, share, unreached
from tests.emulation import needs_rtl


def pair():
    return Coverage([Group("pair", {"a": (1, 2), "b": ("x", "y")}, without=lambda a, b: a == 2)])


def test_a_bin_that_was_not_hit_is_missing_by_its_name():
    coverage = pair()
    coverage.hit("pair", a=1, b="x")
    assert coverage.missing() == ["pair: 1, y"]


def test_what_is_no_bin_cannot_be_hit():
    with pytest.raises(KeyError):
        pair().hit("pair", a=2, b="x")


def test_the_counts_of_two_runs_are_added(tmp_path):
    coverage, other = pair(), pair()
    coverage.hit("pair", a=1, b="x")
    for _ in range(2):
        other.hit("pair", a=1, b="y")
    other.save(tmp_path / "other.json")
    coverage.merge(tmp_path / "other.json")
    assert not coverage.missing()
    assert "| 1 | 1 | 2 |" in coverage.table()


LINES = [
    ("v_line/top.core.port_0.link", "block", 3, 7),
    ("v_branch/top.core.port_1.link", "if", 4, 0),
    ("v_toggle/top.core.port_1.link", "level[0]:0->1", 1, 2),
    ("v_toggle/top.core.port_1.link", "level[3]:0->1", 1, 0),
    ("v_toggle/top.core.port_1.link", "o___05Fempty__0242:1->0", 1, 0),
]
VERILOG = "module top;\n\n  always\n    if (x) begin\n"


def test_lines_and_toggles_are_counted_by_module_and_the_missing_ones_named(tmp_path):
    text = "# SystemC::Coverage-3\n" + "".join(
        f"C '\1f\2top.v\1l\2{line}\1page\2{page}\1o\2{comment}\1h\2top' {count}\n"
        for page, comment, line, count in LINES
    )
    (tmp_path / "coverage.dat").write_text(text)
    points = read_points(tmp_path / "coverage.dat", VERILOG)
    assert by_module(points) == [("top.core.port.link", 1, 2, 1, 3)]
    assert share(points, "line") == 50
    assert unreached(points) == [
        (1, 1, "top.core.port.link", "line if: if (x) begin"),
        (1, 2, "top.core.port.link", "toggle level[3]"),
        (1, 1, "top.core.port.link", "toggle o__empty$2[0]"),
    ]


def test_bits_that_were_missed_are_named_in_ranges():
    points = [point for bit in (5, 1, 3, 4) for point in toggles("level", bit)]
    assert unreached(points) == [(8, 8, "top", "toggle level[1, 3..5]")]


NARROW = """
module top(input clk, input [3:0] a, output reg [7:0] q = 0, output reg r = 1, output [7:0] sum);
  wire [7:0] wide = {4'b0000, a};
  wire loose = 1'bx;
  reg [7:0] late = 0;
  always @(posedge clk) q <= wide;
  always @(posedge clk) late <= q;
  always @(posedge clk) r <= a[0];
  inner i_0(.b(q), .c(sum));
endmodule
module inner(input [7:0] b, output [7:0] c);
  assign c = b | 8'h80;
endmodule
"""


@pytest.fixture(scope="module")
def netlist():
    pytest.importorskip("pyosys")
    return Netlist(NARROW, "top")


def toggles(what, bit, *, up=0, down=0, instance="top"):
    place = {"instance": instance, "bit": bit}
    return [
        Point("top", "toggle", what, up, edge="0->1", **place),
        Point("top", "toggle", what, down, edge="1->0", **place),
    ]


def excluded(what, bits=None):
    return Exclusion(module="top", what=what, reason="It stands still.", bits=bits)


def test_what_is_constant_in_the_netlist_does_not_count(netlist):
    constant = [*toggles("late", 7), *toggles("c", 7, up=1, instance="top.i_*")]
    moving = toggles("q", 3, up=1)
    settled = settle([*constant, *moving], [], netlist)
    assert (settled.counted, settled.num_constant, settled.errors) == (moving, 4, [])


def test_what_moved_although_it_is_constant_is_an_error(netlist):
    settled = settle(toggles("q", 7, up=1), [], netlist)
    assert [error.split(":")[0] for error in settled.errors] == ["Excluded, but reached"]


def test_what_follows_from_a_signal_that_is_excluded_does_not_count_either(netlist):
    points = [*toggles("a", 3), *toggles("a", 2), *toggles("c", 3, instance="top.i_*")]
    settled = settle(points, [excluded("a", (3, 3))], netlist)
    assert settled.counted == toggles("a", 2)
    assert (settled.named, settled.num_following, settled.errors) == ([2], 2, [])


def test_what_follows_from_an_exclusion_and_was_reached_is_an_error(netlist):
    points = [*toggles("a", 3), *toggles("sum", 3, down=5)]
    (error,) = settle(points, [excluded("a", (3, 3))], netlist).errors
    assert error.startswith("Excluded, but reached") and "what='sum'" in error


def test_a_register_that_is_excluded_stays_at_0_whatever_it_starts_with(netlist):
    settled = settle(toggles("r", 0), [excluded("r")], netlist)
    assert (settled.counted, settled.errors) == ([], [])


@pytest.mark.parametrize("up", [0, 1])
def test_what_is_not_defined_counts_where_it_moved(up, netlist):
    point = toggles("loose", 0, up=up)[0]
    settled = settle([point], [], netlist)
    assert (settled.counted, settled.errors) == ([point] * up, [])


@pytest.mark.parametrize("what", ["a", "b"])
def test_an_exclusion_that_names_nothing_that_was_missed_is_an_error(what, netlist):
    settled = settle(toggles("a", 0, up=1, down=1), [excluded(what)], netlist)
    assert f"Exclusion {what} in top names nothing that was missed" in settled.errors


def test_an_excluded_line_that_was_missed_does_not_count(netlist):
    points = [Point("top", "line", "if: if (x) begin", count) for count in (0, 1)]
    missed, reached = points
    line = excluded(r"if: if \(x\) begin")
    assert settle([missed], [line], netlist).counted == []
    assert len(settle([missed, reached], [line], netlist).errors) == 1


def test_the_table_of_exclusions_gives_a_reason_for_each():
    exclusions = read_exclusions()
    assert exclusions and all(e.reason.endswith(".") for e in exclusions)


@pytest.mark.parametrize("kind", LEAST)
def test_a_figure_below_the_least_is_an_error_and_so_is_a_missing_bin(kind):
    functional = pair()
    missed = [Point("top", kind, "x", count) for count in (0, 1)]
    reached = [Point("top", other, "x", 1) for other in LEAST]
    settled = SimpleNamespace(counted=missed, errors=["An exclusion is wrong"])
    assert judge(functional, settled) == [
        "Bin not hit: pair: 1, x",
        "Bin not hit: pair: 1, y",
        f"Coverage of {kind}s is 50.00 %, not {LEAST[kind]} %",
        "An exclusion is wrong",
    ]
    for b in ("x", "y"):
        functional.hit("pair", a=1, b=b)
    assert judge(functional, SimpleNamespace(counted=reached, errors=[])) == []


def test_the_report_has_figures_before_and_after_exclusions_and_what_is_missed(netlist, capsys):
    points = [*toggles("a", 3), *toggles("a", 2, up=1)]
    exclusions = [excluded("a", (3, 3))]
    report(points, exclusions, settle(points, exclusions, netlist))
    printed = capsys.readouterr().out
    assert "| top | none | 25.0 % of 4 | none | 50.0 % of 2 |" in printed
    assert "2 points are excluded" in printed
    assert "| 2 | a[3:3] in top: It stands still. |" in printed
    assert "| 1 | 2 | top | toggle a[2] |" in printed


@needs_rtl
def test_verilators_count_of_a_wide_signal_is_put_right():
    text = (verilator_home() / "include" / HEADER).read_text()
    assert count_toggles_right(text).count("j < VL_EDATASIZE &&") == text.count("j < width - i")


@pytest.mark.long
def test_the_random_benches_reach_every_bin_and_enough_lines_and_toggles(tmp_path):
    functional, _, settled = measured(tmp_path, read_exclusions())
    print(functional.table())
    assert not judge(functional, settled)
