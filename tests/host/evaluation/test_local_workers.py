"""Worker processes: answers, deaths, and their end."""

import contextlib
import multiprocessing
import os
import time

import pytest

from multitree import SweepError
from multitree.host.evaluation import workers
from multitree.host.evaluation.point import Point
from multitree.host.evaluation.point_run import Task
from multitree.host.evaluation.sources import Source
from multitree.host.evaluation.workers import _serve, answers_of_processes, num_cores
from multitree.topology.errors import reported_to
from tests.host.evaluation.workers import answer_or_die


def tasks(*sizes):
    return [
        Task(index, "", Point("ring:4", "ring", size, "analytic"), Source("ring:4", None), "", 1)
        for index, size in enumerate(sizes)
    ]


def test_what_takes_long_is_said_again_and_again(monkeypatch):
    said = []
    monkeypatch.setattr(workers, "_SECONDS_TO_SAY", 0.1)
    with reported_to(said.append):
        assert len([*answers_of_processes(tasks(32), 1, answer_or_die)]) == 1
    assert said.count("ring on ring:4, 32 bytes") >= 5


def test_where_a_process_dies_its_point_has_an_error_and_the_rest_goes_on():
    todo = tasks(20, 4, 24, 8, 28)
    answers = {task.index: said for task, said in answers_of_processes(todo, 1, answer_or_die)}
    assert [answers[index].result.num_ranks for index in (0, 2, 4)] == [20, 24, 28]
    assert [answers[index].kept for index in range(5)] == [True, False, True, False, True]
    assert answers[1].result.error == "WorkerDied: the worker process was ended by SIGKILL"
    assert answers[3].result.error == "WorkerDied: the worker process was ended with status 3"
    pids = [answers[index].costs["pid"] for index in range(5)]
    assert pids[0] == pids[1] and pids[2] == pids[3] and len(set(pids)) == 3
    assert os.getpid() not in pids and not multiprocessing.active_children()


# A worker that misses that it should end, with 40 bytes, is asked again.
@pytest.mark.parametrize(
    ("sizes", "first", "num_ranks"),
    [((20, 16, 16), 0, 20), pytest.param((40, 32), 1, 32, marks=pytest.mark.slow)],
)
def test_workers_end_where_nobody_takes_their_answers(sizes, first, num_ranks):
    with contextlib.closing(answers_of_processes(tasks(*sizes), 2, answer_or_die)) as answers:
        task, said = next(answers)
        assert (task.index, said.result.num_ranks) == (first, num_ranks)
        assert len(multiprocessing.active_children()) == 2
        begin = time.monotonic()
    assert not multiprocessing.active_children() and time.monotonic() - begin < 5


@pytest.mark.slow
def test_a_worker_ends_without_a_word_where_the_sweep_was_killed(capfd):
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    worker = processes.Process(target=_serve, args=(theirs, answer_or_die))
    ours.close()
    worker.start()
    worker.join()
    assert (worker.exitcode, capfd.readouterr().err) == (1, "")


@pytest.mark.slow
def test_what_concerns_the_whole_sweep_is_raised():
    with pytest.raises(SweepError, match=r"^no more$"):
        list(answers_of_processes(tasks(12), 4, answer_or_die))
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_a_signal_without_a_name_is_a_number():
    ((_, said),) = answers_of_processes(tasks(36), 1, answer_or_die)
    assert said.result.error == "WorkerDied: the worker process was ended by signal 36"


@pytest.mark.slow
def test_processes_that_cannot_start_are_an_error_of_the_sweep(monkeypatch):
    monkeypatch.setenv("MULTITREE_TEST_NO_START", "1")
    with pytest.raises(SweepError, match=r"one ended with status 7 at once; .*__main__"):
        list(answers_of_processes(tasks(20), 1, answer_or_die))


def test_cores_are_those_that_may_be_used(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 3, 5})
    assert num_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert num_cores() == os.cpu_count()
