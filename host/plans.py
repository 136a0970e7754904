"""Plans of collectives, and the queue in which those that were started wait."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from multitree.host.buffers import same_stream
from multitree.host.engines import Collective, Plan
from multitree.host.invariant_sums import InvariantSum, depends_on_order
from multitree.host.report import WorkReport
from multitree.host.runner import Runner
from multitree.host.work import Result, Work, checked_op
from multitree.sim.choice import AUTO, Chooser
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build
from multitree.topology.algorithms.registry import SIZED
from multitree.topology.checks.verify import verify
from multitree.topology.collectives import check_collective
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["CollectiveQueue", "Plans"]

# Ranks own the same parts in both, so the second collective takes what is best for the first.
_CHOSEN_AS = {"all_gather": "reduce_scatter"}


class Plans:
    """Verified plans of one topology and algorithm, each built once.

    The algorithm is one of `ALGORITHMS`, or "auto": for each size the fastest by the analytic
    engine. ScheduleError if there is no such algorithm, or it has no all-reduce here.
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
        """A plan for one rank's buffer of a size, which matters to "auto" and to `SIZED`.

        ScheduleError if there is no such schedule; ValueError if "auto" is given no size.
        """
        if self._chooser is None and self._algorithm not in SIZED:
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
        chosen_as = _CHOSEN_AS.get(collective, collective)
        best = self._chooser.choose(num_flits, chosen_as, root).best
        schedule = best.schedule.schedule()
        if chosen_as != collective:
            schedule = build(self._topology, best.algorithm, collective, root)
        if schedule.hash not in self._verified:
            verify(schedule)
            self._verified[schedule.hash] = schedule
        return Plan(self._verified[schedule.hash], best.dependency)


class CollectiveQueue:
    """Collectives that were started, and the one thread that runs them in that order.

    `reproducible` is one of `LEVELS`; the runner is closed with the queue.
    """

    def __init__(self, runner: Runner, plans: Plans, *, reproducible: str) -> None:
        self._runner = runner
        self._plans = plans
        self._invariant = reproducible == "invariant"
        self._closed = False
        self._queue: deque[Collective] = deque()
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
    ) -> tuple[Collective, Callable[[Collective | None], tuple[Any, WorkReport]]]:
        """What runs first, and what runs all, given what is queued behind."""
        if self._invariant and depends_on_order(collective, op, memory.dtype):
            whole = InvariantSum(
                collective,
                memory,
                op,
                plans=self._plans.plan,
                root=root,
                link_model=self._runner.link_model,
            )
            return whole.first, partial(whole.run, self._run_one)
        size_bytes = memory.dtype.itemsize * memory.shape[1]
        queued = Collective.of(self._plans.plan(collective, root, size_bytes), memory, op)
        return queued, partial(self._run_one, queued)

    def _run_one(self, collective: Collective, then: Collective | None) -> tuple[Any, WorkReport]:
        """Run one collective on the engine."""
        outcome, report = self._runner.run(collective, then)
        return outcome.memory, report

    def close(self) -> None:
        """Wait for what was started, and give back what the engine holds."""
        with self._order:
            self._closed = True
        self._worker.shutdown(wait=True)
        self._runner.close()
