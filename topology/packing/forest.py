"""Forests: packed trees that reduce one wave while they gather another one."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Int64Array, positions_in_group
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.errors import ScheduleError
from multitree.topology.lowering import unrolled
from multitree.topology.networks.cost_model import CostModel, usual_cost_model
from multitree.topology.networks.topology import Topology
from multitree.topology.packing.modulo_schedule import ModuloSchedule, modulo_schedule
from multitree.topology.packing.switch_packing import OverlayLinks, pack_over_switches
from multitree.topology.packing.tree_packing import Packing, pack_trees, rerooted
from multitree.topology.schedules.schedule import Schedule
from multitree.topology.schedules.trees import sibling_groups

__all__ = ["MOST_WAVES", "build_forest", "common_root", "in_waves"]

MOST_WAVES = 512
"""Waves that interfaces tell apart, with memory for buffers of 1 GiB."""
MOST_HOP_SLOTS = 6
SLACK = 1.3
"""Of a hop's time: a contribution may wait for others, and late ones make others late."""
MOST_FILL = 0.02
"""Of all waves' time, what the last one may take longer than others, where that can be helped."""
MOST_FLOWS = 64
"""Up to which waves are written out as flows, where interfaces cannot tell so many apart."""


class _Waves(NamedTuple):
    """Cycles by a modulo schedule for the number of waves for which they are fewest.

    Every wave of the schedule is `copies` of those of the modulo schedule, with flows of their own.
    """

    cycles: float
    num_waves: int
    copies: int


class _Candidate(NamedTuple):
    """A modulo schedule, and chunks in as many waves as suit it; also overlay links, if any."""

    waves: _Waves
    modulo_schedule: ModuloSchedule
    overlay_links: OverlayLinks | None

    @property
    def fill(self) -> float:
        """What the last wave takes longer than others, of all time; 0 where more waves help."""
        if self.waves.num_waves < MOST_WAVES:
            return 0.0
        period = self.modulo_schedule.packing.period
        behind = self.modulo_schedule.num_slots - period
        return behind / (behind + self.waves.num_waves * period)


def build_forest(
    topology: Topology, *, roots: Sequence[int] | None = None, cost_model: CostModel | None = None
) -> Schedule:
    """Pack spanning trees that load all links alike, and run them in waves by a modulo schedule.

    Each tree sums an equal part of the buffer towards its root and spreads it from there, by the
    same links in turn, so that large buffers take hardly more than the bandwidth bound
    (Nash-Williams, Tutte, see `worst_partition`). The number of waves, and the slots of a hop, suit
    `cost_model`; any other is right, too. With switches an edge is a route, and it takes lockstep
    to keep slots. All trees have the one root of `roots`, or each where it is least high. A
    ScheduleError says that roots differ, or there is no tree.
    """
    at = common_root(topology, "forest", roots)
    overlay_links: OverlayLinks | None = None
    if topology.num_switches:
        packing, overlay_links = pack_over_switches(topology)
    else:
        packing = pack_trees(topology)
    if at is not None:
        packing = rerooted(packing, at)
    return in_waves(topology, packing, "forest", cost_model, overlay_links)


def common_root(topology: Topology, algorithm: str, roots: Sequence[int] | None) -> int | None:
    """The one rank of `roots`, at which all trees are to be rooted; None where each has its own."""
    if roots is None:
        return None
    at = set(chosen_roots(roots, topology.num_ranks))
    if len(at) > 1:
        raise ScheduleError(f"{topology.name!r}: {algorithm} must have one root, not {sorted(at)}")
    return at.pop()


def in_waves(
    topology: Topology,
    packing: Packing,
    algorithm: str,
    cost_model: CostModel | None = None,
    overlay_links: OverlayLinks | None = None,
) -> Schedule:
    """Run packed trees in waves, by the modulo schedule and the number of waves that suit a size.

    The packing is on the topology, or on the network of `overlay_links` where its links are routes.
    Without `cost_model` it is `usual_cost_model`.
    """
    cost_model = cost_model or usual_cost_model(topology)
    # An empty buffer has messages without payload; what suits one flit suits these.
    cost_model = cost_model._replace(num_flits=max(cost_model.num_flits, 1))
    made: dict[bytes, ModuloSchedule] = {}
    best = _best_candidate(packing, overlay_links, cost_model, 1, made)
    most_copies = MOST_FLOWS // packing.num_trees
    if best.fill > MOST_FILL and most_copies > 1:
        # Interfaces tell no more waves apart: so have several of them in one, for shorter chunks.
        more = _best_candidate(packing, overlay_links, cost_model, most_copies, made)
        best = more if more.waves.cycles < best.waves.cycles else best
    return _schedule(topology, algorithm, best)


