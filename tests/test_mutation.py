"""Mutants are what they say, tests notice them, and files change in copies only."""

import ast
import json

import pytest

from tests.benches import BENCH, bench_module
from tests.programs import start
from tests.refusals import refuses
from tests.repository import ROOT

SOURCE = b"""\"\"\"A caption of 1 sentence.\"\"\"

LIMIT = 7  # cycles, of which names of mutants say nothing


class Block:
    def elaborate(self, m, a: int = 3):
        m.d.comb += [a.eq(1), Mux(a, 2, b)]
        with m.If(a & ~b):
            m.next = "GO"
        return min(a[1:n], 0.5) if not a else a + 1

    def refuse(self, a):
        if a < 2 and a != 5:
            raise ValueError(f"{a + 1} is not right")
        port = Signal(8)
        return any(a is b for a, b in zip(x, y, strict=True))
"""


TEXT = b"""#include "run.h"  // 1 + 1
struct Block {
    std::vector<int> held = {};
    bool tick(int a, const Flit& b) {
        // Not if (a) either.
        if (a && !done(b)) left_ = 3;
        queues_[a].push(b);
        return std::min(a << 2, ++left_);
    }
};
"""


@pytest.fixture
def mutants(monkeypatch):
    """The module, which other processes import, too."""
    monkeypatch.syspath_prepend(str(BENCH))
    return bench_module("_mutants")


def test_every_operator_constant_condition_and_statement_is_changed_and_nothing_else(mutants):
    changes = {(each.line, each.new) for each in mutants.mutants_of("hw/block.py", SOURCE)}
    assert changes == {
        *((3, f"LIMIT = {limit}") for limit in (6, 8)),
        *((7, f"def elaborate(self, m, a: int = {default}):") for default in (2, 4)),
        *((8, f"m.d.comb += {items}") for items in ("[ Mux(a, 2, b)]", "[a.eq(1), ]")),
        *((8, f"m.d.comb += [a.eq({number}), Mux(a, 2, b)]") for number in (0, 2)),
        *((8, f"m.d.comb += [a.eq(1), Mux(a, {number}, b)]") for number in (1, 3)),
        (8, "m.d.comb += [a.eq(1), Mux(a, b, 2)]"),
        (8, "pass"),
        *((9, f"with m.If({test}):") for test in ("(a & ~b) == 0", "a | ~b", "a & b")),
        *((9, f"with m.If({test}):") for test in ("(a)", "(~b)")),
        (10, "pass"),
        *((11, f"return {name}(a[1:n], 0.5) if not a else a + 1") for name in ("max",)),
        *((11, f"return min(a[{start}:n], 0.5) if not a else a + 1") for start in (0, 2)),
        (11, "return min(a[1:(n) + 1], 0.5) if not a else a + 1"),
        (11, "return min(a[1:n], 1.0) if not a else a + 1"),
        (11, "return min(a[1:n], 0.5) if not (not a) else a + 1"),
        (11, "return min(a[1:n], 0.5) if a else a + 1"),
        (11, "return min(a[1:n], 0.5) if not a else a - 1"),
        *((11, f"return min(a[1:n], 0.5) if not a else a + {number}") for number in (0, 2)),
        *((14, f"if {test} and a != 5:") for test in ("a <= 2", "a < 1", "a < 3")),
        *((14, f"if a < 2 and a {test}:") for test in ("== 5", "!= 4", "!= 6")),
        *((14, f"if {test}:") for test in ("a < 2 or a != 5", "((a < 2))", "((a != 5))")),
        (14, "if not (a < 2 and a != 5):"),
        (15, "pass"),
        (16, "port = Signal(7)"),
        (17, "return all(a is b for a, b in zip(x, y, strict=True))"),
        (17, "return any(a is not b for a, b in zip(x, y, strict=True))"),
    }


def test_of_cpp_the_text_is_changed_where_it_compiles_whatever_the_change_is(mutants):
    found = mutants.mutants_of("sim/exact/block.h", TEXT)
    assert {each.function for each in found} == {"Block.tick"}
    assert {(each.line, each.new) for each in found} == {
        (6, "if (a || !done(b)) left_ = 3;"),
        (6, "if (a && done(b)) left_ = 3;"),
        (6, "if (!(a && !done(b))) left_ = 3;"),
        *((6, f"if (a && !done(b)) left_ = {number};") for number in (2, 4)),
        (7, ";"),
        (8, "return std::max(a << 2, ++left_);"),
        (8, "return std::min(a >> 2, ++left_);"),
        (8, "return std::min(a << 2, --left_);"),
        *((8, f"return std::min(a << {number}, ++left_);") for number in (1, 3)),
    }


def test_a_mutant_is_the_file_with_that_line_changed_and_parses(mutants):
    path = "topology/checks/verify.py"
    source = (ROOT / path).read_bytes()
    every = mutants.mutants_of(path, source)
    assert len({mutant.name for mutant in every}) == len(every) > 50
    for mutant in every:
        changed = mutant.applied(source)
        ast.parse(changed)
        assert source.startswith(changed[: mutant.start])
        assert source.endswith(changed[mutant.start + len(mutant.text.encode()) :])
        number = source[: mutant.start].count(b"\n") + 1
        assert (mutant.line, source != changed) == (number, True)


def test_a_sample_follows_from_its_seed_and_hardly_from_what_is_changed_elsewhere(mutants):
    first, second = (mutants.sample(mutants.mutants_of("a.py", SOURCE), 5, s) for s in (1, 2))
    assert first == mutants.sample(mutants.mutants_of("a.py", SOURCE), 5, 1) != second
    assert len({mutant.line for mutant in first}) == 5
    longer = SOURCE.replace(b"LIMIT = 7", b"FIRST = None\nLIMIT = 7")
    again = mutants.sample(mutants.mutants_of("a.py", longer), 5, 1)
    assert [mutant.key for mutant in again] == [mutant.key for mutant in first]


