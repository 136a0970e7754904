"""The command sweep: what it prints, and its exit status."""

import json
import re
import signal
from pathlib import Path

import pytest

from multitree.host.cli import sweep as cli_sweep
from multitree.host.cli.main import main
from multitree.host.cli.sweep import _duration
from multitree.host.evaluation import sweep
from multitree.host.evaluation.point import PointResult
from multitree.host.evaluation.point_run import Answer, answer

TEXT = """
topology: ring:4
algorithm: [ring, hdrm, swing]
size: [4KiB, 8KiB]
engine: analytic
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(TEXT)
    monkeypatch.setattr(sweep, "answers_of_processes", lambda tasks, _: answers(tasks))


def answers(tasks):
    for task in tasks:
        yield task, answer(task)


def printed(capsys, *more, status=0):
    assert main(["sweep", "sweep.yaml", "--out", "out", *more]) == status
    return capsys.readouterr()


def test_people_read_what_ran_and_why_points_have_no_result(capsys):
    first = printed(capsys)
    assert re.search(r"^  points +6$", first.out, re.M)
    assert re.search(r"^  run now +6$", first.out, re.M)
    assert re.search(r"^2 x hdrm must have", first.out, re.M)
    assert "out/results.csv" in first.out and "damaged" not in first.out
    assert first.err.startswith("sweep.yaml: 6 points, 0 stored, 6 to run on ")
    again = printed(capsys)
    assert re.search(r"^  stored before +6$", again.out, re.M)
    assert again.err == "sweep.yaml: 6 points, 6 stored, none to run\n"
    assert printed(capsys, "-v").err.startswith("Sweep of sweep.yaml ...\nsweep.yaml: 6 points")
    assert printed(capsys, "-q").err == ""
    next(Path("out/points").iterdir()).write_text("{")
    assert re.search(r"^  stored, but damaged +1$", printed(capsys).out, re.M)


def test_programs_read_the_rows_of_the_file(capsys):
    data = json.loads(printed(capsys, "--json", "--parquet").out)
    assert data["num_points"] == len(data["results"]) == 6
    assert (data["num_run"], data["num_failed"], data["warnings"]) == (6, 2, [])
    assert data["files"] == ["out/results.csv", "out/results.parquet"]
    lines = Path("out/results.csv").read_text().splitlines()
    assert lines[0].split(",") == list(data["results"][0])
    assert lines[1].startswith("ring:4,ring,4096,analytic,all_reduce,,,message,false,")


def test_only_the_most_frequent_errors_are_printed(capsys, monkeypatch):
    monkeypatch.setattr(cli_sweep, "MOST_ERRORS", 1)
    Path("sweep.yaml").write_text(TEXT.replace("swing", "ring_2d, bidirectional_ring_2d"))
    out = printed(capsys).out
    assert out.count(" x ") == 1 and out.endswith("and 2 other errors\n")


def ends_in(result, kept):
    return lambda tasks, _: ((task, Answer(result, kept, {})) for task in tasks)


def test_the_status_is_1_where_a_result_is_missing_or_not_exact(capsys, monkeypatch):
    monkeypatch.setattr(sweep, "answers_of_processes", ends_in(PointResult(error="x"), False))
    out = printed(capsys, status=1).out
    assert re.search(r"^  tried again by the same command +6$", out, re.M)
    monkeypatch.setattr(sweep, "answers_of_processes", ends_in(PointResult(exact=False), True))
    printed(capsys, status=1)
    printed(capsys, status=1)


def test_who_interrupts_reads_how_to_go_on(capsys, monkeypatch):
    def two(tasks, _):
        yield from list(answers(tasks[:2]))
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sweep, "answers_of_processes", two)
    *_, kept, ended = printed(capsys, status=130).err.splitlines()
    assert kept == "multitree: 2 of 6 points are kept in out; the same command goes on from there"
    assert ended == "multitree: ended by SIGINT"


@pytest.mark.every_set
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["none.yaml", "--out", "o"], "none.yaml: file must be readable, not: No such file"),
        (["sweep.yaml"], "Missing option '--out'"),
        (["sweep.yaml", "--out", "sweep.yaml"], "Folder must be a folder, not the file"),
        (["sweep.yaml", "--out", "o", "--jobs", "0"], "Jobs must be within 1..1024, not 0"),
        (["sweep.yaml", "--out", "o", "--jobs", "1", "--dask", "tcp://a:1"], "not both"),
        (["bad.yaml", "--out", "o"], "bad.yaml: line 2, column 1: key must be one of topology"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(capsys, arguments, problem):
    Path("bad.yaml").write_text("topology: ring:4\nsizes: 4\n")
    assert main(["sweep", *arguments]) == 2
    captured = capsys.readouterr()
    assert re.fullmatch(r"multitree: [^\n]*\n", captured.err) and problem in captured.err
    assert captured.out == ""


def test_a_full_disk_ends_it_and_what_is_stored_stays(capsys, monkeypatch):
    put, count = sweep.Store.put, iter(range(99))

    def full(*arguments):
        if next(count) == 3:
            raise OSError(28, "No space left on device", "out/points/x.json")
        put(*arguments)

    monkeypatch.setattr(sweep.Store, "put", full)
    last = printed(capsys, status=2).err.splitlines()[-1]
    assert last == "multitree: out/points/x.json: No space left on device"
    assert re.search(r"^  stored before +3$", printed(capsys).out, re.M)


@pytest.mark.every_set
@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7300, "2 h")]
)
def test_time_left_is_in_a_unit_of_its_size(seconds, text):
    assert _duration(seconds) == text
