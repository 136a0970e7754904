"""The analytic engine against the exact one, on random cases and on ordinary ones.

Random cases are those of ``bench/exact_vs_rtl.py``, short ones the same with buffers that no round
trip fits in, rare ones those of its seeds from 300 on; the grid has tori, meshes, switches and
forests, 4 B to 16 MiB, in all modes. RTL is not needed, since the exact engine's cycles are its.
Translated schedules are compared with those written out. Exit status 1 if a class is off by more
than ``--tolerance``; some of them: ``python bench/analytic_vs_exact.py --cases random``, or
``short``, ``rare``, ``grid``, ``translated``.
"""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain, product
from typing import Any

from _bench import Row, ended, options, reported
from exact_vs_rtl import KINDS, RARE_SEED, Case, draw

from multitree import LinkModel, Schedule, build, exact, implicit_symmetric, parse_topology
from multitree.host.cli.output import Working
from multitree.host.parameters import scaled
from multitree.host.sizes import parse_size
from multitree.sim.analytic.engine import analytic
from multitree.topology.lowering import lowered

__all__ = ["Difference", "Point", "grid", "summary"]

PRIVATE, SWITCHED = ("torus:4x4", "torus:8x8", "mesh:4x4"), ("fat_tree:4x4", "bigraph:4x8", "dgx2")
CASES = "random", "short", "rare", "grid", "translated", "all"
SIZES = ("4", "4KiB", "64KiB")
MEMORIES = 12, 100, 500
MODES = (("chunk", "message", 0), ("submessage", "message", 0), ("submessage", "packet", 0))
FORWARDED = (("chunk", "message", 512), ("submessage", "message", 512))
LARGE = (
    *(("1MiB", spec, mode) for spec in (*PRIVATE, "fat_tree:4x4", "dgx2") for mode in MODES[:1]),
    *(("1MiB", "torus:4x4", mode) for mode in (*MODES[1:], *FORWARDED)),
    ("16MiB", "torus:4x4", MODES[0]),
)
SLOW = tuple(product(("full:8", "torus:3x3", "torus:4x4", "mesh:4x4"), (4.0, 1.0), SIZES[1:]))
WAVES = tuple(product(("torus:4x4", "mesh:4x4"), ("64KiB", "256KiB"), (0, 512)))
SHORT_BUFFERS_FLITS, SHORT_SUBMESSAGE_FLITS = (8, 12, 24), 4
TRANSLATED = "torus:8x8", "torus:16x16"
COLUMNS = ("class", "cases", "most_percent", "mean_percent", "most_cycles", "mean_cycles")


@dataclass(frozen=True)
class Point:
    spec: str
    algorithm: str
    size: str
    memory_cycles: int = 12
    dependency: str = "chunk"
    flow_control: str = "message"
    forward_flits: int = 0
    lockstep: bool = False
    link_gbytes_per_s: float | None = None

    @property
    def model(self) -> LinkModel:
        model = LinkModel(
            dependency=self.dependency,
            flow_control=self.flow_control,
            forward_flits=self.forward_flits,
        )
        return model.with_memory(self.memory_cycles)


@dataclass(frozen=True)
class Difference:
    """How far the analytic engine is off in a case: less the exact engine's cycles, and of them."""

    kind: str
    case: str
    exact_cycles: int
    cycles: int

    @property
    def share(self) -> float:
        """Of the exact engine's cycles, without its sign."""
        return abs(self.cycles) / self.exact_cycles


def grid() -> Iterator[Point]:
    for spec, size, memory, mode in product(PRIVATE, SIZES, MEMORIES, (*MODES, *FORWARDED)):
        yield Point(spec, "multitree", size, memory, *mode)
    for spec, size, mode in product(PRIVATE, SIZES, (MODES[0], FORWARDED[1])):
        yield Point(spec, "bidirectional_ring", size, 12, *mode)
        yield Point(spec, "multitree", size, 12, *mode, lockstep=True)
    for spec, size, memory, lockstep in product(SWITCHED, SIZES, MEMORIES, (False, True)):
        yield Point(spec, "multitree", size, memory, lockstep=lockstep)
    for spec, size, algorithm in product(SWITCHED, SIZES, ("double_tree", "halving_doubling")):
        yield Point(spec, algorithm, size)
    for size, spec, mode in LARGE:
        yield Point(spec, "multitree", size, 12, *mode)
    for (spec, speed, size), mode in product(SLOW, (MODES[0], *FORWARDED)):
        yield Point(spec, "multitree", size, 12, *mode, link_gbytes_per_s=speed)
    for spec, size, forward_flits in WAVES:
        yield Point(spec, "forest", size, 12, "submessage", forward_flits=forward_flits)


@cache
def _schedule(spec: str, algorithm: str, link_gbytes_per_s: float | None) -> Schedule:
    return build(scaled(parse_topology(spec), link_gbytes_per_s, None), algorithm)


