"""The command compare: what is faster."""

from typing import Annotated, Any

import typer

from multitree.host.cli.common import (
    CsvOption,
    FlowControlOption,
    JsonOption,
    MemoryCyclesOption,
    SizesOption,
    SpecArgument,
    print_table,
)
from multitree.host.cli.options import (
    ClockOptions,
    HostOptions,
    NetworkOptions,
    report_limits,
    with_groups,
)
from multitree.host.cli.output import Working, check_format, print_csv, print_sizes
from multitree.host.cli.report_cells import COLUMNS, shown_cells
from multitree.host.cli.timing.simulate import (
    FAILED,
    DependencyOption,
    DtypeOption,
    EngineOption,
    LockstepOption,
    OpOption,
    SeedOption,
)
from multitree.host.report import bound_of
from multitree.host.runner import Runner, Seeded, check_some_ran
from multitree.host.sizes import check_once, format_size, parse_sizes
from multitree.sim.link_model import LinkModel
from multitree.sim.sizing import link_limits
from multitree.topology.algorithms.build import COMPARED, check_algorithm
from multitree.topology.networks.topology import Topology

__all__ = ["compare"]


@with_groups
def compare(
    spec: SpecArgument,
    network: NetworkOptions,
    clock: ClockOptions,
    host: HostOptions,
    algorithms: Annotated[
        str, typer.Option(help="Names with commas between.", metavar="NAMES")
    ] = ",".join(COMPARED),
    size: SizesOption = "1MiB",
    engine: EngineOption = "rtl",
    dependency: DependencyOption = "chunk",
    flow_control: FlowControlOption = "message",
    lockstep: LockstepOption = False,
    dtype: DtypeOption = "float32",
    op: OpOption = "sum",
    seed: SeedOption = Seeded.seed,
    memory_cycles: MemoryCyclesOption = 12,
    csv: CsvOption = False,
    json: JsonOption = False,
) -> int:
    """Run several algorithms' all-reduces side by side, for each size."""
    check_format(json, csv)
    sizes, topology = parse_sizes(size), network.network(spec)
    names = [check_algorithm(name) for name in algorithms.split(",")]
    check_once("Algorithms", names, names)
    modes = {"dependency": dependency, "flow_control": flow_control}
    model = clock.model(**modes).with_memory(memory_cycles)
    data = Seeded(dtype, op, seed)
    with (
        Working(f"Comparing on {topology.name}") as work,
        Runner.timed(
            topology,
            engine,
            link_model=model,
            lockstep=lockstep,
            host=host.host(),
            progress=work.count_cycles,
            say=work.say,
        ) as runner,
    ):
        compared = [runner.compare(size_bytes, names, data) for size_bytes in sizes]
    check_some_ran(topology, [result for results in compared for result in results])
    options: dict[str, Any] = {"engine": engine, **modes, "lockstep": lockstep}
    options |= {"dtype": dtype, "op": data.op, "seed": seed}
    options |= vars(host) | {"memory_cycles": memory_cycles}
    more, extra = clock.figures(topology, model), {"warnings": network.warnings}
    heads = [_head(topology, size_bytes, model, options | more) for size_bytes in sizes]
    pairs = [*zip(heads, compared, strict=True)]
    if json:
        print_sizes([head | {"results": results} | extra for head, results in pairs])
    elif csv:
        print_csv([head | extra | result for head, results in pairs for result in results])
    else:
        for head, results in pairs:
            _show(head, results)
        report_limits(link_limits(topology, model))
    exact = [result["exact"] for results in compared for result in results]
    return FAILED if False in exact else 0


def _head(
    topology: Topology, size_bytes: int, model: LinkModel, options: dict[str, Any]
) -> dict[str, Any]:
    """What is the same for all algorithms at one size, and what none of them can beat."""
    network = {"topology": topology.name, "num_ranks": topology.num_ranks}
    bound = {"bound_cycles": bound_of(topology, size_bytes, model)}
    return network | {"size_bytes": size_bytes} | options | bound


def _show(head: dict[str, Any], results: list[dict[str, Any]]) -> None:
    """Print one size for people."""
    title = f"All-reduce of {format_size(head['size_bytes'])} per rank on {head['topology']}"
    note = f"No schedule takes less than {head['bound_cycles']:.0f} cycles.\nOffload: with tables "
    note += (
        f"loaded and {head['host_us']:g} µs of host; effective: of that, on all wires of a link."
    )
    print_table(f"{title}, engine {head['engine']}.\n{note}", COLUMNS, map(shown_cells, results))
    for result in (each for each in results if each["error"] is not None):
        typer.echo(f"{result['algorithm']}: {result['error']}")
