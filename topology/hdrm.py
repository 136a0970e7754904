"""Halving and doubling with ranks mapped onto BiGraph so that no messages meet."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.arrays import Int64Array, int64s
from multitree.topology.collectives import chosen_roots
from multitree.topology.errors import ScheduleError
from multitree.topology.exchanges import exchange_rows, with_gather
from multitree.topology.halving_doubling import doubling_partners
from multitree.topology.schedule import Schedule
from multitree.topology.topology import Topology


def build_hdrm(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the all-reduce of halving and doubling with rank mapping, for BiGraph.

    Recursive halving and doubling between places, where ranks have places such that partners
    are always on switches of different halves, and those on one switch have all their partners
    on different switches: every link between switches carries one message at a time.

    Parameters
    ----------
    topology : Topology
        A BiGraph with powers of two of switches and of ranks on each.
    roots : sequence of int, optional
        One flow, with an equal part of the buffer, for each entry; every rank once when left
        out.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        If the topology is another one, or a root is no rank.

    Notes
    -----
    O(flows x ranks); deterministic; no link carries two transfers in one step. With a flow per
    rank, N-1 steps per phase in log2(N) exchanges, which for ranks of one link is the bound,
    and N-1 messages per rank and phase. Where a switch has A times as many ranks as links to
    the other half, groups of A ranks on one switch exchange first, and then take turns:
    N - N/A + N - A steps.

    The mapping is our own. With places in binary and H <= S/2, parity tells the half, the low
    bits the switch of the one half, high bits that of the other: one bit changed moves a
    place to the other half, and two that agree in parity and in both switches are the same.

    References
    ----------
    J. Dong et al., "EFLOPS: Algorithm and System Co-Design for a High Performance Distributed
    Training Platform", HPCA 2020.

    Examples
    --------
    >>> from multitree.topology.families import parse_topology
    >>> schedule = build_hdrm(parse_topology("bigraph:4x8"))
    >>> schedule.steps_all_gather, schedule.max_link_load, schedule.tree_height_hops
    (31, 1, 15)
    """
    if topology.family != "bigraph" or any(size & (size - 1) for size in topology.dims):
        raise ScheduleError(
            "hdrm must have a BiGraph with powers of two of switches and of ranks on each, "
            f"not {topology.name!r}"
        )
    chosen = chosen_roots(roots, topology.num_ranks)
    rank_at, turn = _places(*topology.dims)
    place_of = np.argsort(rank_at)
    partners = doubling_partners(topology.num_ranks.bit_length() - 1)
    turns = np.where(rank_at[partners] // topology.dims[0] == rank_at // topology.dims[0], 0, turn)
    rows = exchange_rows(partners, place_of[np.array(chosen)], turns).copy()
    rows[:, 3:] = rank_at[rows[:, 3:]]
    return Schedule.from_rows(
        topology,
        algorithm="hdrm",
        collective="all_reduce",
        flow_offsets=np.arange(len(chosen) + 1),
        rows=with_gather(rows),
    )


def _places(hosts: int, num_switches: int) -> tuple[Int64Array, Int64Array]:
    """The rank at each place, and its turn among those that share a link between switches."""
    half = num_switches // 2
    sharing = max(hosts // half, 1)
    apart = hosts // sharing  # ranks of a switch whose partners are on as many switches
    place = np.arange(hosts * num_switches)
    turn, core = place % sharing, place // sharing
    upper = np.array([int(number).bit_count() % 2 for number in core])
    bits = core % (half * apart)
    switch = np.where(upper, half + bits // apart, bits % half)
    port = np.where(upper, bits % apart, bits // half)
    rank = switch * hosts + port * sharing + turn
    return int64s("Ranks", rank), int64s("Turns", turn)
