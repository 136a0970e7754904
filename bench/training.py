"""Training iterations of the paper's seven networks: MultiTree over rings.

Every network on one topology with every scheme, without overlap, layer by layer and in buckets:
compute, communication, total. Then geometric means of the speed-ups over ring and 2D ring, of all
networks, the convolutional ones and the other two; and what the total would be if MultiTree's
all-reduce were as many times faster as the paper says: ``python bench/training.py [--json]``.
"""

import argparse
import json
import sys
from statistics import geometric_mean
from typing import Any

from multitree import Collective, Job, LinkModel, SystolicArrays, load_job, parse_topology
from multitree.host.cli.output import Working
from multitree.sim.jobs.collective_times import CollectiveTimes
from multitree.sim.jobs.groups import Placement
from multitree.sim.jobs.iteration import OVERLAPS, JobTime, iteration
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
    ("convolutional", "none", "ring"): "34 %",
    ("convolutional", "none", "ring_2d"): "15 %",
    ("ncf", "none", "ring"): "up to 81 %",
    ("ncf", "none", "ring_2d"): "up to 30 %",
    ("transformer", "none", "ring"): "up to 81 %",
    ("transformer", "none", "ring_2d"): "up to 30 %",
    ("convolutional", "layers", "ring"): "at most 10 %",
    ("convolutional", "layers", "ring_2d"): "at most 10 %",
    ("ncf", "layers", "ring"): "about 2 x",
    ("ncf", "layers", "ring_2d"): "about 1.37 x",
    ("transformer", "layers", "ring"): "about 2 x",
    ("transformer", "layers", "ring_2d"): "about 1.37 x",
}
"""What the paper says of training, by kind of network, overlap and baseline."""
ROW = "{:<18} {:<8} {:<22} {:>10} {:>13} {:>10} {:>8}"
ROW_COLUMNS = ("network", "overlap", "scheme", "compute", "communication", "total", "exposed")
NETWORK = "{:<18} {:>4} layers {:>10} parameters; backward over forward: {} separate, {} overlapped"
SUMMARY = "{:<14} {:<8} {:<8} {:>12} {:>8} {:>20} {:>13}"
SUMMARY_COLUMNS = ("networks", "overlap", "over", "all-reduce x", "total x", "at published ratio")
SUMMARY_COLUMNS += ("published",)


def measure(placement: Placement, jobs: list[Job], work: Working) -> list[dict[str, Any]]:
    """A row for each network, overlap and scheme."""
    rows = []
    for scheme, (algorithm, dependency, flow_control) in SCHEMES.items():
        model = LinkModel(dependency=dependency, flow_control=flow_control)
        times = CollectiveTimes(placement, algorithm, model)
        for job in jobs:
            for overlap in OVERLAPS:
                work.update(f"{scheme}, {job.name}, {overlap}")
                rows.append(row_of(job, scheme, iteration(job, times, overlap=overlap)))
    return rows


def row_of(job: Job, scheme: str, found: JobTime) -> dict[str, Any]:
    """The figures of one network with one scheme."""
    return {
        "network": job.name,
        "overlap": found.overlap,
        "scheme": scheme,
        "forward_cycles": found.forward_cycles,
        "backward_cycles": found.backward_cycles,
        "aggregation_cycles": found.aggregation_cycles,
        "compute_cycles": found.compute_cycles,
        "communication_cycles": found.communication_cycles,
        "exposed_cycles": found.exposed_cycles,
        "total_cycles": found.total_cycles,
        "exposed_share": found.exposed_cycles / found.total_cycles,
    }


def means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Speed-ups of every scheme over every baseline, by kind of network and overlap."""
    at = {(row["network"], row["overlap"], row["scheme"]): row for row in rows}
    found = []
    for kind, names in KINDS.items():
        for overlap in OVERLAPS:
            for over in BASELINES:
                for scheme in SCHEMES:
                    pairs = [(at[n, overlap, over], at[n, overlap, scheme]) for n in names]
                    entry = {"networks": kind, "overlap": overlap, "over": over, "scheme": scheme}
                    for what in ("communication", "total"):
                        key = f"{what}_cycles"
                        entry[f"{what}_speedup"] = geometric_mean(a[key] / b[key] for a, b in pairs)
                    entry["time_saved"] = 1 - 1 / entry["total_speedup"]
                    found.append(entry)
    return found


class _Faster(CollectiveTimes):
    """Collectives that take so many times less than with an algorithm of ours."""

    ratio = 1.0

    def cycles(self, collective: Collective) -> int:
        """The cycles of the algorithm, divided by the ratio."""
        return round(super().cycles(collective) / self.ratio)


def with_published_ratio(placement: Placement, jobs: list[Job]) -> list[dict[str, Any]]:
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


def summary(means: list[dict[str, Any]], faster: list[dict[str, Any]]) -> list[dict[str, Any]]:
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


def networks() -> list[dict[str, Any]]:
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


def show(data: dict[str, Any]) -> None:
    """Print for people what there is: networks, runs, and speed-ups beside the paper's."""
    for each in data["networks"]:
        cells = [f"{each[f'{folds}_backward_ratio']:.2f}" for folds in FOLDS]
        print(NETWORK.format(each["network"], each["layers"], each["parameters"], *cells))
    if "rows" not in data:
        return
    print("\n" + ROW.format(*ROW_COLUMNS))
    for row in data["rows"]:
        cells = [row[key] for key in ("network", "overlap", "scheme", "compute_cycles")]
        cells += [row["communication_cycles"], row["total_cycles"]]
        print(ROW.format(*cells, f"{100 * row['exposed_share']:.1f} %"))
    print("\n" + SUMMARY.format(*SUMMARY_COLUMNS))
    for each in data["summary"]:
        speedups = ("communication_speedup", "total_speedup", "total_speedup_at_published_ratio")
        cells = [each["networks"], each["overlap"], each["over"]]
        cells += [f"{each[key]:.2f}" for key in speedups]
        print(SUMMARY.format(*cells, each["published"] or "-"))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topology", default="torus:8x8", help="of two dimensions")
    parser.add_argument("--folds", default="overlapped", choices=FOLDS, help="as in the paper")
    parser.add_argument("--only", choices=["networks"], help="say nothing of iterations")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    data: dict[str, Any] = {"topology": arguments.topology, "folds": arguments.folds}
    data["networks"] = networks()
    if arguments.only is None:
        arrays = SystolicArrays(folds=arguments.folds)
        jobs = [load_job(name, arrays=arrays) for name in MODELS]
        placement = Placement(parse_topology(arguments.topology))
        with Working(f"Training on {arguments.topology}") as work:
            data["rows"] = measure(placement, jobs, work)
            faster = with_published_ratio(placement, jobs)
        data["means"] = means(data["rows"])
        data["summary"] = summary(data["means"], faster)
    if arguments.json:
        print(json.dumps(data, indent=2))
    else:
        show(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
