"""Workers that run points: processes of this machine, or a cluster."""

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from distributed import Client, as_completed
from distributed.comm import get_address_host_port
from distributed.scheduler import KilledWorker

from multitree.host.evaluation.point import PointResult, SweepError
from multitree.host.evaluation.point_run import Answer, Task, answer
from multitree.topology.errors import TopologyWarning, report

__all__ = ["answers_of_cluster", "answers_of_processes", "num_cores"]

_SECONDS_TO_END = 5.0
_SECONDS_TO_SAY = 5.0
"""After which it is said again what is being run."""
_SECONDS_TO_ASK_AGAIN = 0.1
# Started anew, not forked: threads and locks of this process are not theirs.
_PROCESSES = multiprocessing.get_context("spawn")
_STARTED = "started"
# A terminal sends these to all its processes: this one decides when its workers end.
_OF_TERMINALS = {signal.SIGINT, signal.SIGHUP}

Run = Callable[[Task], Answer]


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def answers_of_processes(
    tasks: Sequence[Task], num_workers: int, run: Run = answer
) -> Generator[tuple[Task, Answer], None, None]:
    """Answer tasks in processes by `run`, in the order in which they end; closing ends them.

    Where a process dies, its task has an error that is not stored, and another process takes its
    place. SweepError if processes cannot start, or as `run`.
    """
    waiting = iter(tasks)
    workers: list[_Worker] = []
    try:
        for _ in range(min(num_workers, len(tasks))):
            workers.append(_Worker(run))
            workers[-1].give(next(waiting))
        while busy := [worker for worker in workers if worker.task is not None]:
            ready = wait([worker.connection for worker in busy], _SECONDS_TO_SAY)
            if not ready:
                report(", ".join(str(worker.task) for worker in busy))
            for worker in [each for each in busy if each.connection in ready]:
                task, said = worker.task, worker.receive()
                if task is None or said is None:
                    continue
                following = next(waiting, None)
                if worker.has_ended and following is not None:
                    workers.remove(worker)
                    worker = _Worker(run)
                    workers.append(worker)
                # Before the answer goes on, so that it works while that is stored.
                worker.give(following)
                yield task, said
    finally:
        _end(workers)


class _Worker:
    """A process, and the task that it has."""

    def __init__(self, run: Run) -> None:
        self.task: Task | None = None
        self.has_ended = False
        self._has_started = False
        self.connection, theirs = _PROCESSES.Pipe()
        self.process = _PROCESSES.Process(target=_serve, args=(theirs, run), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_TERMINALS)
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # Without this end of its own, this process sees when the other one is gone.
        theirs.close()

    def give(self, task: Task | None) -> None:
        """Send it a task, if there is one."""
        self.task = task
        # One that has died is found to be so when its answer is waited for.
        with contextlib.suppress(OSError):
            if task is not None:
                self.connection.send(task)

    def receive(self) -> Answer | None:
        """What it says of its task, or that it has died; None where it says that it has started."""
        try:
            said = self.connection.recv()
        except (EOFError, OSError):
            return self._died()
        if said == _STARTED:
            self._has_started = True
            return None
        if isinstance(said, Exception):
            raise said
        assert isinstance(said, Answer)
        return said

    def _died(self) -> Answer:
        self.has_ended = True
        self.process.join()
        code = self.process.exitcode or 0
        names = {int(each): each.name for each in signal.Signals}
        by = names.get(-code, f"signal {-code}")
        how = f"ended by {by}" if code < 0 else f"ended with status {code}"
        if not self._has_started:
            raise SweepError(
                f"Worker processes must start, but one {how} at once; a script that calls "
                "run_sweep must do so below: if __name__ == '__main__'"
            )
        result = PointResult(error=f"WorkerDied: the worker process was {how}")
        return Answer(result, kept=False, costs={"pid": self.process.pid})


