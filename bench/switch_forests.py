"""Forests over switches: time of a large buffer against the optimum of ForestColl.

``python bench/switch_forests.py [--json] [--only "NAME;NAME"] [--rtl 8MiB]``. 1 GiB by the analytic
engine in lockstep, in units of buffer over the speed of the fastest link. *ForestColl*: what
no reduce-scatter followed by an all-gather is faster than, the largest of |ranks in S| over what
leads out of S, for any set S of nodes without all ranks (Zhao et al. 2024), twice over. *Bound*:
what no all-reduce is faster than. One network runs in RTL, too, all waves written out, every rank's
memory compared bit by bit, and there also *free*, without lockstep. Exit status 1 if one is more
than 15 % above its bound, 3 % above the optimum of a network of one link per rank, or not exact.
"""

import sys
from collections.abc import Iterator
from fractions import Fraction
from math import lcm

import networkx
import numpy as np
from _bench import Row, ended, options, reported, sizes, some_of, within_limits
from forest import LARGE_BYTES, SHARED, large, row_of

from multitree import LinkModel, Topology, build, parse_topology
from multitree.host.report import bound_of
from multitree.host.runner import Runner
from multitree.sim.analytic.engine import analytic
from multitree.topology.lowering import unrolled

STAR = "star of 8, one at half speed"
NAMES = (
    *("fat_tree:4x4", "bigraph:4x4", "kary_tree:2x3x2", "kary_tree:4x2x2", "dragonfly:2x1x1"),
    *(STAR, "dgx2", "dgx_a100:2"),
)
IN_RTL = "kary_tree:2x3x2"
MODEL = LinkModel()
MOST_RATIO, MOST_RATIO_OF_ONE_LINK = 1.15, 1.03
KEYS = (*SHARED, "cycles", "buffers_over_bandwidth", "ratio_to_bound", "forestcoll_over_bandwidth")
KEYS += ("ratio_to_forestcoll", "multitree_ratio_to_bound", "free_ratio_to_bound", "exact")
KEYS += ("analytic_error_percent", "build_cpu_seconds", "within_limits")


def network_of(name: str) -> Topology:
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


def measure_large(topology: Topology) -> Row:
    """1 GiB by the analytic engine, in lockstep."""
    row, num_flits = large(topology, MODEL, lockstep=True), MODEL.num_flits(LARGE_BYTES, 1)
    optimum = float(2 * forestcoll_share(topology) / topology.num_ranks) * num_flits
    one_link = int(topology.degree[: topology.num_ranks].max()) == 1
    most = MOST_RATIO * bound_of(topology, LARGE_BYTES, MODEL)
    most = min(most, MOST_RATIO_OF_ONE_LINK * optimum if one_link else np.inf)
    row["forestcoll_over_bandwidth"] = round(optimum / num_flits, 4)
    row["ratio_to_forestcoll"] = round(row["cycles"] / optimum, 4)
    return row | {"within_limits": bool(row["cycles"] <= most)}


def measure_rtl(topology: Topology, size_bytes: int) -> Row:
    """A size in RTL, and by the analytic engine."""
    num_flits = MODEL.num_flits(size_bytes, 1)
    schedule = build(topology, "forest", cost_model=MODEL.cost_model(topology, num_flits))
    written_out = unrolled(schedule)
    with Runner.timed(topology, "rtl", link_model=MODEL, lockstep=True) as runner:
        report, _ = runner.simulate(written_out, size_bytes)
    with Runner.timed(topology, "rtl", link_model=MODEL) as runner:
        free, _ = runner.simulate(written_out, size_bytes)
        multitree, _ = runner.simulate(build(topology, "multitree"), size_bytes)
    error = 100 * (analytic(schedule, num_flits, MODEL, lockstep=True).cycles / report.cycles - 1)
    exact = bool(report.exact and free.exact and multitree.exact)
    row = row_of(schedule, size_bytes, MODEL, report.cycles, multitree.cycles)
    row["most_rows"] = int(np.bincount(written_out.src).max())
    row["free_ratio_to_bound"] = round(free.cycles / bound_of(topology, size_bytes, MODEL), 4)
    row["analytic_error_percent"] = round(error, 2)
    return row | {"engine": "rtl", "exact": exact, "within_limits": exact}


def measured(names: list[str], sizes: list[int]) -> Iterator[Row]:
    for name in names:
        topology = network_of(name)
        rows = [measure_large(topology)]
        rows += [measure_rtl(topology, size) for size in sizes if name == IN_RTL]
        yield from ({key: ({"topology": name} | row).get(key) for key in KEYS} for row in rows)


def main() -> int:
    given = options(__doc__, only=some_of(NAMES, ";"), rtl=sizes("8MiB"))
    rows = reported(given, measured(given.only, given.rtl), *KEYS)
    return ended(given, within_limits(rows), rows)


if __name__ == "__main__":
    sys.exit(main())
