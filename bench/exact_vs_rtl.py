"""The exact engine against RTL: every row of random cases, cycle by cycle.

Each run draws a network, links of unequal speed and length, a schedule, a size, modes, memory and
starts; both engines time it, and the analytic one. Exit status 1 unless all rows' sent
and arrived cycles, all starts and interrupts, all links' flits, and the RTL's bits are equal:
``python bench/exact_vs_rtl.py --runs 300``; one run again: ``--only SEED``. Seeds from 300 on draw
what is rarer: other flits and clocks, rings below memory, `tto`, no flits, and networks that are
relabelled, with parallel and lost links, gaps of ports, two classes a link, or of some ranks.
"""

import hashlib
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from _campaign import Exactness, exact_campaign
from _networks import CHANGES, MOST_LATENCY_NS, SHARED_CHANGES, Change, unequal, varied
from switched_campaign import recast
from wave_campaign import MAX_WAVES, draw_schedule, network

from multitree import LinkModel, Schedule, ScheduleError, Topology, Trace, build, exact, execute
from multitree.host.runner import make_buffers
from multitree.nic.driver.commands import DEPENDENCIES, FLOW_CONTROLS
from multitree.sim.analytic.engine import analytic
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.inputs import shares_links
from multitree.sim.timing.sizing import least_sizes
from multitree.topology.lowering import lowered

__all__ = ["Case", "Outcome", "compare", "differences", "digest_of", "draw"]

MOST_FLITS, MOST_SKEW_CYCLES = 2500, 1500
CLOCKS_GHZ = (0.5, 1.0, 1.25, 3.0)
PLANES = "planes"
COLLECTIVES = ("all_reduce",) * 4 + ("reduce_scatter", "all_gather", "broadcast", "reduce")


@dataclass(frozen=True)
class Kind:
    """Cases whose interfaces are compiled once, for a model."""

    name: str
    specs: tuple[str, ...]
    algorithms: tuple[str, ...]
    model: LinkModel
    waves: bool = False
    memory_cycles: tuple[int, int] = (1, 22)  # of reads and of writes, the second not reached
    # What else is drawn: the clock, no flits, changes of the network, classes.
    changes: tuple[Change, ...] = ()


_PRIVATE = ("torus:4x4", "mesh:3x4", "mesh:2x4", "torus:3x4", "random")
_TREES = ("multitree", "bidirectional_ring")
_FAR = ("double_tree", "halving_doubling")
_SMALL = {"buffer_flits": 40, "submessage_flits": 8}
KINDS = (
    Kind("private", _PRIVATE, _TREES, LinkModel(buffer_flits=512)),
    Kind("private, small", _PRIVATE, _TREES, LinkModel(**_SMALL, add_cycles=5)),
    Kind("waves", _PRIVATE, _TREES, LinkModel(buffer_flits=100), waves=True),
    Kind("forwarding", _PRIVATE, _TREES, LinkModel(buffer_flits=512, forward_flits=32)),
    Kind(
        "forwarding, small", _PRIVATE, _TREES, LinkModel(**_SMALL, forward_flits=64, add_cycles=6)
    ),
    Kind("forwarding waves", _PRIVATE, _TREES, LinkModel(buffer_flits=64, forward_flits=32), True),
    Kind("switches", ("fat_tree:4x4", PLANES), (*_FAR, *_TREES), LinkModel(buffer_flits=512)),
    Kind("switches, small", ("bigraph:4x8",), (*_FAR, *_TREES), LinkModel(**_SMALL, add_cycles=6)),
    Kind(
        "attached routers", ("torus:3x3", "torus:4x4"), (*_FAR, "swing"), LinkModel(buffer_flits=64)
    ),
)
_ANY = ("torus:3x3", "mesh:2x4", "ring:5", "full:4", "hypercube:3", "random")
_SOME = ("fat_tree:2x2", "kary_tree:2x3", PLANES, *_ANY)
_BELOW = LinkModel(buffer_flits=64, forward_flits=32)
_THREE = ("mesh:3x3", "mesh:3x4", "mesh:4x4")
_FAR_MEMORY = (60, 110)
RARE_SEED = 300
RARE = (
    Kind("rings below memory", _ANY, ("multitree",), _BELOW, False, _FAR_MEMORY, CHANGES),
    Kind("rings below, waves", _ANY, ("multitree",), _BELOW, True, _FAR_MEMORY, CHANGES),
    Kind("three trees", _THREE, ("tto",), LinkModel(buffer_flits=100), changes=CHANGES[-2:]),
    Kind(
        "flits of 8 bytes",
        _ANY,
        ("multitree",),
        LinkModel(flit_bytes=8, buffer_flits=64),
        changes=CHANGES,
    ),
    Kind(
        "flits of 64 bytes",
        _ANY,
        ("multitree",),
        LinkModel(flit_bytes=64, buffer_flits=64, forward_flits=64),
        changes=CHANGES,
    ),
    Kind(
        "some ranks, two classes",
        _SOME,
        ("double_tree", "multitree"),
        LinkModel(flit_bytes=32, buffer_flits=64),
        changes=SHARED_CHANGES,
    ),
)
"""Kinds of the seeds from `RARE_SEED` on; those before have the others."""


