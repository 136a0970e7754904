"""Text of files: its limits, and every error with the file's name."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from multitree.topology.atomic_write import write_file
from multitree.topology.entries import ContentError
from multitree.topology.errors import ScheduleError, TopologyError

MAX_FILE_BYTES = 128 * 1024 * 1024
MAX_DEPTH = 16
"""Levels of nesting."""
MAX_DIGITS = 500
"""Of a number, fewer than any interpreter refuses."""


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
        if not stat.S_ISREG(status.st_mode):
            raise ContentError("file must be a plain file, not a folder, pipe or device")
        with open(path, "rb") as file:
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
