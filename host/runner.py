"""Runs one collective after another on an engine, and reports on each."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numpy as np

from multitree.host.buffers import same_stream
from multitree.host.engines import Outcome, average_of, open_engine
from multitree.host.figures import Figures
from multitree.host.work import Work, WorkReport
from multitree.sim.link_model import LinkModel
from multitree.topology.builders import build
from multitree.topology.execute import execute
from multitree.topology.schedule import Schedule
from multitree.topology.topology import Topology
from multitree.topology.verify import verify

__all__ = ["Runner"]


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
        self._check = check
        self._closed = False
        self._schedules: dict[tuple[str, int | None], Schedule] = {}
        self.schedule("all_reduce", None)
        self.engine = open_engine(engine)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="multitree")

    def schedule(self, collective: str, root: int | None) -> Schedule:
        """Build and verify a collective's schedule, or return the one that was."""
        if (collective, root) not in self._schedules:
            schedule = build(self.topology, self.algorithm, collective=collective, root=root)
            verify(schedule)
            self._schedules[collective, root] = schedule
        return self._schedules[collective, root]

    def start(
        self,
        collective: str,
        memory: Any,
        finish: Callable[[Any], Any],
        *,
        root: int | None = None,
        op: str = "sum",
    ) -> Work:
        """Check the op, and hand the collective to the worker."""
        if op not in ("sum", "average"):
            raise ValueError(f"Op must be 'sum' or 'average', not {op!r}")
        average = op == "average"
        if average and "float" not in str(memory.dtype):
            raise TypeError(f"Buffers must be float32 for an average, not {memory.dtype}")
        schedule = self.schedule(collective, root)
        if self._closed:
            raise RuntimeError("Communicator must be open, not closed")
        stream = same_stream(memory)

        def run() -> tuple[Any, WorkReport]:
            with stream:
                wall, cpu = time.perf_counter(), time.process_time()
                outcome = self.engine.run(
                    schedule, memory, average=average, flit_bytes=self.link_model.flit_bytes
                )
                seconds = time.perf_counter() - wall, time.process_time() - cpu
                exact = self._is_exact(schedule, memory, average, outcome) if self._check else None
                report = self._report(schedule, memory.shape[1], outcome, exact, seconds)
                return finish(outcome.memory), report

        return Work(self._worker.submit(run))

    def _report(
        self,
        schedule: Schedule,
        num_elements: int,
        outcome: Outcome,
        exact: bool | None,
        seconds: tuple[float, float],
    ) -> WorkReport:
        """Put figures beside what an engine handed back."""
        figures = Figures.of(
            schedule,
            4 * num_elements,
            self.link_model,
            cycles=outcome.cycles,
            link_utilization=outcome.link_utilization,
        )
        return WorkReport(
            **asdict(figures),
            engine=self.engine.name,
            algorithm=self.algorithm,
            collective=schedule.collective,
            schedule_hash=schedule.hash,
            num_ranks=self.topology.num_ranks,
            size_bytes=4 * num_elements,
            exact=exact,
            wall_seconds=seconds[0],
            cpu_seconds=seconds[1],
        )

    def _is_exact(self, schedule: Schedule, memory: Any, average: bool, outcome: Outcome) -> bool:
        """Whether every rank's memory equals `execute` bit for bit."""
        before, after = (
            part if isinstance(part, np.ndarray) else part.cpu().numpy()
            for part in (memory, outcome.memory)
        )
        expected = execute(schedule, before, flit_bytes=self.link_model.flit_bytes)
        if average:
            expected = average_of(expected, schedule.topology.num_ranks)
        return bool((expected.view(np.uint32) == after.view(np.uint32)).all())

    def close(self) -> None:
        """Wait for what was started, and give back what the engine holds."""
        self._closed = True
        self._worker.shutdown(wait=True)
        self.engine.close()
