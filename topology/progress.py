"""Progress of long operations, reported to a listener."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Listener", "report", "reported_to"]

Listener = Callable[[str], None]

_listener: ContextVar[Listener | None] = ContextVar("multitree_progress", default=None)


def report(what: str, done: int | None = None, total: int | None = None) -> None:
    """Say what is being done, and how much of it has been; without a listener do nothing.

    Parameters
    ----------
    what : str
        Such as "checking routes".
    done, total : int, optional
        So many parts of so many.

    Examples
    --------
    >>> with reported_to(print):
    ...     report("growing trees", 3, 16)
    growing trees, 3 of 16
    """
    listener = _listener.get()
    if listener is not None:
        listener(what if done is None else f"{what}, {done:,} of {total:,}")


@contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Pass to a function what is reported inside the `with`, by this thread.

    Parameters
    ----------
    listener : callable
        Called often, so it must be quick.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
