"""The commands topology and schedule: what is there, and what would be sent."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli.common import (
    AlgorithmOption,
    CollectiveOption,
    JsonOption,
    RootOption,
    ScheduleArgument,
    SizeOption,
    SpecArgument,
    build_compactly,
    check_writable,
    identity_of,
    print_pairs,
)
from multitree.host.cli.options import ClockOptions, NetworkOptions, report_limits, with_groups
from multitree.host.cli.output import Working, print_json
from multitree.host.report import bound_of
from multitree.host.sizes import format_size, parse_size
from multitree.sim.inputs import check_private
from multitree.sim.link_model import LinkModel
from multitree.sim.sizing import link_limits
from multitree.topology.atomic_write import replacing
from multitree.topology.checks.implicit import AnySchedule
from multitree.topology.files.files import save_schedule, save_topology
from multitree.topology.files.schedule_rows import FIELDS, rows_of
from multitree.topology.networks.bounds import bound_steps
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["schedule", "topology"]

SUFFIXES = (".json", ".graphml", ".csv")
MOST_NODES = 64


@with_groups
def topology(
    spec: SpecArgument,
    network: NetworkOptions,
    clock: ClockOptions,
    size: SizeOption = "1MiB",
    out: Annotated[Path | None, typer.Option(help="Save it as .json or .graphml.")] = None,
    json: JsonOption = False,
) -> None:
    """Describe a topology, and what no schedule can beat on it."""
    size_bytes, model, found = parse_size(size), clock.model(), network.network(spec)
    if found.num_switches:
        check_private(found, model)
    if out is not None:
        _check_target(out, SUFFIXES[:2])
        save_topology(found, out)
    with Working(f"Measuring {found.name}"):
        data = _measured(found, size_bytes, model)
    data |= clock.figures(found, model) | {"warnings": network.warnings}
    data |= {"out": None if out is None else str(out)}
    if json:
        print_json(data)
        return
    print_pairs(
        f"Topology {found.name}",
        [
            ("ranks", f"{found.num_ranks}, and {found.num_switches} switches"),
            ("directed links", found.num_links),
            ("links of a rank", _span(data["degree_min"], data["degree_max"])),
            ("diameter", f"{found.diameter} links"),
            ("smallest cut", f"{found.min_cut} links"),
            ("every link has a reverse", "yes" if found.is_symmetric else "no"),
            ("link speed", _span(*_ends(data, "bandwidth_gbytes_per_s")) + " GB/s"),
            ("link latency", _span(*_ends(data, "latency_ns")) + " ns"),
            ("fewest steps of a phase", data["bound_steps"]),
            (f"fewest cycles at {format_size(size_bytes)}", f"{data['bound_cycles']:.0f}"),
            ("link buffers", f"{data['buffer_flits']} flits"),
            *([] if found.names is None else [("nodes", _nodes(found))]),
        ],
    )
    report_limits(link_limits(found, model))


def _measured(topology: Topology, size_bytes: int, model: LinkModel) -> dict[str, Any]:
    """What a topology has, and what no all-reduce on it can beat."""
    degree = topology.degree[: topology.num_ranks]
    return {
        "topology": topology.name,
        "num_ranks": topology.num_ranks,
        "num_switches": topology.num_switches,
        "num_links": topology.num_links,
        "degree_min": int(degree.min()),
        "degree_max": int(degree.max()),
        "diameter": topology.diameter,
        "min_cut": topology.min_cut,
        "is_symmetric": topology.is_symmetric,
        "names": topology.names,
        "bandwidth_gbytes_per_s_min": float(topology.bandwidth_gbytes_per_s.min()),
        "bandwidth_gbytes_per_s_max": float(topology.bandwidth_gbytes_per_s.max()),
        "latency_ns_min": float(topology.latency_ns.min()),
        "latency_ns_max": float(topology.latency_ns.max()),
        "bound_steps": bound_steps(topology),
        "size_bytes": size_bytes,
        "bound_cycles": bound_of(topology, size_bytes, model),
    }


@with_groups
def schedule(
    spec: ScheduleArgument,
    network: NetworkOptions,
    algorithm: AlgorithmOption = None,
    collective: CollectiveOption = None,
    root: RootOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Save it as .json or .graphml, to be read again, or its rows as .csv."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Build a schedule, or read one: steps, transfers, link load, hash."""
    if out is not None:
        _check_target(out, SUFFIXES)
    built, seconds = build_compactly(spec, algorithm, collective, root, network)
    if out is not None:
        _save(built.schedule(), out)
    data = identity_of(built) | {
        "num_flows": built.num_flows,
        "num_steps": built.num_steps,
        "steps_reduce_scatter": built.steps_reduce_scatter,
        "steps_all_gather": built.steps_all_gather,
        "bound_steps": bound_steps(built.topology),
        "tree_height_hops": built.tree_height_hops,
        "num_transfers": built.num_transfers,
        "max_link_load": built.max_link_load,
        "num_waves": built.num_waves,
        "period": built.period,
        "build_seconds": seconds,
        "warnings": network.warnings,
        "out": None if out is None else str(out),
    }
    if json:
        print_json(data)
        return
    print_pairs(
        f"{built.collective} by {built.algorithm} on {built.topology.name}",
        [
            ("ranks", built.topology.num_ranks),
            ("flows", built.num_flows),
            ("transfers", built.num_transfers),
            ("steps of reduce-scatter", built.steps_reduce_scatter),
            ("steps of all-gather", built.steps_all_gather),
            ("fewest steps of a phase", data["bound_steps"]),
            ("transfers on one link in one step, at most", built.max_link_load),
            *([("waves", _waves_of(built))] if built.num_waves > 1 else []),
            ("height of the trees", f"{built.tree_height_hops} hops"),
            ("built in", f"{seconds:.3f} s"),
            ("hash", data["schedule_hash"]),
        ],
    )


def _check_target(out: Path, suffixes: Sequence[str]) -> None:
    """Raise unless a file of this name can be written, and its ending says one of the formats."""
    check_writable(out)
    if out.suffix not in suffixes:
        listed = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise ValueError(f"File must end in {listed}, not {str(out)!r}")


def _nodes(network: Topology) -> str:
    """The first nodes by number and name."""
    listed = ", ".join(map(network.label, range(min(network.num_nodes, MOST_NODES))))
    return listed + (", ..." if network.num_nodes > MOST_NODES else "")


def _waves_of(built: AnySchedule) -> str:
    """How many waves there are, and when they come."""
    stages = (built.num_steps - 1) // built.period + 1
    return f"{built.num_waves}, one every {built.period} steps, {stages} in flight at once"


def _save(built: Schedule, out: Path) -> None:
    """Write a schedule as its file's name asks."""
    if out.suffix != ".csv":
        save_schedule(built, out)
        return
    with replacing(out) as path, path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for *cells, links, classes in rows_of(built):
            writer.writerow([*cells, *(" ".join(map(str, hops)) for hops in (links, classes))])


def _span(least: float, most: float) -> str:
    """A range, or one number where both ends are the same."""
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def _ends(data: dict[str, Any], name: str) -> tuple[float, float]:
    """The two ends of a range by its name."""
    return data[f"{name}_min"], data[f"{name}_max"]
