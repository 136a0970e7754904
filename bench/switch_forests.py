"""Forests over switches: time of a large buffer against the optimum of ForestColl.

``python bench/switch_forests.py [--json] [--only "NAME;NAME"] [--rtl 8MiB]``. 1 GiB by the analytic
engine in lockstep, in units of buffer over the speed of the fastest link (S/B). *ForestColl*: what
no reduce-scatter followed by an all-gather is faster than, the largest of |ranks in S| over what
leads out of S, for any set S of nodes without all ranks (Zhao et al. 2024), twice over. *Bound*:
what no all-reduce is faster than. One network runs in RTL, too, all waves written out, every rank's
memory compared bit by bit, and there also *free*, without lockstep. Progress on stderr. Exit status
1 if one is more than 15 % above its bound, 3 % above the optimum of a network of one link per rank,
or not exact.
"""

import argparse
import json
import sys
from fractions import Fraction
from functools import partial
from math import lcm
from typing import Any

import networkx
import numpy as np
from _tables import show
from packing import timed

from multitree.host.report import bound_of
from multitree.host.runner import Runner
from multitree.host.sizes import format_size, parse_size
from multitree.sim.analytic.engine import analytic
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build
from multitree.topology.checks.verify import verify
from multitree.topology.lowering import unrolled
from multitree.topology.networks.topology import Topology
from multitree.topology.specs import parse_topology

STAR = "star of 8, one at half speed"
NAMES = (
    *("fat_tree:4x4", "bigraph:4x4", "kary_tree:2x3x2", "kary_tree:4x2x2", "dragonfly:2x1x1"),
    *(STAR, "dgx2", "dgx_a100:2"),
)
IN_RTL = "kary_tree:2x3x2"
LARGE_BYTES = 1 << 30
MODEL = LinkModel()
MOST_RATIO, MOST_RATIO_OF_ONE_LINK = 1.15, 1.03


def network_of(name: str) -> Topology:
    """The topology of a row."""
    if name != STAR:
        return parse_topology(name)
    ranks = range(8)
    links = [link for rank in ranks for link in ((rank, 8), (8, rank))]
    speeds = [8.0 if 0 in link else 16.0 for link in links]
    return Topology("star", 8, 1, links, speeds, 150.0)


def forestcoll_share(topology: Topology) -> Fraction:
    """The most that an all-gather needs of a unit of link speed, for one rank's part.

    For a guess of the ratio, a set that is worse is a smallest cut from all ranks to one of them;
    its ratio is the next guess (Dinkelbach), so that the last one is exact.
    """
    fastest = topology.bandwidth_gbytes_per_s.max()
    speeds = [Fraction(float(speed / fastest)) for speed in topology.bandwidth_gbytes_per_s]
    scale = lcm(*(speed.denominator for speed in speeds))
    ends, whole = topology.links.tolist(), [int(speed * scale) for speed in speeds]
    leaves_0 = sum(speed for (src, _), speed in zip(ends, whole, strict=True) if src == 0)
    worst = Fraction(1, leaves_0)
    while True:
        found = max(
            _worst_without(topology, ends, whole, worst, rank) for rank in range(topology.num_ranks)
        )
        if found <= worst:
            return worst * scale
        worst = found


def _worst_without(
    topology: Topology, ends: list[list[int]], speeds: list[int], ratio: Fraction, rank: int
) -> Fraction:
    """The ratio of a set without a rank that is worse than `ratio`, if there is one."""
    graph = networkx.DiGraph()
    for (src, dst), speed in zip(ends, speeds, strict=True):
        before = graph.get_edge_data(src, dst, {"capacity": 0})["capacity"]
        graph.add_edge(src, dst, capacity=before + ratio.numerator * speed)
    for other in set(range(topology.num_ranks)) - {rank}:
        graph.add_edge("all", other, capacity=ratio.denominator)
    _, (inside, _) = networkx.minimum_cut(graph, "all", rank)
    members = inside - {"all"}
    num_ranks = sum(node < topology.num_ranks for node in members)
    leads_out = sum(
        speed
        for (src, dst), speed in zip(ends, speeds, strict=True)
        if src in members and dst not in members
    )
    return Fraction(num_ranks, leads_out) if num_ranks else Fraction(0)


