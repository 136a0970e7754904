"""The order in which siblings of one step are expected, and so are added."""

from collections.abc import Mapping

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s, positions_in_group

CHUNK_TIME = 16
HOP_TIME = 1


def expected_order(
    columns: Mapping[str, Int32Array],
    first_link: Int32Array,
    num_hops: Int64Array,
    *,
    num_ranks: int,
    num_flows: int,
    num_links: int,
    chunk_time: int = CHUNK_TIME,
    hop_time: int = HOP_TIME,
) -> Int32Array:
    """Number the siblings of a step by the time at which they are expected to arrive.

    Siblings are REDUCE transfers of one flow to one rank in one step. Floating-point sums
    take them in this order, and hardware that adds in a fixed order waits for the first; so
    the first had better be the earliest. Every chunk is taken to be of one length, every
    port sends its rows in the order of the table, and a row leaves as soon as the port is
    free and all its flow's arrivals of earlier steps are in.

    Parameters
    ----------
    columns : mapping of str to numpy.ndarray, int32 (num_transfers,)
        step, op, flow, src and dst of the rows, sorted by (step, flow, src, dst).
    first_link : numpy.ndarray, int32 (num_transfers,)
        The link by which each transfer leaves its source.
    num_hops : numpy.ndarray, int64 (num_transfers,)
        Links on each transfer's route.
    num_ranks, num_flows, num_links : int
    chunk_time, hop_time : int
        What a chunk takes of its link, and each link of a route beyond that.

    Returns
    -------
    numpy.ndarray, int32 (num_transfers,)
        0 for the first sibling; 0 also where there is only one, and for GATHER rows.
        Equal times are told apart by `src`.

    Notes
    -----
    Unless told, a chunk takes 16 units of time and a hop 1, as with chunks of some thousand flits
    over links of 150 cycles. Whole numbers only, so that every platform finds the same order.
    O(num_transfers log num_transfers).
    """
    step, op, flow, src, dst = (columns[field] for field in ("step", "op", "flow", "src", "dst"))
    arrival = _arrivals(
        num_ranks * num_flows,
        num_links,
        step,
        flow.astype(np.int64) * num_ranks + src,
        flow.astype(np.int64) * num_ranks + dst,
        first_link,
        chunk_time,
        chunk_time + hop_time * num_hops,
    )
    order = np.zeros(len(step), np.int32)
    reduces = np.flatnonzero(op == 0)
    by_arrival = reduces[np.lexsort((src[reduces], arrival[reduces]))]
    siblings = sibling_groups(num_ranks, num_flows, step, flow, dst)
    order[by_arrival] = positions_in_group(siblings[by_arrival])
    return int32s("Order", order)


def sibling_groups(
    num_ranks: int, num_flows: int, step: Int32Array, flow: Int32Array, dst: Int32Array
) -> Int64Array:
    """A number for each row, equal for rows of equal step, flow and destination.

    Parameters
    ----------
    num_ranks, num_flows : int
    step, flow, dst : numpy.ndarray, int32 (num_transfers,)

    Returns
    -------
    numpy.ndarray, int64 (num_transfers,)
    """
    step_index = np.unique(step, return_inverse=True)[1].astype(np.int64)
    return (step_index * num_flows + flow) * num_ranks + dst


def _arrivals(
    num_places: int,
    num_links: int,
    step: Int32Array,
    leaves: Int64Array,
    enters: Int64Array,
    link: Int32Array,
    chunk_time: int,
    duration: Int64Array,
) -> Int64Array:
    ready = np.zeros(num_places, np.int64)
    free = np.zeros(num_links, np.int64)
    arrival = np.zeros(len(step), np.int64)
    turn = positions_in_group(step.astype(np.int64) * num_links + link)
    bounds = np.r_[0, np.flatnonzero(np.diff(step)) + 1, len(step)]
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        for wave in range(int(turn[first:last].max(initial=-1)) + 1):
            rows = first + np.flatnonzero(turn[first:last] == wave)
            start = np.maximum(ready[leaves[rows]], free[link[rows]])
            free[link[rows]] = start + chunk_time
            arrival[rows] = start + duration[rows]
        np.maximum.at(ready, enters[first:last], arrival[first:last])
    return arrival
