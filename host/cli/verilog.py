"""The command verilog: the files that a hardware project takes."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli.common import (
    AlgorithmOption,
    JsonOption,
    ScheduleArgument,
    SizeOption,
    build_schedule,
    check_folder,
    identity_of,
    print_pairs,
)
from multitree.host.cli.options import ClockOptions, NetworkOptions, report_limits, with_groups
from multitree.host.cli.output import Working, print_json
from multitree.host.design.names import PREFIX, DesignNames
from multitree.host.design.switch_files import SwitchModule, switch_modules
from multitree.host.design.verilog_files import Delivery, write_verilog
from multitree.host.engines import needs_of
from multitree.host.sizes import parse_size
from multitree.nic.config import Config
from multitree.sim.sizing import config_for, link_limits
from multitree.topology.lowering import lowered

__all__ = ["ForceOption", "NameOption", "add_commands"]

ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace files there that are not as they were written.")
]
NameOption = Annotated[
    str, typer.Option(help="What all names begin with, in files, Verilog and C.", metavar="PREFIX")
]

_ATTACHED = "Routes of this schedule lead through ranks: rank r is attached to switch {} + r."


def add_commands(app: typer.Typer) -> None:
    """Add this module's command to the command line."""
    app.command("verilog")(with_groups(verilog))


def verilog(
    spec: ScheduleArgument,
    network: NetworkOptions,
    clock: ClockOptions,
    out: Annotated[Path, typer.Option(help="Folder to write to.", metavar="DIR")] = Path("build"),
    algorithm: AlgorithmOption = None,
    size: SizeOption = "1MiB",
    memory: Annotated[
        str, typer.Option(help="Memory side: sram (plain channels) or axi (AXI4).", metavar="KIND")
    ] = "sram",
    dtypes: Annotated[
        str, typer.Option(help="Types of elements that it can reduce.", metavar="NAME,...")
    ] = ",".join(Config().dtypes),
    name: NameOption = PREFIX,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Write the Verilog of an interface and of the network's switches, and what goes with it.

    The interface is large enough for the schedule's tables at this size. Files of the design that
    was written to the folder before, with the same name, are replaced or removed.
    """
    size_bytes, model, names = parse_size(size), clock.model(), DesignNames(name)
    top = names.top(memory)
    check_folder(out)
    built, _ = build_schedule(spec, algorithm, None, None, network)
    needs = needs_of(built, model, size_bytes)
    # As wired: with a switch attached to each rank where routes lead through ranks.
    wired = lowered(built).topology
    config = config_for(wired, model, **needs, dtypes=tuple(dtypes.split(",")))
    switches = switch_modules(wired, config, names.switch)
    leads_through_ranks = wired is not built.topology
    with Working(f"Generating the Verilog of {', '.join([top, *(s.module for s in switches)])}"):
        delivery = write_verilog(
            config,
            out,
            memory=memory,
            topology=wired,
            prefix=name,
            built_for=identity_of(built) | {"size_bytes": size_bytes},
            force=force,
        )
    if json:
        print_json(
            {
                "topology": built.topology.name,
                "name": name,
                "memory": memory,
                "top_module": top,
                "config": asdict(config),
                "switches": [asdict(shape) for shape in switches],
                "switches_beside_ranks": leads_through_ranks,
                **clock.figures(built.topology, model),
                "warnings": network.warnings,
            }
            | _written(delivery)
        )
        return
    _print_delivery(top, delivery, switches, config)
    if leads_through_ranks:
        typer.echo(_ATTACHED.format(built.topology.num_nodes))
    report_limits(link_limits(built.topology, model))


def _written(delivery: Delivery) -> dict[str, Any]:
    """What JSON says of the files."""
    return {
        "files": [str(path) for path in delivery.paths],
        "removed": list(delivery.removed),
        "no_test_bench": delivery.no_bench,
    }


def _print_delivery(
    top: str, delivery: Delivery, switches: list[SwitchModule], config: Config
) -> None:
    roles = [*(file.role for file in delivery.files), "manifest"]
    print_pairs(f"Wrote {top}", zip(roles, delivery.paths, strict=True))
    if delivery.removed:
        typer.echo(f"Removed, of the design before: {', '.join(delivery.removed)}")
    if delivery.no_bench:
        typer.echo(f"No test bench: {delivery.no_bench}")
    if switches:
        print_pairs("Switches", ((s.module, ", ".join(map(str, s.nodes))) for s in switches))
    print_pairs("Built for", asdict(config).items())
