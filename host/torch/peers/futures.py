"""Futures of collectives, and the thread in which users' callbacks run."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from math import inf
from time import monotonic
from typing import Any, Protocol

import torch

__all__ = ["CALLBACKS", "PATIENCE_S", "Callbacks", "CollectiveFuture", "list_future"]

_LOGGER = logging.getLogger("multitree.torch")

PATIENCE_S = 1.0
"""How long a callback may run before another thread goes on with the next one."""

_HERE = threading.local()


class Callbacks:
    """Runs users' callbacks in the order in which they are handed in, in a thread of its own.

    They may wait for collectives, since no group is served by that thread. One that blocks in any
    other way, as for what another callback ends, holds up only itself: after `PATIENCE_S` another
    thread goes on.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[Callable[[], None]] = deque()
        self._turn = 0  # number of the thread whose turn it is; the first one is 1
        self._begun_s: float | None = None

    def submit(self, callback: Callable[[], None]) -> None:
        """Have a callback run; from any thread."""
        with self._changed:
            self._queue.append(callback)
            if not self._turn:
                self._start()
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait for the callbacks that were handed in so far, as long as they do not block."""
        if not self.is_busy or self.is_here:
            return
        reached = threading.Event()
        self.submit(reached.set)
        reached.wait()

    @property
    def is_busy(self) -> bool:
        """Whether a callback runs or waits."""
        return bool(self._queue) or self._begun_s is not None

    def hand_over(self) -> None:
        """Let another thread go on where one takes long and others wait; called now and then."""
        with self._changed:
            begun_s = self._begun_s
            if self._queue and begun_s is not None and monotonic() - begun_s > PATIENCE_S:
                self._start()

    def _start(self) -> None:
        self._turn += 1
        self._begun_s = None
        name = f"multitree-callbacks-{self._turn}"
        threading.Thread(target=self._run, args=(self._turn,), name=name, daemon=True).start()

    def _run(self, turn: int) -> None:
        _HERE.turn = turn
        while True:
            with self._changed:
                while self._turn == turn and not self._queue:
                    self._begun_s = None
                    self._changed.wait()
                if self._turn != turn:
                    return
                callback = self._queue.popleft()
                self._begun_s = monotonic()
            try:
                callback()
            except BaseException:
                _LOGGER.exception("a callback has failed")
            del callback  # what it holds must not live until the next one

    @property
    def is_here(self) -> bool:
        """Whether the caller is such a callback."""
        return hasattr(_HERE, "turn")

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """What the caller waits for needs no callback: the others keep their order behind it."""
        if getattr(_HERE, "turn", None) != self._turn:
            yield
            return
        self._begun_s = inf
        try:
            yield
        finally:
            self._begun_s = monotonic()


CALLBACKS = Callbacks()
# Threads are not copied by a fork, and a lock may be held in it.
os.register_at_fork(after_in_child=CALLBACKS.__init__)  # type: ignore[misc]


class Ending(Protocol):
    """What a Future belongs to: a handle."""

    def wait(self) -> bool:
        """Wait for the end; raises what it failed with."""

    def is_completed(self) -> bool:
        """Whether it has ended."""

    def exception(self) -> BaseException | None:
        """What it has failed with."""

    def call_back(self, callback: Callable[[], None]) -> None:
        """Have a callback run by `CALLBACKS` at the end."""


class _Chain(torch.futures.Future[Any]):
    """A Future whose callbacks run in the thread of `CALLBACKS`, also where it is done already.

    Where they run must not depend on who is faster: collectives that they start would come in
    another order on another rank.
    """

    def __init__(self, devices: list[torch.device]) -> None:
        super().__init__(devices=devices)
        self._devices = devices

    def _call_back(self, callback: Callable[[], None]) -> None:
        """Have a function called at the end, where callbacks are to run."""
        raise NotImplementedError

    def then(self, callback: Callable[..., Any]) -> "torch.futures.Future[Any]":
        """Have a callback called with this Future at its end; a Future of what it returns."""
        made = _Chained(self._devices)
        self._call_back(lambda: made.fill(lambda: callback(self)))
        return made

    def add_done_callback(self, callback: Callable[..., None]) -> None:
        """Have a callback called with this Future at its end."""
        self._call_back(lambda: callback(self))


class _Chained(_Chain):
    """The Future of what a callback returns; its own callbacks run behind that at once."""

    def fill(self, callback: Callable[[], Any]) -> None:
        """Complete it with what a callback returns or raises."""
        try:
            result = callback()
        except BaseException as error:
            # C++ takes it for a result that it cannot read, and raises with the text of the error.
            # A Future takes no SystemExit, and one that is not completed is waited for for ever.
            is_plain = isinstance(error, Exception)
            self.set_exception(error if is_plain else RuntimeError(repr(error)))
        else:
            self.set_result(result)

    def _call_back(self, callback: Callable[[], None]) -> None:
        def ended(_: Any) -> None:
            # What fills it is in the right thread; a caller who finds it filled may be in any.
            if CALLBACKS.is_here:
                callback()
            else:
                CALLBACKS.submit(callback)

        torch.futures.Future.add_done_callback(self, ended)


class CollectiveFuture(_Chain):
    """The Future of a handle, as Python reads it.

    Whoever waits for it, as other callbacks do, waits for the handle itself, and not until the
    thread of `CALLBACKS` comes to it.
    """

    def __init__(self, handle: Ending, result: list[Any]) -> None:
        super().__init__(_devices_of(result))
        self._handle, self.tensors = handle, result
        handle.call_back(self._end)

    @property
    def error(self) -> BaseException | None:
        """What the collective has failed with."""
        return self._handle.exception()

    def wait(self) -> Any:
        """The results, once they are there."""
        self._handle.wait()
        return self.tensors

    def done(self) -> bool:
        """Whether the results are there."""
        return self._handle.is_completed()

    def value(self) -> Any:
        """The results, which must be there."""
        if not self.done():
            return super().value()  # raises
        return self.wait()

    def _call_back(self, callback: Callable[[], None]) -> None:
        if not self._devices:
            self._handle.call_back(callback)
            return
        # Callbacks of a Future of PyTorch run in streams of their own.
        gate: torch.futures.Future[None] = torch.futures.Future(devices=self._devices)
        gate.add_done_callback(lambda gate: callback())
        self._handle.call_back(lambda: gate.set_result(None))

    def _end(self) -> None:
        """Complete what C++ sees of it."""
        if self.error is None:
            self.set_result(self.tensors)
        else:
            self.set_exception(self.error)


def _devices_of(result: list[Any]) -> list[torch.device]:
    """Devices of tensors that a Future has to know: all but the CPU."""
    tensors = [item for item in result if isinstance(item, torch.Tensor)]
    return sorted({t.device for t in tensors if t.device.type != "cpu"}, key=str)


def list_future(future: CollectiveFuture) -> Any:
    """A Future as PyTorch's C++ reads it: a list of tensors, or an error.

    To C++ the result that Python gives a Future is a Python object, also where it is an exception.
    TorchScript makes one of the right type; what C++ hangs on it runs in TorchScript's threads.
    """
    text = torch.empty(0, dtype=torch.int64)
    trigger: torch.futures.Future[Any] = torch.futures.Future()
    made = _script().start(trigger, text, future.tensors)

    def ended(done: Any) -> None:
        error = future.error
        if error is not None:
            # C++ may raise what Python has raised only once, but a text as often as it likes.
            codes = list(f"{type(error).__name__}: {error}".encode("ascii", "replace"))
            text.resize_(len(codes)).copy_(torch.tensor(codes))
        trigger.set_result(None)

    future.add_done_callback(ended)
    return made


@cache
def _script() -> Any:
    """The functions in TorchScript, compiled once, in a millisecond."""
    return torch.jit.CompilationUnit(
        """
def results(done: Future[int], text: Tensor, tensors: List[Tensor]) -> List[Tensor]:
    torch.wait(done)
    if text.numel() > 0:
        codes: List[int] = text.tolist()
        raise RuntimeError("".join([chr(code) for code in codes]))
    return tensors

def start(done: Future[int], text: Tensor, tensors: List[Tensor]):
    return torch.jit.fork(results, done, text, tensors)
"""
    )
