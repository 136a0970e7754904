"""The commands topology, schedule and verify: what is sent, what is proved."""

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli.options import (
    ClockOptions,
    NetworkOptions,
    ScheduleOptions,
    build_compactly,
    build_schedule,
    identity_of,
    report_limits,
    with_options,
)
from multitree.host.cli.output import Working, check_writable, print_json, print_pairs
from multitree.host.report import bound_of
from multitree.host.sizes import cost_model_for, format_size, parse_size
from multitree.nic.driver.config import Config
from multitree.sim.timing.inputs import check_private
from multitree.sim.timing.limits import Limits, limits_of
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.sizing import link_limits
from multitree.topology.checks import verify as proof
from multitree.topology.checks.implicit import AnySchedule
from multitree.topology.file_io import replacing
from multitree.topology.files.json_format import FIELDS, rows_of
from multitree.topology.files.load_save import save_schedule, save_topology
from multitree.topology.lowering import as_sent
from multitree.topology.networks.bounds import bound_steps
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["schedule", "topology", "verify"]


TOPOLOGY_SUFFIXES, SCHEDULE_SUFFIXES = (".json", ".graphml"), (".json", ".csv")
MOST_NODES = 64


@with_options
def topology(
    *,
    spec: str,
    network: NetworkOptions,
    clock: ClockOptions,
    size: str,
    out: Annotated[Path | None, typer.Option(help="Save it as .json or .graphml.")] = None,
    json: bool,
) -> None:
    """Describe a topology, and what no schedule can beat on it."""
    size_bytes, model, found = parse_size(size), clock.model(), network.network(spec)
    if found.num_switches:
        check_private(found, model)
    if out is not None:
        _check_target(out, TOPOLOGY_SUFFIXES)
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


@with_options
def schedule(
    *,
    spec: str,
    network: NetworkOptions,
    asked: ScheduleOptions,
    out: Annotated[
        Path | None,
        typer.Option(help="Save it as .json, to be read again, or its rows as .csv."),
    ] = None,
    json: bool,
) -> None:
    """Build a schedule, or read one: steps, transfers, link load, hash."""
    if out is not None:
        _check_target(out, SCHEDULE_SUFFIXES)
    built, seconds = build_compactly(spec, asked, network)
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


@with_options
def verify(
    *,
    spec: str,
    network: NetworkOptions,
    clock: ClockOptions,
    asked: ScheduleOptions,
    size: str,
    json: bool,
) -> None:
    """Prove that a schedule is right, and say what was proved."""
    size_bytes, model = parse_size(size), clock.model()
    built, _ = build_schedule(spec, asked, network, cost_model_for(model, size_bytes))
    if built.topology.num_switches:
        check_private(built.topology, model)
    with Working(f"Verifying {built.algorithm} on {built.topology.name}"):
        report, limits = proof.verify(built), _limits(built, size_bytes, model)
    data = identity_of(built) | {"verified": True} | asdict(report)
    data |= {"size_bytes": size_bytes, "termination_cycles": limits.collective_cycles}
    data |= clock.figures(built.topology, model) | {"warnings": network.warnings}
    if json:
        print_json(data)
        return
    causal = "yes" if report.causal else "no: slow links deliver later than the steps have it"
    print_pairs(
        f"Proved of {built.collective} by {built.algorithm} on {built.topology.name}:",
        [
            ("complete", "every rank's value is in every sum, and every rank gets its result"),
            ("exactly once", f"each of {report.num_messages} messages adds what was not yet added"),
            ("race-free", "nothing is written while it is read or before it is complete"),
            (
                "trees",
                f"{built.num_flows} flows, each a tree with one root, up to "
                f"{report.tree_height_hops} hops high",
            ),
            ("no circle", "no message waits for itself, on links or on data"),
            ("contention in a step", _contention(report)),
            ("steps keep to the links' speeds", causal),
            ("siblings in a step", f"{report.max_siblings} at most, in a definite order"),
            ("steps", f"{report.num_steps} in all; a phase takes at least {report.bound_steps}"),
            (f"ends at {format_size(size_bytes)}", f"within {limits.collective_cycles} cycles"),
            ("hash", built.hash),
        ],
    )
    report_limits(link_limits(built.topology, model))


def _limits(schedule: Schedule, size_bytes: int, model: LinkModel) -> Limits:
    """How long a collective may take where all ranks start at once."""
    return limits_of(
        as_sent(schedule),
        model.num_flits(size_bytes, 1),
        model,
        memory_timing=MemoryTiming(),
        queue_flits=Config().memory_queue_flits,
        max_skew_cycles=0,
        lockstep=False,
    )


def _contention(report: proof.Report) -> str:
    """How many messages meet, in words."""
    if report.contention_free:
        return "none"
    if report.max_link_load == 1:
        return "on slow links, where a message is not through when the next one comes"
    return f"{report.max_link_load} on one link"
