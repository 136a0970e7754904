"""Tests run by tiers and quarters, within their costs, and none is skipped."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from tests.repository import ROOT
from tests.test_changes import commit, git
from tests.tiers import QUARTERS, ROTATION, of_ci, quarter, quarter_of, sampled

SKIPS = {
    "in a test": "def test_it():\n    pytest.skip('no tool')\n",
    "by a mark": "@pytest.mark.skip(reason='no tool')\ndef test_it():\n    pass\n",
    "in a fixture": "@pytest.fixture\ndef tool():\n    pytest.skip('no tool')\n"
    "def test_it(tool):\n    pass\n",
    "of a module": "pytest.importorskip('no_such_tool')\n",
}
MARKERS = "[pytest]\nmarkers =\n  slow\n  dear\n  long\n  every_set\n"
# What tests/conftest.py imports and reads.
SHARED = [f"tests/{name}.py" for name in ("__init__", "conftest", "tiers", "costs", "changes")]
SHARED += ["tests/benches.py", "bench/_sources.py", "tests/rotation"]


def outcome(folder, code, *options, forbid=False, **environment):
    """Exit status of pytest on a module with that code, and what it printed."""
    for name in SHARED:
        if not (folder / name).exists():
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / "pytest.ini").write_text(MARKERS)
    (folder / "tests" / "test_it.py").write_text("import pytest\n" + code)
    ours = {name for name in os.environ if name.startswith("MULTITREE_")} - {"MULTITREE_CACHE"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    kept |= {"MULTITREE_FORBID_SKIP": "1" if forbid else "0"} | environment
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", folder]
    command += options
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("code", SKIPS.values(), ids=SKIPS)
def test_a_skip_is_a_failure_that_keeps_its_reason_or_without_the_setting_a_skip(code, tmp_path):
    status, printed = outcome(tmp_path, code, forbid=True)
    assert status in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert "nothing may be skipped here" in printed
    assert "no tool" in printed or "no_such_tool" in printed
    status, printed = outcome(tmp_path, code)
    assert status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "1 skipped" in printed


def test_a_test_that_passes_still_passes(tmp_path):
    status, _ = outcome(tmp_path, "def test_it():\n    pass\n", forbid=True)
    assert status == pytest.ExitCode.OK


MANY = """
@pytest.mark.parametrize("number", range(14))
def test_many(number):
    print("many", number)

@pytest.mark.every_set
@pytest.mark.parametrize("number", range(4))
def test_every(number):
    print("every", number)

SLOW = [pytest.param(n, marks=pytest.mark.slow) for n in range(5)]

@pytest.mark.parametrize("number", [*SLOW, 5, 6, 7, 8])
def test_two(number):
    print("two", number)

@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("number", range(3))
def test_dear(number):
    print("dear", number)

@pytest.mark.long
def test_long():
    print("long 0")
