"""Training iterations of the paper's seven networks: MultiTree over rings.

Every network on one topology with every scheme, without overlap, layer by layer and in buckets:
compute, communication, total. Then geometric means of the speed-ups over ring and 2D ring, of all
networks, the convolutional ones and the other two; and what the total would be if MultiTree's
all-reduce were as many times faster as the paper says: ``python bench/training.py [--json]``.
"""

import sys
from collections.abc import Iterator
from itertools import product
from statistics import geometric_mean
from typing import Any

from _bench import Row, ended, options, reported

from multitree import Collective, Job, LinkModel, SystolicArrays, load_job, parse_topology
from multitree.host.cli.output import Working
from multitree.sim.jobs.collective_times import CollectiveTimes
from multitree.sim.jobs.groups import Placement
from multitree.sim.jobs.iteration import OVERLAPS, iteration
from multitree.sim.jobs.models import EVALUATED, MODELS
from multitree.sim.jobs.systolic_arrays import FOLDS

# Algorithm, dependency and flow control: rings in packets, as in the paper.
SCHEMES = {
    "ring": ("ring", "chunk", "packet"),
    "ring_2d": ("ring_2d", "chunk", "packet"),
    "bidirectional_ring_2d": ("bidirectional_ring_2d", "chunk", "packet"),
    "multitree packets": ("multitree", "chunk", "packet"),
    "multitree": ("multitree", "chunk", "message"),
    "multitree cut-through": ("multitree", "submessage", "message"),
}
BASELINES = ("ring", "ring_2d", "bidirectional_ring_2d")
OTHERS = ("ncf", "transformer")
KINDS = {
    "all": EVALUATED,
    "convolutional": tuple(name for name in EVALUATED if name not in OTHERS),
    **{name: (name,) for name in OTHERS},
}
PUBLISHED = {"ring": 2.3, "ring_2d": 1.56}
"""Speed-up of the all-reduce by MultiTree with messages, as the paper has it."""
PUBLISHED_TOTALS = {
    (networks, overlap, over): published
    for networks, overlap, *both in (
        ("convolutional", "none", "34 %", "15 %"),
        ("ncf", "none", "up to 81 %", "up to 30 %"),
        ("transformer", "none", "up to 81 %", "up to 30 %"),
        ("convolutional", "layers", "at most 10 %", "at most 10 %"),
        ("ncf", "layers", "about 2 x", "about 1.37 x"),
        ("transformer", "layers", "about 2 x", "about 1.37 x"),
    )
    for over, published in zip(PUBLISHED, both, strict=True)
}
"""What the paper says of training, by kind of network, overlap and baseline."""
PARTS = ("forward", "backward", "aggregation", "compute", "communication", "exposed", "total")
ROW = ("network", "overlap", "scheme", "compute_cycles", "communication_cycles", "total_cycles")
SUMMARY = ("networks", "overlap", "over", "communication_speedup", "total_speedup")
SUMMARY += ("total_speedup_at_published_ratio", "published")


def measure(placement: Placement, jobs: list[Job], work: Working) -> Iterator[Row]:
    """A row for each network, overlap and scheme."""
    for scheme, (algorithm, dependency, flow_control) in SCHEMES.items():
        model = LinkModel(dependency=dependency, flow_control=flow_control)
        times = CollectiveTimes(placement, algorithm, model)
        for job, overlap in product(jobs, OVERLAPS):
            work.update(f"{scheme}, {job.name}, {overlap}")
            found = iteration(job, times, overlap=overlap)
            row = {"network": job.name, "overlap": overlap, "scheme": scheme}
            row |= {f"{name}_cycles": getattr(found, f"{name}_cycles") for name in PARTS}
            yield row | {"exposed_share": found.exposed_cycles / found.total_cycles}


def means(rows: list[Row]) -> list[Row]:
    """Speed-ups of every scheme over every baseline, by kind of network and overlap."""
    at = {(row["network"], row["overlap"], row["scheme"]): row for row in rows}
    found = []
    for kind, overlap, over, scheme in product(KINDS, OVERLAPS, BASELINES, SCHEMES):
        pairs = [(at[name, overlap, over], at[name, overlap, scheme]) for name in KINDS[kind]]
        entry = {"networks": kind, "overlap": overlap, "over": over, "scheme": scheme}
        for what in ("communication", "total"):
            key = f"{what}_cycles"
            entry[f"{what}_speedup"] = geometric_mean(a[key] / b[key] for a, b in pairs)
        found.append(entry | {"time_saved": 1 - 1 / entry["total_speedup"]})
    return found


