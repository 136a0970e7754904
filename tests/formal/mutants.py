"""A seeded fault: a changed line of a block, which a property has to catch."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.formal.solve import ToolError

__all__ = ["ROOT", "Mutant", "judge", "listed", "patched"]

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("topology", "hw", "nic", "sim")


@dataclass(frozen=True)
class Mutant:
    """A text that occurs once in a block's file, and what takes its place: what is wrong then.

    The property of this name has to catch it.
    """

    property_name: str
    path: str
    old: str
    new: str
    fault: str


def listed(text: str) -> Iterator[Mutant]:
    """The faults of a list; a paragraph of it is of one property and one file.

    Each fault is a `#` line that says what is wrong, then `-` lines and what takes their place.
    """
    for paragraph in text.strip().split("\n\n"):
        head, *faults = paragraph.split("\n# ")
        property_name, path = head.split(" in ")
        for words in faults:
            fault, *lines = words.split("\n")
            old, new = ("\n".join(row[2:] for row in lines if row[0] == sign) for sign in "-+")
            yield Mutant(property_name, path, old, new, fault)


def patched(folder: str | Path, edits: Iterable[tuple[str, str, str]]) -> Path:
    """The package `multitree` in an empty folder: a copy of the rooms with some text replaced.

    An edit is a file, a text and what takes its place. Raises `ToolError` where the text does not
    occur exactly once.
    """
    package = Path(folder, "multitree")
    for room in ROOMS:
        shutil.copytree(ROOT / room, package / room)
    (package / "__init__.py").write_text("")
    for name, old, new in edits:
        path = package / name
        text = path.read_text()
        if text.count(old) != 1:
            raise ToolError(f"{name} must hold {old!r} once, not otherwise")
        path.write_text(text.replace(old, new))
    return package


SEARCH_CYCLES = 24
"""A counterexample is found sooner by a search than by an attempt at a proof."""


def judge(mutant: Mutant, *, limit_seconds: int) -> str:
    """What the property says of a copy of the rooms with the fault in it.

    It is "caught", "MISSED", or why there is no verdict: a fault that keeps the block from being
    built is not one that a proof has found. The first parameter set is searched, then all: a fault
    may need a second flow, or a third child. What no search finds is left to the proof.
    """
    with tempfile.TemporaryDirectory() as folder:
        patched(folder, [(mutant.path, mutant.old, mutant.new)])
        command = [sys.executable, "-W", "ignore", "-m", "tests.formal.run", "--no-covers"]
        command += ["--jobs", "1", mutant.property_name, "--limit", str(limit_seconds)]
        environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
        search = ["--search", str(SEARCH_CYCLES)]
        for options in ([*search, "--smallest"], search, []):
            done = subprocess.run(
                [*command, *options], cwd=ROOT, env=environment, capture_output=True, text=True
            )
            lines = [row for row in done.stdout.splitlines() if row.startswith(("ok", "FAIL"))]
            if not lines:
                words = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()
                return f"NO VERDICT: {words[-1]}"
            if any("refuted" in line for line in lines):
                return "caught"
    return "NO VERDICT: undecided" if any("undecided" in line for line in lines) else "MISSED"
