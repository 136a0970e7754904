"""Trees of recursive exchanges: in each, every rank swaps parts with one partner."""

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s, positions_in_group
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError


def exchange_rows(
    partners: Int64Array, roots: Int64Array, turns: Int64Array | None = None
) -> Int32Array:
    """REDUCE rows of a reduce-scatter by recursive exchanges.

    A rank begins with every flow. In each exchange it gives its partner the flows whose roots
    only the partner can still reach, and adds what it gets of its own; after the last one a
    rank has the flows that are rooted at it. Each flow's messages are a binomial tree.

    Parameters
    ----------
    partners : numpy.ndarray, int64 (num_exchanges, num_ranks)
        With whom a rank swaps; num_ranks = 2^num_exchanges.
    roots : numpy.ndarray, int64 (num_flows,)
        The root of each flow.
    turns : numpy.ndarray, int64 (num_exchanges, num_ranks), optional
        Which turn a rank has in an exchange in which not all may send at once; 0 for all when
        left out.

    Returns
    -------
    numpy.ndarray, int32 (num_flows * (num_ranks - 1), 5)
        step, op, flow, src and dst.

    Raises
    ------
    ScheduleError
        If the exchanges do not take every rank to every root on exactly one way.

    Notes
    -----
    A step carries one chunk from a rank to its partner, so with one flow per rank exchange e
    is num_ranks / 2^(e+1) steps, and all are num_ranks - 1. A rank first sends what its
    partner has to pass on first: by the time of the next exchange that has long arrived.
    O(num_flows x num_ranks).

    Examples
    --------
    >>> partners = np.array([[1, 0, 3, 2], [2, 3, 0, 1]])
    >>> exchange_rows(partners, np.array([0])).tolist()
    [[0, 0, 0, 1, 0], [0, 0, 0, 3, 2], [1, 0, 0, 2, 0]]
    """
    sends = _roots_given(partners)
    by_root = np.argsort(roots, kind="stable")
    copies = np.bincount(roots, minlength=partners.shape[1])
    first_copy = np.cumsum(copies) - copies
    first_step, blocks = 0, []
    for exchange, given in enumerate(sends):
        targets = given.ravel()
        times = copies[targets]
        src = np.repeat(np.repeat(np.arange(len(given)), given.shape[1]), times)
        copy = np.arange(len(src)) - np.repeat(np.cumsum(times) - times, times)
        flow = by_root[np.repeat(first_copy[targets], times) + copy]
        turn = np.zeros(len(given), np.int64) if turns is None else turns[exchange]
        num_turns = int(turn.max()) + 1
        step = first_step + positions_in_group(src) * num_turns + turn[src]
        columns = (step, np.full(len(src), Op.REDUCE), flow, src, partners[exchange, src])
        blocks.append(np.stack(columns, axis=1))
        first_step = int(step.max(initial=first_step - 1)) + 1
    return int32s("Rows", np.concatenate(blocks))


def _roots_given(partners: Int64Array) -> list[Int64Array]:
    """Per exchange the roots whose flows a rank gives away, in the order of sending.

    What a partner passes on next comes first, what it keeps comes last.
    """
    num_exchanges, num_ranks = partners.shape
    ranks = np.arange(num_ranks)[:, None]
    sends: list[Int64Array] = []
    for exchange in range(num_exchanges - 1, -1, -1):
        passed_on = np.concatenate([*sends, ranks], axis=1)
        sends.insert(0, passed_on[partners[exchange]])
    everything = np.sort(np.concatenate([*sends, ranks], axis=1), axis=1)
    if everything.shape != (num_ranks, num_ranks) or (everything != ranks.T).any():
        raise ScheduleError(
            f"Exchanges must take each of {num_ranks} ranks to every root on one way, "
            f"not {num_exchanges} exchanges that do not"
        )
    return sends


def with_gather(sums: Int32Array) -> Int32Array:
    """Rows of an all-reduce: a reduce-scatter, then the same backwards as its all-gather.

    Parameters
    ----------
    sums : numpy.ndarray, int32 (n, 5)
        step, op, flow, src and dst of the REDUCE rows.

    Returns
    -------
    numpy.ndarray, int32 (2 n, 5)

    Examples
    --------
    >>> with_gather(np.array([[0, 0, 0, 2, 1], [1, 0, 0, 1, 0]])).tolist()[2:]
    [[3, 1, 0, 1, 2], [2, 1, 0, 0, 1]]
    """
    results = sums[:, [0, 1, 2, 4, 3]].copy()
    results[:, 0] = 2 * int(sums[:, 0].max()) + 1 - sums[:, 0]
    results[:, 1] = Op.GATHER
    return int32s("Rows", np.concatenate([sums, results]))
