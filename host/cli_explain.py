"""The command explain: which algorithm is chosen for a size, and why."""

from typing import Any

import typer

from multitree.host.cli_common import (
    CollectiveOption,
    FlowControlOption,
    ForwardingOption,
    JsonOption,
    MemoryCyclesOption,
    RanksOption,
    RootOption,
    SizeOption,
    SpecArgument,
    Working,
    members_of,
    print_json,
    print_table,
)
from multitree.host.figures import bound_of
from multitree.host.sizes import format_size, parse_size
from multitree.nic.program import DEPENDENCIES
from multitree.sim.choice import Candidate, Choice, Chooser
from multitree.sim.link_model import LinkModel
from multitree.topology.families import parse_topology
from multitree.topology.topology import Topology

__all__ = ["add_commands", "choose"]

COLUMNS = ["algorithm", "dependency", "siblings", "steps", "cycles", "µs", "x best"]


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to the command line."""
    app.command("explain")(explain)


def choose(
    topology: Topology,
    model: LinkModel,
    size_bytes: int,
    collective: str | None = None,
    root: int | None = None,
    dependency: str | None = None,
) -> Choice:
    """Time all ways to run a collective, the fastest first.

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
        return chooser.choose(model.num_flits(size_bytes, 1), collective or "all_reduce", root)


def explain(
    spec: SpecArgument,
    ranks: RanksOption = None,
    forwarding: ForwardingOption = False,
    size: SizeOption = "1MiB",
    collective: CollectiveOption = None,
    root: RootOption = None,
    flow_control: FlowControlOption = "message",
    memory_cycles: MemoryCyclesOption = 12,
    json: JsonOption = False,
) -> None:
    """Say what `--algorithm auto` takes for a size, beside all else, and why.

    Cycles are those that the engine analytic gives.
    """
    size_bytes = parse_size(size)
    model = LinkModel(flow_control=flow_control).with_memory(memory_cycles)
    topology = members_of(parse_topology(spec), ranks, forwarding)
    choice = choose(topology, model, size_bytes, collective, root)
    bound = None
    if collective in (None, "all_reduce"):
        bound = bound_of(topology, size_bytes, model)
    if json:
        print_json(
            {
                "topology": topology.name,
                "num_ranks": topology.num_ranks,
                "collective": collective or "all_reduce",
                "root": root,
                "size_bytes": size_bytes,
                "flow_control": flow_control,
                "memory_cycles": memory_cycles,
                "bound_cycles": bound,
                "reason": choice.reason,
                "candidates": [_entry(each, model) for each in choice.candidates],
                "problems": choice.problems,
            }
        )
        return
    title = f"{collective or 'all_reduce'} of {format_size(size_bytes)} per rank on {topology.name}"
    note = "" if bound is None else f"\nNo schedule takes less than {bound:.0f} cycles."
    rows = [_cells(each, choice.best.cycles, model) for each in choice.candidates]
    print_table(f"{title}, timed by the engine analytic.{note}", COLUMNS, rows)
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