def _end(workers: Sequence[_Worker]) -> None:
    """End processes: those that do not do so when they are asked to are killed.

    They are asked again and again, since one that was about to block, in a read or a sleep, when
    it was asked has only noted that; the next signal wakes it.
    """
    for ask in (BaseProcess.terminate, BaseProcess.kill):
        until = time.monotonic() + _SECONDS_TO_END
        while alive := [each.process for each in workers if each.process.is_alive()]:
            if time.monotonic() >= until:
                break
            for process in alive:
                ask(process)
            wait([process.sentinel for process in alive], _SECONDS_TO_ASK_AGAIN)
    for worker in workers:
        worker.connection.close()


def _serve(connection: "Connection[Any, Any]", run: Run) -> None:
    """What a worker process does: it answers tasks until there are no more."""
    signal.signal(signal.SIGTERM, _exit)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # The sweep has said so already.
    warnings.simplefilter("ignore", TopologyWarning)
    _say(connection, _STARTED)
    while True:
        try:
            task = connection.recv()
        except (EOFError, ConnectionError):
            return
        said: Answer | Exception
        try:
            said = run(task)
        except SweepError as error:
            said = error
        _say(connection, said)


def _say(connection: "Connection[Any, Any]", said: object) -> None:
    """Send something to the sweep; where that was killed, end without a word."""
    try:
        connection.send(said)
    except ConnectionError:
        sys.exit(1)


def _exit(number: int, frame: FrameType | None) -> None:
    """End as programs end, so that compilers which run are ended, too."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _end_with_parent() -> None:
    """End this process when the one that has started it is gone, however that ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    until = time.monotonic() + _SECONDS_TO_END
    while time.monotonic() < until:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_SECONDS_TO_ASK_AGAIN)
    os._exit(1)


_SECONDS_TO_CONNECT = 10
_TASKS_PER_THREAD = 4
"""Tasks that are with the cluster at a time, so that its workers never wait for this process."""


def answers_of_cluster(
    tasks: Sequence[Task], address: str
) -> Generator[tuple[Task, Answer], None, None]:
    """Answer tasks on a cluster, in the order in which they end; closing cancels the rest.

    A task that kills its workers again and again has an error that is not stored. SweepError if
    the scheduler, such as "tcp://10.0.0.1:8786", is not there, has no worker or other code.
    """
    try:
        get_address_host_port(address)  # of what is no address a half-made client would stay
        client = Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        raise SweepError(
            f"Dask must have a scheduler at {address!r}, but: {' '.join(str(error).split())}"
        ) from None
    with _quiet_log(), client:
        num_threads = sum(client.nthreads().values())
        if num_threads == 0:
            raise SweepError(f"Dask cluster at {address!r} must have at least one worker, not none")
        waiting = iter(tasks)

        def submitted(task: Task) -> Any:
            futures[future := client.submit(answer, task, pure=False)] = task
            return future

        futures: dict[Any, Task] = {}
        at_once = islice(waiting, _TASKS_PER_THREAD * num_threads)
        done = as_completed([submitted(task) for task in at_once], loop=client.loop)
        try:
            for future in done:
                yield futures.pop(future), _answer_of(future, address)
                if (following := next(waiting, None)) is not None:
                    done.add(submitted(following))
        finally:
            client.cancel(list(futures))


@contextlib.contextmanager
def _quiet_log() -> Iterator[None]:
    """Keep Dask from logging what an error says, too: that a cluster is gone."""
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def _answer_of(future: Any, address: str) -> Answer:
    """What came of a task."""
    try:
        error = future.exception()
        if error is None:
            said = future.result()
            assert isinstance(said, Answer)
            return said
    except (CancelledError, OSError) as lost:
        error = lost
    if isinstance(error, SweepError):
        raise error
    if isinstance(error, CancelledError | OSError):
        raise SweepError(f"Dask cluster at {address!r} must stay until the end, but is gone")
    if isinstance(error, KilledWorker):
        result = PointResult(error="WorkerDied: the Dask workers that ran it died")
        return Answer(result, kept=False, costs={})
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    raise SweepError(f"Dask workers at {address!r} must be able to run points, but: {reason}")
