"""The command explain: which algorithm is chosen for a size, and why."""

from typing import Any

import typer

from multitree.host.cli.common import (
    CollectiveOption,
    CsvOption,
    FlowControlOption,
    JsonOption,
    MemoryCyclesOption,
    RootOption,
    SizesOption,
    SpecArgument,
    print_table,
)
from multitree.host.cli.options import ClockOptions, NetworkOptions, report_limits, with_groups
from multitree.host.cli.output import Working, check_format, print_csv, print_sizes
from multitree.host.report import bound_of
from multitree.host.sizes import format_size, parse_sizes
from multitree.nic.program import DEPENDENCIES
from multitree.sim.choice import Candidate, Choice, Chooser
from multitree.sim.link_model import LinkModel
from multitree.sim.sizing import link_limits
from multitree.topology.networks.topology import Topology

__all__ = ["choose", "explain"]

_ALL_REDUCE = "all_reduce"

COLUMNS = ["algorithm", "dependency", "siblings", "steps", "cycles", "µs", "x best"]


def choose(
    topology: Topology,
    model: LinkModel,
    size_bytes: int,
    collective: str | None = None,
    root: int | None = None,
    dependency: str | None = None,
) -> Choice:
    """Time all variants of a collective, the fastest first.

    Parameters
    ----------
    topology : Topology
    model : LinkModel
    size_bytes : int
        Of one rank's buffer.
    collective : str, optional
        By default "all_reduce".
    root : int, optional
    dependency : str, optional
        The only one that may be chosen.

    Returns
    -------
    Choice

    Raises
    ------
    ScheduleError
        If none of the algorithms can be timed on it.
    """
    dependencies = DEPENDENCIES[::-1] if dependency is None else (dependency,)
    with Working(f"Choosing on {topology.name}") as work:
        chooser = Chooser(topology, model, dependencies=dependencies, say=work.update)
        return chooser.choose(
            model.num_flits(size_bytes, 1), _ALL_REDUCE if collective is None else collective, root
        )


@with_groups
def explain(
    spec: SpecArgument,
    network: NetworkOptions,
    clock: ClockOptions,
    size: SizesOption = "1MiB",
    collective: CollectiveOption = None,
    root: RootOption = None,
    flow_control: FlowControlOption = "message",
    memory_cycles: MemoryCyclesOption = 12,
    csv: CsvOption = False,
    json: JsonOption = False,
) -> None:
    """Say what `--algorithm auto` takes for each size, what the others would take, and why.

    Cycles are those that the engine analytic gives.
    """
    check_format(json, csv)
    sizes = parse_sizes(size)
    model = clock.model(flow_control=flow_control).with_memory(memory_cycles)
    topology = network.network(spec)
    shared = {"topology": topology.name, "num_ranks": topology.num_ranks}
    shared |= {"collective": _ALL_REDUCE if collective is None else collective, "root": root}
    options = {"flow_control": flow_control, "memory_cycles": memory_cycles}
    more, extra = clock.figures(topology, model), {"warnings": network.warnings}
    has_bound = collective in (None, "all_reduce")
    choices = [choose(topology, model, size_bytes, collective, root) for size_bytes in sizes]
    heads = [
        shared
        | {"size_bytes": size_bytes}
        | options
        | more
        | {"bound_cycles": bound_of(topology, size_bytes, model) if has_bound else None}
        for size_bytes in sizes
    ]
    entries = [[_entry(each, model) for each in choice.candidates] for choice in choices]
    if json:
        print_sizes(
            [
                head
                | {"reason": choice.reason, "candidates": listed, "problems": choice.problems}
                | extra
                for head, choice, listed in zip(heads, choices, entries, strict=True)
            ]
        )
    elif csv:
        listed_with = zip(heads, entries, strict=True)
        print_csv([head | extra | entry for head, listed in listed_with for entry in listed])
    else:
        for head, choice in zip(heads, choices, strict=True):
            _show(head, choice, model)
        report_limits(link_limits(topology, model))


def _show(head: dict[str, Any], choice: Choice, model: LinkModel) -> None:
    """Print for people what is chosen for one size, and from what."""
    title = f"{head['collective']} of {format_size(head['size_bytes'])} per rank"
    bound = head["bound_cycles"]
    note = "" if bound is None else f"\nNo schedule takes less than {bound:.0f} cycles."
    rows = [_cells(each, choice.best.cycles, model) for each in choice.candidates]
    title = f"{title} on {head['topology']}, timed by the engine analytic.{note}"
    print_table(title, COLUMNS, rows)
    for name, problem in choice.problems.items():
        typer.echo(f"{name}: {problem}")
    typer.echo(f"Chosen: {choice.reason}")


def _entry(each: Candidate, model: LinkModel) -> dict[str, Any]:
    """A candidate for programs."""
    return {
        "algorithm": each.algorithm,
        "dependency": each.dependency,
        "sibling_order": each.sibling_order,
        "schedule_hash": each.schedule.hash,
        "num_steps": each.schedule.num_steps,
        "cycles": each.cycles,
        "time_us": model.microseconds(each.cycles),
    }


def _cells(each: Candidate, best: int, model: LinkModel) -> list[str]:
    """A candidate for people, in the order of `COLUMNS`."""
    return [
        each.algorithm,
        each.dependency,
        each.sibling_order,
        str(each.schedule.num_steps),
        str(each.cycles),
        f"{model.microseconds(each.cycles):.3f}",
        f"{each.cycles / max(best, 1):.3f}",
    ]
