"""Workers of a Dask cluster; needs the extra `dask`."""

import contextlib
import logging
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import islice
from typing import Any

from distributed import Client, as_completed
from distributed.comm import get_address_host_port
from distributed.scheduler import KilledWorker

from multitree.host.sweep.errors import SweepError
from multitree.host.sweep.point import PointResult
from multitree.host.sweep.point_run import Answer, Task, answer

__all__ = ["answers_of_cluster"]

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
