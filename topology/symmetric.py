"""Symmetric schedules: one tree of shortest paths, translated to every rank."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.link_slots import link_slots
from multitree.topology.orbit import Orbit
from multitree.topology.order import SMALL_CHUNKS, Journeys, expected_order
from multitree.topology.schedule import Schedule
from multitree.topology.symmetric_tree import grow_symmetric_tree
from multitree.topology.topology import Topology
from multitree.topology.translations import Translations, translations_of

__all__ = ["build_symmetric", "symmetric_orbit"]

MOST_TURNS = 8
"""Of 240 networks that were tried, 236 reach the bound with the first, and all with the second."""


def build_symmetric(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the all-reduce of one tree translated to every rank, written out.

    Parameters
    ----------
    topology : Topology
        As for `symmetric_orbit`.
    roots : sequence of int, optional
        One tree, with an equal part of the buffer, for each; every rank once when left out.

    Returns
    -------
    Schedule
        Without contention where the roots are all ranks.

    Raises
    ------
    ScheduleError
        If the topology has no translations, a root is no rank, or the rows are too many.

    Examples
    --------
    >>> from multitree.topology.families import torus
    >>> schedule = build_symmetric(torus(8, 8))
    >>> schedule.steps_all_gather, schedule.tree_height_hops, schedule.max_link_load
    (16, 8, 1)
    """
    orbit = symmetric_orbit(topology)
    return orbit.schedule(chosen_roots(roots, topology.num_ranks))


def symmetric_orbit(topology: Topology) -> Orbit:
    """Build the all-reduce of one tree, and the translations that make the others.

    On a topology that is a group a tree that has each direction at most once in a step meets none
    of its translations on any link. The tree grown here has shortest paths only and takes
    max(ceil((N-1)/degree), diameter) steps, the fewest there can be; its nearer ranks come first,
    so that a small all-reduce takes about as many rounds as the diameter. Where directions differ
    in speed, a chunk takes several steps on the slow ones (`link_slots`), which carry less.

    Parameters
    ----------
    topology : Topology
        A ring, torus, hypercube or fully connected network, or one like it of no family, whose
        links differ from direction to direction at most.

    Returns
    -------
    Orbit
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
    reaches them is not proved but tested, on some 240 networks; `verify_orbit` tells.

    Examples
    --------
    >>> from multitree.topology.families import torus
    >>> orbit = symmetric_orbit(torus(32, 32))
    >>> orbit.tree.steps_all_gather, orbit.num_transfers
    (256, 2095104)
    """
    group = translations_of(topology)
    slots = link_slots(topology)[group.links[0]]
    fewest, trees = _fewest_slots(topology, slots), []
    for level, turn in product((False, True), range(min(group.num_directions, MOST_TURNS))):
        trees.append(_grown(group, slots, turn, level))
        if trees[-1][0] == fewest:
            break
    _, slot, direction = min(trees, key=lambda tree: tree[0])
    return Orbit(_both_phases(topology, group, slots, slot, direction), group)


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
    """The tree's rows: gathered as grown, summed the other way around."""
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
    ways = np.r_[way, way][by_step]
    # All trees together use a direction as this one does: its rows wait for each other.
    counts = (topology.num_ranks, 1, group.num_directions)
    order = expected_order(
        Journeys(columns, ways, np.ones(len(ways), np.int64), *counts), SMALL_CHUNKS
    )
    return Schedule(
        topology=topology,
        algorithm="symmetric",
        collective="all_reduce",
        root=None,
        flow_offsets=np.arange(2),
        **columns,
        order=order,
        route_offsets=np.arange(len(ways) + 1),
        route_links=group.links[elements[0][by_step], ways],
        route_classes=np.zeros_like(ways),
    )
