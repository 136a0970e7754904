"""A slot for every transfer of a wave; the waves follow by a period."""

from dataclasses import dataclass, replace

import numpy as np

from multitree.topology.arrays import Int64Array, int64s
from multitree.topology.packing.modulo_search import ModuloSearch, OutwardPlan
from multitree.topology.packing.route_search import RouteSearch
from multitree.topology.packing.tree_packing import Packing

__all__ = ["ModuloSchedule", "has_slots", "modulo_schedule"]

MOVES_PER_TRANSFER, MOST_MOVES = 10, 150_000
ATTEMPTS, MORE_ATTEMPTS, QUICK = 3, 8, 10_000
"""More where one attempt has at most `QUICK` moves."""
FEW = 500
"""Transfers on routes, up to which one attempt does not tell."""


@dataclass(frozen=True, eq=False)
class ModuloSchedule:
    """When each transfer of a wave begins; wave w begins w periods later, on the same links."""

    packing: Packing
    hop_slots: Int64Array  # (num_links,)
    # Both (num_trees, num_ranks): the first slot of REDUCE from each rank to its parent, and of
    # GATHER from its parent to it; -1 for roots. The first of all is 0.
    reduce_slots: Int64Array
    gather_slots: Int64Array

    def __post_init__(self) -> None:
        for field in ("hop_slots", "reduce_slots", "gather_slots"):
            object.__setattr__(self, field, int64s(field.capitalize(), getattr(self, field)))

    @property
    def num_slots(self) -> int:
        """Slots from the first of a wave to its last, both included."""
        packing = self.packing
        tree, rank = np.nonzero(packing.links >= 0)
        up = packing.links[tree, rank]
        # A tree gathers after it has reduced, so the last slot of all is one of GATHER.
        ends = self.gather_slots[tree, rank] + packing.slots[packing.topology.reverse[up]]
        return int(ends.max())


def modulo_schedule(
    packing: Packing,
    hop_slots: int | Int64Array,
    *,
    routes: list[list[int]] | None = None,
    seed: int = 0,
) -> ModuloSchedule:
    """Slots by modulo list scheduling, then swaps on links; of some attempts the shortest.

    No link is held twice at the same slot modulo the period. What depends on a transfer over a link
    begins `hop_slots`, of every link or of each, after the last slot that the link is held for it:
    right behind it for 1. With `routes`, all real links that each link holds, the period may be
    longer, if no slots are found in that of the packing. Mesh 8x8 with 16 trees takes 0.2 CPU s;
    the same seed gives the same slots.
    """
    hops = np.array(np.broadcast_to(hop_slots, (packing.topology.num_links,)))
    if hops.min() < 1:
        raise ValueError(f"Slots of a hop must be at least 1, not {hops.min()}")
    if routes is not None:
        return _on_routes(packing, hops, routes, seed)
    moves = min(MOVES_PER_TRANSFER * 2 * packing.links.size, MOST_MOVES)
    rows = _Rows(packing, hops)
    found = []
    for attempt in range(MORE_ATTEMPTS if moves <= QUICK else ATTEMPTS):
        # All roots have their turn at once, but in every fourth attempt: then over a period.
        turns = np.arange(packing.num_trees) * packing.period // packing.num_trees
        turns *= attempt % 4 == 3
        search = ModuloSearch(rows.outward(turns), seed + attempt)
        search.improve(moves)
        found.append(rows.compacted(rows.starts(search.time)))
    return min(found, key=lambda table: table.num_slots)


def has_slots(packing: Packing, routes: list[list[int]]) -> bool:
    """Whether slots are found within the period, with no link of any route held twice."""
    # Conflicts depend on slots modulo the period alone, so the length of hops does not matter.
    rows = _Rows(packing, np.ones(packing.topology.num_links, np.int64))
    plan = rows.outward(np.zeros(packing.num_trees, np.int64))
    holds = [routes[link] for link in plan.link]
    attempts = ATTEMPTS if len(holds) <= FEW else 1
    return any(RouteSearch(plan, holds, seed).is_conflict_free for seed in range(attempts))


def _on_routes(
    packing: Packing, hops: Int64Array, routes: list[list[int]], seed: int
) -> ModuloSchedule:
    at_once = np.zeros(packing.num_trees, np.int64)
    # Contributions to a sum come one by one, also over different links: who comes early holds
    # links of its whole route. This ends: with as many slots as all transfers hold together no
    # two have to meet.
    while True:
        rows = _Rows(packing, hops)
        for attempt in range(ATTEMPTS):
            plan = rows.outward(at_once)
            search = RouteSearch(plan, [routes[link] for link in plan.link], seed + attempt)
            if search.is_conflict_free:
                return rows.compacted(rows.starts(search.time), one_by_one=True)
        packing = replace(packing, period=packing.period + 1)


