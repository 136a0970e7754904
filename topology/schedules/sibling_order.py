"""The order in which siblings of one step are expected, and so are added."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s, positions_in_group

Times = tuple[int, int]
LARGE_CHUNKS: Times = (16, 1)
"""What a chunk takes of its link, and each link of a route beyond that: some thousand flits."""
SMALL_CHUNKS: Times = (1, 2)
"""For small buffers, where the way of a chunk is most of its time.

On direct links, where siblings of large chunks come in one after the other by their steps anyway:
the 8x8 torus takes 3 to 5 % fewer cycles at 32 KiB with these, and 0.1 % more or less at 1 MiB.
"""


class Journeys(NamedTuple):
    """What is known of transfers before they are timed.

    Parameters
    ----------
    columns : mapping of str to numpy.ndarray, int32 (num_transfers,)
        step, op, flow, src and dst of the rows, sorted by (step, flow, src, dst).
    first_link : numpy.ndarray, int32 (num_transfers,)
        The link by which each transfer leaves its source.
    num_hops : numpy.ndarray, int64 (num_transfers,)
        Links on each transfer's route.
    num_ranks, num_flows, num_links : int
    """

    columns: Mapping[str, Int32Array]
    first_link: Int32Array
    num_hops: Int64Array
    num_ranks: int
    num_flows: int
    num_links: int


def expected_order(journeys: Journeys, times: Times = LARGE_CHUNKS) -> Int32Array:
    """Number the siblings of a step by the time at which they are expected to arrive.

    Siblings are REDUCE transfers of one flow to one rank in one step. Floating-point sums
    take them in this order, and hardware that adds in a fixed order waits for the first; so
    the first had better be the earliest.

    Parameters
    ----------
    journeys : Journeys
    times : tuple of int
        `LARGE_CHUNKS` or `SMALL_CHUNKS`.

    Returns
    -------
    numpy.ndarray, int32 (num_transfers,)
        0 for the first sibling; 0 also where there is only one, and for GATHER rows.
        Equal times are distinguished by `src`.

    Notes
    -----
    O(num_transfers log num_transfers).
    """
    names = ("step", "op", "flow", "src", "dst")
    step, op, flow, src, dst = (journeys.columns[name] for name in names)
    order = np.zeros(len(step), np.int32)
    reduces = np.flatnonzero(op == 0)
    arrival = expected_arrivals(journeys, times)[reduces]
    by_arrival = reduces[np.lexsort((src[reduces], arrival))]
    siblings = sibling_groups(journeys.num_ranks, journeys.num_flows, step, flow, dst)
    order[by_arrival] = positions_in_group(siblings[by_arrival])
    return int32s("Order", order)


def expected_arrivals(journeys: Journeys, times: Times) -> Int64Array:
    """When each transfer is expected to have arrived.

    Every chunk is taken to be of one length, every port sends its rows in the order of the
    table, and a row leaves as soon as the port is free and all its flow's arrivals of earlier
    steps are in.

    Parameters
    ----------
    journeys : Journeys
    times : tuple of int
        As for `expected_order`.

    Returns
    -------
    numpy.ndarray, int64 (num_transfers,)
        In the units of `times`: whole numbers, so that every platform finds the same.
    """
    columns, link, num_hops, num_ranks, num_flows, num_links = journeys
    step, flow = columns["step"], columns["flow"].astype(np.int64)
    chunk_time, hop_time = times
    leaves, enters = (flow * num_ranks + columns[end] for end in ("src", "dst"))
    duration = chunk_time + hop_time * num_hops
    ready = np.zeros(num_ranks * num_flows, np.int64)
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
