"""The random benches reach every bin of the functional coverage."""

import pytest

from multitree.sim.cocotb.coverage import Coverage, Group
from tests.cocotb.code_coverage import by_module, read_points, run_benches, unreached


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
    ("v_toggle/top.core.port_1.link", "level[0]:0->1", 9, 0),
    ("v_toggle/top.core.port_1.link", "level[1]:0->1", 9, 2),
]


def test_lines_and_toggles_are_counted_by_module_and_the_missing_ones_named(tmp_path):
    text = "# SystemC::Coverage-3\n" + "".join(
        f"C '\1f\2top.v\1l\2{line}\1page\2{page}\1o\2{comment}\1h\2top' {count}\n"
        for page, comment, line, count in LINES
    )
    (tmp_path / "coverage.dat").write_text(text)
    points = read_points(tmp_path / "coverage.dat")
    assert by_module(points) == [("top.core.port.link", 1, 2, 1, 2)]
    assert unreached(points) == [
        (1, 1, "top.core.port.link", "line 4"),
        (1, 2, "top.core.port.link", "toggle level"),
    ]


@pytest.mark.long
def test_the_random_benches_reach_every_bin(tmp_path):
    coverage = run_benches(tmp_path)
    print(coverage.table())
    assert not coverage.missing()
