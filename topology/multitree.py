"""MultiTree: spanning trees grown in turns, so that no two messages meet on a link."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.arrays import Int32Array
from multitree.topology.errors import ScheduleError
from multitree.topology.schedule import Op, Schedule, checked_roots
from multitree.topology.topology import Topology

ORDERS = ("ascending", "descending")


def build_multitree(
    topology: Topology,
    *,
    roots: Sequence[int] | None = None,
    root_order: str = "ascending",
    neighbour_order: str = "ascending",
) -> Schedule:
    """Build the all-reduce of MultiTree (Algorithm 1 of [1]).

    One tree grows from every rank. Each step starts with all links free; trees take turns,
    round after round, and each adds one child over a free link from a member that joined in
    an earlier step; when a whole round adds nothing the step ends. That is the all-gather;
    the reduce-scatter is the same in reverse over the reverse links, so neither phase puts
    two messages on a link in one step.

    Parameters
    ----------
    topology : Topology
        Without switches.
    roots : sequence of int, optional
        One tree, with an equal part of the buffer, for each entry; every rank once when left
        out. `[r] * k` gives k trees that share the root r, for broadcast and reduce.
    root_order : str
        "ascending" or "descending": whose tree has the first turn.
    neighbour_order : str
        "ascending" or "descending": by (rank, link id), which child a member tries first.

    Returns
    -------
    Schedule
        An all-reduce of collective "all_reduce".

    Raises
    ------
    ScheduleError
        If the topology has switches, a root is no rank or an order is unknown.

    Notes
    -----
    Members are tried in the order in which they joined. O(sum over steps and trees of the
    links that lead out of the tree): 16x16 torus 0.3 s, 32x32 torus some seconds.
    Deterministic. The published code ends a step as soon as the last root of a round adds
    nothing; here, as in the paper's text, a step ends when no root does. Where a link lacks
    a reverse, the trees of the reduce-scatter are grown on the transposed graph.

    References
    ----------
    .. [1] J. Huang, P. Majumder, S. Kim, A. Muzahid, K. H. Yum, E. J. Kim, "Communication
       Algorithm-Architecture Co-Design for Distributed Deep Learning", ISCA 2021.

    Examples
    --------
    >>> from multitree.topology.families import torus
    >>> schedule = build_multitree(torus(4, 4))
    >>> schedule.steps_reduce_scatter, schedule.steps_all_gather, schedule.max_link_load
    (5, 5, 1)
    """
    for name, value in (("Root order", root_order), ("Neighbour order", neighbour_order)):
        if value not in ORDERS:
            raise ScheduleError(f"{name} must be one of {', '.join(ORDERS)}, not {value!r}")
    if topology.num_switches:
        raise ScheduleError(
            f"MultiTree must have a topology without switches, not {topology.name!r} "
            f"with {topology.num_switches}"
        )
    chosen = checked_roots(topology, roots)
    turns = sorted(range(len(chosen)), key=lambda flow: chosen[flow])
    if root_order == "descending":
        turns.reverse()
    backwards = neighbour_order == "descending"
    gather = grow_trees(topology.links, chosen, turns, topology.num_ranks, backwards=backwards)
    step, flow, link = gather
    if topology.is_symmetric:
        reduce_step, reduce_flow, reduce_link = step, flow, topology.reverse[link]
    else:
        transposed = topology.links[:, ::-1]
        reduce_step, reduce_flow, reduce_link = grow_trees(
            transposed, chosen, turns, topology.num_ranks, backwards=backwards
        )
    num_reduce_steps = int(reduce_step.max()) + 1
    steps = np.r_[num_reduce_steps - 1 - reduce_step, num_reduce_steps + step]
    ops = np.repeat([int(Op.REDUCE), int(Op.GATHER)], [len(reduce_step), len(step)])
    links = np.r_[reduce_link, link]
    rows = np.stack([steps, ops, np.r_[reduce_flow, flow], *topology.links[links].T], axis=1)
    return Schedule.from_rows(
        topology,
        algorithm="multitree",
        collective="all_reduce",
        flow_offsets=np.arange(len(chosen) + 1),
        rows=rows,
        links=links,
    )


def grow_trees(
    links: Int32Array,
    roots: Sequence[int],
    turns: Sequence[int],
    num_ranks: int,
    *,
    backwards: bool,
) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Grow spanning trees in turns until each reaches every rank.

    Parameters
    ----------
    links : numpy.ndarray, int32 (num_links, 2)
    roots : sequence of int
        The root of each tree.
    turns : sequence of int
        The trees in the order of their turns.
    num_ranks : int
    backwards : bool
        Whether a member tries its neighbours by descending (rank, link id).

    Returns
    -------
    tuple of numpy.ndarray, int32 (num_trees * (num_ranks - 1),)
        Step, tree and link of each edge, in the order in which they were added.

    Notes
    -----
    Within a step links are only taken and trees only grow, so a link that was of no use to
    a tree stays so until the step's end: each tree walks once per step along the links that
    lead out of its members, and leaves the step when it comes to their end.
    """
    targets = links[:, 1].tolist()
    ways_out = _ways_out(links, num_ranks, backwards)
    outside = [bytearray(b"\1") * num_ranks for _ in roots]
    ahead = [list(ways_out[root]) for root in roots]
    for tree, root in enumerate(roots):
        outside[tree][root] = 0
    added: list[tuple[int, int, int]] = []
    step, total = 0, len(roots) * (num_ranks - 1)
    while len(added) < total:
        before = len(added)
        free = bytearray(b"\1") * len(targets)
        walks = {tree: iter(ahead[tree]) for tree in turns if ahead[tree]}
        growing = list(walks)
        while growing:
            still = []
            for tree in growing:
                unreached = outside[tree]
                for link in walks[tree]:
                    if free[link] and unreached[targets[link]]:
                        free[link] = unreached[targets[link]] = 0
                        added.append((step, tree, link))
                        still.append(tree)
                        break
            growing = still
        for _, tree, link in added[before:]:
            ahead[tree] += ways_out[targets[link]]
        for tree in walks:
            unreached = outside[tree]
            ahead[tree] = [link for link in ahead[tree] if unreached[targets[link]]]
        step += 1
    table = np.array(added, np.int32)
    return table[:, 0], table[:, 1], table[:, 2]


def _ways_out(links: Int32Array, num_ranks: int, backwards: bool) -> list[list[int]]:
    ways: list[list[int]] = [[] for _ in range(num_ranks)]
    by_target = np.lexsort((np.arange(len(links)), links[:, 1]))
    for link in by_target[::-1].tolist() if backwards else by_target.tolist():
        ways[int(links[link, 0])].append(link)
    return ways
