"""Runs a script of Yosys, which is a Python package here, in a process of its own."""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import run

PROGRAM = "from pyosys.libyosys import Design, run_pass; run_pass('script {name}', Design())"


class ToolError(RuntimeError):
    """A tool that failed; the message is the last of what it said."""


def yosys(folder: Path, stem: str, lines: Sequence[str]) -> None:
    """Run commands in a folder, which files in them are named from; a ToolError if one fails."""
    name = f"{stem}.ys"
    (folder / name).write_text("\n".join([*lines, ""]))
    command = [sys.executable, "-c", PROGRAM.format(name=name)]
    done = run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-400:]
        raise ToolError(f"{folder / name}: Yosys failed: {said}")


def missing_yosys() -> str | None:
    if importlib.util.find_spec("pyosys") is None:
        return "there is no pyosys: pip install 'multitree[synth]', or use make"
    return None