"""


def item(nodeid, *marks):
    """What pytest collects, as far as tiers look at it."""
    named = [SimpleNamespace(name=name) for name in marks]
    path, _, _ = nodeid.partition("::")
    return HashableItem(nodeid=nodeid, path=path, iter_markers=lambda: iter(named))


class HashableItem(SimpleNamespace):
    __hash__ = object.__hash__


def ran(printed):
    return re.findall(r"\b(?:many|every|two|dear|long) \d+", printed)


EVERY = [f"every {number}" for number in range(4)]


def test_quick_tests_run_the_first_the_middle_and_the_last_set(tmp_path):
    _, printed = outcome(tmp_path, MANY, "-s", "--sets", "3", "-m", "not slow")
    assert ran(printed) == ["many 0", "many 7", "many 13", *EVERY, "two 5", "two 7", "two 8"]


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_sample_has_the_first_set_and_no_more_than_asked_for(most):
    sets = [item(f"tests/test_x.py::test_many[{number}]") for number in range(14)]
    others = [item(f"tests/test_x.py::test_two[{number}]") for number in range(2)]
    kept = sampled([*sets, *others], most)
    assert kept[0] is sets[0] and len(kept) == most + min(most, 2)
    assert most == 1 or sets[-1] in kept


ALWAYS = [
    *(f"many {number}" for number in range(14)),
    *EVERY,
    *(f"two {number}" for number in range(9)),
    "dear 0",
]


@pytest.mark.slow
def test_each_quarter_runs_cheap_tests_and_a_dear_set_and_all_four_run_everything(tmp_path):
    dear, long = (quarter_of(item(f"x.py::test_{name}")) for name in ("dear", "long"))
    assert dear != long
    seen = Counter()
    for number in range(QUARTERS):
        _, printed = outcome(tmp_path, MANY, "-s", "--ci", MULTITREE_QUARTER=str(number))
        expected = ALWAYS + ["dear 1", "dear 2"] * (number == dear) + ["long 0"] * (number == long)
        assert ran(printed) == expected
        assert f"quarter: {number} of 0 to 3" in printed
        seen.update(expected)
    assert len(seen) == 14 + 4 + 9 + 3 + 1
    _, printed = outcome(tmp_path, MANY, "-s", "--ci", MULTITREE_CI="all")
    assert {*ran(printed)} == {*seen} and "quarter: all" in printed
    dearest = r"\d CPU seconds in 31 tests; the dearest:\n +\d.* of tests/test_it.py"
    assert re.search(dearest, printed)
    assert "passed" in printed.strip().splitlines()[-1]


def test_four_quarters_run_every_test_whatever_its_marks():
    kinds = [(), ("slow",), ("dear",), ("slow", "dear", "every_set"), ("slow", "long")]
    items = [
        item(f"tests/test_{name}.py::test_{name}_{kind}[{number}]", *marks)
        for name in "abcdefgh"
        for kind, marks in enumerate(kinds)
        for number in range(3)
    ]
    parts = [of_ci(items, number, lambda path: False) for number in range(QUARTERS)]
    assert {id(each) for part in parts for each in part} == {*map(id, items)}
    for part in parts:
        assert 8 * (3 + 3 + 1 + 1) < len(part) < len(items)


def test_a_dear_test_that_a_change_reaches_runs_whole_and_a_long_one_does_not():
    items = [
        item(f"tests/test_{name}.py::test_it[{mark}{number}]", mark)
        for name in "ab"
        for mark in ("dear", "long")
        for number in range(3)
    ]
    other = (quarter_of(items[0]) + 1) % QUARTERS
    kept = of_ci(items, other, lambda path: path == "tests/test_a.py")
    assert [each.nodeid for each in kept] == [
        *(f"tests/test_a.py::test_it[dear{number}]" for number in range(3)),
        "tests/test_b.py::test_it[dear0]",
    ]


@pytest.mark.slow
def test_changes_since_the_number_was_raised_are_said_and_run_dear_tests(tmp_path):
    other = {"MULTITREE_QUARTER": str(quarter_of(item("x.py::test_dear")) + 1)}
    _, printed = outcome(tmp_path, MANY, "--ci", **other)
    assert "git cannot read the history" in printed and "only the quarter runs whole" in printed
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    commit(tmp_path)
    _, printed = outcome(tmp_path, MANY, "-s", "--ci", **other)
    assert "0 files changed since" in printed and "dear 1" not in ran(printed)
    _, printed = outcome(tmp_path, MANY + "\n", "-s", "--ci", **other)
    assert "1 files changed since" in printed and {"dear 1", "dear 2"} < {*ran(printed)}


def test_a_quarter_stays_where_the_file_moves_and_is_one_for_all_sets_but_for_rules():
    names = ["tests/a.py::test_it[1]", "tests/a.py::test_it[2]", "tests/b/c.py::test_it[x::y[z]]"]
    assert len({quarter_of(item(name)) for name in names}) == 1
    rules = [item(f"tests/a.py::test_it[{number}]", "every_set") for number in range(99)]
    assert {quarter_of(each) for each in rules} == {*range(QUARTERS)}
    assert {quarter_of(item(f"a.py::test_{n}")) for n in range(99)} == {*range(QUARTERS)}


def test_the_file_s_number_is_the_quarter_unless_another_one_is_named(monkeypatch):
    monkeypatch.delenv("MULTITREE_QUARTER", raising=False)
    assert re.fullmatch(r"\d+\n", ROTATION.read_text())
    assert quarter() == int(ROTATION.read_text()) % QUARTERS
    monkeypatch.setenv("MULTITREE_QUARTER", "7")
    assert quarter() == 3
    monkeypatch.setenv("MULTITREE_QUARTER", "next")
    with pytest.raises(pytest.UsageError, match="MULTITREE_QUARTER must be an integer"):
        quarter()


BURNING = """
import time

@pytest.mark.{mark}
@pytest.mark.parametrize("number", range(3))
def test_it(number):
    end = time.process_time() + 0.4
    while time.process_time() < end:
        pass
"""
COSTS = {
    "every_set": "a test above 0.1 must be marked slow",
    "dear": "a test above 0.1 must be marked slow",
    "slow": "in all sets: above 0.35 mark them dear",
    "slow @pytest.mark.dear": "",
    "long": "",
}


def with_limits(folder, *seconds):
    """Let tests of a folder cost less than ours."""
    limits = "TEST_SECONDS, FUNCTION_SECONDS = "
    text = re.sub(f"{limits}.*", f"{limits}{seconds}", (ROOT / "tests/costs.py").read_text())
    text = re.sub(r"^TOLERANCE = .*", "TOLERANCE = 3", text, flags=re.MULTILINE)
    (folder / "tests").mkdir()
    (folder / "tests" / "costs.py").write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("mark", COSTS)
def test_a_test_that_costs_more_than_its_marks_allow_fails(mark, tmp_path):
    with_limits(tmp_path, 0.1, 0.35)
    code = BURNING.format(mark=mark.replace(" ", "\n"))
    status, printed = outcome(tmp_path, code, MULTITREE_CACHE=str(tmp_path / "cache"))
    assert bool(status) == bool(COSTS[mark])
    assert COSTS[mark] in printed


@pytest.mark.slow
def test_children_count_and_a_test_that_compiles_pays_for_others(tmp_path):
    with_limits(tmp_path, 0.1, 99)
    code = """
import os, subprocess, sys
def test_it():
    subprocess.run([sys.executable, "-c", "sum(range(100_000_000))"], check=True)
    if os.environ.get("COMPILES"):
        os.makedirs(os.environ["MULTITREE_CACHE"] + "/library-1")
"""
    cache = {"MULTITREE_CACHE": str(tmp_path / "cache")}
    assert "must be marked slow" in outcome(tmp_path, code, **cache)[1]
    assert outcome(tmp_path, code, COMPILES="1", **cache)[0] == 0
