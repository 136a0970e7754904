"""Entries of files that nobody vouches for, each checked and named by its place."""

import reprlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

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
    if type(value) is not int or not least <= value <= most:
        rule = f"an integer within {least}..{most}"
        raise ContentError(f"{place} must be {rule}, not {shown(value)}")
    return value


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
