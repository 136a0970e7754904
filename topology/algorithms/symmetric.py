"""Symmetric schedules: one tree of shortest paths, translated to every rank."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from multitree.topology.arrays import BoolArray, Int32Array, Int64Array, int32s
from multitree.topology.checks.implicit import ImplicitSchedule
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.networks.bounds import link_occupancy
from multitree.topology.networks.topology import Topology
from multitree.topology.networks.translations import Translations, translations_of
from multitree.topology.schedules.schedule import Schedule
from multitree.topology.schedules.trees import SMALL_CHUNKS, Journeys, expected_order

__all__ = [
    "build_symmetric",
    "grow_symmetric_tree",
    "implicit_symmetric",
]

Tree = tuple[Int32Array, Int32Array]


def grow_symmetric_tree(group: Translations, slots: Int64Array, *, level: bool) -> Tree:
    """Grow a tree of shortest paths that uses each direction at most once at a time.

    Nearer ranks come first. Which direction each rank is reached by is shared out first, distance
    by distance, so that all directions are in use equally long, and once more at the end if
    `level`; then, slot by slot, every free direction is matched with a rank that it leads to.
    Returns when each element's chunk begins to be sent to it and by which direction, int32
    (num_ranks,), -1 for the root. O(num_ranks x num_directions) but for the matching, which adds a
    search along alternating paths where a direction stands idle: 0.01 s for 32x32, 0.4 s for
    256x256.
    """
    ahead = group.plus(np.arange(len(group.element))[:, None], group.moves[None, :])
    distance, reached_by = _shortest_paths(group, ahead)
    shares = _shares(distance, reached_by, slots, level)
    growth = _Growth(ahead.tolist(), distance.tolist(), slots.tolist(), *shares)
    while growth.num_left:
        growth.step()
    return int32s("Slots", growth.slot), int32s("Directions", growth.direction)


def _shortest_paths(group: Translations, ahead: Int32Array) -> tuple[Int32Array, BoolArray]:
    """Hops from element 0 to each, and by which directions each is reached on a shortest path."""
    distance = np.full(len(ahead), -1, np.int32)
    distance[0], front, hops = 0, np.zeros(1, np.int32), 0
    while front.size:
        hops += 1
        around = np.unique(ahead[front])
        front = around[distance[around] < 0]
        distance[front] = hops
    # A direction reaches an element on a shortest path if it comes from one that is a hop nearer.
    behind = group.minus(np.arange(len(ahead))[:, None], group.moves[None, :])
    return distance, distance[behind] == distance[:, None] - 1


def _shares(
    distance: Int32Array, reached_by: BoolArray, slots: Int64Array, level: bool
) -> tuple[list[int], list[list[int]]]:
    """Each element's kind, equal for those alike, and of each kind how many by each direction."""
    kind = np.full(len(distance), -1, np.int64)
    shares: list[list[int]] = []
    busy = np.zeros(len(slots), np.int64)
    by_distance = np.argsort(distance, kind="stable")
    ends = np.searchsorted(distance[by_distance], np.arange(1, distance.max() + 2))
    for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        elements = by_distance[first:last]
        # Elements at one distance with the same directions
        # are interchangeable: they count as one kind.
        allowed, which, counts = np.unique(
            reached_by[elements], axis=0, return_inverse=True, return_counts=True
        )
        # With `axis`, NumPy 2.0 gives the inverse one
        # more dimension than other releases: hence ravel.
        kind[elements] = len(shares) + which.ravel()
        shares += _balanced(allowed, counts, busy, slots, level).tolist()
    return kind.tolist(), shares


def _balanced(
    allowed: BoolArray, counts: Int64Array, busy: Int64Array, slots: Int64Array, level: bool
) -> Int64Array:
    """Share elements of each kind out over their directions; `busy` grows by what is given.

    First to the least busy one, kinds with the fewest directions first; then, to level them, moved
    along paths from the busiest directions to the least busy ones, as long as there are any.
    """
    shares = np.zeros(allowed.shape, np.int64)
    for kind in np.argsort(allowed.sum(axis=1), kind="stable").tolist():
        directions = np.flatnonzero(allowed[kind])
        for _ in range(int(counts[kind])):
            direction = directions[np.argmin(busy[directions] + slots[directions])]
            shares[kind, direction] += 1
            busy[direction] += slots[direction]
    while level and any(
        _moved_on(allowed, shares, busy, slots, direction)
        for direction in np.argsort(-busy, kind="stable").tolist()
    ):
        pass
    return shares


