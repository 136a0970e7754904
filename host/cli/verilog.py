"""The commands verilog and demo: the files that a hardware project takes."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multitree.host.cli.compare import COLUMNS, shown_cells
from multitree.host.cli.options import (
    ClockOptions,
    NetworkOptions,
    ScheduleOptions,
    build_schedule,
    identity_of,
    report_limits,
    with_options,
)
from multitree.host.cli.output import Working, check_folder, print_json, print_pairs, print_table
from multitree.host.cli.process import FAILED
from multitree.host.cli.table import COLUMNS as TABLE_COLUMNS
from multitree.host.cli.table import NOTE, table_rows
from multitree.host.cli.table import shown_cells as table_cells
from multitree.host.design.names import PREFIX, DesignNames
from multitree.host.engines import needs_of
from multitree.host.report import bound_of
from multitree.host.runner import Runner
from multitree.host.sizes import check_once, format_size, listed, parse_size
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import compile_table
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import config_for, link_limits
from multitree.topology.algorithms.build import build
from multitree.topology.checks.proofs import check_switches
from multitree.topology.collectives import DTYPES
from multitree.topology.families.direct import torus
from multitree.topology.lowering import lowered
from multitree.topology.schedules.schedule import Schedule

if TYPE_CHECKING:
    from multitree.host.design.cocotb_files import BenchPlan
    from multitree.host.design.network_top import SwitchModule
    from multitree.host.design.verilog_files import Delivery

__all__ = [
    "BENCH_SIZE",
    "Design",
    "demo",
    "verilog",
]


BENCH_SIZE = "1KiB"
"""Buffer of a rank in written benches: some sub-messages, and a few thousand cycles."""

_ATTACHED = "Routes of this schedule lead through ranks: rank r is attached to switch {} + r."


@with_options
def verilog(
    *,
    spec: str,
    network: NetworkOptions,
    clock: ClockOptions,
    out: Annotated[Path, typer.Option(help="Folder to write to.", metavar="DIR")] = Path("build"),
    algorithm: str | None,
    size: str,
    memory: str,
    dtypes: str,
    modes: Annotated[
        str, typer.Option(help="Modes that it can run in; none if empty.", metavar="NAME,...")
    ] = ",".join(Config().modes),
    name: Annotated[
        str,
        typer.Option(help="What all names begin with, in files, Verilog and C.", metavar="PREFIX"),
    ] = PREFIX,
    bench: Annotated[
        bool, typer.Option("--bench", help="Also write a folder of cocotb benches.")
    ] = False,
    crossings: bool,
    force: bool,
    json: bool,
) -> None:
    """Write the Verilog of an interface and of the network's switches, and what goes with it.

    The interface is large enough for the schedule's tables at this size. Files of the design that
    was written to the folder before, with the same name, are replaced or removed.
    """
    if crossings and not bench:
        raise ValueError("Crossings must come with --bench, whose network they are in")
    size_bytes, model = parse_size(size), clock.model()
    check_folder(out)
    built, _ = build_schedule(spec, ScheduleOptions(algorithm), network)
    types, run_modes = tuple(listed(dtypes)), tuple(listed(modes)) if modes else ()
    check_once("Types", types, types)
    check_once("Modes", run_modes, run_modes)
    design = Design(built, size_bytes, model, memory, name, dtypes=types, modes=run_modes)
    plan = design.benches(BENCH_SIZE, crossings=crossings) if bench else None
    delivery = design.write(out, plan, force=force)
    if json:
        print_json(
            {
                "topology": built.topology.name,
                "name": name,
                "memory": memory,
                "top_module": design.top,
                "config": asdict(design.config),
                "switches": [asdict(shape) for shape in design.switches],
                "switches_beside_ranks": design.wired is not built.topology,
                **clock.figures(built.topology, model),
                "warnings": network.warnings,
            }
            | _written(delivery)
        )
        return
    _print_delivery(design.top, delivery, design.switches, design.config)
    if design.wired is not built.topology:
        typer.echo(_ATTACHED.format(built.topology.num_nodes))
    report_limits(link_limits(built.topology, model))


class Design:
    """The interface and the switches that a schedule needs for buffers of a size in bytes.

    The memory side is one of `MEMORIES`, and all names have the same prefix.
    """

    def __init__(
        self,
        schedule: Schedule,
        size_bytes: int,
        link_model: LinkModel,
        memory: str,
        name: str,
        *,
        dtypes: tuple[str, ...],
        modes: tuple[str, ...] = Config().modes,
    ) -> None:
        self.schedule, self.size_bytes = schedule, size_bytes
        self.memory, self.names = memory, DesignNames(name)
        self.top = self.names.top(memory)
        check_switches(schedule)
        needs = needs_of(schedule, link_model, size_bytes)
        # As wired: with a switch attached to each rank where routes lead through ranks.
        self.wired = lowered(schedule).topology
        self.config = config_for(self.wired, link_model, **needs, dtypes=dtypes, modes=modes)
        # Like all that writes designs it needs the hardware's language, which help does not.
        from multitree.host.design.network_top import switch_modules

        self.switches = switch_modules(self.wired, self.config, self.names.switch)

    def benches(self, size: str, **options: Any) -> "BenchPlan":
        """Benches with a buffer of that size, in words; `options` as `BenchPlan` takes them."""
        from multitree.host.design.cocotb_files import BenchPlan

        num_elements = parse_size(size) // DTYPES[self.config.dtypes[0]].itemsize
        return BenchPlan(self.schedule, num_elements=num_elements, **options)

    def write(self, folder: Path, benches: "BenchPlan | None", *, force: bool) -> "Delivery":
        """Write all files, as `write_verilog`; says what it does if it takes long."""
        from multitree.host.design.verilog_files import write_verilog

        modules = ", ".join([self.top, *(shape.module for shape in self.switches)])
        with Working(f"Generating the Verilog of {modules}"):
            return write_verilog(
                self.config,
                folder,
                memory=self.memory,
                topology=self.wired,
                prefix=self.names.prefix,
                built_for=identity_of(self.schedule) | {"size_bytes": self.size_bytes},
                benches=benches,
                force=force,
            )


def _written(delivery: "Delivery") -> dict[str, Any]:
    """What JSON says of the files."""
    return {
        "files": [str(path) for path in delivery.paths],
        "removed": list(delivery.removed),
        "no_test_bench": delivery.no_bench,
    }


def _print_delivery(
    top: str, delivery: "Delivery", switches: "list[SwitchModule]", config: Config
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


SIZE_BYTES = 1 << 20
RANK = 5


@with_options
def demo(
    *,
    out: Annotated[
        Path, typer.Option(help="Folder to write the Verilog to.", metavar="DIR")
    ] = Path("build"),
    force: bool,
    json: bool,
) -> int:
    """Run sixteen interfaces in RTL: three algorithms, side by side."""
    from multitree.host.design.verilog_files import write_verilog

    topology, model = torus(4, 4), LinkModel()
    schedule = build(topology, "multitree")
    config = config_for(topology, model, **needs_of(schedule, model, SIZE_BYTES))
    built_for = identity_of(schedule) | {"size_bytes": SIZE_BYTES}
    with (
        Working("All-reduce on 16 interfaces in RTL") as work,
        Runner.timed(
            topology, "rtl", link_model=model, progress=work.count_cycles, say=work.say
        ) as runner,
    ):
        # First, since it may be refused.
        paths = write_verilog(config, out, built_for=built_for, force=force).paths
        results = runner.compare(SIZE_BYTES)
    table = compile_table(schedule, RANK, model.num_flits(SIZE_BYTES, 1), config)
    rows = table_rows(table, schedule, config.flit_bytes)
    bound = bound_of(topology, SIZE_BYTES, model)
    exact = all(result["exact"] for result in results)
    data = {
        "topology": topology.name,
        "num_ranks": topology.num_ranks,
        "size_bytes": SIZE_BYTES,
        "engine": "rtl",
        "bound_cycles": bound,
        "exact": exact,
        "results": results,
        "table": {"rank": RANK, "rows": rows},
        "files": [str(path) for path in paths],
    }
    if json:
        print_json(data)
    else:
        _show_demo(data, paths)
    return 0 if exact else FAILED


def _show_demo(data: dict[str, Any], paths: Sequence[Path]) -> None:
    """Print for people what ran, one rank's table, and what was written."""
    print_table(
        f"All-reduce of {format_size(SIZE_BYTES)} of float32 per rank on a 4x4 torus: "
        f"16 interfaces in RTL.\nNo schedule takes less than {data['bound_cycles']:.0f} cycles.",
        COLUMNS,
        map(shown_cells, data["results"]),
    )
    title = f"What the interface of rank {RANK} executes for MultiTree"
    print_table(f"\n{title}\n{NOTE}", list(TABLE_COLUMNS), map(table_cells, data["table"]["rows"]))
    verdict = (
        "Every rank's memory equals the NumPy definition, bit for bit."
        if data["exact"]
        else "A rank's memory DIFFERS from the NumPy definition."
    )
    typer.echo(f"\n{verdict}")
    *others, last = (path.name for path in paths[1:])
    typer.echo(f"The interface's Verilog is in {paths[0]}, with {', '.join(others)} ", nl=False)
    typer.echo(f"and {last} next to it.")