def difference(
    kind: str, case: str, schedule: Schedule, num_flits: int, model: LinkModel, **modes: Any
) -> Difference:
    """Time a case by both engines."""
    found, right = (
        engine(schedule, num_flits, model, **modes).cycles for engine in (analytic, exact)
    )
    return Difference(kind, case, right, found - right)


def of_point(point: Point) -> Difference:
    schedule = _schedule(point.spec, point.algorithm, point.link_gbytes_per_s)
    if point.link_gbytes_per_s is not None:
        kind = "slow-links"
    elif schedule.num_waves > 1:
        kind = "waves"
    elif lowered(schedule).topology.num_switches:
        kind = "double-trees" if point.algorithm == "double_tree" else "shared"
    else:
        kind = "forwarding" if point.forward_flits else "private"
    timed = schedule, point.model.num_flits(parse_size(point.size), 1), point.model
    return difference(f"ordinary/{kind}", str(point), *timed, lockstep=point.lockstep)


def of_translated(spec: str) -> Iterator[Difference]:
    """Time one tree, and all of them written out."""
    implicit = implicit_symmetric(parse_topology(spec))
    full = implicit.schedule()
    for size, mode in product(SIZES[-1:], (*MODES, *FORWARDED)):
        point = Point(spec, "symmetric", size, 12, *mode)
        num_flits = (
            -(-point.model.num_flits(parse_size(size), 1) // full.num_flows) * full.num_flows
        )
        both = [analytic(each, num_flits, point.model).cycles for each in (implicit, full)]
        yield Difference(f"translated/{spec}", str(point), both[1], both[0] - both[1])


def of_seed(seed: int) -> Difference:
    return _of_case("random", seed, draw(seed))


def of_rare(number: int) -> Difference:
    return _of_case("rare", RARE_SEED + number, draw(RARE_SEED + number))


def of_short(seed: int) -> Difference:
    """Time a random case with short buffers by both engines."""
    case, lengths = draw(seed), SHORT_BUFFERS_FLITS
    short = {"buffer_flits": lengths[seed // len(KINDS) % len(lengths)]}
    short["submessage_flits"] = SHORT_SUBMESSAGE_FLITS
    return _of_case("short", seed, replace(case, model=replace(case.model, **short)))


def _of_case(group: str, seed: int, case: Case) -> Difference:
    kind = f"{group}/{case.kind.replace(', ', '-').replace(' ', '-')}"
    timed = case.schedule, case.num_flits, case.model
    return difference(kind, f"seed {seed}", *timed, lockstep=case.lockstep, start=case.skews)


def summary(found: Sequence[Difference]) -> list[Row]:
    """A row for each class: its cases, and the most and the mean that they are off."""
    classes: dict[str, list[Difference]] = {}
    for each in found:
        for name in (each.kind, each.kind.partition("/")[0] + "/all"):
            classes.setdefault(name, []).append(each)
    rows = []
    for name, group in sorted(classes.items()):
        shares, cycles = (
            [*each] for each in zip(*((d.share, abs(d.cycles)) for d in group), strict=True)
        )
        row = {"class": name, "cases": len(group)}
        row |= {"most_share": max(shares), "mean_share": sum(shares) / len(group)}
        row |= {"most_percent": 100 * max(shares), "mean_percent": 100 * sum(shares) / len(group)}
        row |= {"most_cycles": max(cycles), "mean_cycles": sum(cycles) / len(group)}
        rows.append(row | {"worst": asdict(max(group, key=lambda each: each.share))})
    return rows


def main() -> int:
    given = options(
        __doc__,
        cases={"choices": CASES, "default": "all"},
        runs={"type": int, "default": 300, "help": "random cases, seeds 0 and up"},
        jobs=2,
        tolerance={"type": float, "default": 1.0, "help": "of a share of the cycles"},
    )
    # It is compiled here, so that no process has to.
    exact(build(parse_topology("ring:2"), "multitree"), 1)
    runs = [range(given.runs)] * 3
    seeds, short, rare, points, trees = (
        each if given.cases in (name, "all") else ()
        for name, each in zip(CASES, (*runs, grid(), TRANSLATED), strict=False)
    )
    with Working("cases timed by both engines"), ProcessPoolExecutor(given.jobs) as pool:
        timed = pool.map(of_seed, seeds), pool.map(of_short, short), pool.map(of_rare, rare)
        found = list(chain(*timed, pool.map(of_point, points, chunksize=4)))
        found += chain.from_iterable(map(of_translated, trees))
    rows = reported(given, summary(found), *COLUMNS)
    good = max(row["most_share"] for row in rows) <= given.tolerance
    worst = {row["class"]: row["worst"] for row in rows}
    said = [f"{name}: {each['case']}, {each['cycles']:+d} cycles" for name, each in worst.items()]
    return ended(given, good, {"rows": rows}, *said)


if __name__ == "__main__":
    sys.exit(main())
