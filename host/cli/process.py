"""The process around a command: signals, output, verbosity, reports of errors."""

import contextlib
import enum
import errno
import io
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any

import typer

__all__ = [
    "FAILED",
    "WRONG_INPUT",
    "Verbosity",
    "chosen_verbosity",
    "command_name",
    "run_command",
    "set_verbosity",
]

FAILED = 1
WRONG_INPUT = 2
SIGNALLED = 128
"""Added to the number of the signal that ended the process, as shells do."""

_OUTPUT = "standard output"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Typer shows the base of its usage errors only through this subclass.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]

# By name, since only commands import the modules that define them; the help imports none.
STATUSES = {
    "multitree.host.engines.EngineError": WRONG_INPUT,
    "multitree.nic.driver.faults.DeviceError": FAILED,
    "multitree.sim.native_build.CacheError": WRONG_INPUT,
    "multitree.hw.codes.VerilogError": FAILED,
}
"""Exit status that an error stands for which is no ValueError and no OSError."""

command_name: ContextVar[str] = ContextVar("multitree_command")
"""The command that is running."""


class Verbosity(enum.Enum):
    """How much is printed on stderr in addition to errors."""

    QUIET = "nothing"
    TERMINAL = "progress, where stderr is a terminal"
    VERBOSE = "progress, as lines where it is no terminal"


_chosen = Verbosity.TERMINAL


def set_verbosity(verbosity: Verbosity) -> None:
    """Choose the verbosity of all output from now on."""
    global _chosen
    _chosen = verbosity


def chosen_verbosity() -> Verbosity:
    """The verbosity that was chosen."""
    return _chosen


class Ended(BaseException):
    """A signal asks the process to end; what runs removes what it has not finished."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_command(command: Callable[[], object]) -> int:
    """Run a command and return its exit status: the int that it returns, or 0.

    It is 0 where the reader of standard output has closed it, 1 where a run failed, 2 for wrong
    input, an engine that cannot run, or a file that cannot be read or written, and 128 + n after
    signal n. All but 0 are reported in one sentence on stderr.
    """
    # Python sets it to None where the descriptor was closed when the process began.
    if sys.stdout is None:
        return _report("standard output must be open", WRONG_INPUT)
    try:
        with _ended_by_signals(), _named_output():
            return _status_of(command)
    except (Ended, KeyboardInterrupt, typer.Abort) as error:
        number = error.number if isinstance(error, Ended) else signal.SIGINT
        return _report(f"ended by {signal.Signals(number).name}", SIGNALLED + number)


def _status_of(command: Callable[[], object]) -> int:
    """The exit status, but for signals."""
    try:
        status = command()
        # It is flushed here, since an error at exit would be reported by the interpreter instead.
        sys.stdout.flush()
    except _USAGE_ERROR as error:
        return _report(error.format_message(), WRONG_INPUT)  # type: ignore[attr-defined]
    except ValueError as error:
        return _report(str(error), WRONG_INPUT)
    except OSError as error:
        return _status_of_system(error)
    except MemoryError:
        return _report("memory must suffice, but this machine gives no more of it", WRONG_INPUT)
    except RuntimeError as error:
        return _report(str(error), _status_of_runtime_error(error))
    except SystemExit as stop:
        # Typer turns a closed pipe into this; what only prints a script for a shell ends so, too.
        if isinstance(stop.__context__, OSError):
            return _status_of_system(stop.__context__)
        status = stop.code
    return status if isinstance(status, int) else 0


def _status_of_runtime_error(error: RuntimeError) -> int:
    """The status in `STATUSES` of an error's class or a base; what has none is raised again."""
    for kind in type(error).__mro__:
        if (status := STATUSES.get(f"{kind.__module__}.{kind.__qualname__}")) is not None:
            return status
    raise error


def _status_of_system(error: OSError) -> int:
    """What a failed system call comes to, with the name of its file."""
    if error.errno == errno.EPIPE and error.filename == _OUTPUT:
        return 0  # who reads our output has seen enough
    place = f"{error.filename}: " if error.filename else ""
    return _report(f"{place}{error.strerror or error}", WRONG_INPUT)


class _Output(io.FileIO):
    """Standard output, whose errors have its name."""

    def write(self, data: Any) -> int:
        """Write some bytes."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = _OUTPUT
            raise


@contextlib.contextmanager
def _named_output() -> Iterator[None]:
    """Print to an `_Output`, unless a program has put something else in the place of a file."""
    before = sys.stdout
    if type(before) is not io.TextIOWrapper:
        yield
        return
    # The descriptor belongs to the wrapper that is put back, so that it must not be closed.
    buffer = io.BufferedWriter(_Output(before.fileno(), "w", closefd=False))
    # Of a sign that the encoding lacks, or half of one, the number is printed.
    errors = "backslashreplace"
    sys.stdout = io.TextIOWrapper(
        buffer, before.encoding, errors, line_buffering=before.line_buffering
    )
    try:
        yield
    finally:
        sys.stdout = before


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let signals that end a process raise `Ended`; the first one only, the rest is cleaning up."""
    # Python sets handlers in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        # From now on signals are ignored, so that a second one does not disturb the cleanup.
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    # What is ignored, as by nohup, stays so.
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {n: handler for n, handler in handlers.items() if handler is not signal.SIG_IGN}
    try:
        for number in before:
            signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(sentence: str, status: int) -> int:
    """Print one sentence on stderr, if there is one, and return the exit status."""
    if sys.stderr is not None:
        # The reader of stderr may be gone, or the disk behind it full: the status still counts.
        with contextlib.suppress(OSError):
            print(f"multitree: {' '.join(sentence.split())}", file=sys.stderr, flush=True)
    return status
