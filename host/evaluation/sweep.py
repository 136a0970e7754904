"""Runs a sweep: takes what is stored, has the rest answered, and writes all rows."""

import platform
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from multitree.host.engines import check_runs_here
from multitree.host.evaluation.definition import Grid, grid_of, read_grid
from multitree.host.evaluation.point import Point, PointResult, SweepError
from multitree.host.evaluation.point_run import Answer, Task, code_key, engine_key, versions
from multitree.host.evaluation.sources import Source, sources_of
from multitree.host.evaluation.store import (
    RunLog,
    Store,
    check_parquet,
    csv_text,
    parquet_bytes,
    point_key,
)
from multitree.host.evaluation.workers import answers_of_processes, num_cores
from multitree.topology.file_io import write_files

__all__ = ["SweepResult", "SweepStatus", "run_points", "run_sweep"]

MOST_JOBS = 1024
CSV, PARQUET, LOG = "results.csv", "results.parquet", "log.jsonl"


@dataclass(frozen=True)
class SweepStatus:
    """How far a sweep is.

    Parameters
    ----------
    num_points : int
        All.
    num_stored : int
        Those whose results were there before.
    num_done : int
        Those that have been run since.
    num_failed : int
        Those of all of these that have an error.
    num_unfinished : int
        Those of them that are not stored, since the error may not come again.
    workers : str
        What runs them: "2 processes", or a cluster.
    """

    num_points: int
    num_stored: int
    num_done: int
    num_failed: int
    num_unfinished: int
    workers: str

    @property
    def num_left(self) -> int:
        """Those that are still to be run."""
        return self.num_points - self.num_stored - self.num_done

    @property
    def num_kept(self) -> int:
        """Those whose results are stored."""
        return self.num_stored + self.num_done - self.num_unfinished


@dataclass(frozen=True)
class SweepResult:
    """All results of a sweep.

    Parameters
    ----------
    rows : list of dict
        Per point its parameters and what came of it, see `Point` and `PointResult`; in the order
        of the definition.
    files : tuple of Path
        With these rows.
    num_stored, num_run : int
        Points whose results were there before, and those that were run now.
    num_damaged : int
        Stored results that were not whole, and so were run again.
    num_failed : int
        Points that have an error.
    num_unfinished : int
        Those of them that the same sweep tries again, since the error may not come again.
    warnings : tuple of str
        What was dropped as networks were read.
    """

    rows: list[dict[str, Any]]
    files: tuple[Path, ...]
    num_stored: int
    num_run: int
    num_damaged: int
    num_failed: int
    num_unfinished: int
    warnings: tuple[str, ...]