@dataclass(frozen=True)
class Case:
    kind: str
    schedule: Schedule
    num_flits: int
    model: LinkModel
    lockstep: bool
    skews: list[int]


@dataclass(frozen=True)
class Outcome(Exactness):
    """What became of a run: rows compared, and the most cycles that something is off."""

    digest: str = ""
    rows: int = 0
    most_off: int = 0
    analytic_error: float = 0.0


def draw(seed: int) -> Case:
    rng, kind = np.random.default_rng(seed), kind_of(seed)
    spec = str(rng.choice(kind.specs))
    topology = _network(spec, int(rng.integers(6)), int(rng.integers(1, MOST_LATENCY_NS)))
    if kind.changes:
        topology = varied(rng, topology, kind.changes)
    elif rng.integers(2):
        topology = unequal(rng, topology)
    if kind.waves:
        schedule = draw_schedule(rng, topology, str(rng.choice(["multitree", "packed"])))
    else:
        # A ring over a graph's ranks may lead through others.
        algorithms = kind.algorithms[:1] if spec == "random" else kind.algorithms
        algorithms = ("direct", "multitree") if spec == PLANES else algorithms
        schedule = _build(rng, topology, str(rng.choice(algorithms)))
    shared, model = shares_links(schedule), kind.model
    model = replace(
        model,
        dependency=DEPENDENCIES[0] if shared else str(rng.choice(DEPENDENCIES)),
        flow_control=FLOW_CONTROLS[0] if shared else str(rng.choice(FLOW_CONTROLS)),
        memory_read_cycles=int(rng.integers(*kind.memory_cycles)),
        memory_write_cycles=int(rng.integers(*kind.memory_cycles)),
    )
    most = int(rng.integers(MOST_SKEW_CYCLES)) * int(rng.integers(2))
    skews = rng.integers(most + 1, size=topology.num_ranks).tolist()
    flits = int(rng.integers(1, MOST_FLITS)) if rng.integers(4) else int(rng.integers(1, 40))
    flits = max(flits // (MAX_WAVES if kind.waves else schedule.num_waves), 1)
    flits *= schedule.num_waves
    lockstep = schedule.num_waves == 1 and not rng.integers(4)
    if kind.changes:
        schedule = recast(rng, schedule) if shared else schedule
        model = replace(model, clock_ghz=float(rng.choice(CLOCKS_GHZ)))
        flits *= int(rng.integers(8) > 0)
    return Case(kind.name, schedule, flits, model, bool(lockstep), skews)


def kind_of(seed: int) -> Kind:
    kinds, number = (KINDS, seed) if seed < RARE_SEED else (RARE, seed - RARE_SEED)
    return kinds[number % len(kinds)]


def _network(spec: str, seed: int, latency_ns: int) -> Topology:
    """A network; by `PLANES` eight ranks on two switches, where contributions follow closely."""
    if spec != PLANES:
        return network(spec, seed, latency_ns)
    pairs = [(rank, 8 + plane) for rank in range(8) for plane in range(2)]
    links = [ends for a, b in pairs for ends in ((a, b), (b, a))]
    return Topology(PLANES, 8, 2, links, 16.0, float(latency_ns))


def _build(rng: np.random.Generator, topology: Topology, algorithm: str) -> Schedule:
    """A schedule of some collective; an all-reduce, or double trees, where there is no such."""
    collective = str(rng.choice(COLLECTIVES))
    root = int(rng.integers(topology.num_ranks)) if collective in ("broadcast", "reduce") else None
    for asked in ((algorithm, collective, root), (algorithm,)):
        with suppress(ScheduleError):
            return build(topology, *asked)
    return build(topology, "double_tree")


def compare(case: Case) -> tuple[Trace, Trace, bool]:
    """What the RTL does, what the exact engine says, and whether the RTL's bits are right."""
    schedule, model = case.schedule, case.model
    elements = case.num_flits * model.flit_bytes // 4
    sizes = least_sizes(schedule, case.num_flits, lockstep=case.lockstep)
    buffers = make_buffers(1, schedule.topology.num_ranks, elements, "float32")
    network_of = lowered(schedule).topology
    with RtlSession(network_of, link_model=model, num_threads=1, **sizes) as session:
        run = session.run(schedule, [buffers], lockstep=case.lockstep, start_skew_cycles=case.skews)
    ((memory, trace),) = run
    wanted = execute(schedule, buffers, flit_bytes=model.flit_bytes)
    modes = {"lockstep": case.lockstep, "start": case.skews}
    found = exact(schedule, case.num_flits, model, **modes)
    return trace, found, memory.tobytes() == wanted.tobytes()


def differences(one: Trace, other: Trace) -> dict[str, int]:
    """The most that two traces differ, by the name of what does."""
    arrays = [f.name for f in fields(Trace) if isinstance(getattr(one, f.name), np.ndarray)]
    return {
        name: int(np.abs(getattr(one, name) - getattr(other, name)).max(initial=0))
        for name in arrays
    }


def digest_of(trace: Trace) -> str:
    """Hash of all cycles and flits of a trace, 32 hex digits."""
    digest = hashlib.sha256()
    for field in fields(Trace):
        value = getattr(trace, field.name)
        if isinstance(value, np.ndarray):
            digest.update(np.ascontiguousarray(value, "<i8").tobytes())
    return digest.hexdigest()[:32]


def run_once(seed: int) -> Outcome:
    begin, case = time.process_time(), draw(seed)
    rtl, found, is_right = compare(case)
    modes = {"lockstep": case.lockstep, "start": case.skews}
    predicted = analytic(case.schedule, case.num_flits, case.model, **modes).cycles
    off = {name: most for name, most in differences(rtl, found).items() if most}
    off |= {} if is_right else {"wrong bits": 1}
    topology = case.schedule.topology.name
    text = f"{case.schedule.algorithm} on {topology}, {case.num_flits} flits: {off}" if off else ""
    return Outcome(
        seed,
        case.kind,
        not off,
        text,
        rtl.cycles,
        time.process_time() - begin,
        digest=digest_of(rtl),
        rows=rtl.sent.size,
        most_off=max(off.values(), default=0),
        analytic_error=abs(predicted / rtl.cycles - 1),
    )


def more_of(group: Sequence[Outcome]) -> dict[str, Any]:
    """Rows of some outcomes, and how far both engines are off."""
    errors = [each.analytic_error for each in group]
    return {
        "rows": sum(each.rows for each in group),
        "most_off": max((each.most_off for each in group), default=0),
        "analytic_most_share": max(errors, default=None),
        "analytic_mean_share": sum(errors) / len(errors) if errors else None,
    }


CAMPAIGN = exact_campaign(run_once, Outcome, [kind.name for kind in (*KINDS, *RARE)], more_of)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(__doc__, runs=300))
