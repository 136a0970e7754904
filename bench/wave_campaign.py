"""Waves in RTL: periodic tables repeated, late ranks, no barriers, all exact.

Each run draws a network, its latencies and link buffers, and four collectives, some of them waves
of MultiTree or of packed trees, with a period from one slot to more than a wave, others ordinary;
types, lengths, ops and dependencies are drawn for each, and how messages are framed. Ranks start up
to 10 000 cycles apart, and no barrier separates the collectives. Exit status 1 unless all results
equal `execute` bit for bit: ``python bench/wave_campaign.py --runs 200``; one run again:
``--only SEED``; with interfaces that forward: ``--forward-flits 64``.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from _campaign import Exactness, exact_campaign
from _draws import Draw, outcome_of
from _networks import random_graph

from multitree import LinkModel, Schedule, Topology, build, parse_topology, verify
from multitree.nic.driver.commands import DEPENDENCIES, FLOW_CONTROLS
from multitree.nic.driver.config import Config
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.timing.link_model import MemoryTiming
from multitree.sim.timing.sizing import config_for
from multitree.topology.collectives import Op
from multitree.topology.packing.modulo_schedule import modulo_schedule
from multitree.topology.packing.tree_packing import pack_trees

NETWORKS = ("ring:5", "mesh:2x3", "torus:3x3", "random", "torus:2x4", "mesh:4x3", "mesh:4x4")
NUM_RANDOM = 6
BUFFER_FLITS = (32, 100, 400)
KINDS = ("multitree", "packed", "ordinary")
ORDINARY = ("multitree", "bidirectional_ring")
NUM_COLLECTIVES = 4
MAX_SKEW_CYCLES = 10_000
MAX_ELEMENTS = 1500
MAX_WAVES = 40
MAX_LATENCY_NS = 150


@dataclass(frozen=True)
class Outcome(Exactness):
    waves: int = 0
    messages: int = 0


@cache
def network(spec: str, seed: int, latency_ns: int) -> Topology:
    """A family's network, or a connected graph of eight ranks with at most four links each."""
    rng = np.random.default_rng(seed)
    if spec == "random":
        topology = random_graph(lambda: (8, int(rng.integers(9, 14)), int(rng.integers(999))))
    else:
        topology = parse_topology(spec)
    return replace(topology, latency_ns=np.full(topology.num_links, float(latency_ns)))


@cache
def packed(topology: Topology, hop_slots: int) -> tuple[Schedule, int]:
    """One wave of packed trees by their timetable, and its period."""
    packing = pack_trees(topology)
    slots = modulo_schedule(packing, hop_slots)
    tree, rank = np.nonzero(packing.links >= 0)
    above, up = packing.parents[tree, rank], packing.links[tree, rank]
    reduces = [slots.reduce_slots[tree, rank], np.full(len(tree), Op.REDUCE), tree, rank, above]
    gathers = [slots.gather_slots[tree, rank], np.full(len(tree), Op.GATHER), tree, above, rank]
    schedule = Schedule.from_rows(
        topology,
        algorithm="packed",
        collective="all_reduce",
        flow_offsets=np.arange(packing.num_trees + 1),
        rows=np.concatenate([np.stack(reduces, 1), np.stack(gathers, 1)]),
        links=np.concatenate([up, topology.reverse[up]]),
    )
    return schedule, packing.period


ordinary = cache(build)


def draw_schedule(rng: np.random.Generator, topology: Topology, kind: str) -> Schedule:
    """A proved schedule: waves of a kind, or one of those without."""
    if kind == "ordinary":
        return ordinary(topology, str(rng.choice(ORDINARY[: 1 + (topology.name != "random")])))
    one, period = ordinary(topology, "multitree"), 1
    if kind == "packed":
        one, period = packed(topology, int(rng.integers(1, 5)))
    # As short as the links allow, shorter, or so long that no two waves are under way.
    periods = (period, int(rng.integers(1, one.num_steps + 1)), one.num_steps + 1)
    waves = int(rng.integers(2, MAX_WAVES + 1))
    schedule = replace(one, num_waves=waves, period=int(rng.choice(periods)))
    verify(schedule)
    return schedule


def draw(seed: int) -> Draw:
    rng = np.random.default_rng(seed)
    spec = NETWORKS[seed % len(NETWORKS)]
    topology = network(spec, seed % NUM_RANDOM, int(rng.integers(3, MAX_LATENCY_NS)))
    model = LinkModel(
        buffer_flits=int(rng.choice(BUFFER_FLITS)), flow_control=str(rng.choice(FLOW_CONTROLS))
    )
    kinds = [*rng.choice(KINDS[:2], 1), *rng.choice(KINDS, NUM_COLLECTIVES - 1)]
    queue = [
        Upcoming(
            draw_schedule(rng, topology, str(kind)),
            int(rng.integers(1, MAX_ELEMENTS)),
            str(rng.choice(["float32", "int32"])),
            str(rng.choice(["sum", "max"])),
            str(rng.choice(DEPENDENCIES)),
        )
        for kind in rng.permutation(kinds)
    ]
    timing = MemoryTiming(
        extra_cycles=int(rng.integers(60)), stall_percent=int(rng.integers(50)), seed=seed
    )
    most = int(rng.integers(MAX_SKEW_CYCLES + 1))
    skews = rng.integers(most + 1, size=topology.num_ranks).tolist()
    return Draw(seed, spec, queue, timing, skews, model)


def config_of(model: LinkModel) -> Config:
    """Interfaces for all networks: few are compiled, one for each size of link buffers."""
    return config_for(parse_topology("mesh:3x3"), model, num_waves=MAX_WAVES)


def run_once(seed: int, forward_flits: int = 0) -> Outcome:
    """Run one seed to its end; interfaces keep so many flits to forward them."""
    drawn = draw(seed)
    drawn = replace(drawn, model=replace(drawn.model, forward_flits=forward_flits))
    schedules = [each.schedule for each in drawn.queue]
    waves = sum(schedule.num_waves for schedule in schedules if schedule.num_waves > 1)
    messages = sum(schedule.num_waves * schedule.num_transfers for schedule in schedules)
    counts = {"waves": waves, "messages": messages}
    config = config_of(drawn.model)
    return outcome_of(drawn, Outcome, lambda session, traces: (counts, []), config=config)


def more_of(group: Sequence[Outcome]) -> dict[str, Any]:
    return {name: sum(getattr(each, name) for each in group) for name in ("waves", "messages")}


CAMPAIGN = exact_campaign(run_once, Outcome, NETWORKS, more_of, can_forward=True)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(__doc__, runs=200))