def _best_candidate(
    packing: Packing,
    overlay_links: OverlayLinks | None,
    cost_model: CostModel,
    most_copies: int,
    made: dict[bytes, ModuloSchedule],
) -> _Candidate:
    """The candidate that takes the fewest cycles, by hops of one slot, two and so on.

    `made` keeps modulo schedules by the slots of hops.
    """
    best: _Candidate | None = None
    cost_model, routes = (
        (cost_model, None)
        if overlay_links is None
        else (overlay_links.cost_model_of_routes(cost_model), overlay_links.routes)
    )
    for hop in range(1, MOST_HOP_SLOTS + 1):
        chunk = min(
            _least_chunk(packing, cost_model, hop), cost_model.num_flits / packing.num_trees
        )
        slots = _hop_slots(packing, cost_model, chunk)
        # No modulo schedule is shorter than the path up the highest tree and down again.
        shortest = 2 * int(packing.heights.max() * slots[packing.link_loads > 0].min())
        least = _times(packing, cost_model, chunk, shortest, most_copies)
        # Not a break: longer hops allow shorter chunks, so a later one may still take fewer cycles.
        if best is not None and least.cycles >= best.waves.cycles:
            continue
        # The search is what takes long. Arrays cannot be keys of a dict, their bytes can.
        if slots.tobytes() not in made:
            made[slots.tobytes()] = modulo_schedule(packing, slots, routes=routes)
        modulo = made[slots.tobytes()]
        waves = _times(modulo.packing, cost_model, chunk, modulo.num_slots, most_copies)
        if best is None or waves.cycles < best.waves.cycles:
            best = _Candidate(waves, modulo, overlay_links)
    assert best is not None, "one slot is tried first"
    return best


def _slot_cycles(packing: Packing, cost_model: CostModel, chunk: float) -> float:
    used = packing.link_loads > 0
    cycles = (chunk + cost_model.message_cycles) * cost_model.cycles_per_flit / packing.slots
    return float(cycles[used].max())


def _hop_slots(packing: Packing, cost_model: CostModel, chunk: float) -> Int64Array:
    """Slots from the last one that a link is held to what depends on it."""
    part = chunk if cost_model.part_flits is None else min(cost_model.part_flits, chunk)
    cycles = cost_model.latency_cycles + (part + 1) * cost_model.cycles_per_flit
    # A hop's time runs from the first slot of the hold; `hop_slots` count from its last.
    slots = np.ceil(SLACK * cycles / _slot_cycles(packing, cost_model, chunk)) - (packing.slots - 1)
    # A link that no tree takes holds nothing up, however slow it is.
    used = packing.link_loads > 0
    return np.where(used, np.maximum(slots, 1), 1).astype(np.int64)


def _least_chunk(packing: Packing, cost_model: CostModel, hop: int) -> int:
    """The shortest chunk, in flits, whose hops take no more than so many slots."""
    low, high = 1, 2
    while (_hop_slots(packing, cost_model, high) > hop).any():
        low, high = high, 2 * high
        if high > cost_model.num_flits:
            return high
    while low < high:
        middle = (low + high) // 2
        if (_hop_slots(packing, cost_model, middle) > hop).any():
            low = middle + 1
        else:
            high = middle
    return low


def _times(
    packing: Packing, cost_model: CostModel, least: float, num_slots: int, most_copies: int
) -> _Waves:
    each = cost_model.num_flits / packing.num_trees
    behind = max(num_slots - packing.period, 1)
    # The square root minimises (each / chunk x period + behind) x (chunk + message_cycles).
    chunk = max(math.sqrt(each * packing.period * cost_model.message_cycles / behind), least)
    # Rounded down: a chunk that is too short would not give hops their time.
    wanted = max(math.floor(each / chunk), 1)
    copies = min(-(-wanted // MOST_WAVES), most_copies)
    num_waves = min(wanted // copies, MOST_WAVES)
    slot = _slot_cycles(packing, cost_model, each / (num_waves * copies))
    cycles = ((num_waves * copies - 1) * packing.period + num_slots) * slot
    return _Waves(cycles, num_waves, copies)


def _schedule(topology: Topology, algorithm: str, best: _Candidate) -> Schedule:
    modulo, overlay_links = best.modulo_schedule, best.overlay_links
    packing = modulo.packing
    tree, rank = np.nonzero(packing.links >= 0)
    up, parent = packing.links[tree, rank], packing.parents[tree, rank]
    reduces = (modulo.reduce_slots[tree, rank], np.full_like(tree, Op.REDUCE), tree, rank, parent)
    gathers = (modulo.gather_slots[tree, rank], np.full_like(tree, Op.GATHER), tree, parent, rank)
    links = np.concatenate([up, packing.topology.reverse[up]])
    schedule = Schedule.from_rows(
        topology,
        algorithm=algorithm,
        collective="all_reduce",
        flow_offsets=np.arange(packing.num_trees + 1),
        rows=np.concatenate([np.stack(rows, axis=1) for rows in (reduces, gathers)]),
        links=links if overlay_links is None else None,
        routes=overlay_links and overlay_links.chosen(links),
    )
    shape = (topology.num_ranks, packing.num_trees)
    siblings = sibling_groups(*shape, schedule.step, schedule.flow, schedule.dst)
    # Siblings of one slot are added by source, so that of two ports none waits for the other in one
    # flow and lets it wait in the next, which would add up around a period. Rows ascend by (step,
    # flow, src, dst), so positions in a group are by source.
    order = np.where(schedule.op == Op.REDUCE, positions_in_group(siblings), 0)
    _, num_waves, copies = best.waves
    # The copies become flows of one wave; waves then follow each other by all their periods.
    wave = unrolled(replace(schedule, order=order, num_waves=copies), period=packing.period)
    period = packing.period * copies if num_waves > 1 else 1
    return replace(wave, num_waves=num_waves, period=period)
