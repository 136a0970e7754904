"""The trees of a schedule's flows: their roots and their heights."""

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s
from multitree.topology.errors import ScheduleError


def tree_roots(
    num_flows: int,
    num_ranks: int,
    flow: Int32Array,
    parent: Int32Array,
    child: Int32Array,
    what: str,
) -> Int32Array:
    """The one rank of each flow that is a parent and no child.

    Parameters
    ----------
    num_flows, num_ranks : int
    flow, parent, child : numpy.ndarray, int32 (n,)
        The edges of all trees.
    what : str
        Names the edges in a message, such as "REDUCE".

    Returns
    -------
    numpy.ndarray, int32 (num_flows,)

    Raises
    ------
    ScheduleError
        If a flow has no such rank or several.
    """
    is_root = np.zeros(num_flows * num_ranks, bool)
    first = flow.astype(np.int64) * num_ranks
    is_root[first + parent] = True
    is_root[first + child] = False
    flows, roots = np.nonzero(is_root.reshape(num_flows, num_ranks))
    counts = np.bincount(flows, minlength=num_flows)
    wrong = np.flatnonzero(counts != 1)
    if wrong.size:
        several = roots[flows == wrong[0]].tolist()
        raise ScheduleError(
            f"{what} rows of flow {wrong[0]} must have one root, not {several or 'none'}"
        )
    return int32s("Roots", roots)


def tree_height(
    num_flows: int,
    num_ranks: int,
    step: Int32Array,
    flow: Int32Array,
    parent: Int32Array,
    child: Int32Array,
    num_hops: Int64Array,
) -> int:
    """The most hops on any way from a root to a node of its tree.

    Parameters
    ----------
    num_flows, num_ranks : int
    step : numpy.ndarray, int32 (n,)
        Rises from the root outwards along each tree.
    flow, parent, child : numpy.ndarray, int32 (n,)
        The edges of all trees.
    num_hops : numpy.ndarray, int64 (n,)
        Hops along each edge.

    Returns
    -------
    int
        0 where there are no edges.
    """
    depth = np.zeros(num_flows * num_ranks, np.int64)
    by_step = np.argsort(step, kind="stable")
    first = flow[by_step].astype(np.int64) * num_ranks
    above, below = first + parent[by_step], first + child[by_step]
    hops = num_hops[by_step]
    bounds = np.r_[0, np.flatnonzero(np.diff(step[by_step])) + 1, len(step)]
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        depth[below[start:stop]] = depth[above[start:stop]] + hops[start:stop]
    return int(depth.max())
