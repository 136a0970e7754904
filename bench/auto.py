"""Time of every algorithm over the bound, by size, and what `auto` makes of it.

Up to a size, all that the analytic engine holds to be nearly the fastest, and what it cannot time,
runs in RTL, compared with `execute` bit for bit; what is the fastest there is what `auto` has to
reach. Exit status 1 where a result is not exact or `auto` is too often too slow:
``python bench/auto.py [--topologies torus:4x4] [--plots docs/plots] [--json]``.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _bench import Row, all_exact, ended, listed, options, reported, sizes
from _size_plots import plot

from multitree import LinkModel, ScheduleError, Topology, build, parse_topology
from multitree.host.cli.output import Working
from multitree.host.engines import Collective, Plan
from multitree.host.report import bound_of
from multitree.host.runner import Runner, make_buffers
from multitree.host.sizes import format_size, parse_size
from multitree.nic.driver.commands import DEPENDENCIES
from multitree.sim.choice import Choice, Chooser
from multitree.sim.timing.inputs import shares_links

TOPOLOGIES = "torus:4x4,torus:8x8,torus:4x4x4,mesh:4x4,mesh:8x8,hypercube:4"
TOPOLOGIES += ",fat_tree:4x4,bigraph:4x8"
SIZES = "32KiB,128KiB,512KiB,1MiB,4MiB,16MiB,64MiB,256MiB,1GiB"
NEAR = 1.06
"""What the analytic engine has within this ratio of the fastest is run in RTL."""
ENOUGH, LEAST_SHARE = 1.03, 0.95
COLUMNS = ("topology", "size_bytes", "algorithm", "analytic_cycles", "rtl_cycles")
COLUMNS += ("ratio_to_bound", "ratio_to_best", "num_rtl_runs")
Way = tuple[str, str, str]


def in_rtl(
    runner: Runner, topology: Topology, choice: Choice, size_bytes: int, seed: int
) -> dict[Way, dict[str, Any]]:
    """What could be the fastest, in RTL: cycles, and whether exact."""
    buffers = make_buffers(seed, topology.num_ranks, size_bytes // 4, "float32")
    plans = {
        (each.algorithm, each.dependency, each.sibling_order): Plan(each.schedule, each.dependency)
        for each in choice.candidates
        if each.cycles <= NEAR * choice.best.cycles
    }
    for algorithm in choice.problems:
        try:
            schedule = build(topology, algorithm)
        except ScheduleError:
            continue
        dependencies = DEPENDENCIES[:1] if shares_links(schedule) else DEPENDENCIES
        plans |= {(algorithm, each, "built"): Plan(schedule, each) for each in dependencies}
    found = {}
    for way, plan in plans.items():
        try:
            _, report = runner.run(Collective.of(plan, buffers))
        except ScheduleError:
            if way[0] not in choice.problems:
                raise
            continue  # neither engine has it: routes too long for a head
        found[way] = {"cycles": report.cycles, "exact": report.exact}
    return found


def measure(
    spec: str, sizes: list[int], most_in_rtl: int, seed: int, work: Working
) -> Iterator[Row]:
    topology, model = parse_topology(spec), LinkModel()
    chooser = Chooser(topology, model)
    with Runner.timed(topology, "rtl", link_model=model, say=work.update) as runner:
        for size in sizes:
            work.update(f"{spec}, {format_size(size)}")
            choice, runs = chooser.choose(model.num_flits(size, 1)), {}
            if size <= most_in_rtl:
                runs = in_rtl(runner, topology, choice, size, seed)
            row = row_of(choice, runs, bound_of(topology, size, model))
            row["num_rtl_runs"] = len(runs) if size <= most_in_rtl else None
            yield {"topology": spec, "size_bytes": size} | row


def row_of(choice: Choice, runs: dict[Way, dict[str, Any]], bound: float) -> Row:
    """What `auto` takes, and what each algorithm takes at best, by both engines."""
    fastest: dict[str, dict[str, Any]] = {}
    for each in choice.candidates:
        fastest.setdefault(each.algorithm, {"analytic": each.cycles})
    for (algorithm, *_), run in runs.items():
        entry = fastest.setdefault(algorithm, {})
        entry["rtl"] = min(run["cycles"], entry.get("rtl", run["cycles"]))
    best = choice.best
    taken = runs.get((best.algorithm, best.dependency, best.sibling_order))
    least = min((run["cycles"] for run in runs.values()), default=None)
    return {
        "bound_cycles": bound,
        "algorithm": best.algorithm,
        "dependency": best.dependency,
        "sibling_order": best.sibling_order,
        "analytic_cycles": best.cycles,
        "rtl_cycles": taken and taken["cycles"],
        "ratio_to_bound": (taken["cycles"] if taken else best.cycles) / bound,
        "ratio_to_best": taken and taken["cycles"] / least,
        "num_rtl_runs": None,
        "exact": all(run["exact"] for run in runs.values()),
        "algorithms": fastest,
    }


def main() -> int:
    given = options(
        __doc__,
        topologies=listed(TOPOLOGIES),
        sizes=sizes(SIZES),
        rtl_up_to={"type": parse_size, "default": "1MiB", "metavar": "SIZE"},
        plots={"type": Path, "metavar": "DIR", "help": "draw one plot per topology"},
        seed={"type": int, "default": 1, "help": "of the buffers"},
    )

    def measured() -> Iterator[Row]:
        for spec in given.topologies:
            with Working(spec) as work:
                rows = []
                for row in measure(spec, given.sizes, given.rtl_up_to, given.seed, work):
                    rows.append(row)
                    yield row
            if given.plots is not None:
                plot(rows, given.plots)

    rows = reported(given, measured(), *COLUMNS)
    ran = [row for row in rows if row["ratio_to_best"] is not None]
    good, exact = sum(row["ratio_to_best"] <= ENOUGH for row in ran), all_exact(rows)
    data = {"good": good, "cases": len(ran), "exact": exact, "rows": rows}
    share = f"{good} of {len(ran)} cases in RTL within {ENOUGH} of the best"
    said = f"{share}; all results {'exact' if exact else 'NOT exact'}"
    return ended(given, exact and good >= LEAST_SHARE * len(ran), data, said)


if __name__ == "__main__":
    sys.exit(main())
