"""The files a hardware project takes: Verilog, C header, register map, template."""

from pathlib import Path

from multitree.hw.register_map import c_header, markdown
from multitree.hw.verilog import generate, instantiation_template
from multitree.nic.axi_interface import AXI_MODULE_NAME, AxiInterface
from multitree.nic.config import Config
from multitree.nic.interface import MODULE_NAME, Interface
from multitree.nic.registers import REGISTERS

__all__ = ["MEMORIES", "top_module", "write_verilog"]

_TOPS = {"sram": (MODULE_NAME, Interface), "axi": (AXI_MODULE_NAME, AxiInterface)}

MEMORIES = tuple(_TOPS)
"""Kinds of memory side: SRAM-style channels, AXI4 managers."""


def top_module(memory: str) -> str:
    """Name of the Verilog module of the interface with that kind of memory side.

    Raises
    ------
    ValueError
        If there is no such kind.
    """
    if memory not in _TOPS:
        raise ValueError(f"Memory must be {' or '.join(MEMORIES)}, not {memory!r}")
    return _TOPS[memory][0]


def write_verilog(config: Config, folder: Path, *, memory: str = "sram") -> list[Path]:
    """Write an interface's Verilog and what goes with it.

    Parameters
    ----------
    config : Config
        Sizes of the interface.
    folder : Path
        Where to; made if it is not there.
    memory : str
        One of `MEMORIES`.

    Returns
    -------
    list of Path
        The Verilog, the register map as a C header and as Markdown, and an instantiation template.
        The same bytes for the same sizes, on every machine.

    Raises
    ------
    ValueError
        If there is no such kind of memory.
    OSError
        If a file cannot be written.
    """
    top = top_module(memory)
    folder.mkdir(parents=True, exist_ok=True)
    interface = _TOPS[memory][1](config)
    texts = {
        f"{top}.v": generate(interface, name=top),
        f"{REGISTERS.name}.h": c_header(REGISTERS),
        f"{REGISTERS.name}_registers.md": markdown(REGISTERS),
        f"{top}_template.vh": instantiation_template(interface, name=top),
    }
    paths = []
    for name, text in texts.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths
