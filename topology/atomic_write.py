"""Files that are replaced as a whole, or left as they were."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

__all__ = ["TEMPORARY", "replacing", "write_file", "write_files"]

TEMPORARY = ".multitree-{}.tmp"
"""Name of an unfinished file, which stands in the folder of the file that it becomes."""

_MODE_OF_NEW_FILES = 0o666  # less the process's umask


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write a file such that under its name there is ever only the old content or the new.

    Parameters
    ----------
    path : str or pathlib.Path
        A symbolic link is followed. A device or a pipe, which holds nothing that could be lost,
        is written to directly.
    content : str or bytes
        Text is written as UTF-8, line ends as they are.

    Raises
    ------
    OSError
        If it cannot be written; `filename` is the path. The old file is as it was, and no
        temporary file is left.
    """
    with replacing(path) as temporary:
        _fill(temporary, content, path)


def write_files(folder: str | Path, contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write files of a folder such that either all are new or all are as they were.

    All are written under temporary names first, and only then renamed, for which no space is
    needed. Should a file have become impossible to replace in that moment, those renamed before
    it are new.

    Parameters
    ----------
    folder : str or pathlib.Path
        Made, with those above it, if it is not there.
    contents : mapping of str to str or bytes
        Content by the name of the file, which may be in a folder of the folder.

    Returns
    -------
    list of Path
        The files, in the same order.

    Raises
    ------
    OSError
        As `write_file`. Folders that were made are removed again.
    """
    paths = [Path(folder) / name for name in contents]
    with contextlib.ExitStack() as made:
        for each in dict.fromkeys([Path(folder), *(path.parent for path in paths)]):
            made.enter_context(_made(each))
        begun: list[tuple[Path, Path]] = []
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

    Parameters
    ----------
    path : str or pathlib.Path
        As for `write_file`.

    Yields
    ------
    Path
        In the same folder; `path` itself where that is a device or a pipe.

    Raises
    ------
    OSError
        As `write_file`, also for what the block raises without a name. All else that it raises
        comes through. Nothing is left behind.
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
        if temporary.is_file():
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