def measure_large(name: str) -> dict[str, Any]:
    """1 GiB by the analytic engine, in lockstep."""
    topology = network_of(name)
    num_flits = MODEL.num_flits(LARGE_BYTES, 1)
    cost_model = MODEL.cost_model(topology, num_flits)
    schedule, build_cpu_seconds = timed(partial(build, topology, "forest", cost_model=cost_model))
    verify(schedule)
    cycles = analytic(schedule, num_flits, MODEL, lockstep=True).cycles
    multitree = analytic(build(topology, "multitree"), num_flits, MODEL).cycles
    bound = bound_of(topology, LARGE_BYTES, MODEL)
    optimum = float(2 * forestcoll_share(topology) / topology.num_ranks) * num_flits
    one_link = int(topology.degree[: topology.num_ranks].max()) == 1
    most = min(MOST_RATIO * bound, MOST_RATIO_OF_ONE_LINK * optimum if one_link else np.inf)
    return {
        "topology": name,
        "size_bytes": LARGE_BYTES,
        "engine": "analytic",
        "num_trees": schedule.num_flows,
        "period": schedule.period,
        "num_waves": schedule.num_waves,
        "most_rows": int(np.bincount(schedule.src).max()),
        "cycles": cycles,
        "buffers_over_bandwidth": round(cycles / num_flits, 4),
        "ratio_to_bound": round(cycles / bound, 4),
        "forestcoll_over_bandwidth": round(optimum / num_flits, 4),
        "ratio_to_forestcoll": round(cycles / optimum, 4),
        "multitree_ratio_to_bound": round(multitree / bound, 4),
        "free_ratio_to_bound": None,
        "exact": None,
        "analytic_error_percent": None,
        "build_cpu_seconds": round(build_cpu_seconds, 2),
        "within_limits": bool(cycles <= most),
    }


def measure_rtl(name: str, size_bytes: int) -> dict[str, Any]:
    """A size in RTL, and by the analytic engine."""
    topology = network_of(name)
    num_flits = MODEL.num_flits(size_bytes, 1)
    schedule = build(topology, "forest", cost_model=MODEL.cost_model(topology, num_flits))
    written_out = unrolled(schedule)
    with Runner.timed(topology, "rtl", link_model=MODEL, lockstep=True) as runner:
        report, _ = runner.simulate(written_out, size_bytes)
    with Runner.timed(topology, "rtl", link_model=MODEL) as runner:
        free, _ = runner.simulate(written_out, size_bytes)
        multitree, _ = runner.simulate(build(topology, "multitree"), size_bytes)
    error = 100 * (analytic(schedule, num_flits, MODEL, lockstep=True).cycles / report.cycles - 1)
    bound = bound_of(topology, size_bytes, MODEL)
    return {
        "topology": name,
        "size_bytes": size_bytes,
        "engine": "rtl",
        "num_trees": schedule.num_flows,
        "period": schedule.period,
        "num_waves": schedule.num_waves,
        "most_rows": int(np.bincount(written_out.src).max()),
        "cycles": report.cycles,
        "buffers_over_bandwidth": round(report.cycles / num_flits, 4),
        "ratio_to_bound": round(report.cycles / bound, 4),
        "forestcoll_over_bandwidth": None,
        "ratio_to_forestcoll": None,
        "multitree_ratio_to_bound": round(multitree.cycles / bound, 4),
        "free_ratio_to_bound": round(free.cycles / bound, 4),
        "exact": report.exact and free.exact and multitree.exact,
        "analytic_error_percent": round(error, 2),
        "build_cpu_seconds": None,
        "within_limits": bool(report.exact and free.exact and multitree.exact),
    }


COLUMNS = {
    "topology": "topology",
    "size_bytes": "size",
    "engine": "engine",
    "num_trees": "trees",
    "period": "period",
    "num_waves": "waves",
    "most_rows": "rows",
    "buffers_over_bandwidth": "S/B",
    "ratio_to_bound": "x bound",
    "forestcoll_over_bandwidth": "ForestColl S/B",
    "ratio_to_forestcoll": "x ForestColl",
    "multitree_ratio_to_bound": "MultiTree x bound",
    "free_ratio_to_bound": "free x bound",
    "exact": "exact",
    "analytic_error_percent": "analytic off, %",
    "build_cpu_seconds": "build, CPU s",
}


def main() -> int:
    """Measure every topology of the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--only", help="topologies with semicolons between")
    parser.add_argument("--rtl", default="8MiB", metavar="SIZE", help=f"of {IN_RTL}; or none")
    arguments = parser.parse_args()
    names = NAMES if arguments.only is None else arguments.only.split(";")
    unknown = set(names) - set(NAMES)
    if unknown:
        parser.error(f"topology must be one of {'; '.join(NAMES)}, not {min(unknown)!r}")
    try:
        rtl_bytes = None if arguments.rtl == "none" else parse_size(arguments.rtl)
    except ValueError as error:
        parser.error(str(error))
    rows = []
    for name in names:
        print(f"{name}, {format_size(LARGE_BYTES)}", file=sys.stderr)
        rows.append(measure_large(name))
        if name == IN_RTL and rtl_bytes is not None:
            print(f"{name}, {format_size(rtl_bytes)} in RTL", file=sys.stderr)
            rows.append(measure_rtl(name, rtl_bytes))
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show("Forests over switches", COLUMNS, rows, 200)
    missed = [f"{row['topology']} {row['size_bytes']}" for row in rows if not row["within_limits"]]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