def run_sweep(
    definition: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    jobs: int | None = None,
    dask: str | None = None,
    parquet: bool = False,
    force: bool = False,
    progress: Callable[[SweepStatus], None] | None = None,
) -> SweepResult:
    """Run every combination of parameters that a definition names, or go on with that.

    Each result is stored at once in the folder, under the hash of its parameters and of the code
    that it depends on. So a sweep that was ended, even killed, goes on where it was when it is
    called again, and one whose code has changed runs again. The files of all results are written
    at the end, and are the same however often it was ended, and whoever ran it.

    Parameters
    ----------
    definition : str, Path or mapping
        A YAML file, or what one holds: values, or lists of them, by key; docs/reference/sweep.md
        has the keys.
    out : str or Path
        Folder for results; it is made.
    jobs : int, optional
        Processes; by default one per core.
    dask : str, optional
        Address of a Dask scheduler, whose workers are asked instead.
    parquet : bool
        Write results.parquet in addition to results.csv; one that is there is always renewed.
    force : bool
        Replace results that another definition has left there.
    progress : callable, optional
        Called before the first point is run, and after each.

    Returns
    -------
    SweepResult
        Points without a schedule or a run have an error there, which says why.

    Raises
    ------
    SweepError
        If the definition is wrong, the folder is in use or has results that are not of a sweep or,
        without `force`, of another file whose points are not among these,
        workers cannot be started or reached, or something that was asked for is not installed.
    EngineError
        If an engine of the sweep cannot run on this machine.
    OSError
        If the folder cannot be written to.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from multitree import run_sweep
    >>> values = {"topology": "ring:4", "algorithm": ["ring", "swing"], "engine": "analytic"}
    >>> with TemporaryDirectory() as folder:
    ...     found = run_sweep(values | {"size": [4096, 8192]}, folder, jobs=1)
    >>> [row["cycles"] is not None for row in found.rows], found.num_failed
    ([True, True, True, True], 0)
    """
    grid = grid_of(definition) if isinstance(definition, Mapping) else read_grid(definition)
    num_jobs = _num_jobs(jobs, dask)
    _check_own(Path(out))
    file = str(grid.folder / Path(grid.name).name) if isinstance(definition, str | Path) else None
    if not force:
        _check_same(Path(out), grid, file)
    # One that is there must not stay behind with other rows.
    parquet = parquet or (Path(out) / PARQUET).exists()
    if parquet:
        check_parquet()
    for engine in grid.values["engine"] if dask is None else ():
        check_runs_here(engine, next_down="analytic")
    sources, warnings = sources_of(grid)
    with Store(Path(out)).opened() as store:
        log = RunLog(Path(out) / LOG)
        given = {"file": file, "definition": dict(grid.values)}
        log.add("start", **given, **_machine(), warnings=warnings)
        work = _Work(grid.points(), sources, store, log, progress)
        work.find_stored(num_cores() // num_jobs if dask is None else 1)
        work.run(num_jobs, dask)
        rows = [asdict(point) | asdict(work.results[i]) for i, point in enumerate(work.points)]
        contents: dict[str, str | bytes] = {CSV: csv_text(rows)}
        if parquet:
            contents[PARQUET] = parquet_bytes(rows)
        files = write_files(out, contents)
        log.add("end", **asdict(work.status))
    return SweepResult(
        rows,
        tuple(files),
        work.status.num_stored,
        work.status.num_done,
        store.num_damaged,
        work.status.num_failed,
        work.status.num_unfinished,
        tuple(warnings),
    )


def run_points(
    points: Sequence[Point],
    out: str | Path,
    *,
    jobs: int | None = None,
    limit_s: float = 0,
    progress: Callable[[SweepStatus], None] | None = None,
) -> list[PointResult]:
    """Results of points that are no grid, in their order, run or taken from the store in `out`.

    Topologies of files are looked for in the current folder. A point of the engine analytic
    that takes longer than `limit_s` CPU seconds has an error, which is not stored; 0 is no limit.
    Other errors are those of `run_sweep`.
    """
    num_jobs = _num_jobs(jobs, None)
    for engine in {point.engine for point in points}:
        check_runs_here(engine, next_down="analytic")
    specs = tuple(dict.fromkeys(point.topology for point in points))
    sources, warnings = sources_of(Grid("points", Path.cwd(), {"topology": specs}))
    with Store(Path(out)).opened() as store:
        log = RunLog(Path(out) / LOG)
        log.add("start", num_points=len(points), **_machine(), warnings=warnings)
        work = _Work(points, sources, store, log, progress)
        work.find_stored(num_cores() // num_jobs, limit_s)
        work.run(num_jobs, None)
        log.add("end", **asdict(work.status))
    return [work.results[index] for index in range(len(points))]


class _Work:
    """Points, and their results so far."""

    def __init__(
        self,
        points: Sequence[Point],
        sources: Mapping[str, Source],
        store: Store,
        log: RunLog,
        progress: Callable[[SweepStatus], None] | None,
    ) -> None:
        self.points = points
        self.results: dict[int, PointResult] = {}
        self.status = SweepStatus(len(self.points), 0, 0, 0, 0, "")
        self._tasks: list[Task] = []
        self._sources, self._store, self._log = sources, store, log
        self._progress = progress or (lambda status: None)

    def find_stored(self, num_threads: int, limit_s: float = 0) -> None:
        """Take what is stored, and make tasks of the rest."""
        code, num_threads = code_key(), max(1, num_threads)
        for index, point in enumerate(self.points):
            source = self._sources[point.topology]
            key = point_key(point, source, f"{code} {engine_key(point.engine)}")
            result = self._store.get(key)
            if result is None:
                self._tasks.append(Task(index, key, point, source, code, num_threads, limit_s))
            else:
                self.results[index] = result
        failed = sum(result.error is not None for result in self.results.values())
        self.status = replace(self.status, num_stored=len(self.results), num_failed=failed)

    def run(self, num_jobs: int, dask: str | None) -> None:
        """Have all tasks answered, and store each answer at once."""
        num_workers = min(num_jobs, len(self._tasks))
        processes = f"{num_workers} process" + ("" if num_workers == 1 else "es")
        self.status = replace(self.status, workers=processes if dask is None else dask)
        self._progress(self.status)
        if not self._tasks:
            return
        answers = _answers(self._tasks, num_workers, dask)
        try:
            for task, answer in answers:
                self._take(task, answer)
        finally:
            answers.close()

    def _take(self, task: Task, answer: Answer) -> None:
        result = answer.result
        if answer.kept:
            self._store.put(task.key, task.point, result)
        self.results[task.index] = result
        costs = {"kept": answer.kept, "error": result.error} | answer.costs
        self._log.add("point", row=task.index, key=task.key, **costs)
        self.status = replace(
            self.status,
            num_done=self.status.num_done + 1,
            num_failed=self.status.num_failed + (result.error is not None),
            num_unfinished=self.status.num_unfinished + (not answer.kept),
        )
        self._progress(self.status)


def _answers(
    tasks: Sequence[Task], num_workers: int, dask: str | None
) -> Generator[tuple[Task, Answer], None, None]:
    if dask is None:
        return answers_of_processes(tasks, num_workers)
    # Dask is an extra, so it is imported only where it is asked for.
    from multitree.host.evaluation.workers import answers_of_cluster

    return answers_of_cluster(tasks, dask)


def _num_jobs(jobs: int | None, dask: str | None) -> int:
    if jobs is not None and dask is not None:
        raise SweepError("Workers must be processes (jobs) or a Dask cluster, not both")
    if dask is not None and find_spec("distributed") is None:
        raise SweepError(
            "Dask must be installed for a cluster (pip install 'multitree[dask]'); "
            "processes of this machine need nothing"
        )
    if jobs is None:
        return num_cores()
    if isinstance(jobs, bool) or not isinstance(jobs, int) or not 1 <= jobs <= MOST_JOBS:
        raise SweepError(f"Jobs must be within 1..{MOST_JOBS}, not {jobs!r}")
    return jobs


def _check_own(folder: Path) -> None:
    """Raise where a file would be replaced that no sweep has written: sweeps keep a log there."""
    for name in (CSV, PARQUET):
        if (folder / name).exists() and not (folder / LOG).exists():
            raise SweepError(
                f"Folder of a sweep must have its {LOG} where it has a {name}: "
                f"{str(folder / name)!r} is not of one, and would be replaced"
            )


def _check_same(folder: Path, grid: Grid, file: str | None) -> None:
    """Raise where results would be replaced by others: those of another file, or of no file."""
    before = RunLog(folder / LOG).last_ended()
    if before.get("file", file) == file:
        return
    defaults = {each.name: each.default for each in fields(Point)}
    # What another file adds to is still there, and so are all results of a copy.
    lost = any(
        value not in grid.values.get(key, (defaults[key],))
        for key, values in before["definition"].items()
        for value in values
    ) or any(
        defaults[key] not in values
        for key, values in grid.values.items()
        if key not in before["definition"]
    )
    if lost:
        of = " and not of ".join(each or "values in Python" for each in (before["file"], file))
        raise SweepError(
            f"Folder {str(folder)!r} must keep its results, which are of {of}: "
            "another folder has room for these, or --force (in Python force) replaces them"
        )


def _machine() -> dict[str, Any]:
    """What the log says of this machine."""
    packages = versions(["multitree", "numpy"])
    return {"host": platform.node(), "python": platform.python_version(), "packages": packages}