def _moved_on(
    allowed: BoolArray, shares: Int64Array, busy: Int64Array, slots: Int64Array, start: int
) -> bool:
    """Move one element from a direction to a less busy one, through others; False if none is."""
    # No direction could take an element over and still be less busy than this one.
    if busy[start] - busy.min() <= slots.min():
        return False
    came: dict[int, int] = {start: start}
    queue = [start]
    # An augmenting path: each direction on it gives an element to the next one.
    for direction in queue:
        for other in np.flatnonzero(allowed[shares[:, direction] > 0].any(axis=0)).tolist():
            if other in came:
                continue
            came[other] = direction
            queue.append(other)
            if busy[other] + slots[other] < busy[start]:
                busy[start] -= slots[start]
                busy[other] += slots[other]
                while other != start:
                    direction = came[other]
                    kind = np.flatnonzero((shares[:, direction] > 0) & allowed[:, other])[0]
                    shares[kind, direction] -= 1
                    shares[kind, other] += 1
                    other = direction
                return True
    return False


class _Growth:
    """A tree while it grows, slot by slot."""

    def __init__(
        self,
        ahead: list[list[int]],
        distance: list[int],
        slots: list[int],
        kind: list[int],
        shares: list[list[int]],
    ) -> None:
        self.slot = [-1] * len(ahead)
        self.direction = [-1] * len(ahead)
        self.num_left = len(ahead) - 1
        self._ahead, self._distance, self._slots = ahead, distance, slots
        self._now = 0
        self._free_at = [0] * len(slots)
        self._joining: dict[int, list[int]] = {0: [0]}
        self._ready: list[list[int]] = [[] for _ in slots]
        self._kind, self._shares = kind, shares

    def step(self) -> None:
        """One slot: let those join whose chunk is there, and send as many as can be."""
        for member in self._joining.pop(self._now, ()):
            self._open_links_from(member)
        free = [way for way, until in enumerate(self._free_at) if until <= self._now]
        for element, way in self._matched(free).items():
            self.slot[element], self.direction[element] = self._now, way
            self._free_at[way] = self._now + self._slots[way]
            self._joining.setdefault(self._free_at[way], []).append(element)
            self._take_share(self._kind[element], way)
            self.num_left -= 1
        self._now += 1

    def _open_links_from(self, member: int) -> None:
        farther = self._distance[member] + 1
        for way, element in enumerate(self._ahead[member]):
            if self._distance[element] == farther:
                self._ready[way].append(element)

    def _matched(self, free: list[int]) -> dict[int, int]:
        """Which of the free directions reaches which element, as many of them as can."""
        taken: dict[int, int] = {}
        for way in free:
            ready = [element for element in self._ready[way] if self.direction[element] < 0]
            self._ready[way] = ready
            for element in ready:
                if element not in taken and self._shares[self._kind[element]][way] > 0:
                    taken[element] = way
                    break
        # Matching by augmenting paths (Kuhn). It ignores
        # shares: an idle direction would cost a slot.
        used = set(taken.values())
        for way in free:
            if way not in used:
                _augment(way, self._ready.__getitem__, taken, set())
        return taken

    def _take_share(self, kind: int, way: int) -> None:
        shares = self._shares[kind]
        # The matching went beyond a share: another direction, the one with most left, gives one up.
        if shares[way] <= 0:
            way = max(range(len(shares)), key=shares.__getitem__)
        shares[way] -= 1


def _augment(
    way: int, ready: Callable[[int], list[int]], taken: dict[int, int], seen: set[int]
) -> bool:
    """Give an idle direction an element, if need be by giving others another one."""
    for element in ready(way):
        if element not in seen:
            seen.add(element)
            if element not in taken or _augment(taken[element], ready, taken, seen):
                taken[element] = way
                return True
    return False


MOST_TURNS = 8
"""Of 240 networks that were tried, 236 reach the bound with the first, and all with the second."""


