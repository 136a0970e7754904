"""The process around a command: signals, its output, and how errors are reported."""

import contextlib
import errno
import io
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import typer

from multitree.host.engines import EngineError
from multitree.hw.export.verilog import VerilogError
from multitree.nic.faults import DeviceError

__all__ = ["FAILED", "WRONG_INPUT", "run_command"]

FAILED = 1
WRONG_INPUT = 2
SIGNALLED = 128
"""Added to the number of the signal that ended the process, as shells do."""

_OUTPUT = "standard output"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Typer shows the base of its usage errors only through this subclass.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]


class Ended(BaseException):
    """A signal asks the process to end; what runs removes what it has not finished."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_command(command: Callable[[], object]) -> int:
    """Run something as a process does, and turn what goes wrong into an exit status.

    Parameters
    ----------
    command : callable
        What it returns is the status if that is an int, else the status is 0.

    Returns
    -------
    int
        Exit status: 0, also where the reader of standard output has seen enough; 1 where a run
        failed; 2 for wrong input, an engine that cannot run here, or a file that cannot be read
        or written; 128 + n after signal n. All but 0 are reported in one sentence on stderr.
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
    except (ValueError, EngineError) as error:
        return _report(str(error), WRONG_INPUT)
    except OSError as error:
        return _status_of_system(error)
    except MemoryError:
        return _report("memory must suffice, but this machine gives no more of it", WRONG_INPUT)
    except (DeviceError, VerilogError) as error:
        return _report(str(error), FAILED)
    except SystemExit as stop:
        # Typer turns a closed pipe into this; what only prints a script for a shell ends so, too.
        if isinstance(stop.__context__, OSError):
            return _status_of_system(stop.__context__)
        status = stop.code
    return status if isinstance(status, int) else 0


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