class _Rows:
    """REDUCE, then GATHER transfers of all trees: those of a tree from the root outwards."""

    def __init__(self, packing: Packing, hops: Int64Array) -> None:
        self._packing, self._hops = packing, hops
        tree, rank = np.nonzero(packing.links >= 0)
        depth = _depths(packing)[tree, rank]
        # Parents come before their children: loops over rows rely on it, in either direction.
        order = np.lexsort((rank, depth, tree))
        self.tree, self.rank = tree[order], rank[order]
        place = np.full(packing.links.shape, -1)
        place[self.tree, self.rank] = np.arange(len(order))
        # Roots have no row, so `above` is -1 for their children.
        above = place[self.tree, packing.parents[self.tree, self.rank]]
        self._above = above
        up = packing.links[self.tree, self.rank]
        self.links = np.stack([up, packing.topology.reverse[up]])
        self._slots = packing.slots[up]

    def outward(self, turns: Int64Array) -> OutwardPlan:
        """The plan of a search where trees have their turns at the root at such slots."""
        num = len(self.tree)
        held_above = np.where(self._above >= 0, self._slots[self._above] - 1, 0)
        turn = np.where(self._above >= 0, 0, turns[self.tree])
        # A REDUCE at outward time t ends in slot -t, so its
        # parent's rule is t >= t_parent + slots_parent - 1 + hop.
        inwards = held_above + self._hops[self.links[0]] - turn
        hop_above = np.where(self._above >= 0, self._hops[self.links[1][self._above]], 0)
        lag = np.concatenate([inwards, held_above + hop_above + turn])
        above = np.concatenate([self._above, np.where(self._above >= 0, self._above + num, -1)])
        links, slots = self.links.ravel(), np.tile(self._slots, 2)
        is_reduce = [True] * num + [False] * num
        lists = (above.tolist(), lag.tolist(), links.tolist(), slots.tolist())
        return OutwardPlan(
            self._packing.period, self._packing.topology.num_links, is_reduce, *lists
        )

    def starts(self, time: list[int]) -> Int64Array:
        """First slots, int64 (2, num_rows), of outward times."""
        reduce_time, gather_time = np.array(time, np.int64).reshape(2, -1)
        return np.stack([1 - self._slots - reduce_time, gather_time])

    def compacted(self, starts: Int64Array, *, one_by_one: bool = False) -> ModuloSchedule:
        """The same slots of the period, but every transfer as early as those before it allow.

        The first slot of all is tried at each slot of the period. What adds to a sum goes one by
        one if asked for: a period later, where another one is at it.
        """
        period = self._packing.period
        # Links see residues only, so dropping whole periods causes no conflict.
        residue = starts % period
        # One column for each slot of the period in which the first transfer may be ready.
        phases = np.arange(period)
        num = len(self.tree)
        above = self._above.tolist()
        ready = np.tile(phases, (num, 1))
        root_ready = np.tile(phases, (self._packing.num_trees, 1))
        slots, hops = self._slots, self._hops[self.links]
        siblings_of: dict[tuple[int, int], list[tuple[Int64Array, int]]] = {}
        reduce_at, gather_at = np.empty((num, period), np.int64), np.empty((num, period), np.int64)
        for row in range(num - 1, -1, -1):
            at = ready[row] + (residue[0, row] - ready[row]) % period
            # Each sibling's slots, and how many it holds.
            siblings = siblings_of.setdefault((int(self.tree[row]), above[row]), [])
            # any() ends at the first sibling that is met: the body uses the overlaps with that one.
            while one_by_one and any(
                (overlaps := (at < other + held) & (other < at + slots[row])).any()
                for other, held in siblings
            ):
                at = np.where(overlaps, at + period, at)
            siblings.append((at, int(slots[row])))
            reduce_at[row] = at
            goal = ready[above[row]] if above[row] >= 0 else root_ready[self.tree[row]]
            np.maximum(goal, at + slots[row] - 1 + hops[0, row], out=goal)
        for row in range(num):
            up = above[row]
            free = root_ready[self.tree[row]]
            if up >= 0:
                free = gather_at[up] + slots[up] - 1 + hops[1, up]
            gather_at[row] = free + (residue[1, row] - free) % period
        best = int(((gather_at + slots[:, None]).max(axis=0) - reduce_at.min(axis=0)).argmin())
        first = reduce_at[:, best].min()
        tables = np.full((2, *self._packing.links.shape), -1, np.int64)
        tables[0, self.tree, self.rank] = reduce_at[:, best] - first
        tables[1, self.tree, self.rank] = gather_at[:, best] - first
        return ModuloSchedule(self._packing, self._hops, *tables)


def _depths(packing: Packing) -> Int64Array:
    """Links between each rank and its root, int64 (num_trees, num_ranks)."""
    depth = np.zeros(packing.links.shape, np.int64)
    at = np.tile(np.arange(packing.topology.num_ranks), (packing.num_trees, 1))
    trees = np.arange(packing.num_trees)[:, None]
    for _ in range(int(packing.heights.max())):
        above = packing.parents[trees, at]
        depth += above >= 0
        at = np.where(above >= 0, above, at)
    return depth
