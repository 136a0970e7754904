"""Runs one collective after another on an engine, and reports on each."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from multitree.host.buffers import same_stream, to_array
from multitree.host.engines import Engine, open_engine
from multitree.host.plans import Plan, Plans
from multitree.host.work import (
    Outcome,
    Result,
    Work,
    WorkReport,
    checked_op,
    finished,
    reduction_of,
    report_on,
)
from multitree.sim.link_model import LinkModel
from multitree.topology.collectives import as_bits
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Queued", "Runner", "run_on"]


@dataclass(frozen=True, eq=False)
class Queued:
    """A collective that was started and has not run: its plan, memory and op."""

    plan: Plan
    memory: Any
    op: str


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
    ) -> None:
        self.topology = topology
        self.algorithm = algorithm
        self.link_model = link_model
        self.plans = Plans(topology, algorithm, link_model)
        self._check = check
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
        size_bytes = memory.dtype.itemsize * memory.shape[1]
        plan = self.plans.plan(collective, root, size_bytes)
        # It is taken in the thread of the caller, whose kernels fill the memory.
        stream = same_stream(memory)

        def run() -> tuple[Result, WorkReport]:
            self._queue.popleft()
            # A copy is looked at, since another thread may append meanwhile.
            following = next(iter(list(self._queue)), None)
            with stream:
                image, report = run_on(
                    self.engine,
                    plan,
                    memory,
                    link_model=self.link_model,
                    op=op,
                    check=self._check,
                    then=following,
                )
                return finish(image), report

        # Both happen under one lock, so that the queue has the order in which the worker runs.
        with self._order:
            if self._closed:
                raise RuntimeError("Communicator must be open, not closed")
            self._queue.append(Queued(plan, memory, op))
            return Work(self._worker.submit(run))

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
) -> tuple[Any, WorkReport]:
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

    Returns
    -------
    memory : numpy.ndarray or torch.Tensor, shape (num_ranks, n)
        Every rank's memory at the end.
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
        exact=exact,
        wall_seconds=wall,
        cpu_seconds=cpu,
    )
    return outcome.memory, report


def _is_exact(schedule: Schedule, memory: Any, op: str, outcome: Outcome, flit_bytes: int) -> bool:
    """Whether every rank's memory equals `execute` bit for bit."""
    expected = execute(schedule, to_array(memory), reduction_of(op), flit_bytes=flit_bytes)
    expected = finished(expected, op, schedule.topology.num_ranks)
    return bool((as_bits(expected) == as_bits(to_array(outcome.memory))).all())
