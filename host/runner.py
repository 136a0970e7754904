"""Plans collectives, runs them one after another on an engine, reports on each."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from multitree.host.buffers import same_stream, to_array
from multitree.host.engines import Engine, Plan, Queued, open_engine
from multitree.host.invariant_sums import InvariantSum, check_level, depends_on_order
from multitree.host.report import WorkReport, report_on
from multitree.host.work import Outcome, Result, Work, checked_op, finished, reduction_of
from multitree.sim.choice import AUTO, Chooser
from multitree.sim.link_model import LinkModel
from multitree.sim.offload import Host
from multitree.topology.algorithms.build import PACED, build
from multitree.topology.checks.verify import verify
from multitree.topology.collectives import as_bits, check_collective
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Plans", "Runner", "run_on"]

_LIKE = {"all_gather": "reduce_scatter"}
"""Collectives for which what is best for another one is taken: ranks own the same parts in both."""


class Plans:
    """Verified plans for one topology and algorithm; they are kept.

    Parameters
    ----------
    topology : Topology
    algorithm : str
        One of `ALGORITHMS`, or "auto": for each size the fastest by the analytic engine.
    link_model : LinkModel

    Raises
    ------
    ScheduleError
        If there is no such algorithm, or it has no all-reduce on this topology.
    """

    def __init__(self, topology: Topology, algorithm: str, link_model: LinkModel) -> None:
        self._topology = topology
        self._algorithm = algorithm
        self._link_model = link_model
        self._plans: dict[tuple[str, int | None, int | None], Plan] = {}
        self._verified: dict[str, Schedule] = {}
        self._chooser: Chooser | None = None
        if algorithm == AUTO:
            self._chooser = Chooser(topology, link_model)
        else:
            self.plan("all_reduce", None, None)

    def plan(self, collective: str, root: int | None, size_bytes: int | None) -> Plan:
        """Build and verify, or return what was.

        Parameters
        ----------
        collective : str
        root : int, optional
            As for `build`.
        size_bytes : int, optional
            Of one rank's buffer; matters where the algorithm is "auto", or one of `PACED`.

        Returns
        -------
        Plan

        Raises
        ------
        ScheduleError
            If there is no such schedule.
        ValueError
            If the algorithm is "auto" and no size is given.
        """
        if self._chooser is None and self._algorithm not in PACED:
            size_bytes = None
        elif self._chooser is not None and size_bytes is None:
            raise ValueError(f"Size must be given where the algorithm is {AUTO!r}, not None")
        # Before the look-up, in which True and 1.0 are the same as 1.
        check_collective(collective, root, self._topology.num_ranks)
        key = collective, root, size_bytes
        if key not in self._plans:
            self._plans[key] = self._made(collective, root, size_bytes)
        return self._plans[key]

    def _made(self, collective: str, root: int | None, size_bytes: int | None) -> Plan:
        model = self._link_model
        num_flits = None if size_bytes is None else model.num_flits(size_bytes, 1)
        if self._chooser is None or num_flits is None:
            cost_model = None if num_flits is None else model.cost_model(self._topology, num_flits)
            schedule = build(self._topology, self._algorithm, collective, root, cost_model)
            verify(schedule)
            return Plan(schedule)
        best = self._chooser.choose(num_flits, _LIKE.get(collective, collective), root).best
        schedule = best.schedule
        if collective in _LIKE:
            schedule = build(self._topology, best.algorithm, collective, root)
        if schedule.hash not in self._verified:
            verify(schedule)
            self._verified[schedule.hash] = schedule
        return Plan(self._verified[schedule.hash], best.dependency)


class Runner:
    """Verified schedules, an engine and the one thread that runs what was started, in order.

    Parameters are those of `Communicator`, which puts users' buffers around it.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        algorithm: str,
        engine: str,
        link_model: LinkModel,
        check: bool,
        reproducible: str,
    ) -> None:
        check_level(reproducible)
        self.topology = topology
        self.algorithm = algorithm
        self.link_model = link_model
        self.plans = Plans(topology, algorithm, link_model)
        self._check = check
        self._invariant = reproducible == "invariant"
        self._closed = False
        self.engine = open_engine(engine, topology, link_model)
        self._queue: deque[Queued] = deque()
        self._order = threading.Lock()
        # It has one thread, so that collectives run in the order in which they were started.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="multitree")

    def start(
        self,
        collective: str,
        memory: Any,
        finish: Callable[[Any], Result],
        *,
        root: int | None = None,
        op: str = "sum",
    ) -> Work[Result]:
        """Check the op, and hand the collective to the worker."""
        op = checked_op(op, memory.dtype)
        first, run_all = self._prepared(collective, memory, root, op)
        # It is taken in the thread of the caller, whose kernels fill the memory.
        stream = same_stream(memory)

        def run() -> tuple[Result, WorkReport]:
            self._queue.popleft()
            # A copy is looked at, since another thread may append meanwhile.
            following = next(iter(list(self._queue)), None)
            with stream:
                image, report = run_all(following)
                return finish(image), report

        # Both happen under one lock, so that the queue has the order in which the worker runs.
        with self._order:
            if self._closed:
                raise RuntimeError("Communicator must be open, not closed")
            self._queue.append(first)
            return Work(self._worker.submit(run))

    def _prepared(
        self, collective: str, memory: Any, root: int | None, op: str
    ) -> tuple[Queued, Callable[[Queued | None], tuple[Any, WorkReport]]]:
        """What runs first, and what runs all, given what is queued behind."""
        if self._invariant and depends_on_order(collective, op, memory.dtype):
            whole = InvariantSum(
                collective,
                memory,
                op,
                plans=self.plans.plan,
                root=root,
                link_model=self.link_model,
            )
            return whole.first, partial(whole.run, self._run_one)
        size_bytes = memory.dtype.itemsize * memory.shape[1]
        queued = Queued(self.plans.plan(collective, root, size_bytes), memory, op)
        return queued, partial(self._run_one, queued)

    def _run_one(self, queued: Queued, then: Queued | None) -> tuple[Any, WorkReport]:
        """Run one collective on the engine."""
        outcome, report = run_on(
            self.engine,
            queued.plan,
            queued.memory,
            link_model=self.link_model,
            op=queued.op,
            check=self._check,
            then=then,
        )
        return outcome.memory, report

    def close(self) -> None:
        """Wait for what was started, and give back what the engine holds."""
        with self._order:
            self._closed = True
        self._worker.shutdown(wait=True)
        self.engine.close()


