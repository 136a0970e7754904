"""The command job: iterations of training, timed with several algorithms."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import typer

from multitree.host.cli.options import (
    ALGORITHM_OPTIONS,
    ClockOptions,
    NetworkOptions,
    report_limits,
    with_options,
)
from multitree.host.cli.output import Working, check_format, print_csv, print_json, print_table
from multitree.host.parameters import modes_of
from multitree.host.report_keys import keys_of
from multitree.host.runner import check_some_ran
from multitree.host.sizes import check_once, listed, parse_size
from multitree.sim.jobs.groups import rank_groups
from multitree.sim.jobs.iteration import BUCKET_BYTES, OVERLAPS, CollectiveTime, JobTime, time_job
from multitree.sim.jobs.job import BYTES_PER_PARAMETER, Job
from multitree.sim.jobs.models import MODELS
from multitree.sim.jobs.read import load_job
from multitree.sim.jobs.systolic_arrays import FOLDS, SystolicArrays
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import link_limits
from multitree.topology.algorithms.registry import check_algorithm
from multitree.topology.errors import ScheduleError, TopologyError
from multitree.topology.networks.subsets import among
from multitree.topology.networks.topology import Topology

__all__ = ["job"]


@dataclass(frozen=True)
class ArrayOptions:
    """What computes the layers of a network; files of workloads have their own times."""

    array: Annotated[
        str, typer.Option(help="Rows and columns of a systolic array.", metavar="ROWSxCOLUMNS")
    ] = "32x32"
    arrays: Annotated[int, typer.Option(help="Arrays of a rank.", metavar="N")] = 16
    samples: Annotated[
        int, typer.Option(help="Samples of an array, one after the other.", metavar="N")
    ] = 1
    array_ghz: Annotated[float, typer.Option(help="Clock of the arrays.", metavar="GHZ")] = 1.0
    folds: Annotated[
        str,
        typer.Option(
            help=f"{FOLDS[0]}: an array is filled and drained for each part of a product, as in "
            f"SCALE-Sim 3; {FOLDS[1]}: as in the paper.",
            metavar="NAME",
        ),
    ] = FOLDS[0]
    bytes_per_parameter: Annotated[int, typer.Option(help="Of a gradient.", metavar="N")] = (
        BYTES_PER_PARAMETER
    )
    first_input_gradient: Annotated[
        bool,
        typer.Option(help="The first layer has an input gradient, too, as in the paper."),
    ] = True

    def job(self, name_or_path: str) -> Job:
        """The job of a network or of a workload file."""
        return load_job(
            name_or_path,
            arrays=self.model(),
            bytes_per_parameter=self.bytes_per_parameter,
            first_input_gradient=self.first_input_gradient,
        )

    def model(self) -> SystolicArrays:
        """The arrays of one rank."""
        match = re.fullmatch(r"([0-9]{1,7})x([0-9]{1,7})", self.array, re.ASCII)
        if match is None:
            raise ValueError(f"--array must be like 32x32, not {self.array!r}")
        sizes = int(match[1]), int(match[2])
        return SystolicArrays(*sizes, self.arrays, self.samples, self.folds, self.array_ghz)


@dataclass(frozen=True)
class Scheme:
    """An algorithm and the modes in which interfaces run it."""

    algorithm: str
    dependency: str
    flow_control: str


def parse_schemes(text: str, dependency: str, flow_control: str) -> list[Scheme]:
    """Read algorithms with their modes, such as ``ring/packet,multitree``.

    The two modes hold where a name says nothing else. A ValueError names an algorithm or a mode
    that is unknown or repeated.
    """
    schemes = []
    for each in listed(text):
        name, modes = modes_of(each)
        default = {"dependency": dependency, "flow_control": flow_control}
        schemes.append(Scheme(check_algorithm(name), **default | modes))
    check_once("Algorithms with their modes", schemes, listed(text))
    return schemes


def parse_buckets(text: str | None, overlap: str) -> tuple[int, int]:
    """Read the sizes of the first bucket and of the others, in bytes."""
    if text is None:
        return BUCKET_BYTES
    if overlap != "buckets":
        raise ValueError("--buckets must come with --overlap buckets")
    sizes = [parse_size(each) for each in listed(text)]
    if len(sizes) != 2:
        raise ValueError(f"--buckets must be two sizes, such as 1MiB,25MiB, not {text!r}")
    return sizes[0], sizes[1]


@with_options
def job(
    *,
    what: Annotated[
        str,
        typer.Argument(
            metavar="JOB",
            help=f"Network: {', '.join(MODELS)}; or a file: a workload of SimAI or AICB (.txt, "
            ".csv), or layers in SCALE-Sim's format (.csv).",
        ),
    ],
    spec: str,
    network: NetworkOptions,
    clock: ClockOptions,
    array: ArrayOptions,
    algorithms: Annotated[
        str,
        typer.Option(
            *ALGORITHM_OPTIONS,
            help="Names with commas between; modes behind a slash, as in "
            "multitree/submessage/packet, in place of --dependency and --flow-control. The first "
            "is what others are compared with.",
            metavar="NAMES",
        ),
    ] = "ring,multitree",
    overlap: Annotated[
        str,
        typer.Option(
            help=f"{OVERLAPS[0]}; {OVERLAPS[1]}: each layer's gradients are sent while others "
            f"compute; {OVERLAPS[2]}: the same, layers put together.",
            metavar="NAME",
        ),
    ] = "none",
    buckets: Annotated[
        str | None,
        typer.Option(
            help="Sizes of the first bucket and of the others; 1MiB,25MiB as in DDP.",
            metavar="SIZE,SIZE",
        ),
    ] = None,
    world_size: Annotated[
        int | None,
        typer.Option(help="Ranks of the job, the first so many; by default all.", metavar="N"),
    ] = None,
    dependency: str,
    flow_control: str,
    memory_cycles: int,
    csv: bool,
    json: bool,
) -> None:
    """Time an iteration of training: compute, communication, and what of it is exposed.

    Collectives are timed by the engine analytic.
    """
    check_format(json, csv)
    schemes = parse_schemes(algorithms, dependency, flow_control)
    bucket_bytes = parse_buckets(buckets, overlap)
    models = {
        each: clock.model(dependency=each.dependency, flow_control=each.flow_control).with_memory(
            memory_cycles
        )
        for each in schemes
    }
    asked = array.job(what)
    topology = _world(network.network(spec), world_size)
    with Working(f"Timing {asked.name} on {topology.name}") as work:
        given: dict[str, Any] = {"overlap": overlap, "bucket_bytes": bucket_bytes}
        run = partial(time_job, asked, topology, say=work.update, **given)
        times = [_timed(run, each, models[each]) for each in schemes]
    results = results_of(schemes, times)
    check_some_ran(topology, results)
    for sentence in _warnings(asked, topology):
        network.warn(sentence)
    report = _shared_keys(asked, topology) | {"overlap": overlap, "results": results}
    report["bucket_bytes"] = list(bucket_bytes) if overlap == "buckets" else None
    model = models[schemes[0]]
    report |= {"memory_cycles": memory_cycles} | clock.figures(topology, model)
    report |= {"warnings": network.warnings}
    if json:
        print_json(report)
    elif csv:
        print_csv([report], "results", without=("groups", "collectives", "left_out", "limits"))
    else:
        show(report)
        report_limits(link_limits(topology, model))


def _world(topology: Topology, world_size: int | None) -> Topology:
    """The network of the first so many ranks."""
    most = topology.num_ranks
    if world_size is None:
        return topology
    if not 2 <= world_size <= most:
        raise ValueError(f"World size must be within 2..{most}, not {world_size}")
    return among(topology, range(world_size))


def _warnings(job: Job, topology: Topology) -> Iterator[str]:
    """Sentences on what of a file is not taken as it is."""
    yield from (f"{job.name}: {each}" for each in job.left_out)
    if job.recorded_ranks not in (None, topology.num_ranks):
        yield (
            f"{job.name}: written for {job.recorded_ranks} ranks, sizes taken as they are for "
            f"{topology.num_ranks}"
        )


def _timed(run: Callable[..., JobTime], scheme: Scheme, model: LinkModel) -> JobTime | str:
    """The time with an algorithm, or why it has none."""
    try:
        return run(scheme.algorithm, link_model=model)
    except (ScheduleError, TopologyError) as error:
        return str(error)


COLUMNS = (
    *("algorithm", "compute", "communication", "exposed", "total", "µs", "of total"),
    *("x communication", "x total"),
)


def _shared_keys(job: Job, topology: Topology) -> dict[str, Any]:
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
    """Entries for programs, one per algorithm with its time, or the reason why it has none."""
    first = None if isinstance(times[0], str) else times[0]
    return [_result(*each, first) for each in zip(schemes, times, strict=True)]


def _result(scheme: Scheme, time: JobTime | str, first: JobTime | None) -> dict[str, Any]:
    """The entry of an algorithm, also compared with the first one; unknown is None."""
    known: dict[str, Any] = asdict(scheme) | {"error": time if isinstance(time, str) else None}
    if isinstance(time, str):
        return dict.fromkeys(keys_of("job.results")) | known
    known["exposed_share"] = _ratio(time.exposed_cycles, time.total_cycles)
    known["speedup_communication"] = known["speedup_total"] = None
    if first is not None:
        both = first.communication_cycles, time.communication_cycles
        known["speedup_communication"] = _ratio(*both)
        known["speedup_total"] = _ratio(first.total_cycles, time.total_cycles)
    known["collectives"] = [_entry(each) for each in time.collectives]
    keys = keys_of("job.results")
    return {key: known[key] if key in known else getattr(time, key) for key in keys}


def _entry(each: CollectiveTime) -> dict[str, Any]:
    """Equal collectives of a job."""
    figures = asdict(each)
    named: dict[str, Any] = figures.pop("collective")
    return named | figures


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def show(report: dict[str, Any]) -> None:
    """Print a job for people."""
    groups = "; ".join(
        f"{each['num_groups']} {each['group']}-parallel of {each['num_ranks']}"
        for each in report["groups"]
        if each["num_ranks"] > 1
    )
    title = (
        f"{report['job']} on {report['topology']}, overlap {report['overlap']}, engine analytic.\n"
        f"Groups of ranks: {groups}. Cycles."
    )
    print_table(title, COLUMNS, map(_cells, report["results"]))
    for each in report["results"]:
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
