"""C++ made into libraries: a cache of what is compiled, compilers and other tools."""

import contextlib
import ctypes
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

from multitree.nic.driver.faults import DeviceError
from multitree.topology.environment import variable
from multitree.topology.errors import report

__all__ = [
    "CacheError",
    "Say",
    "Tools",
    "cache_folder",
    "cache_size_bytes",
    "cached",
    "clear_cache",
    "compiler_path",
    "compiler_version",
    "content_key",
    "damage",
    "damaged_entries",
    "loaded_library",
    "say_on_stderr",
    "seal",
    "why_no_compiler",
]

Result = TypeVar("Result")
Say = Callable[[str], None]
"""Called with a sentence before something that takes long."""

_KINDS = ("library", "runtime", "verilog")
_UNFINISHED = ".unfinished"
_SUMS = "SHA256SUMS"
"""Written last into a folder, in the form of sha256sum, which checks it, too."""
_SECONDS_TO_END = 5.0
_LAST_LINES = 3


class CacheError(DeviceError):
    """The cache's folder cannot be read or written."""


def say_on_stderr(sentence: str) -> None:
    """Print on stderr what takes so long."""
    print(sentence, file=sys.stderr, flush=True)


def compiler_path() -> str | None:
    """The C++ compiler on PATH; None where there is none."""
    return shutil.which("g++")


def why_no_compiler() -> str | None:
    """Say that there is no C++ compiler, and how to get one; None where there is one."""
    if compiler_path() is None:
        return "there is no C++ compiler g++ on PATH (Debian and Ubuntu: apt-get install g++)"
    return None


def compiler_version() -> str:
    """Version and target machine of the C++ compiler, as it prints them."""
    command = [str(compiler_path()), "-dumpfullversion", "-dumpmachine"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def cache_folder() -> Path:
    """Folder of compiled things, perhaps not there yet: $MULTITREE_CACHE or ~/.cache/multitree."""
    named = variable("MULTITREE_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "multitree"


def cache_size_bytes() -> int:
    """Bytes of all that is cached, 0 where there is no cache yet."""
    return sum(_size_bytes(entry) for entry in _entries())


def clear_cache() -> int:
    """Remove all that is cached, and return the bytes freed; libraries that a running process has
    loaded go on working. Raises CacheError if the folder cannot be changed.
    """
    freed = 0
    for entry in _entries():
        size_bytes = _size_bytes(entry)
        try:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _unusable(error) from error
        freed += size_bytes
    return freed


def content_key(*parts: str | bytes) -> str:
    """Hash of texts and bytes, 32 hex digits, different wherever a part is."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        # The length keeps parts apart: ("ab", "c") and ("a", "bc") differ.
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:32]


def cached(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of one cached thing, filled by `make` if it is not there or damaged.

    `kind` is "library", "runtime" or "verilog", `key` the `content_key` of all that it depends on.
    It is made under a temporary name; processes that want the same wait for the first. Raises
    CacheError if the cache cannot be written; errors of `make` come through.
    """
    if kind not in _KINDS:
        raise ValueError(f"Kind must be one of {', '.join(_KINDS)}, not {kind!r}")
    place = cache_folder() / f"{kind}-{key}"
    # A folder gets its name by a rename, so that what is there is whole and needs no lock.
    if place.is_dir() and damage(place) is None:
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock := place.with_suffix(".lock")):
            try:
                _make_at(place, make)
            finally:
                # Who waits for this file sees that it is gone, and takes a new one.
                lock.unlink(missing_ok=True)
    except OSError as error:
        raise _unusable(error) from error
    return place


def _make_at(place: Path, make: Callable[[Path], None]) -> None:
    """Fill a temporary folder next to `place` and give it its name, unless another process has; the
    lock is held.
    """
    if os.path.lexists(place):
        if (reason := damage(place)) is None:
            return
        say_on_stderr(f"Cache entry {place} is made again: {reason}")
    # The lock excludes other makers: what is there was left by a process that was killed.
    for left in place.parent.glob(f"{place.name}.*{_UNFINISHED}"):
        shutil.rmtree(left, ignore_errors=True)
    temporary = Path(
        tempfile.mkdtemp(prefix=f"{place.name}.", suffix=_UNFINISHED, dir=place.parent)
    )
    try:
        made, damaged = temporary / "made", temporary / "damaged"
        made.mkdir(0o700)
        make(made)
        seal(made)
        # Only now, so that what cannot be made again is not lost, and is missing for no time.
        if os.path.lexists(place):
            place.rename(damaged)
        made.rename(place)
    finally:
        # After an error or a signal what was made is left, too.
        shutil.rmtree(temporary, ignore_errors=True)


def seal(folder: Path) -> None:
    """Write a digest of each file of a folder into it, by which `damage` sees what changes."""
    (folder / _SUMS).write_bytes(_sums(folder))


def damage(folder: Path) -> str | None:
    """Say how a folder differs from what it was when it was sealed; None if it does not.

    Files are read whole, at some GB/s: a library takes a few milliseconds.
    """
    try:
        written, found = (folder / _SUMS).read_bytes(), _sums(folder)
    except FileNotFoundError:
        return f"it has no {_SUMS}"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return None if written == found else f"its files are not those of its {_SUMS}"


def _sums(folder: Path) -> bytes:
    """A line per file, in the order of their names."""
    lines = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != _SUMS:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            lines.append(f"{digest}  {path.relative_to(folder)}\n")
    return "".join(lines).encode(errors="surrogateescape")


def damaged_entries() -> dict[str, str]:
    """Names of what is in the cache and will be made again when it is asked for, and why."""
    whole = [entry for entry in _entries() if entry.suffix not in (".lock", _UNFINISHED)]
    reasons = {entry.name: damage(entry) for entry in sorted(whole)}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def loaded_library(path: Path) -> ctypes.CDLL:
    """A library of the cache; DeviceError if the system does not load it."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(f"Library {path} cannot be loaded: {error}") from error


def _entries() -> list[Path]:
    """Everything in the folder that is ours, unfinished things and locks included."""
    folder = cache_folder()
    if not folder.is_dir():
        return []
    return [entry for entry in folder.iterdir() if entry.name.startswith(tuple(_KINDS))]


def _size_bytes(entry: Path) -> int:
    files = entry.rglob("*") if entry.is_dir() else [entry]
    size_bytes = 0
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            size_bytes += file.stat().st_size if file.is_file() else 0
    return size_bytes


def _unusable(error: OSError) -> CacheError:
    reason = error.strerror or str(error)
    return CacheError(
        f"Cache folder {cache_folder()} must be writable, but: {reason}; "
        "another one can be named in MULTITREE_CACHE"
    )


class Tools:
    """Runs tools in a folder, several at once; where one fails, or a signal comes, it ends all
    others.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._ended = False

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Run a command with some more variables, and wait for it. Raises DeviceError with its last
        lines if it fails, or with the signal that ended it.
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
        """Call functions that run tools, in so many threads, and return their results in order.
        `what` is for `progress.report`; the first failure is raised, as DeviceError where a tool
        failed.
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
        """Call a function; if it fails, nothing more is started."""
        try:
            return job()
        except BaseException:
            # At once: this thread may begin the next job before `side_by_side` ends the others.
            self._ended = True
            raise

    def end(self) -> None:
        """End the running tools, wait until they have ended, and start nothing more."""
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
