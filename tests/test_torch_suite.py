"""PyTorch's own tests of torch.distributed, by bench/torch_suite.py."""

import json

import pytest

from tests.benches import BENCH, bench_module
from tests.programs import python

suite = bench_module("torch_suite")


def rows(**outcomes):
    return [{"name": name, "outcome": outcome} for name, outcome in outcomes.items()]


def run(*options):
    """Exit status and JSON of one run."""
    pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    done = python(BENCH / "torch_suite.py", "--json", *options, status=None)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


MANY = {f"t{number}": "passed" for number in range(suite.LEAST_PASSED - 1)}
PASSED_SKIPPED, PASSED_FAILED = {"a": "passed", "b": "skipped"}, {"a": "passed", "b": "failed"}


@pytest.mark.parametrize(
    ("gloo", "ours", "complete", "problems"),
    [
        (PASSED_SKIPPED, PASSED_SKIPPED, False, []),
        (dict.fromkeys("ab", "passed"), PASSED_FAILED, False, ["ours fails b"]),
        (
            dict.fromkeys("abc", "passed"),
            {"a": "failed", "b": "skipped", "c": "passed"},
            False,
            ["ours fails a", "ours skips b, gloo does not"],
        ),
        (PASSED_FAILED, None, False, ["gloo fails b"]),
        (MANY, None, False, []),
        (MANY, None, True, ["gloo passes 90 tests, fewer than 91"]),
        ({"a": "skipped"}, None, False, ["gloo passes 0 tests, fewer than 1"]),
    ],
)
def test_what_gloo_passes_the_backend_has_to_pass(gloo, ours, complete, problems):
    results = {"gloo": rows(**gloo)} | ({"ours": rows(**ours)} if ours else {})
    assert suite.problems(results, complete) == problems


def test_a_run_that_is_cut_off_has_shown_the_rows_until_then(tmp_path, monkeypatch, capsys):
    cut_off = tmp_path / "runner.py"
    found = rows(a="passed", b="failed")
    cut_off.write_text("".join(f"print({json.dumps(row)!r})\n" for row in found))
    monkeypatch.setattr(suite, "RUNNER", cut_off)
    with pytest.raises(SystemExit, match="tests on ours ended after 2 of them"):
        suite.run("ours", 1, [])
    shown = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert shown == [{"backend": "ours", **row} for row in found]


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_what_asks_for_gloo_may_fail_and_be_skipped_on_another_backend_only(outcome):
    theirs = rows(a="passed", **dict.fromkeys(suite.ASK_FOR_GLOO, "passed"))
    ours = rows(a="passed", **dict.fromkeys(suite.ASK_FOR_GLOO, outcome))
    assert suite.problems({"gloo": theirs, "ours": ours}, False) == []
    failed = rows(a="passed", **dict.fromkeys(suite.ASK_FOR_GLOO, "failed"))
    assert len(suite.problems({"gloo": failed}, False)) == len(suite.ASK_FOR_GLOO)


@pytest.mark.slow
def test_a_name_admitted_as_gloo_is_both_names_and_no_other():
    pytest.importorskip("torch")
    name = bench_module("_torch_suite_run").AdmittedAsGloo("ours")
    assert name == "gloo" and name == "ours" and name != "nccl"
    assert (name != "gloo") is (name != "ours") is False
    assert name.lower() == "ours" and name.lower() != "gloo"


@pytest.mark.long
def test_multitree_passes_a_subset_as_gloo_does():
    for _ in range(2):
        status, result = run("--subset")
        # On a busy machine the reference itself fails a test now and then.
        if not any(problem.startswith("gloo fails") for problem in result["problems"]):
            break
    assert result["problems"] == [] and status == 0
    assert result["counts"]["multitree"] == {"passed": len(suite.SUBSET)}
    assert result["counts"]["gloo"] == {"passed": len(suite.SUBSET)}


