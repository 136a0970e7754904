"""What the command job prints: one row per algorithm."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import typer

from multitree.host.cli.common import print_table
from multitree.host.cli.job.options import Scheme
from multitree.sim.jobs.groups import rank_groups
from multitree.sim.jobs.iteration import CollectiveTime, JobTime
from multitree.sim.jobs.job import Job
from multitree.topology.networks.topology import Topology

__all__ = ["head_of", "results_of", "show"]

COLUMNS = (
    *("algorithm", "compute", "communication", "exposed", "total", "µs", "of total"),
    *("x communication", "x total"),
)
FIGURES = (
    *("forward_cycles", "backward_cycles", "aggregation_cycles", "update_cycles"),
    *("compute_cycles", "communication_cycles", "exposed_cycles", "total_cycles", "total_us"),
    *("setup_cycles", "num_collectives", "size_bytes", "groups_share_links"),
)
RATIOS = ("exposed_share", "speedup_communication", "speedup_total")


def head_of(job: Job, topology: Topology) -> dict[str, Any]:
    """What is the same for all algorithms, for programs."""
    return {
        "job": job.name,
        "topology": topology.name,
        "num_ranks": topology.num_ranks,
        "num_layers": len(job.layers),
        "num_parameters": job.num_parameters or None,
        "bytes_per_parameter": job.bytes_per_parameter if job.num_parameters else None,
        "num_iterations": job.num_iterations,
        "has_compute": job.has_compute,
        "arrays": None if job.arrays is None else asdict(job.arrays),
        "first_input_gradient": job.layers[0].input_gradient.compute_ns > 0 if job.arrays else None,
        "groups": _groups_of(job, topology.num_ranks),
        "left_out": [asdict(each) for each in job.left_out],
    }


def _groups_of(job: Job, num_ranks: int) -> list[dict[str, Any]]:
    """Groups of ranks, by their kind."""
    return [
        {"group": kind, "num_groups": len(groups), "num_ranks": len(groups[0])}
        for kind, groups in rank_groups(num_ranks, job.tensor_parallel).items()
    ]


def results_of(schemes: Sequence[Scheme], times: Sequence[JobTime | str]) -> list[dict[str, Any]]:
    """Entries for programs, one per algorithm: what is unknown is None.

    Parameters
    ----------
    schemes : sequence of Scheme
    times : sequence of JobTime or str
        With each of them, or why it has none.

    Returns
    -------
    list of dict
    """
    first = None if isinstance(times[0], str) else times[0]
    return [
        asdict(scheme) | (_failed(time) if isinstance(time, str) else _figures(time, first))
        for scheme, time in zip(schemes, times, strict=True)
    ]


def _failed(error: str) -> dict[str, Any]:
    """No figures, and why."""
    return dict.fromkeys((*FIGURES, *RATIOS, "collectives")) | {"error": error}


def _figures(time: JobTime, first: JobTime | None) -> dict[str, Any]:
    """The figures of an algorithm, also compared with those of the first one."""
    share = _ratio(time.exposed_cycles, time.total_cycles)
    speedups: tuple[float | None, float | None] = None, None
    if first is not None:
        speedups = (
            _ratio(first.communication_cycles, time.communication_cycles),
            _ratio(first.total_cycles, time.total_cycles),
        )
    return {
        **{name: getattr(time, name) for name in FIGURES},
        **dict(zip(RATIOS, (share, *speedups), strict=True)),
        "collectives": [_entry(each) for each in time.collectives],
        "error": None,
    }


def _entry(each: CollectiveTime) -> dict[str, Any]:
    """Equal collectives of a job."""
    figures = asdict(each)
    named: dict[str, Any] = figures.pop("collective")
    return named | figures


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def show(head: dict[str, Any], results: list[dict[str, Any]]) -> None:
    """Print a job for people."""
    title = f"{head['job']} on {head['topology']}, overlap {head['overlap']}, engine analytic."
    groups = "; ".join(
        f"{each['num_groups']} {each['group']}-parallel of {each['num_ranks']}"
        for each in head["groups"]
        if each["num_ranks"] > 1
    )
    print_table(f"{title}\nGroups of ranks: {groups}. Cycles.", COLUMNS, map(_cells, results))
    for each in results:
        if each["error"] is not None:
            typer.echo(f"{_name(each)}: {each['error']}")
        elif each["setup_cycles"]:
            typer.echo(f"{_name(each)}: before the first iteration {each['setup_cycles']} cycles")


def _name(result: dict[str, Any]) -> str:
    """An algorithm and those of its modes that are not the usual ones."""
    modes = (result["dependency"], "chunk"), (result["flow_control"], "message")
    return "/".join([result["algorithm"], *(mode for mode, usual in modes if mode != usual)])


def _cells(result: dict[str, Any]) -> list[str]:
    """Cells of one algorithm, in the order of `COLUMNS`."""
    if result["error"] is not None:
        return [_name(result), *["-"] * (len(COLUMNS) - 1)]
    cycles = [f"{name}_cycles" for name in ("compute", "communication", "exposed", "total")]
    share = result["exposed_share"]
    speedups = (result["speedup_communication"], result["speedup_total"])
    return [
        _name(result),
        *(str(result[name]) for name in cycles),
        f"{result['total_us']:.1f}",
        "-" if share is None else f"{100 * share:.1f} %",
        *("-" if each is None else f"{each:.3f}" for each in speedups),
    ]
