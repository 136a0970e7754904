"""The commands simulate and compare: when it happens, and what is faster."""

import re
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli_common import (
    CollectiveOption,
    FlowControlOption,
    ForwardingOption,
    JsonOption,
    MemoryCyclesOption,
    RanksOption,
    RootOption,
    ScheduleArgument,
    SizeOption,
    SpecArgument,
    Working,
    build_schedule,
    check_writable,
    identity_of,
    members_of,
    print_json,
    print_table,
)
from multitree.host.cli_explain import choose
from multitree.host.comparison import COLUMNS, compare_all, shown_cells
from multitree.host.figures import bound_of
from multitree.host.simulator import SEED, Simulator
from multitree.host.sizes import format_size, paced, parse_size
from multitree.host.work import WorkReport
from multitree.nic.counts import PortCounts
from multitree.sim.choice import AUTO
from multitree.sim.link_model import LinkModel
from multitree.sim.rtl import Waveform
from multitree.topology.builders import COMPARED, check_algorithm
from multitree.topology.families import parse_topology
from multitree.topology.topology import Topology

__all__ = ["add_commands"]

FAILED = 1

EngineOption = Annotated[str, typer.Option(help="rtl or analytic.", metavar="NAME")]
DtypeOption = Annotated[str, typer.Option(help="float32, int32 or bfloat16.", metavar="NAME")]
OpOption = Annotated[str, typer.Option(help="sum or max.", metavar="NAME")]
AnyAlgorithmOption = Annotated[
    str | None,
    typer.Option(
        help="As for `multitree schedule`, or auto: the fastest by the engine analytic.",
        metavar="NAME",
    ),
]
AnyDependencyOption = Annotated[
    str | None,
    typer.Option(
        help="chunk, or submessage for cut-through; by default chunk, and with auto the faster.",
        metavar="NAME",
    ),
]
DependencyOption = Annotated[
    str, typer.Option(help="chunk, or submessage for cut-through.", metavar="NAME")
]
LockstepOption = Annotated[
    bool,
    typer.Option(
        "--lockstep", help="Wait out every step's estimated time (analytic: on shared links)."
    ),
]
SeedOption = Annotated[int, typer.Option(help="Seed of the data.", metavar="NUMBER")]
TraceOption = Annotated[
    Path | None, typer.Option(help="Dump a waveform, .vcd or .fst (rtl).", metavar="FILE")
]
WindowOption = Annotated[
    str | None, typer.Option(help="Cycles A up to B of the waveform only.", metavar="A:B")
]


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to the command line."""
    app.command("simulate")(simulate)
    app.command("compare")(compare)


def simulate(
    spec: ScheduleArgument,
    algorithm: AnyAlgorithmOption = None,
    collective: CollectiveOption = None,
    root: RootOption = None,
    ranks: RanksOption = None,
    forwarding: ForwardingOption = False,
    size: SizeOption = "1MiB",
    engine: EngineOption = "rtl",
    dependency: AnyDependencyOption = None,
    flow_control: FlowControlOption = "message",
    lockstep: LockstepOption = False,
    dtype: DtypeOption = "float32",
    op: OpOption = "sum",
    seed: SeedOption = SEED,
    memory_cycles: MemoryCyclesOption = 12,
    trace: TraceOption = None,
    window: WindowOption = None,
    json: JsonOption = False,
) -> int:
    """Run a collective on an engine with a clock.

    The engine rtl carries data: every rank's memory is compared with the definition, bit for bit.
    """
    size_bytes, choice, waveform = parse_size(size), None, _waveform(trace, window)
    model = _model_of(dependency, flow_control, memory_cycles)
    if algorithm == AUTO:
        network = _network_of(spec, ranks, forwarding, lockstep)
        choice = choose(network, model, size_bytes, collective, root, dependency)
        built, model = choice.best.schedule, replace(model, dependency=choice.best.dependency)
    else:
        pace = paced(model, size_bytes)
        built, _ = build_schedule(spec, algorithm, collective, root, ranks, forwarding, pace)
    with (
        Working(f"{built.algorithm} on {built.topology.name}, engine {engine}") as work,
        Simulator(
            built.topology,
            engine,
            dtype=dtype,
            op=op,
            seed=seed,
            link_model=model,
            lockstep=lockstep,
            waveform=waveform,
            progress=work.count_cycles,
            say=work.say,
        ) as simulator,
    ):
        report = simulator.run(built, size_bytes)
    if json:
        print_json(
            identity_of(built)
            | _figures(report)
            | {"flow_control": flow_control, "lockstep": lockstep}
            | {"dtype": dtype, "op": op, "seed": seed, "memory_cycles": memory_cycles}
            | {"trace": None if trace is None else str(trace), "reason": choice and choice.reason}
        )
    else:
        typer.echo(str(report))
        if choice is not None:
            typer.echo(f"  chosen: {choice.reason}")
        if trace is not None:
            typer.echo(f"  waveform in {trace}")
    return FAILED if report.exact is False else 0


def _network_of(spec: str, ranks: str | None, forwarding: bool, lockstep: bool) -> Topology:
    """What to choose an algorithm for; not in lockstep, since algorithms are timed without."""
    if lockstep:
        raise ValueError(f"Algorithm must be named in lockstep, not {AUTO!r}")
    return members_of(parse_topology(spec), ranks, forwarding)


def _model_of(dependency: str | None, flow_control: str, memory_cycles: int) -> LinkModel:
    model = LinkModel(dependency=dependency or "chunk", flow_control=flow_control)
    return model.with_memory(memory_cycles)


def compare(
    spec: SpecArgument,
    algorithms: Annotated[
        str, typer.Option(help="Names with commas between.", metavar="NAMES")
    ] = ",".join(COMPARED),
    ranks: RanksOption = None,
    forwarding: ForwardingOption = False,
    size: SizeOption = "1MiB",
    engine: EngineOption = "rtl",
    dependency: DependencyOption = "chunk",
    flow_control: FlowControlOption = "message",
    lockstep: LockstepOption = False,
    dtype: DtypeOption = "float32",
    op: OpOption = "sum",
    seed: SeedOption = SEED,
    json: JsonOption = False,
) -> int:
    """Run several algorithms' all-reduces, side by side."""
    size_bytes, topology = parse_size(size), members_of(parse_topology(spec), ranks, forwarding)
    names = [check_algorithm(name) for name in algorithms.split(",")]
    model = LinkModel(dependency=dependency, flow_control=flow_control)
    with (
        Working(f"Comparing on {topology.name}") as work,
        Simulator(
            topology,
            engine,
            dtype=dtype,
            op=op,
            seed=seed,
            link_model=model,
            lockstep=lockstep,
            progress=work.count_cycles,
            say=work.say,
        ) as simulator,
    ):
        results = compare_all(simulator, size_bytes, names)
    bound = bound_of(topology, size_bytes, model)
    if json:
        print_json(
            {
                "topology": topology.name,
                "num_ranks": topology.num_ranks,
                "size_bytes": size_bytes,
                "engine": engine,
                "dependency": dependency,
                "flow_control": flow_control,
                "lockstep": lockstep,
                "dtype": dtype,
                "op": op,
                "seed": seed,
                "bound_cycles": bound,
                "results": results,
            }
        )
    else:
        title = f"All-reduce of {format_size(size_bytes)} per rank on {topology.name}"
        note = f"No schedule takes less than {bound:.0f} cycles."
        print_table(f"{title}, engine {engine}.\n{note}", COLUMNS, map(shown_cells, results))
        for result in (each for each in results if each["error"] is not None):
            typer.echo(f"{result['algorithm']}: {result['error']}")
    return FAILED if any(result["exact"] is False for result in results) else 0


def _figures(report: WorkReport) -> dict[str, Any]:
    """A report for programs, with the counters of all ports together; unknown is None."""
    named = asdict(report)
    del named["ports"]
    totals = {} if report.totals is None else asdict(report.totals)
    return named | {field.name: totals.get(field.name) for field in fields(PortCounts)}


def _waveform(trace: Path | None, window: str | None) -> Waveform | None:
    """Where to dump what, from the two options."""
    if trace is None:
        if window is not None:
            raise ValueError("Window must come with --trace, which names the file")
        return None
    first, last = 0, None
    if window is not None:
        match = re.fullmatch(r"(\d{0,18}):(\d{0,18})", window, flags=re.ASCII)
        if match is None:
            raise ValueError(f"Window must be cycles A:B, not {window!r}")
        first, last = int(match[1] or 0), int(match[2]) if match[2] else None
    check_writable(trace)
    return Waveform(trace, first, last)
