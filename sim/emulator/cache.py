"""A folder of compiled things, each under the hash of all it depends on."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from multitree.nic.faults import DeviceError

__all__ = ["cache_folder", "cache_size_bytes", "cached", "clear_cache", "content_key"]

_KINDS = ("library", "runtime", "verilog")
_UNFINISHED = ".unfinished"


def cache_folder() -> Path:
    """Where compiled things are kept: $MULTITREE_CACHE, else ~/.cache/multitree.

    The folder need not exist yet.
    """
    named = os.environ.get("MULTITREE_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "multitree"


def cache_size_bytes() -> int:
    """Bytes of all that is cached, 0 where there is no cache yet."""
    return sum(_size_bytes(entry) for entry in _entries())


def clear_cache() -> int:
    """Remove all that is cached; what a running process has loaded goes on working.

    Returns
    -------
    int
        Bytes that were freed.

    Raises
    ------
    DeviceError
        If the folder cannot be changed.
    """
    freed = 0
    for entry in _entries():
        size_bytes = _size_bytes(entry)
        try:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _unusable(error) from error
        freed += size_bytes
    return freed


def content_key(*parts: str | bytes) -> str:
    """Hash of texts and bytes, 32 hex digits, different wherever a part is."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        # The length keeps parts apart: ("ab", "c") and ("a", "bc") differ.
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:32]


def cached(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of one cached thing, made now if it is not there.

    It is made in a temporary folder and then renamed, so that there is never half a thing under
    its name. Processes that want the same thing at once wait for the first.

    Parameters
    ----------
    kind : str
        "library", "runtime" or "verilog".
    key : str
        `content_key` of all that it depends on.
    make : callable
        Called with an empty folder to fill.

    Returns
    -------
    Path
        The filled folder.

    Raises
    ------
    DeviceError
        If the cache folder cannot be written. What `make` raises comes through, and leaves
        nothing behind.
    """
    if kind not in _KINDS:
        raise ValueError(f"Kind must be one of {', '.join(_KINDS)}, not {kind!r}")
    place = cache_folder() / f"{kind}-{key}"
    # A folder gets its name by a rename, so that what is there is whole and needs no lock.
    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock := place.with_suffix(".lock")):
            try:
                if not place.is_dir():
                    _make_at(place, make)
            finally:
                # Who waits for this file sees that it is gone, and takes a new one.
                lock.unlink(missing_ok=True)
    except OSError as error:
        raise _unusable(error) from error
    return place


def _make_at(place: Path, make: Callable[[Path], None]) -> None:
    """Fill a temporary folder next to `place` and give it its name; the lock is held."""
    # The lock excludes other makers: what is there was left by a process that was killed.
    for left in place.parent.glob(f"{place.name}.*{_UNFINISHED}"):
        shutil.rmtree(left, ignore_errors=True)
    temporary = Path(
        tempfile.mkdtemp(prefix=f"{place.name}.", suffix=_UNFINISHED, dir=place.parent)
    )
    try:
        make(temporary)
        temporary.rename(place)
    finally:
        # After the rename there is nothing left; after an error or a signal there is.
        shutil.rmtree(temporary, ignore_errors=True)


def _entries() -> list[Path]:
    """Everything in the folder that is ours, unfinished things and locks included."""
    folder = cache_folder()
    if not folder.is_dir():
        return []
    return [entry for entry in folder.iterdir() if entry.name.startswith(tuple(_KINDS))]


def _size_bytes(entry: Path) -> int:
    files = entry.rglob("*") if entry.is_dir() else [entry]
    size_bytes = 0
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            size_bytes += file.stat().st_size if file.is_file() else 0
    return size_bytes


def _unusable(error: OSError) -> DeviceError:
    reason = error.strerror or str(error)
    return DeviceError(
        f"Cache folder {cache_folder()} must be writable, but: {reason}; "
        "another one can be named in MULTITREE_CACHE"
    )