def test_every_mutant_that_is_explained_exists_and_has_a_reason(mutants):
    mutation = bench_module("mutation")
    reasons = mutation._explained([*mutation._every_mutant(mutation.ROOMS)])
    assert reasons and all(len(reason) > 10 for reason in reasons.values())


@pytest.mark.slow
def test_tests_of_a_module_are_those_of_its_room_that_import_it_the_nearest_first(mutants):
    tests_of = bench_module("_mutant_tests").tests_of
    of_timing = tests_of(ROOT, "topology/checks/verify.py")
    assert of_timing[0] == "tests/topology/checks/test_verify.py"
    rooms = [test.split("/")[1] == "topology" for test in of_timing]
    assert rooms == sorted(rooms, reverse=True) and not all(rooms)
    assert "tests/hw/test_crc.py" not in of_timing
    # Through a file that tests share.
    first, *_ = tests_of(ROOT, "nic/receive/shared_receiver.py")
    assert first == "tests/nic/receive/test_shared_receiver.py"
    assert tests_of(ROOT, "sim/exact/tracker.h")[0] == "tests/sim/exact/test_engine.py"


SMALL = {
    "hw/counter.py": '"""Counts."""\n\nSTEP = 1\nUNSEEN = 5\n\n\ndef count(most):\n    number = 0\n'
    "    while number < most:\n        number += STEP\n    return number\n",
    "tests/hw/test_counter.py": "from multitree.hw.counter import count\n\n\n"
    "def test_counts():\n    assert [count(3), count(4)] == [3, 4]\n",
    "tests/__init__.py": "",
    "tests/conftest.py": "def pytest_addoption(parser):\n    parser.addoption('--sets')\n",
    "tests/hw/__init__.py": "",
    "src/multitree/__init__.py": "",
}


@pytest.fixture
def small(mutants, monkeypatch, tmp_path):
    """The script over a repository of one module and one test."""
    root = tmp_path / "small"
    for name, text in SMALL.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "src/multitree/hw").symlink_to("../../hw")
    start("git", "init", "-q", root)
    module = bench_module("mutation")
    monkeypatch.setattr(bench_module("_mutant_run"), "HANGING_SECONDS", 5)
    monkeypatch.setattr(module, "STARTING_SECONDS", 3)
    monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.setattr(module, "EQUIVALENTS", tmp_path / "equivalents.toml")

    every = mutants.mutants_of("hw/counter.py", SMALL["hw/counter.py"].encode())
    names = {mutant.new: mutant.name for mutant in every}

    def run(*changes, explained=()):
        entries = [EXPLAINED.format(new) for new in explained] or ["equivalent = []"]
        module.EQUIVALENTS.write_text("\n".join(entries))
        results = ("--results", str(tmp_path / "results.jsonl"), "--seconds", "3", "--json")
        return module.main(
            ["--rooms", "hw", *results, "--only", *(names[change] for change in changes)]
        )

    return run


EXPLAINED = """[[equivalent]]
module = "hw/counter.py"
function = ""
old = "UNSEEN = 5"
new = "{}"
reason = "Nobody reads it."
"""


@pytest.mark.slow
def test_mutants_are_killed_time_out_survive_or_are_explained(small, capsys, tmp_path):
    before = {path: path.read_bytes() for path in (tmp_path / "small").rglob("*.py")}
    changes = ["while number <= most:", "STEP = 0", "UNSEEN = 6", "UNSEEN = 4"]
    assert small(*changes, explained=["UNSEEN = 4"]) == 1
    printed = json.loads(capsys.readouterr().out)
    rows = {row["new"]: row for row in printed["mutants"]}
    outcomes = ["killed", "timed out", "survived", "equivalent"]
    assert [rows[change]["outcome"] for change in changes] == outcomes
    assert rows["STEP = 0"]["by"] == "tests/hw/test_counter.py::test_counts"
    counts = {"mutants": 4, "killed": 1, "timed_out": 1, "equivalent": 1, "survived": 1}
    counts["not_run"] = 0
    assert printed["rooms"] == [{"room": room} | counts for room in ("hw", "all")]
    assert {path: path.read_bytes() for path in (tmp_path / "small").rglob("*.py")} == before
    assert small("UNSEEN = 6", explained=["UNSEEN = 6"]) == 0


def test_an_explanation_of_no_mutant_is_an_error(small):
    refuses(SystemExit, r"no mutant is .*UNSEEN = 9", small, "UNSEEN = 6", explained=["UNSEEN = 9"])


def test_a_test_that_fails_without_a_mutant_is_an_error(small, tmp_path):
    path = tmp_path / "small/tests/hw/test_counter.py"
    path.write_text(path.read_text().replace("[3, 4]", "[3, 5]"))
    refuses(SystemExit, "test_counts must pass on the unchanged code", small, "UNSEEN = 6")


@pytest.mark.slow
def test_rules_of_the_house_hold_in_an_unchanged_copy(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))  # for the processes in which tests run
    rules = (
        "drivers_models_and_hosts_load_no_amaranth",
        "no_circle_of_imports_among_modules",
        "no_file_names_a_registry_or_a_path_of_one_machine",
    )
    copy = bench_module("_mutant_run").Copy(ROOT)
    try:
        tests = [[f"tests/test_house.py::test_{rule}" for rule in rules]]
        assert copy.test(tests, 60).outcome == "passed"
    finally:
        copy.close()
