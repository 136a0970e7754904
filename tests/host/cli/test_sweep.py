"""The command sweep: what it prints, and its exit status."""

import re
import signal
from pathlib import Path

import pytest

from multitree.host.cli import sweep as cli_sweep
from multitree.host.cli.sweep import _duration
from multitree.host.evaluation import sweep
from multitree.host.evaluation.point import PointResult
from multitree.host.evaluation.point_run import Answer
from tests.host.evaluation.workers import here

TEXT = """
topology: ring:4
algorithm: [ring, hdrm, swing]
size: [4KiB, 8KiB]
engine: analytic
"""


@pytest.fixture
def swept(run, monkeypatch):
    """Standard output and standard error of the command, with more options."""
    Path("sweep.yaml").write_text(TEXT)
    monkeypatch.setattr(sweep, "answers_of_processes", here)

    def swept(*more, status=0):
        found, *printed = run("sweep sweep.yaml --out out", *more)
        assert found == status
        return printed

    return swept


def test_people_read_what_ran_and_why_points_have_no_result(swept):
    out, error = swept()
    assert re.search(r"^  points +6$", out, re.M)
    assert re.search(r"^  run now +6$", out, re.M)
    assert re.search(r"^2 x hdrm must have", out, re.M)
    assert "out/results.csv" in out and "damaged" not in out
    assert error.startswith("sweep.yaml: 6 points, 0 stored, 6 to run on ")
    out, error = swept()
    assert re.search(r"^  stored before +6$", out, re.M)
    assert error == "sweep.yaml: 6 points, 6 stored, none to run\n"
    assert swept("-v")[1].startswith("Sweep of sweep.yaml ...\nsweep.yaml: 6 points")
    assert swept("-q")[1] == ""
    next(Path("out/points").iterdir()).write_text("{")
    assert re.search(r"^  stored, but damaged +1$", swept()[0], re.M)


def test_programs_read_the_rows_of_the_file(run, swept):
    data = run.json("sweep sweep.yaml --out out --parquet")
    assert data["num_points"] == len(data["results"]) == 6
    assert (data["num_run"], data["num_failed"], data["warnings"]) == (6, 2, [])
    assert data["files"] == ["out/results.csv", "out/results.parquet"]
    lines = Path("out/results.csv").read_text().splitlines()
    assert lines[0].split(",") == list(data["results"][0])
    assert lines[1].startswith("ring:4,ring,4096,analytic,all_reduce,,,message,false,")


def test_only_the_most_frequent_errors_are_printed(swept, monkeypatch):
    monkeypatch.setattr(cli_sweep, "MOST_ERRORS", 1)
    Path("sweep.yaml").write_text(TEXT.replace("swing", "ring_2d, bidirectional_ring_2d"))
    out, _ = swept()
    assert out.count(" x ") == 1 and out.endswith("and 2 other errors\n")


def ends_in(result, kept):
    return lambda tasks, _: ((task, Answer(result, kept, {})) for task in tasks)


def test_the_status_is_1_where_a_result_is_missing_or_not_exact(swept, monkeypatch):
    monkeypatch.setattr(sweep, "answers_of_processes", ends_in(PointResult(error="x"), False))
    out, _ = swept(status=1)
    assert re.search(r"^  tried again by the same command +6$", out, re.M)
    monkeypatch.setattr(sweep, "answers_of_processes", ends_in(PointResult(exact=False), True))
    swept(status=1)
    swept(status=1)


def test_who_interrupts_reads_how_to_go_on(swept, monkeypatch):
    def two(tasks, _):
        yield from list(here(tasks[:2]))
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sweep, "answers_of_processes", two)
    *_, kept, ended = swept(status=130)[1].splitlines()
    assert kept == "multitree: 2 of 6 points are kept in out; the same command goes on from there"
    assert ended == "multitree: ended by SIGINT"


def test_a_full_disk_ends_it_and_what_is_stored_stays(swept, monkeypatch):
    put, count = sweep.Store.put, iter(range(99))

    def full(*arguments):
        if next(count) == 3:
            raise OSError(28, "No space left on device", "out/points/x.json")
        put(*arguments)

    monkeypatch.setattr(sweep.Store, "put", full)
    last = swept(status=2)[1].splitlines()[-1]
    assert last == "multitree: out/points/x.json: No space left on device"
    assert re.search(r"^  stored before +3$", swept()[0], re.M)


@pytest.mark.every_set
@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7300, "2 h")]
)
def test_time_left_is_in_a_unit_of_its_size(seconds, text):
    assert _duration(seconds) == text
