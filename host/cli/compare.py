"""The commands compare and explain: what is faster, and what is chosen."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import typer

from multitree.host.cli.options import (
    ALGORITHM_OPTIONS,
    ClockOptions,
    HostOptions,
    NetworkOptions,
    check_range,
    report_limits,
    with_options,
)
from multitree.host.cli.output import Working, check_format, print_csv, print_sizes, print_table
from multitree.host.cli.process import FAILED
from multitree.host.report import UNKNOWN_OFFLOAD, WorkReport, bound_of, bounds_of
from multitree.host.runner import Runner, Seeded, check_some_ran
from multitree.host.sizes import check_once, format_size, listed, parse_sizes
from multitree.nic.driver.commands import DEPENDENCIES
from multitree.sim.choice import Candidate, Choice, Chooser
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import link_limits
from multitree.topology.algorithms.registry import COMPARED, check_algorithm
from multitree.topology.checks.implicit import hash_of
from multitree.topology.networks.topology import Topology

__all__ = [
    "COLUMNS",
    "REPORT_COLUMNS",
    "choose",
    "compare",
    "explain",
    "report_cells",
    "shown_cells",
]


COLUMNS = [
    "algorithm",
    "steps",
    "cycles",
    "µs",
    "GB/s",
    "offload µs",
    "effective GB/s",
    "x bound",
    "link use",
    "exact",
]

REPORT_COLUMNS = ["size", *COLUMNS[:1], *COLUMNS[2:]]

_EXACT = {True: "yes", False: "NO", None: "-"}


def report_cells(report: WorkReport) -> list[str]:
    """Cells of one run for people, in the order of `REPORT_COLUMNS`."""
    return [format_size(report.size_bytes), report.algorithm, *_figure_cells(vars(report))]


def shown_cells(result: dict[str, Any]) -> list[str]:
    """Cells of one algorithm for people, in the order of `COLUMNS`."""
    steps = f"{result['steps_reduce_scatter']} + {result['steps_all_gather']}"
    if result["error"] is not None:
        has_none = result["schedule_hash"] is None
        return [result["algorithm"], "none" if has_none else steps, *["-"] * (len(COLUMNS) - 2)]
    return [result["algorithm"], steps, *_figure_cells(result)]


def _figure_cells(figures: Mapping[str, Any]) -> list[str]:
    """Cells from the cycles on; what may be unknown is a dash."""

    def known(name: str, digits: int) -> str:
        return "-" if figures[name] is None else f"{figures[name]:.{digits}f}"

    return [
        str(figures["cycles"]),
        f"{figures['time_us']:.3f}",
        f"{figures['bandwidth_gbytes_per_s']:.2f}",
        known("offload_us", 3),
        known("offload_bandwidth_gbytes_per_s", 2),
        known("ratio_to_bound", 3),
        f"{100 * (figures['link_utilization'] or 0):.1f} %",
        _EXACT[figures["exact"]],
    ]


@with_options
def compare(
    *,
    spec: str,
    network: NetworkOptions,
    clock: ClockOptions,
    host: HostOptions,
    algorithms: Annotated[
        str,
        typer.Option(*ALGORITHM_OPTIONS, help="Names with commas between.", metavar="NAMES"),
    ] = ",".join(COMPARED),
    size: str,
    engine: str,
    dependency: str,
    flow_control: str,
    lockstep: bool,
    dtype: str,
    op: str,
    seed: int,
    memory_cycles: int,
    csv: bool,
    json: bool,
) -> int:
    """Run several algorithms' all-reduces side by side, for each size."""
    check_format(json, csv)
    data = Seeded(dtype, op, seed)
    sizes, topology = parse_sizes(size, dtype), network.network(spec)
    names = [check_algorithm(name) for name in listed(algorithms)]
    check_once("Algorithms", names, names)
    modes = {"dependency": dependency, "flow_control": flow_control}
    model = clock.model(**modes).with_memory(memory_cycles)
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
    network.warn_of_slots(topology, names, lockstep)
    shared = {"topology": topology.name, "num_ranks": topology.num_ranks, "engine": engine}
    shared |= modes | {"lockstep": lockstep, "memory_cycles": memory_cycles}
    shared |= vars(data) | vars(host)
    shared |= clock.figures(topology, model) | {"warnings": network.warnings}
    reports = [
        shared
        | {"size_bytes": size_bytes, **bounds_of(topology, size_bytes, model)}
        | {"results": results}
        for size_bytes, results in zip(sizes, compared, strict=True)
    ]
    if json:
        print_sizes(reports)
    elif csv:
        print_csv(reports, "results")
    else:
        _show(reports)
        report_limits(link_limits(topology, model))
    return FAILED if any(r["exact"] is False for results in compared for r in results) else 0


def _driven(report: Mapping[str, Any]) -> str:
    """The bound at the speed that links are driven at, where that is another one."""
    driven = report["driven_bound_cycles"]
    return f", or {driven:.0f} at the speed that links are driven at" if report["limits"] else ""


