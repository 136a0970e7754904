"""Schedules by the name of their algorithm and of the collective."""

from collections.abc import Callable
from functools import partial

from multitree.topology.algorithms.direct import build_direct
from multitree.topology.algorithms.double_tree import build_double_tree
from multitree.topology.algorithms.halving_doubling import build_halving_doubling, build_hdrm
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.algorithms.plane_rings import build_plane_rings
from multitree.topology.algorithms.ring_2d import build_bidirectional_ring_2d, build_ring_2d
from multitree.topology.algorithms.rings import build_bidirectional_ring, build_ring
from multitree.topology.algorithms.swing import build_swing
from multitree.topology.algorithms.symmetric import build_symmetric, implicit_symmetric
from multitree.topology.algorithms.tto import build_tto
from multitree.topology.checks.implicit import ImplicitSchedule
from multitree.topology.collectives import check_collective
from multitree.topology.errors import ScheduleError, check_type
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology
from multitree.topology.packing.forest import build_forest
from multitree.topology.schedules.schedule import Schedule, phase_of

Builder = Callable[..., Schedule]
_BUILDERS: dict[str, Builder] = {
    "multitree": build_multitree,
    "ring": build_ring,
    "bidirectional_ring": build_bidirectional_ring,
    "ring_2d": build_ring_2d,
    "bidirectional_ring_2d": build_bidirectional_ring_2d,
    "double_tree": build_double_tree,
    "halving_doubling": build_halving_doubling,
    "hdrm": build_hdrm,
    "swing": build_swing,
    "symmetric": build_symmetric,
    "direct": build_direct,
    "plane_rings": build_plane_rings,
    "forest": build_forest,
    "tto": build_tto,
}
ALGORITHMS = tuple(_BUILDERS)
PACED = ("forest", "tto", "direct")
"""Those that suit a schedule to a size and to what messages take."""
_OWN_ROOTS = ("forest", "tto")
LOCKSTEP_OVER_SWITCHES = ("forest",)
"""Those whose messages over switches come in their slots only where all ranks keep step."""
COMPARED = ("multitree", "ring", "bidirectional_ring")
"""What is compared unless asked for: where there is a Hamiltonian cycle, messages of one hop."""


def check_algorithm(algorithm: str) -> str:
    """Return the name of an algorithm that there is.

    Parameters
    ----------
    algorithm : str

    Returns
    -------
    str
        The same.

    Raises
    ------
    ScheduleError
        If there is none of that name.
    """
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise ScheduleError(f"Algorithm must be one of {known}, not {algorithm!r}")
    return algorithm


def build(
    topology: Topology,
    algorithm: str,
    collective: str = "all_reduce",
    root: int | None = None,
    cost_model: CostModel | None = None,
) -> Schedule:
    """Build the schedule of a named algorithm for a named collective.

    Parameters
    ----------
    topology : Topology
    algorithm : str
        One of `ALGORITHMS`: "multitree", "ring" and so on, as the table below has them.
    collective : str
        "all_reduce", "reduce_scatter", "all_gather", "broadcast" or "reduce".
    root : int, optional
        The rank that broadcast sends from and reduce sums at; only for these.
    cost_model : CostModel, optional
        What those of `PACED` are suited to; `usual_cost_model` without it.

    Returns
    -------
    Schedule

    Raises
    ------
    TypeError
        If `topology` is no Topology.
    ScheduleError
        If a name is unknown, the root is missing, out of range or uncalled for, or the
        algorithm has no such schedule on this topology.

    Notes
    -----
    All have all_reduce, broadcast and reduce wherever they have a schedule at all:

    ===================== ========================================= ==================
    algorithm             on                                        flows
    ===================== ========================================= ==================
    multitree             any topology it can grow on               1 per rank
    ring                  any with links in both directions         1 per rank
    bidirectional_ring    the same                                  2 per rank
    ring_2d               tori and meshes of two dimensions         2 per rank
    bidirectional_ring_2d tori of two dimensions, sides of 3 and up 4 per rank
    double_tree           any topology                              2 per chunk
    halving_doubling      any topology                              1 per rank
    hdrm                  BiGraph of powers of two                  1 per rank
    swing                 rings and tori with powers of two         2D per rank
    symmetric             rings, tori, hypercubes, full, their like 1 per rank
    direct                planes of switches, boxes joined by rails planes per rank
    plane_rings           planes of switches                        planes per rank
    forest                any with links in both directions         some trees
    tto                   meshes of two dimensions, sides of 3, up  3 trees
    ===================== ========================================= ==================

    Those with one flow per rank have reduce_scatter and all_gather too, which need exactly
    that; so do direct and plane_rings over one plane. For broadcast and reduce MultiTree grows as
    many trees at the root as it has links, forest and tto root all their trees there; the others
    send the buffer as all-reduce sends one rank's part: once around, along a binomial tree, in all
    chunks of a double tree, or straight.

    Examples
    --------
    >>> from multitree.topology.families.direct import torus
    >>> build(torus(4, 4), "multitree", "broadcast", root=3).num_flows
    4
    """
    check_type("Topology", topology, Topology)
    check_algorithm(algorithm)
    check_collective(collective, root, topology.num_ranks)
    options = {"cost_model": cost_model} if algorithm in PACED else {}
    return _built(topology, algorithm, collective, root, partial(_BUILDERS[algorithm], **options))


def _built(
    topology: Topology, algorithm: str, collective: str, root: int | None, builder: Builder
) -> Schedule:
    if collective == "all_reduce":
        return builder(topology)
    if root is None and algorithm in _OWN_ROOTS:
        raise ScheduleError(
            f"{topology.name!r}: {collective} must have one flow rooted at each rank, "
            f"not the trees of {algorithm}"
        )
    if root is None:
        return phase_of(builder(topology), collective)
    # A broadcast leaves its root over outgoing links, a reduce comes in over incoming ones.
    degree = topology.degree if collective == "broadcast" else topology.in_degree
    num_trees = int(degree[root]) if algorithm == "multitree" else 1
    return phase_of(builder(topology, roots=[root] * num_trees), collective)


def build_compact(
    topology: Topology,
    algorithm: str,
    collective: str = "all_reduce",
    root: int | None = None,
    cost_model: CostModel | None = None,
) -> Schedule | ImplicitSchedule:
    """Build as `build` does, but hold what is one tree, translated, as that: networks may be large.

    Parameters
    ----------
    topology, algorithm, collective, root, cost_model
        As for `build`.

    Returns
    -------
    Schedule or ImplicitSchedule
        An implicit schedule for all_reduce by symmetric, a schedule for all else.

    Raises
    ------
    ScheduleError
        As `build`, but that no number of rows of an implicit schedule is too many.

    Examples
    --------
    >>> from multitree.topology.families.direct import torus
    >>> build_compact(torus(64, 64), "symmetric").num_transfers
    33546240
    """
    if (algorithm, collective, root) == ("symmetric", "all_reduce", None):
        return implicit_symmetric(topology)
    return build(topology, algorithm, collective=collective, root=root, cost_model=cost_model)
