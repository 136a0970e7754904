"""PyTorch's tests of several processes on forked ranks, with a limit of time.

PyTorch starts the ranks of a test as new processes, which takes seconds and imports its modules
again; forked ranks start at once and have whatever was changed in them.
"""

import json
import signal
import time
import unittest
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

import torch

# At its limit of time PyTorch ends a test's ranks and shows where they were; we end what is left.
GRACE_SECONDS = 30


def end_test(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise TimeoutError("the test did not end at its limit of time")


class ForkedRanks:
    """To be put before `MultiProcessTestCase` among the bases of a class of tests.

    `longest_s` is what a test may take, in seconds; the environment's
    DISTRIBUTED_TESTS_DEFAULT_TIMEOUT tells PyTorch the same.
    """

    longest_s: int

    def setUp(self) -> None:
        signal.signal(signal.SIGALRM, end_test)
        signal.alarm(self.longest_s + GRACE_SECONDS)
        super().setUp()  # type: ignore[misc]

    def tearDown(self) -> None:
        signal.alarm(0)
        for process in self.processes:  # type: ignore[attr-defined]
            process.kill()
        super().tearDown()  # type: ignore[misc]

    def _spawn_processes(self) -> None:
        self._start_processes(torch.multiprocessing.get_context("fork").Process)  # type: ignore

    def skipTest(self, reason: Any) -> NoReturn:  # noqa: N802
        # A rank's exit code says that it skipped the test, but not why.
        self._reason.write_text(str(reason))
        raise unittest.SkipTest(reason)

    @property
    def _reason(self) -> Path:
        return Path(self.file_name + ".reason")  # type: ignore[attr-defined]

    def _check_return_codes(self, fn: Any, elapsed_time: float) -> None:
        try:
            super()._check_return_codes(fn, elapsed_time)  # type: ignore[misc]
        except unittest.SkipTest as skip:
            if self._reason.exists():
                skip.args = (self._reason.read_text(),)
                self._reason.unlink()
            raise
        # PyTorch looks at rank 0 only, and at error code 10 of others.
        codes = [process.exitcode for process in self.processes]  # type: ignore[attr-defined]
        if len(set(codes)) > 1:
            raise AssertionError(f"exit codes of ranks differ: {codes}")


class Rows(unittest.TestResult):
    """Writes name, outcome, reason and seconds of every test as a line of JSON."""

    def __init__(self, out: TextIO, limit_s: int) -> None:
        super().__init__()
        self._out, self._limit_s = out, limit_s
        self._outcome: tuple[str, str] = ("passed", "")
        self._start = 0.0

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 (the name is unittest's)
        super().startTest(test)
        self._outcome, self._start = ("passed", ""), time.monotonic()

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self._outcome = ("skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._outcome = ("failed", self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self._outcome = ("failed", self.errors[-1][1])

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        seconds = time.monotonic() - self._start
        outcome, reason = self._outcome
        if outcome == "failed" and seconds >= self._limit_s:
            reason = f"hung: no end within {self._limit_s} s\n{reason}"
        name = test.id().rsplit(".", 1)[-1]
        row = {
            "name": name,
            "class": type(test).__name__,
            "outcome": outcome,
            "reason": reason,
            "seconds": seconds,
        }
        print(json.dumps(row), file=self._out, flush=True)
