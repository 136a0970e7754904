"""The files a hardware project takes: Verilog, register map, core file, template."""

from pathlib import Path

from multitree.host.switch_files import switch_verilog
from multitree.hw.core_file import core_file
from multitree.hw.crossing import LINK_DOMAIN, LinkCrossing, crossing_depth
from multitree.hw.register_map import c_header
from multitree.hw.register_markdown import markdown
from multitree.hw.system_rdl import system_rdl
from multitree.hw.verilog import generate, instantiation_template
from multitree.nic.axi_interface import AXI_MODULE_NAME, AxiInterface
from multitree.nic.config import Config
from multitree.nic.interface import MODULE_NAME, Interface
from multitree.nic.registers import REGISTERS, VERSION
from multitree.nic.switches import SWITCH_MODULE_NAME
from multitree.topology.topology import Topology

__all__ = ["CROSSING_NAME", "MEMORIES", "top_module", "write_verilog"]

CROSSING_NAME = "multitree_link_crossing"
"""Name of the Verilog module between a link's clock and the interface's."""

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


def write_verilog(
    config: Config, folder: Path, *, memory: str = "sram", topology: Topology | None = None
) -> list[Path]:
    """Write an interface's Verilog and what goes with it.

    Parameters
    ----------
    config : Config
        Sizes of the interface.
    folder : Path
        Where to; made if it is not there.
    memory : str
        One of `MEMORIES`.
    topology : Topology, optional
        The network; its switches are written, too, if it has any.

    Returns
    -------
    list of Path
        The Verilog of the interface, of the crossing to a link's clock and, where there are any,
        of the switches; the register map as a C header, as Markdown and as SystemRDL, an
        instantiation template and a FuseSoC core file. The same bytes for the same sizes and
        switches, on every machine.

    Raises
    ------
    ValueError
        If there is no such kind of memory, or a switch has too many ports.
    TopologyError
        As `switch_files.switch_modules`.
    OSError
        If a file cannot be written.
    """
    top = top_module(memory)
    folder.mkdir(parents=True, exist_ok=True)
    interface = _TOPS[memory][1](config)
    texts = {
        f"{top}.v": generate(interface, name=top),
        f"{CROSSING_NAME}.v": _crossing(config),
    }
    if topology is not None and topology.num_switches:
        texts[f"{SWITCH_MODULE_NAME}.v"] = switch_verilog(topology, config)
    sources = [*texts]
    texts |= {
        f"{REGISTERS.name}.h": c_header(REGISTERS),
        f"{REGISTERS.name}_registers.md": markdown(REGISTERS),
        f"{REGISTERS.name}.rdl": system_rdl(REGISTERS),
        f"{top}_template.vh": instantiation_template(interface, name=top),
    }
    documents = [name for name in texts if name not in sources]
    texts[f"{top}.core"] = core_file(
        name=top,
        version=f"{VERSION}.0.0",
        description="MultiTree network interface: all-reduce by a schedule table.",
        top=top,
        sources=sources,
        documents=documents,
    )
    paths = []
    for name, text in texts.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def _crossing(config: Config) -> str:
    """Verilog of a crossing that never overflows."""
    depth = crossing_depth(buffer_flits=config.buffer_flits, num_vcs=config.num_vcs)
    sizes = {"flit_bytes": config.flit_bytes, "num_vcs": config.num_vcs}
    crossing = LinkCrossing(**sizes, depth=depth)
    return generate(crossing, name=CROSSING_NAME, domains=[LINK_DOMAIN])
