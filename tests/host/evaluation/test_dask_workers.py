"""Workers of a Dask cluster: the same answers, and what goes wrong with clusters."""

import time

import pytest

distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")

from multitree import SweepError, run_sweep  # noqa: E402
from multitree.host.evaluation import workers  # noqa: E402
from multitree.host.evaluation.workers import answers_of_cluster  # noqa: E402
from tests.host.evaluation.test_local_workers import tasks  # noqa: E402
from tests.host.evaluation.test_run import SMALL, files  # noqa: E402
from tests.host.evaluation.workers import answer_or_die, here  # noqa: E402


def cluster(num_workers, *, processes=False):
    """A cluster of this machine; without processes its workers are threads of this one."""
    options = {"threads_per_worker": 1, "protocol": "tcp", "dashboard_address": ":0"}
    return distributed.LocalCluster(num_workers, processes=processes, **options)


def test_a_cluster_writes_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setattr("multitree.host.evaluation.sweep.answers_of_processes", here)
    run_sweep(SMALL, tmp_path / "here", parquet=True)
    with cluster(1) as local:
        found = run_sweep(SMALL, tmp_path / "dask", dask=local.scheduler_address, parquet=True)
        assert (found.num_run, found.num_unfinished) == (12, 0)
        monkeypatch.setattr("multitree.host.evaluation.sweep.code_key", lambda: "other")
        with pytest.raises(SweepError, match=r"^Code of all workers must be that of the sweep"):
            run_sweep(SMALL, tmp_path / "other", dask=local.scheduler_address)
    assert files(tmp_path / "here") == files(tmp_path / "dask")


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("foo", r"scheduler at 'foo', but: missing port number"),
        ("http://a:1", r"unknown address scheme 'http'"),
        ("tcp://127.0.0.1:1", r"Timed out trying to connect"),
    ],
)
def test_where_no_scheduler_is_the_address_is_named(monkeypatch, address, problem):
    monkeypatch.setattr(workers, "_SECONDS_TO_CONNECT", 0.5)
    with pytest.raises(SweepError, match=problem):
        next(answers_of_cluster(tasks(4), address))


@pytest.mark.slow
def test_a_cluster_without_workers_is_refused():
    with cluster(1) as local:
        local.scale(0)
        while local.scheduler.workers:
            time.sleep(0.01)
        with pytest.raises(SweepError, match=r"must have at least one worker, not none$"):
            next(answers_of_cluster(tasks(4), local.scheduler_address))


@pytest.mark.slow
def test_a_point_that_kills_its_workers_has_an_error_and_the_rest_goes_on(monkeypatch):
    monkeypatch.setattr(workers, "answer", answer_or_die)
    with cluster(2, processes=True) as local:
        answers = dict(answers_of_cluster(tasks(20, 4, 24), local.scheduler_address))
    said = {task.index: each for task, each in answers.items()}
    assert [said[index].kept for index in range(3)] == [True, False, True]
    assert said[1].result.error == "WorkerDied: the Dask workers that ran it died"
    assert said[2].result.num_ranks == 24


@pytest.mark.slow
def test_a_cluster_that_is_gone_ends_the_sweep(monkeypatch):
    monkeypatch.setattr(workers, "answer", answer_or_die)
    local = cluster(1)
    answers = answers_of_cluster(tasks(20, 32, 32), local.scheduler_address)
    assert next(answers)[1].result.num_ranks == 20
    local.close()
    with pytest.raises(SweepError, match=r"must stay until the end, but is gone$"):
        next(answers)
