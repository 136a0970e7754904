"""Calls a function when a signal comes, whatever the main thread does."""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["call_on_signal"]

_LOGGER = logging.getLogger("multitree.torch")
_CHOSEN: set[int] = set()


def call_on_signal(name: str, function: Callable[[], None]) -> None:
    """Have a thread call a function whenever a signal comes, such as "SIGUSR1"; once for each.

    A warning, and nothing else, where there is no such signal, or it has a handler already.
    """
    number: Any = getattr(signal, name, None)
    if number in _CHOSEN:
        return
    why = _why_not(number)
    if why:
        _LOGGER.warning("Signal %r is not used for dumps: %s", name, why)
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    arguments = (reader, number, function)
    threading.Thread(target=_serve, args=arguments, name="multitree-signals", daemon=True).start()

    def handle(number: int, frame: object) -> None:
        # The interpreter has written to the pipe already, unless another library has put its own
        # in that place since.
        if _wakeup_fd() != writer:
            with contextlib.suppress(OSError):
                os.write(writer, bytes([number]))

    def forget() -> None:
        # The pipe is that of the process that was forked.
        if signal.getsignal(number) is handle:
            signal.signal(number, signal.SIG_DFL)
            if _wakeup_fd() == writer:
                signal.set_wakeup_fd(-1)
        _CHOSEN.discard(number)

    # A handler in Python waits for the main thread, which may be in C++ for ever: PyTorch's DDP
    # waits there. What the interpreter writes to a pipe comes at once.
    signal.signal(number, handle)
    if _wakeup_fd() == -1:
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _CHOSEN.add(number)
    os.register_at_fork(after_in_child=forget)


def _why_not(number: object) -> str:
    """Why a signal cannot be used, or nothing."""
    if not isinstance(number, signal.Signals):
        return "there is none of that name"
    if threading.current_thread() is not threading.main_thread():
        return "only the main thread may set a handler"
    return "" if signal.getsignal(number) is signal.SIG_DFL else "it has a handler already"


def _wakeup_fd() -> int:
    """Where the interpreter writes signals; -1 for nowhere."""
    current = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(current, warn_on_full_buffer=False)
    return current


def _serve(reader: int, number: int, function: Callable[[], None]) -> None:
    while True:
        if number in os.read(reader, 4096):
            function()