def _show(reports: list[dict[str, Any]]) -> None:
    """Print each size for people."""
    for report in reports:
        size = format_size(report["size_bytes"])
        title = (
            f"All-reduce of {size} per rank on {report['topology']}, engine {report['engine']}.\n"
            f"No schedule takes less than {report['bound_cycles']:.0f} cycles{_driven(report)}.\n"
            f"Offload: with tables loaded and {report['host_us']:g} µs of host; "
            "effective: of that, on all wires of a link."
        )
        print_table(title, COLUMNS, map(shown_cells, report["results"]))
        for result in report["results"]:
            unknown = None if result["offload_us"] is not None else UNKNOWN_OFFLOAD
            if (reason := result["error"] or unknown) is not None:
                typer.echo(f"{result['algorithm']}: {reason}")


_ALL_REDUCE = "all_reduce"

CHOICE_COLUMNS = ["algorithm", "dependency", "siblings", "steps", "cycles", "µs", "x best"]


def choose(
    topology: Topology,
    model: LinkModel,
    sizes: Iterable[int],
    collective: str | None = None,
    root: int | None = None,
    dependency: str | None = None,
    limit_s: float = 0,
) -> Iterator[Choice]:
    """Time all variants of a collective, or those with one dependency, for one size after another.

    Raises a ScheduleError where no algorithm can be timed on the topology.
    """
    limit = f", at most {limit_s:g} CPU s for each schedule (--limit-s)" if limit_s else ""
    chooser = Chooser(
        topology,
        model,
        dependencies=DEPENDENCIES[::-1] if dependency is None else (dependency,),
        limit_s=limit_s,
        found=lambda each: work.note(
            f"{each.algorithm}, {each.dependency}, {each.sibling_order}: {each.cycles} cycles"
        ),
    )
    for size_bytes in sizes:
        with Working(f"Choosing on {topology.name}{limit}", lines=True) as work:
            num_flits = model.num_flits(size_bytes, 1)
            choice = chooser.choose(num_flits, collective or _ALL_REDUCE, root)
        # Not inside: a line that changes would be drawn into what the caller prints.
        yield choice


@with_options
def explain(
    *,
    spec: str,
    network: NetworkOptions,
    clock: ClockOptions,
    size: str,
    collective: str | None,
    root: int | None,
    flow_control: str,
    memory_cycles: int,
    limit_s: float,
    csv: bool,
    json: bool,
) -> None:
    """Say what `--algorithm auto` takes for each size, what the others would take, and why.

    Cycles are those that the engine analytic gives.
    """
    check_format(json, csv)
    check_range("limit_s", limit_s)
    sizes = parse_sizes(size)
    model = clock.model(flow_control=flow_control).with_memory(memory_cycles)
    topology = network.network(spec)
    shared = {"topology": topology.name, "num_ranks": topology.num_ranks}
    shared |= {"collective": collective or _ALL_REDUCE, "root": root}
    shared |= {"flow_control": flow_control, "memory_cycles": memory_cycles, "limit_s": limit_s}
    shared |= clock.figures(topology, model) | {"warnings": network.warnings}
    has_bound = collective in (None, _ALL_REDUCE)
    reports = []
    choices = choose(topology, model, sizes, collective, root, limit_s=limit_s)
    for size_bytes, choice in zip(sizes, choices, strict=True):
        found = {"size_bytes": size_bytes, "reason": choice.reason, "problems": choice.problems}
        found |= {"bound_cycles": bound_of(topology, size_bytes, model) if has_bound else None}
        found |= {"candidates": [_candidate(each, model) for each in choice.candidates]}
        reports.append(shared | found)
        if not (json or csv):
            _show_choice(reports[-1], choice, model)
            # Other sizes may take minutes; a pipe would keep this one until the end.
            sys.stdout.flush()
    if json:
        print_sizes(reports)
    elif csv:
        print_csv(reports, "candidates", without=("reason", "problems"))
    else:
        report_limits(link_limits(topology, model))


def _show_choice(report: dict[str, Any], choice: Choice, model: LinkModel) -> None:
    """Print for people what is chosen for one size, and from what."""
    title = f"{report['collective']} of {format_size(report['size_bytes'])} per rank"
    bound = report["bound_cycles"]
    note = "" if bound is None else f"\nNo schedule takes less than {bound:.0f} cycles."
    rows = [_candidate_cells(each, choice.best.cycles, model) for each in choice.candidates]
    title = f"{title} on {report['topology']}, timed by the engine analytic.{note}"
    print_table(title, CHOICE_COLUMNS, rows)
    for name, problem in choice.problems.items():
        typer.echo(f"{name}: {problem}")
    typer.echo(f"Chosen: {choice.reason}")


def _candidate(each: Candidate, model: LinkModel) -> dict[str, Any]:
    """A candidate for programs."""
    return {
        "algorithm": each.algorithm,
        "dependency": each.dependency,
        "sibling_order": each.sibling_order,
        "schedule_hash": hash_of(each.schedule),
        "num_steps": each.schedule.num_steps,
        "cycles": each.cycles,
        "time_us": model.microseconds(each.cycles),
    }


def _candidate_cells(each: Candidate, best: int, model: LinkModel) -> list[str]:
    """A candidate for people, in the order of `CHOICE_COLUMNS`."""
    return [
        each.algorithm,
        each.dependency,
        each.sibling_order,
        str(each.schedule.num_steps),
        str(each.cycles),
        f"{model.microseconds(each.cycles):.3f}",
        f"{each.cycles / max(best, 1):.3f}",
    ]
