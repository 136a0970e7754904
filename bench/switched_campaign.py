"""Networks with switches: every result exact, and the share that was staged.

Each run draws an algorithm, link and memory latencies, link buffers of 12 to 64 flits, slow links,
classes that mix at an interface, and five collectives of random kind, root, length (also none, and
a few bytes), type and op, and starts its ranks up to 10 000 cycles apart; no barrier separates the
collectives, and all-reduces, broadcasts and reduces follow each other. Exit
status 1 unless all results equal `execute` bit for bit and no rank ends what another has not begun:
``python bench/switched_campaign.py --runs 1000``; one run again: ``--only SEED``.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from _campaign import Exactness, exact_campaign
from _draws import Draw, outcome_of
from _runs import num_staged

from multitree import (
    LinkModel,
    Schedule,
    ScheduleError,
    Topology,
    Trace,
    build,
    parse_topology,
    verify,
)
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import MemoryTiming
from multitree.topology.arrays import rows_of_entries
from multitree.topology.collectives import Op
from multitree.topology.lowering import as_sent

ALGORITHMS = ("multitree", "ring", "double_tree", "halving_doubling")
NETWORKS = {
    spec: (*ALGORITHMS, "hdrm") if spec.startswith("bigraph") else ALGORITHMS
    for spec in (
        *("fat_tree:2x2", "kary_tree:2x3", "bigraph:2x4", "fat_tree:3x3", "kary_tree:3x2"),
        *("bigraph:4x8", "fat_tree:4x4", "dgx2"),
        "kary_tree:4x1",  # a star
        *("dragonfly:2x1x1", "dragonfly:2x1x2", "dragonfly:2x2x1", "dgx_a100:2"),
    )
}
LARGE = ("bigraph:4x8", "dgx2", "dgx_a100:2")
# A run on a large network takes ten times as long as another one: there are fewer of them.
DRAWN = [spec for spec in NETWORKS for _ in range(1 if spec in LARGE else 4)]
BUFFER_FLITS = {"bigraph:4x8": (24,), "fat_tree:4x4": (16,), "dgx2": (32,), "dgx_a100:2": (12,)}
USUAL_BUFFER_FLITS = (12, 64)
CLASSES = ("as built", "all 1", "any")
NUM_COLLECTIVES = 5
MAX_SKEW_CYCLES = 10_000
MAX_ELEMENTS = 1500
MAX_LATENCY_NS = 60
SIZES = {"num_rows": 64, "num_flows": 32, "num_classes": 2, "max_children": 32}
TINY_ELEMENTS = 7


@dataclass(frozen=True)
class Outcome(Exactness):
    """What became of a run: `staged` of `added` contributions were.

    `unequal` says that links differed in speed, `mixed` that an interface sent in both classes.
    """

    unequal: bool = False
    mixed: bool = False
    added: int = 0
    staged: int = 0


def is_unequal(drawn: Draw) -> bool:
    """Whether the run halved the speed of some links."""
    usual = parse_topology(drawn.spec).bandwidth_gbytes_per_s
    return bool((drawn.topology.bandwidth_gbytes_per_s < usual).any())


def is_mixed(drawn: Draw) -> bool:
    """Whether an interface sends messages of both classes in one of the collectives."""
    for schedule in {each.schedule for each in drawn.queue}:
        sent = as_sent(schedule)
        first = sent.route_classes[sent.route_offsets[:-1]]
        if set(sent.src[first == 0]) & set(sent.src[first == 1]):
            return True
    return False


def draw_topology(rng: np.random.Generator, spec: str) -> Topology:
    """The network with links of one latency, of which every other time half are half as fast."""
    topology = parse_topology(spec)
    latency_ns = float(rng.integers(3, MAX_LATENCY_NS))
    slow = rng.permutation(topology.num_links) < topology.num_links // 2
    speeds = topology.bandwidth_gbytes_per_s * np.where(slow & (rng.random() < 0.5), 0.5, 1.0)
    latencies = np.full(topology.num_links, latency_ns)
    return replace(topology, latency_ns=latencies, bandwidth_gbytes_per_s=speeds)


def recast(rng: np.random.Generator, schedule: Schedule) -> Schedule:
    """The schedule with other classes, if messages then wait in no circle; else as it is."""
    how, num_rows = str(rng.choice(CLASSES)), schedule.num_transfers
    of_rows = np.ones(num_rows, np.int32) if how == "all 1" else rng.integers(2, size=num_rows)
    if how == "as built":
        return schedule
    classes = of_rows[rows_of_entries(schedule.route_offsets)].astype(np.int32)
    other = replace(schedule, route_classes=classes)
    try:
        verify(other)
        as_sent(other)
    except ScheduleError:
        return schedule
    return other


def draw(seed: int) -> Draw:
    rng = np.random.default_rng(seed)
    spec = DRAWN[seed % len(DRAWN)]
    algorithm, topology = str(rng.choice(NETWORKS[spec])), draw_topology(rng, spec)
    num_ranks, made = topology.num_ranks, dict[tuple[str, int | None], Schedule]()
    queue = []
    for _ in range(NUM_COLLECTIVES):
        collective = str(rng.choice(["all_reduce", "broadcast", "reduce"]))
        root = None if collective == "all_reduce" else int(rng.integers(num_ranks))
        most = TINY_ELEMENTS if rng.random() < 0.3 else MAX_ELEMENTS
        if (collective, root) not in made:
            made[collective, root] = recast(rng, build(topology, algorithm, collective, root))
        n, schedule = int(rng.integers(most)), made[collective, root]
        dtype, op = str(rng.choice(["float32", "int32"])), str(rng.choice(["sum", "max"]))
        queue.append(Upcoming(schedule, n, dtype, op))
    timing = MemoryTiming(
        extra_cycles=int(rng.integers(1, 60)), stall_percent=int(rng.integers(0, 50)), seed=seed
    )
    buffer_flits = int(rng.choice(BUFFER_FLITS.get(spec, USUAL_BUFFER_FLITS)))
    most = int(rng.integers(MAX_SKEW_CYCLES + 1))
    skews = rng.integers(most + 1, size=num_ranks).tolist()
    return Draw(seed, spec, queue, timing, skews, LinkModel(buffer_flits=buffer_flits), SIZES)


def run_once(seed: int) -> Outcome:
    drawn = draw(seed)

    def more(session: RtlSession, traces: list[Trace]) -> tuple[dict[str, Any], list[str]]:
        added = sum(contributions(each, drawn.model) for each in drawn.queue)
        early = [k for k, trace in enumerate(traces) if trace.done.min() < trace.start.max()]
        said = f"a rank ended collectives {early} that another had not begun"
        return {"added": added, "staged": num_staged(session)}, [said] * bool(early)

    found = outcome_of(drawn, Outcome, more, **drawn.sizes)
    return replace(found, unequal=is_unequal(drawn), mixed=is_mixed(drawn))


def contributions(each: Upcoming, model: LinkModel) -> int:
    """Contributions with payload to all sums of a collective."""
    schedule = each.schedule
    sizes = np.diff(schedule.chunks(model.num_flits(each.num_elements, 4)))
    return int(((schedule.op == Op.REDUCE) & (sizes[schedule.flow] > 0)).sum())


def more_of(group: Sequence[Outcome]) -> dict[str, Any]:
    added = sum(each.added for each in group)
    return {
        "unequal": sum(each.unequal for each in group),
        "mixed": sum(each.mixed for each in group),
        "contributions": added,
        "staging_share": sum(each.staged for each in group) / added if added else None,
    }


CAMPAIGN = exact_campaign(run_once, Outcome, NETWORKS, more_of)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(__doc__, runs=1000))
