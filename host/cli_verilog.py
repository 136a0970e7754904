"""The command verilog: the files that a hardware project takes."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from multitree.host.cli_common import (
    AlgorithmOption,
    JsonOption,
    SizeOption,
    SpecArgument,
    Working,
    build_schedule,
    print_json,
    print_pairs,
)
from multitree.host.rtl_engine import needs_of
from multitree.host.sizes import parse_size
from multitree.host.verilog_files import write_verilog
from multitree.nic.interface import MODULE_NAME
from multitree.sim.link_model import LinkModel
from multitree.sim.sizing import config_for

__all__ = ["add_commands"]


def add_commands(app: typer.Typer) -> None:
    """Add this module's command to the command line."""
    app.command("verilog")(verilog)


def verilog(
    spec: SpecArgument,
    out: Annotated[Path, typer.Option(help="Folder to write to.", metavar="DIR")] = Path("build"),
    algorithm: AlgorithmOption = "multitree",
    size: SizeOption = "1MiB",
    json: JsonOption = False,
) -> None:
    """Write the Verilog of an interface, and what goes with it.

    The interface is large enough for the schedule's tables at this size.
    """
    size_bytes, model = parse_size(size), LinkModel()
    built, _ = build_schedule(spec, algorithm, "all_reduce", None)
    config = config_for(built.topology, model, **needs_of(built, model, size_bytes // 4))
    with Working(f"Generating the Verilog of {MODULE_NAME}"):
        paths = write_verilog(config, out)
    if json:
        print_json(
            {
                "topology": built.topology.name,
                "top_module": MODULE_NAME,
                "config": asdict(config),
                "files": [str(path) for path in paths],
            }
        )
        return
    kinds = ("Verilog", "C header", "register map", "template")
    print_pairs(f"Wrote {MODULE_NAME}", zip(kinds, paths, strict=True))
    print_pairs("Built for", asdict(config).items())
