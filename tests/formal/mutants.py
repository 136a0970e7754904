"""A seeded fault: a changed line of a block, which a property has to catch."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.formal.solve import ToolError

__all__ = ["ROOT", "Mutant", "judge"]

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("topology", "hw", "nic", "sim")


@dataclass(frozen=True)
class Mutant:
    """A line of a block replaced by a wrong one.

    Parameters
    ----------
    property_name : str
        The property that has to catch it.
    path : str
        The block's file.
    old, new : str
        Text that occurs once in it, and what takes its place.
    fault : str
        What is wrong then, for people.
    """

    property_name: str
    path: str
    old: str
    new: str
    fault: str


def judge(mutant: Mutant, *, limit_seconds: int) -> str:
    """What the property says of a copy of the rooms with the fault in it.

    Returns
    -------
    str
        "caught", "MISSED", or why there is no verdict: a fault that keeps the block from being
        built is not one that a proof has found.

    Raises
    ------
    ToolError
        If the text to replace does not occur exactly once.
    """
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "multitree")
        for room in ROOMS:
            shutil.copytree(ROOT / room, package / room)
        (package / "__init__.py").write_text("")
        path = package / mutant.path
        text = path.read_text()
        if text.count(mutant.old) != 1:
            raise ToolError(f"{mutant.path} must hold {mutant.old!r} once, not otherwise")
        path.write_text(text.replace(mutant.old, mutant.new))
        command = [sys.executable, "-W", "ignore", "-m", "tests.formal.run", "--smallest"]
        command += ["--no-covers", "--jobs", "1"]
        command += [mutant.property_name, "--limit", str(limit_seconds)]
        environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    line = next((row for row in done.stdout.splitlines() if row.startswith(("ok", "FAIL"))), None)
    if line is None:
        words = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()
        return f"NO VERDICT: {words[-1]}"
    if "undecided" in line:
        return "NO VERDICT: undecided"
    return "caught" if "refuted" in line else "MISSED"
