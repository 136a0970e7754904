"""Tests on a copy of the repository in which one file is changed."""

import compileall
import contextlib
import importlib.util
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import NamedTuple

import pytest

__all__ = ["Copy", "Verdict"]

PRELOADED = ["pytest", "hypothesis", "numpy", "networkx", "ml_dtypes", "amaranth.sim"]
MOST_BYTES = 8 << 30
HANGING_SECONDS = 20
"""More of a processor than any test takes, beyond what is given to all of them."""
WAITING_SECONDS = 3600
_NOTICED = 10
PASSED, FAILED, TIMED_OUT = "passed", "failed", "timed out"
_GOOD = (pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.NO_TESTS_COLLECTED)
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(PRELOADED)


class Verdict(NamedTuple):
    """What tests say: passed, failed or timed out, and which one was the last to begin."""

    outcome: str
    test: str


class Copy:
    """A copy of the files that git knows or does not ignore, with a cache of its own.

    Only here files are changed, and only here tests write; `chosen` are options of pytest that say
    which of them run. Python compiles a file anew when its content differs, not its time: two
    mutants may well be written within a second.
    """

    def __init__(self, root: Path, chosen: Sequence[str] = ()) -> None:
        self._chosen = list(chosen)
        self._holder = tempfile.TemporaryDirectory(prefix="mutation-")
        self.folder = Path(self._holder.name, "tree")
        self.output = Path(self._holder.name, "output")
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for name in filter(None, listed.split("\0")):
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(root / name):
                shutil.copy2(root / name, target, follow_symlinks=False)
        # Rules of the house hold for the files that git does not ignore.
        subprocess.run(["git", "init", "--quiet"], cwd=self.folder, check=True)
        compileall.compile_dir(
            self.folder, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH
        )

    def close(self) -> None:
        self._holder.cleanup()

    def test(
        self, tests: Sequence[Sequence[str]], seconds: float, module: str = "", content: bytes = b""
    ) -> Verdict:
        """Run each file's tests in this order until one fails, with one file changed, if any.

        After so many seconds of a processor no test begins; one that goes on for `HANGING_SECONDS`
        more times out.
        """
        cache = tempfile.mkdtemp(dir=self._holder.name)
        path = self.folder / module
        before = path.read_bytes() if module else b""
        try:
            if module:
                path.write_bytes(content)
            return self._run(tests, seconds, cache)
        finally:
            if module:
                path.write_bytes(before)
            shutil.rmtree(cache, ignore_errors=True)

    def _run(self, tests: Sequence[Sequence[str]], seconds: float, cache: str) -> Verdict:
        begun = Path(cache, "begun")
        begun.touch()
        limits = (seconds, int(seconds + HANGING_SECONDS))
        paths = (str(self.folder), cache, str(self.output), str(begun))
        arguments = ([list(group) for group in tests], self._chosen, limits, *paths)
        child = _context.Process(target=_test, args=arguments)
        child.start()
        child.join(WAITING_SECONDS)
        timed_out = child.is_alive()
        with contextlib.suppress(ProcessLookupError):
            # It leads a group of its own, with all that it has started.
            os.killpg(child.pid or 0, signal.SIGKILL)
        child.join()
        timed_out |= child.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        if child.exitcode == 1:
            raise RuntimeError(f"tests must run, see {self.output.read_text()!r}")
        outcome = TIMED_OUT if timed_out else FAILED if child.exitcode else PASSED
        return Verdict(outcome, begun.read_text())


class _Watch:
    """Writes down which test, or file to read tests from, was the last one, and looks at time."""

    def __init__(self, seconds: float, begun: str) -> None:
        self._seconds, self._begun = seconds, Path(begun)
        self.failed = False

    def _note(self, nodeid: str, failed: bool) -> None:
        if not self.failed:
            self._begun.write_text(nodeid)
        self.failed |= failed

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report.nodeid, report.failed)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """A test is about to begin, if there is time for it."""
        if _used_seconds() > self._seconds:
            item.session.shouldstop = "time is up"
        else:
            self._note(item.nodeid, False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report.nodeid, report.failed)


def _used_seconds() -> float:
    ours, ended = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return ours.ru_utime + ours.ru_stime + ended.ru_utime + ended.ru_stime


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.killpg(os.getpid(), signal.SIGKILL)


def _test(
    tests: list[list[str]],
    chosen: list[str],
    limits: tuple[float, int],
    folder: str,
    cache: str,
    output: str,
    begun: str,
) -> None:
    """In a process of its own: run the tests; exit status `_NOTICED` if one fails."""
    os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    seconds, most = limits
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    os.chdir(folder)
    os.environ |= {
        "PYTHONPATH": f"{folder}/src{os.pathsep}{folder}",
        "MULTITREE_CACHE": cache,
        "TMPDIR": cache,
    }
    tempfile.tempdir = cache
    sys.path[:0] = [f"{folder}/src", folder]
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(written, 1)
    os.dup2(written, 2)
    # What the copy holds, but has been loaded from elsewhere: by others who start processes from
    # the same server, or with this program.
    beside = {path.stem for path in Path(__file__).parent.glob("*.py")}
    for name in [*sys.modules]:
        if name.split(".")[0] in {"multitree", "tests"} | beside:
            del sys.modules[name]
    package = importlib.util.find_spec("multitree")
    assert package and str(package.origin).startswith(folder), "must test the copy's package"
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *chosen]
    # The same examples each time, however busy the machine is.
    options += ["--rootdir", folder, "--hypothesis-profile", "ci", "-W", "ignore"]
    watch = _Watch(seconds, begun)
    for of_file in tests:
        # One file after the other: to read them all takes longer than to run the first.
        if _used_seconds() > seconds:
            break
        try:
            status = pytest.main([*options, *of_file], plugins=[watch])
        except MemoryError:
            # A mutant that needs all memory is one that does not end: pytest itself cannot go on.
            os.kill(os.getpid(), signal.SIGKILL)
        # Interrupted by what could not be read, or since the time is up. None: all are slow.
        if watch.failed or status not in _GOOD:
            os._exit(_NOTICED)
    os._exit(0)