class _Faster(CollectiveTimes):
    """Collectives that take so many times less than with an algorithm of ours."""

    ratio = 1.0

    def cycles(self, collective: Collective) -> int:
        """The cycles of the algorithm, divided by the ratio."""
        return round(super().cycles(collective) / self.ratio)


def with_published_ratio(placement: Placement, jobs: list[Job]) -> list[Row]:
    """Total speed-ups if MultiTree's all-reduce were as much faster as the paper says."""
    found = []
    for over, ratio in PUBLISHED.items():
        algorithm, dependency, flow_control = SCHEMES[over]
        model = LinkModel(dependency=dependency, flow_control=flow_control)
        usual = CollectiveTimes(placement, algorithm, model)
        faster = _Faster(placement, algorithm, model)
        faster.ratio = ratio
        for overlap in ("none", "layers"):
            speedups = {
                job.name: iteration(job, usual, overlap=overlap).total_cycles
                / iteration(job, faster, overlap=overlap).total_cycles
                for job in jobs
            }
            for kind, names in KINDS.items():
                speedup = geometric_mean(speedups[name] for name in names)
                found.append(
                    {"networks": kind, "overlap": overlap, "over": over}
                    | {"communication_speedup": ratio, "total_speedup": speedup}
                    | {"time_saved": 1 - 1 / speedup}
                )
    return found


def summary(means: list[Row], faster: list[Row]) -> list[Row]:
    """MultiTree's speed-ups beside those at the published ratio and those published."""
    keys = ("networks", "overlap", "over")
    at = {(each["scheme"], *(each[key] for key in keys)): each for each in means}
    found = []
    for each in faster:
        place = tuple(each[key] for key in keys)
        ours, cut = (at[name, *place] for name in ("multitree", "multitree cut-through"))
        entry = dict(zip(keys, place, strict=True))
        entry |= {f"{what}_speedup": ours[f"{what}_speedup"] for what in ("communication", "total")}
        entry["time_saved"] = ours["time_saved"]
        entry["cut_through_total_speedup"] = cut["total_speedup"]
        entry["total_speedup_at_published_ratio"] = each["total_speedup"]
        found.append(entry | {"published": PUBLISHED_TOTALS.get(place)})
    return found


def networks() -> list[Row]:
    """Layers, parameters, and backward over forward cycles by how folds follow each other."""
    found = []
    for name in MODELS:
        job = load_job(name)
        entry = {"network": name, "layers": len(job.layers), "parameters": job.num_parameters}
        for folds in FOLDS:
            layers = load_job(name, arrays=SystolicArrays(folds=folds)).layers
            forward = sum(each.forward.compute_ns for each in layers)
            gradients = (stage for each in layers for stage in each.stages[1:])
            entry[f"{folds}_forward_cycles"] = round(forward)
            entry[f"{folds}_backward_ratio"] = (
                sum(stage.compute_ns for stage in gradients) / forward
            )
        found.append(entry)
    return found


def main() -> int:
    given = options(
        __doc__,
        topology={"default": "torus:8x8", "help": "of two dimensions"},
        folds={"default": "overlapped", "choices": FOLDS, "help": "as in the paper"},
        only={"choices": ["networks"], "help": "say nothing of iterations"},
    )
    data: dict[str, Any] = {"topology": given.topology, "folds": given.folds}
    ratios = [f"{folds}_backward_ratio" for folds in FOLDS]
    data["networks"] = reported(given, networks(), "network", "layers", "parameters", *ratios)
    if given.only is None:
        arrays = SystolicArrays(folds=given.folds)
        jobs = [load_job(name, arrays=arrays) for name in MODELS]
        placement = Placement(parse_topology(given.topology))
        with Working(f"Training on {given.topology}") as work:
            data["rows"] = reported(given, measure(placement, jobs, work), *ROW, "exposed_share")
            faster = with_published_ratio(placement, jobs)
        data["means"] = means(data["rows"])
        data["summary"] = reported(given, summary(data["means"], faster), *SUMMARY)
    return ended(given, True, data)


if __name__ == "__main__":
    sys.exit(main())
