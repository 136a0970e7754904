"""Figures of training: iterations of seven networks, without and with overlap."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from statistics import geometric_mean

from multitree.host.evaluation.figure import Axis, Figure, Request, RunPoints, Value
from multitree.host.evaluation.schemes import (
    BIDIRECTIONAL_RING_2D,
    DOUBLE_TREE,
    MULTITREE,
    MULTITREE_PACKETS,
    NO_PACKETS,
    RING,
    RING_2D,
    Scheme,
    in_lockstep,
    published_cycles,
)
from multitree.sim.jobs.collective_times import CollectiveTimes, cycles_of_engine
from multitree.sim.jobs.groups import Placement
from multitree.sim.jobs.iteration import JobTime, iteration
from multitree.sim.jobs.job import Job
from multitree.sim.jobs.models import EVALUATED
from multitree.sim.jobs.read import load_job
from multitree.sim.jobs.systolic_arrays import SystolicArrays
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.errors import ScheduleError, report
from multitree.topology.specs import parse_topology

__all__ = ["MEAN", "TRAINING", "TRAINING_OVERLAP"]

SCHEMES = (RING, DOUBLE_TREE, RING_2D, BIDIRECTIONAL_RING_2D, MULTITREE_PACKETS, MULTITREE)
MEAN = "mean"
"""Stands for the geometric mean of all networks."""
ITERATION = "{}: iteration over the ring's; dark: computing"
PANELS: dict[str, Callable[[JobTime], int]] = {
    ITERATION: lambda time: time.total_cycles,
    "{}: all-reduces, times faster than the ring's": lambda time: time.communication_cycles,
}
NOTES = (
    "Compute is that of 16 output-stationary arrays of 32x32 per rank, folds overlapped, a sample "
    "per array, as in the paper; AlexNet with its 207x207 in Conv2",
    "Double trees go through ranks, where there are no packets, and so are in messages",
)


def _training(request: Request, run: RunPoints, *, overlap: str) -> list[Value]:
    """Iterations over those of the ring, and all-reduces."""
    arrays = SystolicArrays(folds="overlapped")
    jobs = [load_job(name, arrays=arrays) for name in EVALUATED]
    values: list[Value] = []
    for spec in request.networks:
        placement = Placement(parse_topology(spec))
        rule = request.rule
        found = {each: _iterations(spec, placement, each, jobs, overlap, rule) for each in SCHEMES}
        for panel, cycles_of in PANELS.items():
            values += _panel(panel.format(spec), spec, found, cycles_of, rule)
    return values


def _iterations(
    spec: str, placement: Placement, scheme: Scheme, jobs: list[Job], overlap: str, rule: str
) -> list[JobTime] | str:
    """An iteration of each job, or why there is none."""
    if scheme.lacks_packets_on(spec):
        return NO_PACKETS
    model = LinkModel(dependency=scheme.dependency, flow_control=scheme.flow_control_on(spec))
    counted = published_cycles if rule == "published" else cycles_of_engine
    times = CollectiveTimes(placement, scheme.algorithm, model, cycles_of=counted)
    found = []
    try:
        for job in jobs:
            report(f"{scheme.name} on {spec}, {job.name}")
            found.append(iteration(job, times, overlap=overlap))
    except ScheduleError as error:
        return str(error)
    return found


def _panel(
    panel: str,
    spec: str,
    found: dict[Scheme, list[JobTime] | str],
    cycles_of: Callable[[JobTime], int],
    rule: str,
) -> Iterator[Value]:
    """Values of all schemes in one panel, the mean of all networks last."""
    rings = found[RING]
    for scheme, times in found.items():
        if isinstance(times, str) or isinstance(rings, str):
            problem = times if isinstance(times, str) else str(rings)
            yield Value(panel, scheme.name, MEAN, None, topology=spec, problem=problem)
            continue
        ratios, parts = [], []
        whole = panel == ITERATION.format(spec)
        for name, ring, time in zip(EVALUATED, rings, times, strict=True):
            ours, theirs = cycles_of(time), cycles_of(ring)
            ratios.append(ours / theirs if whole else theirs / ours)
            parts.append(time.compute_cycles / theirs)
            yield Value(
                panel,
                scheme.name,
                name,
                ratios[-1],
                parts[-1] if whole else None,
                topology=spec,
                algorithm=scheme.algorithm,
                dependency=scheme.dependency,
                flow_control=time.link_model.flow_control,
                lockstep=in_lockstep(rule, scheme.algorithm),
                engine="analytic",
                cycles=ours,
            )
        part = geometric_mean(parts) if whole else None
        yield Value(panel, scheme.name, MEAN, geometric_mean(ratios), part, topology=spec)


_BASE = Figure(
    "training",
    "Training iterations, all-reduce after the backward pass",
    "Figure 11 a: seven networks, nothing overlaps.",
    Axis("", "names"),
    Axis("ratio"),
    partial(_training, overlap="none"),
    ("torus:8x8",),
    subjects=(MULTITREE.name,),
    bars=True,
    own_schemes=True,
    engines=("analytic",),
    notes=NOTES,
)
TRAINING = _BASE
TRAINING_OVERLAP = replace(
    _BASE,
    name="training-overlap",
    title="Training iterations, layers' all-reduces overlap the backward pass",
    summary="Figure 11 b: the same, each layer's all-reduce overlaps the backward pass.",
    values=partial(_training, overlap="layers"),
)
