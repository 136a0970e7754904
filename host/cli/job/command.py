"""The command job: iterations of training, timed with several algorithms."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from multitree.host.cli.common import (
    CsvOption,
    FlowControlOption,
    JsonOption,
    MemoryCyclesOption,
    SpecArgument,
)
from multitree.host.cli.job.options import (
    DEFAULT_SCHEMES,
    ArrayOptions,
    BucketsOption,
    JobArgument,
    OverlapOption,
    Scheme,
    SchemesOption,
    WorldSizeOption,
    parse_buckets,
    parse_schemes,
)
from multitree.host.cli.job.results import head_of, results_of, show
from multitree.host.cli.options import ClockOptions, NetworkOptions, report_limits, with_groups
from multitree.host.cli.output import Working, check_format, print_csv, print_json
from multitree.host.cli.timing.simulate import DependencyOption
from multitree.host.runner import check_some_ran
from multitree.sim.jobs.iteration import JobTime, time_job
from multitree.sim.jobs.job import Job
from multitree.sim.link_model import LinkModel
from multitree.sim.sizing import link_limits
from multitree.topology.errors import ScheduleError, TopologyError
from multitree.topology.networks.subsets import among
from multitree.topology.networks.topology import Topology

__all__ = ["job"]


@with_groups
def job(
    what: JobArgument,
    spec: SpecArgument,
    network: NetworkOptions,
    clock: ClockOptions,
    array: ArrayOptions,
    algorithms: SchemesOption = DEFAULT_SCHEMES,
    overlap: OverlapOption = "none",
    buckets: BucketsOption = None,
    world_size: WorldSizeOption = None,
    dependency: DependencyOption = "chunk",
    flow_control: FlowControlOption = "message",
    memory_cycles: MemoryCyclesOption = 12,
    csv: CsvOption = False,
    json: JsonOption = False,
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
    head = head_of(asked, topology) | {"overlap": overlap}
    head["bucket_bytes"] = list(bucket_bytes) if overlap == "buckets" else None
    model = models[schemes[0]]
    head |= {"memory_cycles": memory_cycles} | clock.figures(topology, model)
    extra = {"warnings": network.warnings}
    if json:
        print_json(head | {"results": results} | extra)
    elif csv:
        named = {"groups", "collectives", "left_out", "limits"}
        rows = [head | extra | result for result in results]
        print_csv([{k: v for k, v in row.items() if k not in named} for row in rows])
    else:
        show(head, results)
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
