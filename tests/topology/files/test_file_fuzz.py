"""Five hundred mutated files, and that the fuzzer tells what must not be."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from multitree import ScheduleError, TopologyError, ring
from tests.benches import BENCH, bench_module

SEED = int(os.environ.get("MULTITREE_SEED", "1"))


@pytest.fixture(scope="module")
def fuzz():
    return bench_module("file_fuzz")


@pytest.fixture(scope="module")
def accepted_seed(fuzz, tmp_path_factory):
    """A schedule that is still one after its mutation."""
    found = fuzz.Fuzz(tmp_path_factory.mktemp("files"), 1000.0)
    outcomes = (found.outcome(seed) for seed in range(1000))
    return next(
        each.seed for each in outcomes if each.name == "accepted" and "schedule" in each.kind
    )


@pytest.mark.slow
def test_five_hundred_files_are_accepted_or_refused_by_a_named_error():
    print(f"seed {SEED}")
    command = [sys.executable, str(BENCH / "file_fuzz.py"), "--json", "--files", "500"]
    command += ["--seed", str(SEED), "--bound-ms", "5000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    *_, everything = reported["rows"]
    assert reported["good"] and everything["num_files"] == 500
    assert everything["accepted"] > 5 and everything["refused"] > 250


def test_a_file_is_the_same_when_it_is_made_again(fuzz, tmp_path):
    first, again = (fuzz.Fuzz(tmp_path, 1000.0).file_of(SEED) for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (KeyError("x"), "TRACEBACK"),
        (RecursionError(), "TRACEBACK"),
        (ValueError("x"), "TRACEBACK"),
        (MemoryError(), "TRACEBACK"),
        (ScheduleError("links[3] must be a number, not 'x'"), "UNNAMED"),
        (TopologyError("{path}: links must be a list, not 3"), "UNNAMED"),
        (ScheduleError("{path}: no"), "UNNAMED"),
        (ScheduleError("{path}: links must be a list, not \x1b"), "UNNAMED"),
        (ScheduleError("{path}: links must be a list, not 3"), "refused"),
    ],
    ids=repr,
)
def test_an_error_without_kind_file_or_rule_is_reported(
    fuzz, tmp_path, accepted_seed, monkeypatch, error, name
):
    def failing(kind, path):
        raise type(error)(str(error).replace("{path}", str(path)))

    monkeypatch.setattr(fuzz, "load", failing)
    outcome = fuzz.Fuzz(tmp_path, 1000.0).outcome(accepted_seed)
    assert outcome.name == name
    assert fuzz.table_of([outcome])[-1]["bad"] == (name != "refused")


def test_a_file_that_takes_longer_than_the_bound_is_reported(fuzz, tmp_path, accepted_seed):
    # Less than nothing: the clock of a processor may stand still meanwhile.
    assert fuzz.Fuzz(tmp_path, -1.0).outcome(accepted_seed).name == "SLOW"


def test_a_file_that_does_not_end_is_stopped_and_reported(fuzz, tmp_path, monkeypatch):
    before = signal.signal(signal.SIGALRM, fuzz.stop)
    monkeypatch.setattr(fuzz, "STUCK_SECONDS", 0.1)
    monkeypatch.setattr(fuzz, "load", lambda kind, path: time.sleep(60))
    try:
        outcome = fuzz.Fuzz(tmp_path, 1000.0).outcome(SEED)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert outcome.name == "TRACEBACK" and "Stuck" in outcome.text


def test_what_is_accepted_and_does_not_survive_another_file_is_reported(
    fuzz, tmp_path, accepted_seed, monkeypatch
):
    monkeypatch.setattr(fuzz, "identity", lambda loaded: object())
    assert fuzz.Fuzz(tmp_path, 1000.0).outcome(accepted_seed).name == "UNEQUAL"


def test_what_is_accepted_and_does_not_sum_is_reported(fuzz, monkeypatch):
    schedule = fuzz.build(ring(3), "multitree")
    assert fuzz.sums(schedule)
    monkeypatch.setattr(fuzz, "execute", lambda schedule, buffers: buffers)
    assert not fuzz.sums(schedule)
