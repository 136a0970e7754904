"""Recursive halving and doubling: log2(N) exchanges per phase."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, positions_in_group
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.exchanges import exchange_rows, with_gather
from multitree.topology.schedule import Schedule
from multitree.topology.topology import Topology


def build_halving_doubling(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the all-reduce of recursive halving and doubling.

    In exchange e a rank swaps with the one whose number differs in bit e: it gives away half
    of what it still has to sum, so that after log2(N) exchanges it has one chunk; all-gather
    is the same backwards. Where the number of ranks is no power of two, the first ranks fold
    in pairs: one of the two sends the other all it has before, and gets the result behind.

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
        If a root is no rank, or no route joins two partners.

    Notes
    -----
    O(flows x ranks); deterministic. A step carries one chunk: with N = 2^k and a flow per
    rank, a phase is k exchanges in N-1 steps, and a rank sends N-1 messages, (N-1)/N of the
    buffer. A library sends the N/2^(e+1) chunks of exchange e as one message, which here are
    so many heads. Nearest numbers swap first and most. Folding costs N-1 steps more, and
    almost the whole buffer once more. Partners that no link joins contend on their routes.

    References
    ----------
    R. Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004; R. Thakur,
    R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH",
    International Journal of High Performance Computing Applications 19 (1), 2005.

    Examples
    --------
    >>> from multitree.topology.families import fully_connected, hypercube
    >>> build_halving_doubling(hypercube(4)).steps_all_gather
    15
    >>> build_halving_doubling(fully_connected(6)).steps_all_gather
    10
    """
    chosen = chosen_roots(roots, topology.num_ranks)
    return Schedule.from_rows(
        topology,
        algorithm="halving_doubling",
        collective="all_reduce",
        flow_offsets=np.arange(len(chosen) + 1),
        rows=with_gather(_sums(topology.num_ranks, np.array(chosen))),
    )


def doubling_partners(num_exchanges: int) -> Int64Array:
    """Partners whose numbers differ in bit 0, then 1, and so on.

    Parameters
    ----------
    num_exchanges : int

    Returns
    -------
    numpy.ndarray, int64 (num_exchanges, 2^num_exchanges)

    Examples
    --------
    >>> doubling_partners(2).tolist()
    [[1, 0, 3, 2], [2, 3, 0, 1]]
    """
    return np.arange(1 << num_exchanges) ^ (1 << np.arange(num_exchanges))[:, None]


def _sums(num_ranks: int, roots: Int64Array) -> Int32Array:
    """REDUCE rows; pairs of ranks first fold into one each, if they must."""
    num_exchanges = num_ranks.bit_length() - 1
    num_pairs = num_ranks - (1 << num_exchanges)
    if not num_pairs:
        return exchange_rows(doubling_partners(num_exchanges), roots)
    # Ranks 2i and 2i+1 are place i for i < num_pairs, the others a place each.
    ranks = np.arange(num_ranks)
    place_of = np.where(ranks < 2 * num_pairs, ranks // 2, ranks - num_pairs)
    speaker = np.searchsorted(place_of, np.arange(1 << num_exchanges))
    rows = exchange_rows(doubling_partners(num_exchanges), place_of[roots]).astype(np.int64)
    folds = _folds(rows, place_of[roots], roots, num_pairs)
    for end in (3, 4):
        # The flow's root speaks for its place, elsewhere the lower rank does.
        at_root = rows[:, end] == place_of[roots[rows[:, 2]]]
        rows[:, end] = np.where(at_root, roots[rows[:, 2]], speaker[rows[:, end]])
    rows[:, 0] += int(folds[:, 0].max()) + 1
    return np.concatenate([folds, rows]).astype(np.int32)


def _folds(
    rows: Int64Array, root_places: Int64Array, roots: Int64Array, num_pairs: int
) -> Int64Array:
    """What the silent rank of each pair sends the one that speaks, soonest needed first."""
    num_flows = len(roots)
    needed = np.full((num_flows, num_pairs), int(rows[:, 0].max()) + 1)
    of_pairs = rows[rows[:, 3] < num_pairs]
    needed[of_pairs[:, 2], of_pairs[:, 3]] = of_pairs[:, 0]
    flow, pair = (index.ravel() for index in np.indices(needed.shape))
    speaks = np.where(root_places[flow] == pair, roots[flow], 2 * pair)
    silent = 4 * pair + 1 - speaks
    soonest = np.lexsort((flow, needed.ravel()))
    flow, speaks, silent = flow[soonest], speaks[soonest], silent[soonest]
    step = positions_in_group(silent)
    return np.stack([step, np.full(len(step), Op.REDUCE), flow, silent, speaks], axis=1)