def build_symmetric(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the all-reduce of one tree translated to every rank, written out."""
    implicit = implicit_symmetric(topology)
    return implicit.schedule(chosen_roots(roots, topology.num_ranks))


def implicit_symmetric(topology: Topology) -> ImplicitSchedule:
    """Build the all-reduce of one tree, and the translations that make the others.

    On a topology that is a group a tree that has each direction at most once in a step meets none
    of its translations on any link. The tree grown here has shortest paths only and takes
    max(ceil((N-1)/degree), diameter) steps, the fewest there can be; its nearer ranks come first,
    so that a small all-reduce takes about as many rounds as the diameter. Where directions differ
    in speed, a chunk takes several steps on the slow ones (`link_occupancy`), which carry less.

    Parameters
    ----------
    topology : Topology
        A ring, torus, hypercube or fully connected network, or one like it of no family, whose
        links differ from direction to direction at most.

    Returns
    -------
    ImplicitSchedule
        Of collective "all_reduce"; reduce-scatter is the all-gather inside out: what came to x
        from y goes from -x to -y, in the reverse of the steps.

    Raises
    ------
    ScheduleError
        If the topology is another one.

    Notes
    -----
    Deterministic. 32x32 in 0.02 CPU s, 256x256 in 1; see `bench/schedules.py`. Where the first
    tree takes more than the fewest steps, directions have their turns in other orders. That one
    reaches them is not proved but tested, on some 240 networks; `verify_implicit` tells.

    Examples
    --------
    >>> from multitree.topology.families.direct import torus
    >>> implicit = implicit_symmetric(torus(32, 32))
    >>> implicit.tree.steps_all_gather, implicit.num_transfers
    (256, 2095104)
    """
    group = translations_of(topology)
    slots = link_occupancy(topology)[group.links[0]]
    fewest, trees = _fewest_slots(topology, slots), []
    for level, turn in product((False, True), range(min(group.num_directions, MOST_TURNS))):
        trees.append(_grown(group, slots, turn, level))
        if trees[-1][0] == fewest:
            break
    _, slot, direction = min(trees, key=lambda tree: tree[0])
    return ImplicitSchedule(_both_phases(topology, group, slots, slot, direction), group)


def _fewest_slots(topology: Topology, slots: Int64Array) -> int:
    """No tree takes fewer: each direction holds so many chunks, and the farthest rank waits."""
    fewest = topology.diameter * int(slots.min())
    while int((fewest // slots).sum()) < topology.num_ranks - 1:
        fewest += 1
    return fewest


def _grown(
    group: Translations, slots: Int64Array, turn: int, level: bool
) -> tuple[int, Int32Array, Int32Array]:
    """A tree for which the directions have their turns from another one on, and its slots."""
    way = np.roll(np.arange(group.num_directions), -turn)
    turned = replace(group, links=group.links[:, way], moves=group.moves[way])
    slot, direction = grow_symmetric_tree(turned, slots[way], level=level)
    direction = np.where(direction >= 0, way[direction], -1).astype(np.int32)
    return int((slot + np.where(direction >= 0, slots[direction], 0)).max()), slot, direction


def _both_phases(
    topology: Topology,
    group: Translations,
    slots: Int64Array,
    slot: Int32Array,
    direction: Int32Array,
) -> Schedule:
    """The tree's rows: gathered as grown, summed inside out."""
    # x - y = (-y) - (-x): the edge from y to x and the one from -x to -y have the same direction.
    children = np.flatnonzero(direction >= 0)
    way, begins = direction[children], slot[children].astype(np.int64)
    parents, zero = group.minus(children, group.moves[way]), np.zeros(1, np.int32)
    ends = begins + slots[way]
    num_slots = int(ends.max())
    left, right = group.minus(zero, children), group.minus(zero, parents)
    elements = np.r_[left, parents], np.r_[right, children]
    step = np.r_[num_slots - ends, num_slots + begins]
    src, dst = (group.rank[ends] for ends in elements)
    by_step = np.lexsort((dst, src, step))
    columns = {
        "step": step,
        "op": np.repeat([int(Op.REDUCE), int(Op.GATHER)], len(children)),
        "flow": np.zeros_like(step),
        "src": src,
        "dst": dst,
    }
    columns = {field: values[by_step].astype(np.int32) for field, values in columns.items()}
    directions_out = np.r_[way, way][by_step]
    # All trees together use a direction as this one does: its rows wait for each other.
    counts = (topology.num_ranks, 1, group.num_directions)
    order = expected_order(
        Journeys(columns, directions_out, np.ones(len(directions_out), np.int64), *counts),
        SMALL_CHUNKS,
    )
    return Schedule(
        topology=topology,
        algorithm="symmetric",
        collective="all_reduce",
        root=None,
        flow_offsets=np.arange(2),
        **columns,
        order=order,
        route_offsets=np.arange(len(directions_out) + 1),
        route_links=group.links[elements[0][by_step], directions_out],
        route_classes=np.zeros_like(directions_out),
    )
