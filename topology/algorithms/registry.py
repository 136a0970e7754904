"""All algorithms: one entry each, from which help, tables and colours are made."""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from multitree.topology.errors import ScheduleError, not_one_of

__all__ = ["ALGORITHMS", "COMPARED", "SIZED", "Algorithm", "check_algorithm", "lockstep_note"]

Builder = Callable[..., Any]


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: what builds its schedules, and what the rest of the house asks of it.

    The builder takes a topology and, as keywords, `roots`, one flow for each entry, and
    `cost_model` where the algorithm is `sized`. It raises a ScheduleError that names the topology
    where it has no schedule.
    """

    name: str
    # "module:function", imported when a schedule is built.
    builder: str
    # Cells of docs/reference/algorithms.md: where it has a schedule, its flows, the steps of a
    # phase on N ranks, the chunk of a buffer of S bytes, and how it works.
    networks: str
    flows: str
    steps: str
    chunk: str
    what: str
    # In plots, as matplotlib names it; no two algorithms have the same.
    colour: str
    # Schedules suit a size and what messages take.
    sized: bool = False
    # Trees are rooted where they are lowest: there is no reduce_scatter and no all_gather.
    own_roots: bool = False
    # Broadcast and reduce have as many trees at the root as it has links, and not one.
    tree_per_link: bool = False
    # Messages over switches come in their slots only where all ranks keep step.
    slots_over_switches: bool = False
    # `multitree compare` takes it unless others are named.
    compared: bool = False
    # "module:function" of what builds an ImplicitSchedule, where there is one.
    implicit: str | None = None

    @cached_property
    def build(self) -> Builder:
        """The function that `builder` names, which returns a Schedule."""
        return _imported(self.builder)

    @cached_property
    def build_implicit(self) -> Builder | None:
        """The function that `implicit` names, which returns an ImplicitSchedule."""
        return None if self.implicit is None else _imported(self.implicit)


def _imported(reference: str) -> Builder:
    # Not imported at the top: lists of names and help need no builder, and start sooner.
    found: Builder = pkgutil.resolve_name(reference)
    return found


_ENTRIES = (
    Algorithm(
        "multitree",
        "multitree.topology.algorithms.multitree:build_multitree",
        networks="any",
        flows="one per rank",
        steps="near the bound; at it on all tori and meshes tried but the 5x5 and 6x6 torus",
        chunk="S/N",
        what="trees grown in turns from all ranks, no two on one link in a step [1]",
        colour="tab:blue",
        tree_per_link=True,
        compared=True,
    ),
    Algorithm(
        "ring",
        "multitree.topology.algorithms.rings:build_ring",
        networks="any with links both ways; any with switches",
        flows="one per rank",
        steps="N-1",
        chunk="S/N",
        what="one direction, along a Hamiltonian cycle or around a tree [3]",
        colour="tab:gray",
        compared=True,
    ),
    Algorithm(
        "bidirectional_ring",
        "multitree.topology.algorithms.rings:build_bidirectional_ring",
        networks="any with links both ways; any with switches",
        flows="two per rank",
        steps="N-1; 2(N-1) around a tree or where ranks have one link",
        chunk="S/2N",
        what="a ring in each direction",
        colour="black",
        compared=True,
    ),
    Algorithm(
        "ring_2d",
        "multitree.topology.algorithms.ring_2d:build_ring_2d",
        networks="tori and meshes of two dimensions",
        flows="two per rank",
        steps="N-1 + longer - shorter side",
        chunk="S/2N",
        what="half of the buffer rows first, half columns first [5]",
        colour="tab:olive",
    ),
    Algorithm(
        "bidirectional_ring_2d",
        "multitree.topology.algorithms.ring_2d:build_bidirectional_ring_2d",
        networks="tori of two dimensions, sides of at least 3",
        flows="four per rank",
        steps="N-1 + longer - shorter side",
        chunk="S/4N",
        what="the same in both directions: all four links",
        colour="tab:green",
    ),
    Algorithm(
        "double_tree",
        "multitree.topology.algorithms.double_tree:build_double_tree",
        networks="any",
        flows="two per chunk",
        steps="S(1) + 2(chunks - 1), about N-2 + 2 log2 N",
        chunk="S/N",
        what="two pipelined binary trees [7, 8]",
        colour="tab:purple",
    ),
    Algorithm(
        "halving_doubling",
        "multitree.topology.algorithms.halving_doubling:build_halving_doubling",
        networks="any",
        flows="one per rank",
        steps="N-1 for N = 2^k",
        chunk="S/N",
        what="log2 N exchanges with partners twice as far each time [9, 10]",
        colour="tab:orange",
    ),
    Algorithm(
        "hdrm",
        "multitree.topology.algorithms.halving_doubling:build_hdrm",
        networks="BiGraph of powers of two",
        flows="one per rank",
        steps="N-1; more where ranks share links",
        chunk="S/N",
        what="halving and doubling, ranks mapped so that no messages meet [11]",
        colour="tab:brown",
    ),
    Algorithm(
        "swing",
        "multitree.topology.algorithms.halving_doubling:build_swing",
        networks="rings and tori with sides 2^k",
        flows="2D per rank, D dimensions",
        steps="N-1",
        chunk="S/2DN",
        what="exchanges with partners on alternating sides, 2D at once [12]",
        colour="tab:cyan",
    ),
    Algorithm(
        "symmetric",
        "multitree.topology.algorithms.symmetric:build_symmetric",
        networks="rings, tori, hypercubes, fully connected, and graphs like them",
        flows="one per rank",
        steps="max(⌈(N-1)/degree⌉, diameter), the bound",
        chunk="S/N",
        what="one tree of shortest paths, translated to every rank",
        colour="tab:red",
        implicit="multitree.topology.algorithms.symmetric:implicit_symmetric",
    ),
    Algorithm(
        "direct",
        "multitree.topology.algorithms.direct:build_direct",
        networks="ranks behind planes of switches, in one box or in boxes joined by rails",
        flows="one per rank, plane and copy",
        steps="N-1 for one box",
        chunk="S/N / planes / copies",
        what="every rank sends each root its part straight, over each plane another chunk [19]",
        colour="gold",
        sized=True,
    ),
    Algorithm(
        "plane_rings",
        "multitree.topology.algorithms.rings:build_plane_rings",
        networks="ranks behind planes of switches, each of which joins all",
        flows="one per rank and plane",
        steps="N-1",
        chunk="S/N / planes",
        what="a ring on each plane, as NCCL's channels [8]",
        colour="slategray",
    ),
    Algorithm(
        "forest",
        "multitree.topology.packing.forest:build_forest",
        networks="any with links both ways; over switches large buffers rather in lockstep",
        flows="one per packed tree, or several",
        steps="a modulo schedule",
        chunk="S / trees / waves",
        what="packed spanning trees that load all links alike, in waves [13-17]",
        colour="tab:pink",
        sized=True,
        own_roots=True,
        slots_over_switches=True,
    ),
    Algorithm(
        "tto",
        "multitree.topology.algorithms.tto:build_tto",
        networks="meshes of two dimensions, sides of at least 3",
        flows="three, or several times",
        steps="a modulo schedule",
        chunk="S / 3 / waves",
        what="three trees whose reductions overlap gathers [23]",
        colour="navy",
        sized=True,
        own_roots=True,
    ),
)
# In this order `auto` tries them, and of equals it takes the first.
ALGORITHMS = {entry.name: entry for entry in _ENTRIES}
SIZED = tuple(name for name, entry in ALGORITHMS.items() if entry.sized)
COMPARED = tuple(name for name, entry in ALGORITHMS.items() if entry.compared)


def check_algorithm(algorithm: str) -> str:
    """The name of an algorithm that there is; a ScheduleError names all where there is none."""
    if algorithm not in ALGORITHMS:
        raise ScheduleError(not_one_of("Algorithm", algorithm, ALGORITHMS))
    return algorithm


def lockstep_note(algorithm: str, num_switches: int, *, lockstep: bool) -> str | None:
    """What lockstep is to an algorithm on a network, where it would matter and is not on.

    The one rule: such a schedule runs by any command, with this note, and `auto` leaves it out.
    """
    entry = ALGORITHMS.get(algorithm)
    if lockstep or entry is None or not (entry.slots_over_switches and num_switches):
        return None
    return (
        f"messages of {algorithm} over switches keep their slots only in lockstep (--lockstep), "
        "which large buffers are faster in, and small ones slower"
    )