@pytest.mark.slow
def test_a_hang_is_a_failure_with_the_name_of_its_test():
    # PyTorch's test of barriers sleeps longer than a second.
    status, result = run("--backend", "gloo", "--only", "test_barrier_full_group", "--limit", "1")
    assert status == 1
    assert result["problems"][0] == "gloo fails test_barrier_full_group"
    assert result["tests"]["gloo"][0]["reason"].startswith("hung: no end within 1 s")


@pytest.mark.slow
def test_a_test_that_gloo_passes_and_the_backend_does_not_is_named_with_its_suite():
    pytest.importorskip("torch")
    c10d = bench_module("c10d_tests")

    def of(kind, **outcomes):
        return [row | {"class": f"Gloo{kind}Test"} for row in rows(**outcomes)]

    gloo = of("P2P", a="passed", b="failed") + of("Collectives", a="passed")
    ours = of("P2P", a="skipped", b="failed") + of("Collectives", a="passed")
    assert c10d.problems({"gloo": gloo, "ours": ours}, "ours") == ["ours does not pass P2P.a"]
    claimed = {"gloo": gloo, "ours": ours + of("ProcessGroup", c="failed")}
    assert "ours does not pass ProcessGroup.c" in c10d.problems(claimed, "ours")
    assert c10d.problems({"gloo": of("P2P", a="skipped")}, "gloo") == ["gloo passes no test"]


@pytest.mark.slow
def test_files_of_another_commit_are_named(tmp_path):
    pytest.importorskip("torch")
    c10d = bench_module("c10d_tests")
    for name in c10d.FILES:
        (tmp_path / name).write_text("another")
    assert [line.split()[0] for line in c10d.other_versions(tmp_path)] == list(c10d.FILES)


GATES = """
from _torch_suite_run import PROFILED, import_tests
tests = import_tests("ours", 5)
assert tests.BACKEND == "gloo" and tests.os.environ["BACKEND"] == "ours"
assert all("ours" in getattr(tests, name) for name in PROFILED)
cases = tests.DistributedTest._DistTestBase
for name in ("test_batch_isend_irecv_gloo", "test_sparse_all_reduce_sum", "test_gather_object"):
    assert not hasattr(getattr(cases, name), "__unittest_skip__"), name
assert cases.test_all_to_all_single_equal_split.__unittest_skip__, "closed to gloo, too"
"""


@pytest.mark.slow
def test_what_is_opened_for_gloo_is_opened_and_nothing_else():
    pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    python("-c", GATES, folder=BENCH)


RANKS = """
import io, os, sys, time, unittest
os.environ["DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"] = "3"
from _forked_tests import ForkedRanks, Rows
from torch.testing._internal.common_distributed import MultiProcessTestCase

class Ranks(ForkedRanks, MultiProcessTestCase):
    longest_s = 3
    world_size = 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def test_good(self):
        pass

    def test_hang(self):
        time.sleep(100)

    def test_one_rank_ends_early(self):
        if self.rank == 1:
            os._exit(3)

    def test_skip(self):
        self.skipTest("the reason")

out = io.StringIO()
unittest.defaultTestLoader.loadTestsFromTestCase(Ranks).run(Rows(out, 3))
sys.stderr.write(out.getvalue())
"""


@pytest.mark.slow
def test_rows_say_what_became_of_every_rank():
    pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    done = python("-c", RANKS, folder=BENCH, status=None)
    lines = [line for line in done.stderr.splitlines() if line.startswith("{")]
    found = {row["name"]: row for row in map(json.loads, lines)}
    assert found["test_good"]["outcome"] == "passed"
    assert found["test_hang"]["outcome"] == "failed"
    assert found["test_hang"]["reason"].startswith("hung: no end within 3 s")
    assert found["test_one_rank_ends_early"]["outcome"] == "failed"
    assert "exit codes of ranks differ: [0, 3]" in found["test_one_rank_ends_early"]["reason"]
    skipped = found["test_skip"]
    assert (skipped["outcome"], skipped["reason"]) == ("skipped", "the reason")
