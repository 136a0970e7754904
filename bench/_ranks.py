"""Runs a function on every rank of a group of processes."""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["RankError", "run_ranks", "start_ranks"]

CONTEXT = multiprocessing.get_context("forkserver")
# What every rank imports, once: groups, and the builder of most schedules.
PRELOADED = ("multitree.host.torch.creation", "multitree.topology.algorithms.multitree")
CONTEXT.set_forkserver_preload(list(PRELOADED))


class RankError(AssertionError):
    """A rank has raised, or did not end in time."""


def _child(
    function: Callable[..., Any],
    rank: int,
    num_ranks: int,
    path: str,
    arguments: tuple[Any, ...],
    environment: dict[str, str],
    backend: str | None,
    results: Any,
) -> None:
    """One rank: the default group, the function, its result or its traceback."""
    os.environ.update(environment)
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    try:
        if backend is not None:
            dist.init_process_group(
                backend, rank=rank, world_size=num_ranks, init_method=f"file://{path}"
            )
        result = function(rank, num_ranks, *arguments)
        if dist.is_initialized():
            dist.destroy_process_group()
        results.send(("result", result))
    except BaseException:
        results.send(("error", traceback.format_exc()))
    results.close()


class Ranks:
    """Processes that run; `wait` for what they return."""

    def __init__(self, processes: list[Any], pipes: list[Any], folder: Any) -> None:
        self.processes, self._pipes, self._folder = processes, pipes, folder

    def wait(self, timeout_s: float = 60, gone: tuple[int, ...] = ()) -> list[Any]:
        """Results by rank; None for ranks in `gone`, which are not waited for."""
        deadline = time.monotonic() + timeout_s
        results: list[Any] = [None] * len(self._pipes)
        errors = []
        try:
            for rank, pipe in enumerate(self._pipes):
                if rank in gone:
                    continue
                if not pipe.poll(max(deadline - time.monotonic(), 0)):
                    errors.append(f"rank {rank} did not end within {timeout_s} s")
                    continue
                try:
                    kind, value = pipe.recv()
                except EOFError:
                    errors.append(f"rank {rank} ended without a result")
                    continue
                if kind == "error":
                    errors.append(f"rank {rank} raised:\n{value}")
                results[rank] = value
        finally:
            self.end()
        if errors:
            raise RankError("\n".join(errors))
        return results

    def end(self) -> None:
        """Kill what still runs."""
        for process in self.processes:
            process.join(0.5 if process.is_alive() else 0)
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
            process.join()
        self._folder.cleanup()


def start_ranks(
    function: Callable[..., Any],
    num_ranks: int,
    *arguments: Any,
    backend: str | None = "multitree",
    **environment: str,
) -> Ranks:
    """Start `function(rank, num_ranks, *arguments)`, of an importable module, on every rank.

    The default group is of a backend, or of none. Ranks have these variables in their environment.
    """
    folder = tempfile.TemporaryDirectory()
    path = str(Path(folder.name) / "store")
    processes, pipes = [], []
    for rank in range(num_ranks):
        receiver, sender = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(
            target=_child,
            args=(function, rank, num_ranks, path, arguments, environment, backend, sender),
        )
        # Processes find modules where this one does: this file's, too, where a test has loaded it.
        sys.path.insert(0, str(Path(__file__).parent))
        process.start()
        sys.path.pop(0)
        sender.close()
        processes.append(process)
        pipes.append(receiver)
    return Ranks(processes, pipes, folder)


def run_ranks(
    function: Callable[..., Any], num_ranks: int, *arguments: Any, timeout_s: float = 60, **how: Any
) -> list[Any]:
    """Run a function on every rank: results by rank, or a RankError, and none is left running."""
    return start_ranks(function, num_ranks, *arguments, **how).wait(timeout_s)
