"""How far something long has come, told to whoever listens."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Listener", "heard_by", "tell"]

Listener = Callable[[str], None]

_listener: ContextVar[Listener | None] = ContextVar("multitree_progress", default=None)


def tell(what: str, done: int | None = None, total: int | None = None) -> None:
    """Say what is being done, and how much of it has been; where nobody listens do nothing.

    Parameters
    ----------
    what : str
        Such as "checking routes".
    done, total : int, optional
        So many parts of so many.

    Examples
    --------
    >>> with heard_by(print):
    ...     tell("growing trees", 3, 16)
    growing trees, 3 of 16
    """
    listener = _listener.get()
    if listener is not None:
        listener(what if done is None else f"{what}, {done:,} of {total:,}")


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Pass to a function what is told inside the `with`, by this thread.

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
