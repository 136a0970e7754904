"""Compilers and other tools as processes of their own, which end before we do."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

from multitree.nic.faults import DeviceError
from multitree.topology.progress import report

__all__ = ["Tools"]

Result = TypeVar("Result")

_SECONDS_TO_END = 5.0
_LAST_LINES = 3


class Tools:
    """Runs tools, several at once; where one fails, or a signal comes, it ends all others.

    Parameters
    ----------
    folder : Path
        Their working folder, and that of their temporary files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._ended = False

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Run one and wait for it.

        Parameters
        ----------
        command : sequence of str
        environment : mapping of str to str, optional
            Variables in addition to those of this process.

        Raises
        ------
        DeviceError
            With its last words if it fails, or with the signal that ended it.
        """
        name = Path(command[0]).name
        with self._lock:
            # Under the lock, `end` either finds a process or keeps it from being started.
            if self._ended:
                raise DeviceError(f"{name} was not started, since another tool has failed")
            # In a process group, so that what it starts itself ends with it.
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env={**os.environ, "TMPDIR": str(self._folder), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                process_group=0,
            )
            self._running.add(process)
        try:
            out, err = process.communicate()
        # A signal raises here in the main thread, perhaps in the middle of the wait.
        except BaseException:
            self.end()
            raise
        finally:
            self._running.discard(process)
        if process.returncode:
            words = "; ".join((err or out).strip().splitlines()[-_LAST_LINES:])
            if process.returncode < 0:
                words = f"ended by {signal.Signals(-process.returncode).name}"
            raise DeviceError(f"{name} failed while compiling the network: {words}")

    def side_by_side(
        self, jobs: Sequence[Callable[[], Result]], num_jobs: int, what: str
    ) -> list[Result]:
        """Call functions that run tools, in so many threads.

        Parameters
        ----------
        jobs : sequence of callable
        num_jobs : int
        what : str
            What they do, for `progress.report`.

        Returns
        -------
        list
            What they return, in their order.

        Raises
        ------
        DeviceError
            What the first one to fail raised.
        """
        pool = ThreadPoolExecutor(num_jobs)
        try:
            futures = [pool.submit(self._only_while_none_failed, job) for job in jobs]
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                report(what, done, len(jobs))
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            self.end()
            raise
        finally:
            # Threads return as soon as the tools that they wait for have ended.
            pool.shutdown()

    def _only_while_none_failed(self, job: Callable[[], Result]) -> Result:
        """Call a function; where it fails, nothing is started any more."""
        try:
            return job()
        except BaseException:
            # At once: this thread may begin the next job before `side_by_side` ends the others.
            self._ended = True
            raise

    def end(self) -> None:
        """End what runs, wait until it has ended, and start nothing more."""
        with self._lock:
            self._ended = True
            running = list(self._running)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in running:
                # The number of a process that was waited for may be that of another one by now.
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, number)
            for process in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_TO_END)
