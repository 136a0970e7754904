"""The command verilog: the files that a hardware project takes."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from multitree.host.cli_common import (
    AlgorithmOption,
    ForwardingOption,
    JsonOption,
    RanksOption,
    ScheduleArgument,
    SizeOption,
    Working,
    build_schedule,
    print_json,
    print_pairs,
)
from multitree.host.rtl_engine import needs_of
from multitree.host.sizes import parse_size
from multitree.host.switch_files import switch_modules
from multitree.host.verilog_files import top_module, write_verilog
from multitree.nic.config import Config
from multitree.sim.link_model import LinkModel
from multitree.sim.sizing import config_for
from multitree.topology.beside import carried

__all__ = ["add_commands"]

_SOURCES = ("Verilog", "link crossing", "switches")
_DOCUMENTS = (
    "C header",
    "register map",
    "SystemRDL",
    "template",
    "FuseSoC core",
)
_BESIDE = "Routes of this schedule lead through ranks: beside rank r stands switch {} + r."


def add_commands(app: typer.Typer) -> None:
    """Add this module's command to the command line."""
    app.command("verilog")(verilog)


def verilog(
    spec: ScheduleArgument,
    out: Annotated[Path, typer.Option(help="Folder to write to.", metavar="DIR")] = Path("build"),
    algorithm: AlgorithmOption = None,
    ranks: RanksOption = None,
    forwarding: ForwardingOption = False,
    size: SizeOption = "1MiB",
    memory: Annotated[
        str, typer.Option(help="Memory side: sram (plain channels) or axi (AXI4).", metavar="KIND")
    ] = "sram",
    dtypes: Annotated[
        str, typer.Option(help="Types of elements that it can reduce.", metavar="NAME,...")
    ] = ",".join(Config().dtypes),
    json: JsonOption = False,
) -> None:
    """Write the Verilog of an interface and of the network's switches, and what goes with it.

    The interface is large enough for the schedule's tables at this size.
    """
    size_bytes, model, top = parse_size(size), LinkModel(), top_module(memory)
    built, _ = build_schedule(spec, algorithm, None, None, ranks, forwarding)
    needs = needs_of(built, model, size_bytes)
    # As wired: with a switch beside each rank where routes lead through ranks.
    wired = carried(built).topology
    config = config_for(wired, model, **needs, dtypes=tuple(dtypes.split(",")))
    switches = switch_modules(wired, config)
    leads_through_ranks = wired is not built.topology
    with Working(f"Generating the Verilog of {', '.join([top, *(s.module for s in switches)])}"):
        paths = write_verilog(config, out, memory=memory, topology=wired)
    if json:
        print_json(
            {
                "topology": built.topology.name,
                "memory": memory,
                "top_module": top,
                "config": asdict(config),
                "switches": [asdict(shape) for shape in switches],
                "switches_beside_ranks": leads_through_ranks,
                "files": [str(path) for path in paths],
            }
        )
        return
    sources = _SOURCES if switches else _SOURCES[:-1]
    print_pairs(f"Wrote {top}", zip([*sources, *_DOCUMENTS], paths, strict=True))
    if switches:
        print_pairs("Switches", ((s.module, ", ".join(map(str, s.nodes))) for s in switches))
    print_pairs("Built for", asdict(config).items())
    if leads_through_ranks:
        typer.echo(_BESIDE.format(built.topology.num_nodes))
