"""Names of the modules and files of a design, and the version that wrote them."""

import importlib.metadata
import re
from dataclasses import dataclass

from multitree.nic.driver.config import MODULE_NAME, SWITCH_MODULE_NAME

__all__ = ["MEMORIES", "PREFIX", "DesignNames", "project_version"]

PREFIX = "multitree"
"""Prefix of all names unless another one is asked for."""

_SUFFIXES = {"sram": "", "axi": "_axi"}

MEMORIES = tuple(_SUFFIXES)
"""Kinds of memory side: SRAM-style channels, AXI4 managers."""


@dataclass(frozen=True)
class DesignNames:
    """Names of the modules and files that `multitree verilog` writes.

    Designs whose prefixes differ in more than case have no module, file, core or macro in common.

    >>> (DesignNames("torus").top("axi"), DesignNames("torus").crossing)
    ('torus_nic_axi', 'torus_link_crossing')
    """

    prefix: str = PREFIX

    def __post_init__(self) -> None:
        """Check the prefix."""
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.prefix):
            raise ValueError(f"Name must be a Verilog identifier, not {self.prefix!r}")

    def _of(self, default: str) -> str:
        return self.prefix + default.removeprefix(PREFIX)

    def top(self, memory: str) -> str:
        """Name of the interface's module with one of `MEMORIES`."""
        if memory not in MEMORIES:
            raise ValueError(f"Memory must be {' or '.join(MEMORIES)}, not {memory!r}")
        return self.registers + _SUFFIXES[memory]

    @property
    def registers(self) -> str:
        """Name of the register map, which starts the names of its macros in C."""
        return self._of(MODULE_NAME)

    @property
    def crossing(self) -> str:
        """Name of the module between a link's clock and the interface's."""
        return f"{self.prefix}_link_crossing"

    @property
    def switch(self) -> str:
        """What the names of all switches' modules begin with."""
        return self._of(SWITCH_MODULE_NAME)

    @property
    def network(self) -> str:
        """Name of the module of a whole network."""
        return f"{self.prefix}_network"

    @property
    def cocotb(self) -> str:
        """Name of the folder of cocotb benches."""
        return f"{self.prefix}_cocotb"

    @property
    def bench(self) -> str:
        """Name of the test bench's module; what those below it begin with."""
        return f"{self.prefix}_sim"

    @property
    def manifest(self) -> str:
        """Name of the file that lists all others."""
        return f"{self.prefix}_manifest.json"


def project_version() -> str:
    """Version of the installed package; ValueError if only its source is there."""
    try:
        return importlib.metadata.version("multitree")
    except importlib.metadata.PackageNotFoundError as error:
        raise ValueError(
            "MultiTree must be installed (pip install .) to know its version"
        ) from error
