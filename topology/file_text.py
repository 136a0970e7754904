"""Text of files: limits, checked entries, and every error with the file's name."""

import os
import re
import reprlib
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from multitree.topology.atomic_write import write_file
from multitree.topology.errors import ScheduleError, TopologyError

MAX_FILE_BYTES = 128 * 1024 * 1024
MAX_DEPTH = 16
"""Levels of nesting."""
MAX_DIGITS = 500
"""Of a number, fewer than any interpreter refuses: Python lets no limit be below 640."""
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)


@contextmanager
def naming(path: str, error: type[ValueError]) -> Iterator[None]:
    """Put the file's name before what goes wrong with what it holds.

    Parameters
    ----------
    path : str
    error : type
        `TopologyError` or `ScheduleError`: what is raised.
    """
    try:
        yield
    except (ContentError, TopologyError, ScheduleError) as problem:
        raise error(f"{path}: {problem}") from None


def read_text(path: str) -> str:
    """The text of a plain file.

    Parameters
    ----------
    path : str

    Returns
    -------
    str
        Without a byte order mark.

    Raises
    ------
    ContentError
        If it is no plain file, cannot be read, is larger than `MAX_FILE_BYTES` or no UTF-8.
    """
    with _reaching("readable"):
        status = os.stat(path)
        # Before it is opened, since opening a pipe would wait for a writer.
        if not stat.S_ISREG(status.st_mode):
            raise ContentError("file must be a plain file, not a folder, pipe or device")
        with open(path, "rb") as file:
            # One byte beyond the limit shows a file that has
            # grown since, or that has no size, as in /proc.
            data = file.read(MAX_FILE_BYTES + 1) if status.st_size <= MAX_FILE_BYTES else b""
    size = max(status.st_size, len(data))
    if size > MAX_FILE_BYTES:
        raise ContentError(f"file must be at most {MAX_FILE_BYTES} bytes, not {size}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        wrong = f"byte 0x{error.object[error.start]:02x}"
        place = place_in(before, len(before))
        raise ContentError(f"{place}: text must be UTF-8, not {wrong}") from None


def write_text(path: str, text: str) -> None:
    """Write a file that `read_text` reads, as a whole or not at all.

    Parameters
    ----------
    path : str
    text : str

    Raises
    ------
    ContentError
        If it cannot be written, or is larger than `MAX_FILE_BYTES`.
    """
    data = text.encode()
    if len(data) > MAX_FILE_BYTES:
        raise ContentError(f"file must be at most {MAX_FILE_BYTES} bytes, not {len(data)}")
    with _reaching("writable"):
        write_file(path, data)


def place_in(text: str, offset: int) -> str:
    """Line and column, both from 1, of a character.

    Parameters
    ----------
    text : str
    offset : int

    Returns
    -------
    str

    Examples
    --------
    >>> place_in("one\\ntwo", 5)
    'line 2, column 2'
    """
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - text.rfind(chr(10), 0, offset)}"


@contextmanager
def _reaching(state: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ContentError(f"file must be {state}, not: {error.strerror}") from None
    except ContentError:
        raise
    except ValueError:
        # A path that no file can have.
        raise ContentError("path must be without null characters and half pairs") from None


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist = 3, 8
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 60


class ContentError(ValueError):
    """Content of a file that is wrong: place, rule and value; who reads adds the file's name."""


def shown(value: Any) -> str:
    """A value for a message, on one line and cut to what a reader can take in.

    Parameters
    ----------
    value : object

    Returns
    -------
    str

    Examples
    --------
    >>> shown("a\\n"), shown(list(range(9)))
    ("'a\\\\n'", '[0, 1, 2, 3, 4, 5, 6, 7, ...]')
    """
    return _SHORT.repr(value)


def integer(place: str, value: Any, least: int, most: int) -> int:
    """Return an integer within limits; a bool is none.

    Parameters
    ----------
    place : str
        Where it stands, for the message.
    value : object
    least, most : int

    Returns
    -------
    int

    Raises
    ------
    ContentError
        If it is something else.
    """
    # The exact type, since a bool is an instance of int.
    if type(value) is not int or not least <= value <= most:
        rule = f"an integer within {least}..{most}"
        raise ContentError(f"{place} must be {rule}, not {shown(value)}")
    return value


def written_integer(place: str, text: str, least: int, most: int) -> int:
    """Return the integer within limits that a text of up to 18 digits is.

    Parameters
    ----------
    place : str
        Where it stands, for the message.
    text : str
    least, most : int

    Returns
    -------
    int

    Raises
    ------
    ContentError
        If it is something else.
    """
    return integer(place, int(text) if _DIGITS.fullmatch(text) else text, least, most)


def integers(values: Sequence[Any], least: int, most: int, place: Callable[[int], str]) -> None:
    """Check that each of many values is an integer within limits.

    Parameters
    ----------
    values : sequence of object
    least, most : int
    place : callable
        Where the value of an index stands; called for the first wrong one only.

    Raises
    ------
    ContentError
        Naming the first that is not.
    """
    for index, value in enumerate(values):
        if type(value) is not int or not least <= value <= most:
            integer(place(index), value, least, most)


def positive(place: str, value: Any) -> float:
    """Return a number that is above zero and finite, as a float.

    Parameters
    ----------
    place : str
        Where it stands, for the message.
    value : object

    Returns
    -------
    float

    Raises
    ------
    ContentError
        If it is something else.
    """
    # The comparison refuses NaN and infinity, and integers that a float cannot hold.
    if type(value) not in (int, float) or not 0 < value <= sys.float_info.max:
        raise ContentError(f"{place} must be a positive, finite number, not {shown(value)}")
    return float(value)


def positives(values: Sequence[Any], place: Callable[[int], str]) -> None:
    """Check that each of many values is a number that is above zero and finite.

    Parameters
    ----------
    values : sequence of object
    place : callable
        Where the value of an index stands; called for the first wrong one only.

    Raises
    ------
    ContentError
        Naming the first that is not.
    """
    for index, value in enumerate(values):
        if type(value) not in (int, float) or not 0 < value <= sys.float_info.max:
            positive(place(index), value)


def choice(place: str, value: Any, known: Sequence[str]) -> str:
    """Return a word that is one of those known.

    Parameters
    ----------
    place : str
        Where it stands, for the message.
    value : object
    known : sequence of str

    Returns
    -------
    str

    Raises
    ------
    ContentError
        If it is something else.
    """
    if value not in known:
        raise ContentError(f"{place} must be {' or '.join(known)}, not {shown(value)}")
    return str(value)


def label(place: str, value: Any, most: int) -> str:
    """Return a text that can be printed as it is: no control characters, no spaces around it.

    Parameters
    ----------
    place : str
        Where it stands, for the message.
    value : object
    most : int
        Characters.

    Returns
    -------
    str

    Raises
    ------
    ContentError
        If it is something else.
    """
    wrong = type(value) is not str or not 1 <= len(value) <= most
    if wrong or not value.isprintable() or value != value.strip():
        rule = f"1 to {most} printable characters without spaces around"
        raise ContentError(f"{place} must be {rule}, not {shown(value)}")
    return str(value)
