"""The command demo: sixteen interfaces in RTL, and what their all-reduce comes to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli.common import JsonOption, identity_of, print_table
from multitree.host.cli.output import Working, print_json
from multitree.host.cli.report_cells import COLUMNS, shown_cells
from multitree.host.cli.tables import COLUMNS as TABLE_COLUMNS
from multitree.host.cli.tables import NOTE, table_rows
from multitree.host.cli.tables import shown_cells as table_cells
from multitree.host.cli.verilog import ForceOption
from multitree.host.design.verilog_files import write_verilog
from multitree.host.engines import needs_of
from multitree.host.report import bound_of
from multitree.host.runner import Runner
from multitree.host.sizes import format_size
from multitree.nic.table import compile_table
from multitree.sim.link_model import LinkModel
from multitree.sim.sizing import config_for
from multitree.topology.algorithms.build import build
from multitree.topology.families.direct import torus

__all__ = ["demo"]

FAILED = 1
SIZE_BYTES = 1 << 20
RANK = 5


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder to write the Verilog to.", metavar="DIR")
    ] = Path("build"),
    force: ForceOption = False,
    json: JsonOption = False,
) -> int:
    """Run sixteen interfaces in RTL: three algorithms, side by side."""
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
        _show(data, paths)
    return 0 if exact else FAILED


def _show(data: dict[str, Any], paths: Sequence[Path]) -> None:
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
