"""The files a hardware project takes: Verilog, C header, register map, template."""

from pathlib import Path

from multitree.hw.register_map import c_header, markdown
from multitree.hw.verilog import generate, instantiation_template
from multitree.nic.config import Config
from multitree.nic.interface import MODULE_NAME, Interface
from multitree.nic.registers import REGISTERS

__all__ = ["write_verilog"]


def write_verilog(config: Config, folder: Path) -> list[Path]:
    """Write an interface's Verilog and what goes with it.

    Parameters
    ----------
    config : Config
        Sizes of the interface.
    folder : Path
        Where to; made if it is not there.

    Returns
    -------
    list of Path
        The Verilog, the register map as a C header and as Markdown, and an instantiation template.
        The same bytes for the same sizes, on every machine.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    interface = Interface(config)
    texts = {
        f"{MODULE_NAME}.v": generate(interface, name=MODULE_NAME),
        f"{MODULE_NAME}.h": c_header(REGISTERS),
        f"{MODULE_NAME}_registers.md": markdown(REGISTERS),
        f"{MODULE_NAME}_template.vh": instantiation_template(interface, name=MODULE_NAME),
    }
    paths = []
    for name, text in texts.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths
