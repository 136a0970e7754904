"""Files of text, read within limits, and written as a whole or not at all."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from multitree.topology.errors import ContentError, ScheduleError, TopologyError, meant

__all__ = [
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_FILE_BYTES",
    "TEMPORARY",
    "naming",
    "place_in",
    "read_text",
    "replacing",
    "write_file",
    "write_files",
    "write_text",
]

MAX_FILE_BYTES = 128 * 1024 * 1024
MAX_DEPTH = 16
"""Levels of nesting."""
MAX_DIGITS = 500
"""Of a number, fewer than any interpreter refuses: Python lets no limit be below 640."""

TEMPORARY = ".multitree-{}.tmp"
"""Name of an unfinished file, which stands in the folder of the file that it becomes."""

_MODE_OF_NEW_FILES = 0o666  # less the process's umask


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write a file such that under its name there is ever only the old content or the new.

    Text is written as UTF-8, a symbolic link is followed, and a device or a pipe, which holds
    nothing to lose, is written directly. An OSError names the path; no temporary file is left.
    """
    with replacing(path) as temporary:
        _fill(temporary, content, path)


def write_files(folder: str | Path, contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write files of a folder, by name, such that all are new or all are as they were.

    Folders are made, and removed again if it fails. Should a file have become impossible to
    replace between the first renaming and the last, those renamed before it are new.
    """
    paths = [Path(folder) / name for name in contents]
    with contextlib.ExitStack() as made:
        for each in dict.fromkeys([Path(folder), *(path.parent for path in paths)]):
            made.enter_context(_made(each))
        begun: list[tuple[Path, Path]] = []
        # All content first: the renaming after it needs no space, so a full disk changes nothing.
        try:
            for path, content in zip(paths, contents.values(), strict=True):
                begun.append(_begin(path))
                _fill(begun[-1][0], content, path)
                _synchronise(begun[-1][0], path)
            _rename(begun, paths)
        finally:
            for pair in begun:
                _discard(*pair)
    return paths


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give the name of a new empty file that becomes `path` at the end of the `with`.

    An OSError of the block that has no name gets that of `path`; all else comes through. Nothing
    is left behind.
    """
    begun = _begin(path)
    try:
        try:
            yield begun[0]
        except OSError as error:
            # Those of writing have no name; any other one is of something else.
            if error.filename not in (None, str(begun[0])):
                raise
            with _naming(path):
                raise
        _synchronise(begun[0], path)
        _rename([begun], [path])
    finally:
        _discard(*begun)


def _begin(path: str | Path) -> tuple[Path, Path]:
    """Make an empty temporary file; where it stands, and what it becomes, behind links."""
    with _naming(path):
        mode = None
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(path).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                return Path(path), Path(path)
            # Renaming asks only for the folder, but whoever made a file read-only meant the file.
            os.close(os.open(path, os.O_WRONLY))
        # In the folder of the file itself, since only within one file system is renaming atomic.
        target = Path(os.path.realpath(path))
        temporary = target.parent / TEMPORARY.format(secrets.token_hex(8))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = os.open(temporary, flags, _MODE_OF_NEW_FILES)
        try:
            if mode is not None:  # keep the old file's permissions
                os.fchmod(descriptor, stat.S_IMODE(mode))
        except BaseException:
            temporary.unlink()
            raise
        finally:
            os.close(descriptor)
    return temporary, target


def _fill(temporary: Path, content: str | bytes, path: str | Path) -> None:
    with _naming(path), temporary.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def _synchronise(temporary: Path, path: str | Path) -> None:
    """Wait until the content is on the disk, so that a crash does not leave a name without it."""
    with _naming(path):
        if temporary.is_file():  # not a pipe, nor a file that the block has removed
            descriptor = os.open(temporary, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _rename(begun: Sequence[tuple[Path, Path]], paths: Sequence[str | Path]) -> None:
    """Give temporary files their names; a signal in between waits until all have theirs."""
    try:
        _rename_each(begun, paths)
    except OSError:
        raise
    # Such as KeyboardInterrupt: a set of files is not left half old, half new.
    except BaseException:
        _rename_each(begun, paths)
        raise


def _rename_each(begun: Sequence[tuple[Path, Path]], paths: Sequence[str | Path]) -> None:
    for (temporary, target), path in zip(begun, paths, strict=True):
        with _naming(path):
            if temporary != target and temporary.exists():
                os.replace(temporary, target)


def _discard(temporary: Path, target: Path) -> None:
    """Remove a temporary file that did not become anything."""
    if temporary != target:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder and those above it; remove them again if the block fails."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        with _naming(folder):
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for each in missing:
                each.rmdir()
        raise


@contextlib.contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    """Give errors the name that was asked for, not that of a temporary file or none."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from error


@contextlib.contextmanager
def naming(path: str, error: type[ValueError]) -> Iterator[None]:
    """Put the file's name before what is wrong with its content, raised as `error`."""
    try:
        yield
    except (ContentError, TopologyError, ScheduleError) as problem:
        raise error(f"{path}: {problem}") from None


def read_text(path: str) -> str:
    """The text of a plain file in UTF-8, without a byte order mark.

    A ContentError says that it cannot be read, is no plain file, is larger than `MAX_FILE_BYTES`
    or no UTF-8.
    """
    with _reaching("readable", path):
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
    """Write a file that `read_text` reads, as a whole; a ContentError if that cannot be."""
    data = text.encode()
    if len(data) > MAX_FILE_BYTES:
        raise ContentError(f"file must be at most {MAX_FILE_BYTES} bytes, not {len(data)}")
    with _reaching("writable"):
        write_file(path, data)


def place_in(text: str, offset: int) -> str:
    """Line and column, both from 1, of a character: "line 2, column 5"."""
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - text.rfind(chr(10), 0, offset)}"


@contextlib.contextmanager
def _reaching(state: str, path: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = ""
        if isinstance(error, FileNotFoundError) and path:
            with contextlib.suppress(OSError):
                hint = meant(os.path.basename(path), os.listdir(os.path.dirname(path) or "."))
        raise ContentError(f"file must be {state}, not: {error.strerror}{hint}") from None
    except ContentError:
        raise
    except ValueError:
        # A path that no file can have.
        raise ContentError("path must be without null characters and half pairs") from None
