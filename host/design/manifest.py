"""Files of a design in a folder, which those of the next design replace."""

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multitree.topology.file_io import write_files

__all__ = ["SCHEMA", "DesignFile", "listed_before", "replace_design"]

SCHEMA = "multitree.manifest.v1"

_MOST_NAMED = 4
_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class DesignFile:
    """A file of a design."""

    name: str  # in the design's folder, at most one folder down
    role: str  # what it is, in a word or two
    text: str

    @property
    def sha256(self) -> str:
        """SHA-256 of its bytes, in hexadecimal."""
        return _sha256(self.text.encode())


def listed_before(folder: Path, name: str, *, force: bool = False) -> dict[str, str]:
    """SHA-256 by name of the files of a folder's manifest `name`; none where there is no manifest.

    ValueError if the manifest cannot be understood, unless `force` takes it for none.
    """
    path = folder / name
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(_MAX_BYTES))
        if content["schema"] != SCHEMA:
            raise ValueError("of another schema")
        return {_file_name(entry["file"]): str(entry["sha256"]) for entry in content["files"]}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        if force:
            return {}
        raise ValueError(
            f"{path}: file must be a manifest that MultiTree wrote, {SCHEMA}; --force replaces it"
        ) from error


def replace_design(
    folder: Path,
    name: str,
    files: Sequence[DesignFile],
    facts: Mapping[str, Any],
    *,
    before: Mapping[str, str],
    force: bool = False,
) -> list[str]:
    """Write a design's files and its manifest, remove the rest of `before`, and return its names.

    Unless forced, a file that is neither as it was written nor as it would be is a ValueError,
    before anything is written. After an OSError all files are as they were.
    """
    if not force:
        known = {old: {sha256} for old, sha256 in before.items()}
        for file in files:
            known.setdefault(file.name, set()).add(file.sha256)
        changed = [old for old, hashes in known.items() if not _is_one_of(folder / old, hashes)]
        if changed:
            raise ValueError(_refusal(folder, changed))
    contents = {file.name: file.text for file in files} | {name: _text(files, facts)}
    write_files(folder, contents)
    return [old for old in sorted(set(before) - set(contents)) if _remove(folder, folder / old)]


def _text(files: Sequence[DesignFile], facts: Mapping[str, Any]) -> str:
    listed = [{"file": f.name, "role": f.role, "sha256": f.sha256} for f in files]
    return json.dumps({"schema": SCHEMA, **facts, "files": listed}, indent=2) + "\n"


def _refusal(folder: Path, changed: Sequence[str]) -> str:
    named = ", ".join(changed[:_MOST_NAMED])
    if len(changed) > _MOST_NAMED:
        named += f" and {len(changed) - _MOST_NAMED} more"
    return (
        f"{folder}: files must be as MultiTree wrote them to be replaced, not edited or of another "
        f"origin: {named}; --force replaces them"
    )


def _file_name(name: str) -> str:
    """The name, if it is one of a file in the manifest's own folder, or in one in that."""
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name, flags=re.ASCII):
        raise ValueError(f"not the name of a file: {name!r}")
    return name


def _is_one_of(path: Path, hashes: set[str]) -> bool:
    """Whether a file is not there, or is an ordinary one with one of these hashes."""
    if not path.is_symlink() and not path.exists():
        return True
    return path.is_file() and not path.is_symlink() and _sha256(path.read_bytes()) in hashes


def _remove(folder: Path, path: Path) -> bool:
    """Remove a file, if it is there, and the folder in the design's own that it leaves empty."""
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    with contextlib.suppress(OSError):
        if path.parent != folder:
            path.parent.rmdir()
    return True


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