def run_on(
    engine: Engine,
    plan: Plan,
    memory: Any,
    *,
    link_model: LinkModel,
    op: str = "sum",
    check: bool = False,
    then: Queued | None = None,
    host: Host | None = None,
) -> tuple[Outcome, WorkReport]:
    """Run a schedule on an engine, timed without what the engine has to build.

    Parameters
    ----------
    engine : Engine
    plan : Plan
        Its schedule is one that `verify` accepts.
    memory : numpy.ndarray or torch.Tensor, shape (num_ranks, n)
        float32, int32 or bfloat16; not modified.
    link_model : LinkModel
        Clock and flits.
    op : str
        "sum", "max", or "average": the sums are divided by the number of ranks.
    check : bool
        Compare every rank's memory with `execute`.
    then : Queued, optional
        What will run next, so that the engine can load it meanwhile.
    host : Host, optional
        What its calls take; by default nothing.

    Returns
    -------
    outcome : Outcome
        What the engine handed back, every rank's memory among it.
    report : WorkReport
    """
    schedule = plan.schedule
    # What it compiles or wires is not part of the time of the run.
    engine.prepare(schedule, memory)
    if then is not None:
        engine.expect(then.plan, then.memory, op=then.op)
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = engine.run(plan, memory, op=op)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    exact = None
    if check:
        exact = _is_exact(schedule, memory, op, outcome, link_model.flit_bytes)
    report = report_on(
        schedule,
        engine=engine.name,
        size_bytes=memory.dtype.itemsize * memory.shape[1],
        link_model=plan.applied_to(link_model),
        cycles=outcome.cycles,
        link_utilization=outcome.link_utilization,
        ports=outcome.ports,
        loading_cycles=outcome.loading_cycles,
        host=host,
        exact=exact,
        wall_seconds=wall,
        cpu_seconds=cpu,
    )
    return outcome, report


def _is_exact(schedule: Schedule, memory: Any, op: str, outcome: Outcome, flit_bytes: int) -> bool:
    """Whether every rank's memory equals `execute` bit for bit."""
    expected = execute(schedule, to_array(memory), reduction_of(op), flit_bytes=flit_bytes)
    expected = finished(expected, op, schedule.topology.num_ranks)
    return bool((as_bits(expected) == as_bits(to_array(outcome.memory))).all())
