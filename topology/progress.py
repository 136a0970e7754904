"""Progress of long operations, reported to a listener."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Listener", "report", "reported_to"]

Listener = Callable[[str], None]

# A context variable, since threads may run commands with listeners of their own.
_listener: ContextVar[Listener | None] = ContextVar("multitree_progress", default=None)


def report(what: str, done: int | None = None, total: int | None = None) -> None:
    """Report what is done, and how many parts of how many are done, to the listener, if any."""
    listener = _listener.get()
    if listener is not None:
        listener(what if done is None else f"{what}, {done:,} of {total:,}")


@contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Pass to a function, which must be quick, what this thread reports inside the `with`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
