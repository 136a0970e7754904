"""Errors and progress that callers see, and checks of values that raise errors."""

import re
import reprlib
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from itertools import islice
from typing import Any


class TopologyError(ValueError):
    """A topology that cannot be: a wrong id, an unreachable node, an unreadable file."""


class TopologyWarning(UserWarning):
    """Something about a topology that was given and is not taken; the message names it."""


class ScheduleError(ValueError):
    """A schedule that cannot be built or is wrong; the message names row, flow and step."""


class ContentError(ValueError):
    """Wrong content of a file: place, rule and value; the reader adds the file's name."""


def check_type(thing: str, value: Any, kind: type) -> None:
    """Raise a TypeError unless a value is of a class; `thing` begins the message."""
    if not isinstance(value, kind):
        raise TypeError(f"{thing} must be of class {kind.__name__}, not {type(value).__name__}")


_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist = 3, 8
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 60


def shown(value: Any) -> str:
    """A value for a message: on one line, cut to 60 characters or 8 entries.

    >>> shown("a\\n"), shown(list(range(9)))
    ("'a\\\\n'", '[0, 1, 2, 3, 4, 5, 6, 7, ...]')
    """
    return _SHORT.repr(value)


_MOST_COMPARED = 1000


def meant(given: object, known: Iterable[str]) -> str:
    """A question after the word that a misspelt one is closest to; nothing where none is close.

    >>> meant("multitre", ["ring", "multitree"]), meant("tree", ["ring"])
    (". Did you mean 'multitree'?", '')
    """
    words = [*islice(known, _MOST_COMPARED)]
    close = get_close_matches(given, words, 1) if isinstance(given, str) else []
    return f". Did you mean {close[0]!r}?" if close else ""


def not_one_of(thing: str, given: object, known: Collection[str]) -> str:
    """The sentence that refuses what is none of some words, and asks whether one was meant."""
    return f"{thing} must be one of {', '.join(known)}, not {shown(given)}{meant(given, known)}"


def integer(place: str, value: Any, least: int, most: int) -> int:
    """Return an integer within limits, or raise a ContentError; a bool is no integer."""
    # The exact type, since a bool is an instance of int.
    if type(value) is not int or not least <= value <= most:
        rule = f"an integer within {least}..{most}"
        raise ContentError(f"{place} must be {rule}, not {shown(value)}")
    return value


def written_integer(place: str, text: str, least: int, most: int) -> int:
    """Return the integer within limits that a text of at most 18 digits is."""
    return integer(place, int(text) if _DIGITS.fullmatch(text) else text, least, most)


def integers(values: Sequence[Any], least: int, most: int, place: Callable[[int], str]) -> None:
    """Raise a ContentError that names the place of the first value that is no such integer."""
    # Inline, since files hold millions of numbers and a call for each doubles the time.
    for index, value in enumerate(values):
        if type(value) is not int or not least <= value <= most:
            integer(place(index), value, least, most)


def positive(place: str, value: Any) -> float:
    """Return a positive, finite number as a float, or raise a ContentError."""
    # The comparison refuses NaN and infinity, and integers that a float cannot hold.
    if type(value) not in (int, float) or not 0 < value <= sys.float_info.max:
        raise ContentError(f"{place} must be a positive, finite number, not {shown(value)}")
    return float(value)


def positives(values: Sequence[Any], place: Callable[[int], str]) -> None:
    """Raise a ContentError that names the place of the first value that is no such number."""
    for index, value in enumerate(values):
        if type(value) not in (int, float) or not 0 < value <= sys.float_info.max:
            positive(place(index), value)


def choice(place: str, value: Any, known: Sequence[str]) -> str:
    """Return a word that is one of those known, or raise a ContentError."""
    if value not in known:
        rule = f"must be {' or '.join(known)}, not {shown(value)}"
        raise ContentError(f"{place} {rule}{meant(value, known)}")
    return str(value)


def label(place: str, value: Any, most: int) -> str:
    """Return a text of 1 to `most` printable characters without spaces around it."""
    wrong = type(value) is not str or not 1 <= len(value) <= most
    # Names are printed as they are: a control character could rewrite a terminal.
    if wrong or not value.isprintable() or value != value.strip():
        rule = f"1 to {most} printable characters without spaces around"
        raise ContentError(f"{place} must be {rule}, not {shown(value)}")
    return str(value)


Listener = Callable[[str], None]

# A context variable, since threads may run commands with listeners of their own.
_listener: ContextVar[Listener | None] = ContextVar("multitree_progress", default=None)


# What is being done, its limit in CPU seconds, and when that is over on the thread's clock.
_part: ContextVar[tuple[str, float, float]] = ContextVar("multitree_part", default=("", 0, 0))


def report(what: str, done: int | None = None, total: int | None = None) -> None:
    """Report what is done, and how many parts of how many are done, to the listener, if any.

    TimeoutError where the time of `within` is over: what takes long reports often.
    """
    part, limit_s, end = _part.get()
    if limit_s and time.thread_time() > end:
        raise TimeoutError(f"{part} takes longer than the limit of {limit_s:g} CPU s")
    listener = _listener.get()
    if listener is not None:
        text = what if done is None else f"{what}, {done:,} of {total:,}"
        listener(f"{part}: {text}" if part else text)


@contextmanager
def within(part: str, limit_s: float = 0) -> Iterator[None]:
    """Put a name before what this thread reports inside the `with`, and limit its time.

    After so many CPU seconds `report` raises TimeoutError; 0 is no limit but that of a `with`
    around it.
    """
    limit = limit_s, time.thread_time() + limit_s
    _, *outer = _part.get()
    if outer[0] and (not limit_s or outer[1] < limit[1]):
        limit = outer[0], outer[1]
    token = _part.set((part, *limit))
    try:
        report("begun")
        yield
    finally:
        _part.reset(token)


@contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Pass to a function, which must be quick, what this thread reports inside the `with`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
