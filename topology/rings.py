"""Ring all-reduces, the baselines: one way, or both ways at once."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.arrays import Int32Array, int32s
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.hamiltonian import hamiltonian_cycle
from multitree.topology.routes import direct_links
from multitree.topology.schedule import Schedule
from multitree.topology.topology import Topology


def build_ring(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the one-way ring all-reduce along a Hamiltonian cycle.

    A flow's sum starts behind its root, goes once around and ends at the root, from where
    the result goes once around: N-1 steps per phase, each link of the cycle used once per
    step.

    Parameters
    ----------
    topology : Topology
    roots : sequence of int, optional
        One flow, with an equal part of the buffer, for each entry; every rank once when left
        out.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        If there is no Hamiltonian cycle, or a root is no rank.

    Notes
    -----
    O(flows x ranks); deterministic.

    References
    ----------
    P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
    workstations", Journal of Parallel and Distributed Computing 69 (2), 2009.

    Examples
    --------
    >>> from multitree.topology.families import torus
    >>> build_ring(torus(4, 4)).steps_all_gather
    15
    """
    chosen = chosen_roots(roots, topology.num_ranks)
    rows = _once_around(hamiltonian_cycle(topology), chosen)
    return Schedule.from_rows(
        topology,
        algorithm="ring",
        collective="all_reduce",
        flow_offsets=np.arange(len(chosen) + 1),
        rows=rows,
    )


def build_bidirectional_ring(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the all-reduce of two rings, one each way around the same Hamiltonian cycle.

    Flows 2i and 2i+1 belong to the i-th root and carry half of its part each: the even ones
    as `build_ring` does it, the odd ones the other way around.

    Parameters
    ----------
    topology : Topology
    roots : sequence of int, optional
        Two flows for each entry; every rank once when left out.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        If there is no Hamiltonian cycle with links both ways, or a root is no rank.

    Notes
    -----
    O(flows x ranks); deterministic. Between two ranks both ways around are the same: they
    take parallel links where there are any, else turns.

    Examples
    --------
    >>> from multitree.topology.families import torus
    >>> schedule = build_bidirectional_ring(torus(4, 4))
    >>> schedule.num_flows, schedule.max_link_load
    (32, 1)
    """
    chosen = chosen_roots(roots, topology.num_ranks)
    cycle = hamiltonian_cycle(topology)
    forwards, backwards = (_once_around(way, chosen) for way in (cycle, cycle[::-1]))
    forwards[:, 2] *= 2
    backwards[:, 2] = 2 * backwards[:, 2] + 1
    links = [direct_links(topology, rows[:, 3], rows[:, 4]) for rows in (forwards, backwards)]
    if topology.num_ranks == 2:
        links[1] = _other_links(topology, links[1])
        if (links[1] == links[0]).any():
            forwards[:, 0] *= 2
            backwards[:, 0] = 2 * backwards[:, 0] + 1
    return Schedule.from_rows(
        topology,
        algorithm="bidirectional_ring",
        collective="all_reduce",
        flow_offsets=np.arange(2 * len(chosen) + 1),
        rows=np.concatenate([forwards, backwards]),
        links=np.concatenate(links),
    )


def _once_around(cycle: Sequence[int], roots: Sequence[int]) -> Int32Array:
    num_ranks, num_phase_steps = len(cycle), len(cycle) - 1
    around = np.array(cycle)
    step = np.arange(num_phase_steps)
    place = np.argsort(around)[np.array(roots)][:, None]
    halves = []
    for op, first in ((Op.REDUCE, place + 1), (Op.GATHER, place)):
        src = around[(first + step) % num_ranks]
        dst = around[(first + step + 1) % num_ranks]
        flow = np.broadcast_to(np.arange(len(roots))[:, None], src.shape)
        steps = np.broadcast_to(step + op * num_phase_steps, src.shape)
        columns = (steps, np.full(src.shape, op), flow, src, dst)
        halves.append(np.stack([column.ravel() for column in columns], axis=1))
    return np.concatenate(halves).astype(np.int32)


def _other_links(topology: Topology, links: Int32Array) -> Int32Array:
    ends = topology.links
    last = {tuple(pair): link for link, pair in enumerate(ends.tolist())}
    return int32s("Links", [last[tuple(ends[link].tolist())] for link in links.tolist()])
