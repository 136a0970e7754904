"""The trees of a schedule's flows: their roots and their heights."""

from collections.abc import Mapping

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError


def tree_roots(
    num_flows: int, num_ranks: int, columns: Mapping[str, Int32Array], op: Op
) -> Int32Array:
    """The one rank of each flow that is a parent and no child, in the rows of one op.

    Parameters
    ----------
    num_flows, num_ranks : int
    columns : mapping of str to numpy.ndarray, int32 (num_transfers,)
        op, flow, src and dst of the rows.
    op : Op

    Returns
    -------
    numpy.ndarray, int32 (num_flows,)

    Raises
    ------
    ScheduleError
        If a flow has no such rank or several.
    """
    first, parent, child = _edges(num_ranks, columns, columns["op"] == op, op)
    is_root = np.zeros(num_flows * num_ranks, bool)
    is_root[first + parent] = True
    is_root[first + child] = False
    flows, roots = np.nonzero(is_root.reshape(num_flows, num_ranks))
    wrong = np.flatnonzero(np.bincount(flows, minlength=num_flows) != 1)
    if wrong.size:
        several = roots[flows == wrong[0]].tolist()
        raise ScheduleError(
            f"{op.name} rows of flow {wrong[0]} must have one root, not {several or 'none'}"
        )
    return int32s("Roots", roots)


def tree_height(
    num_flows: int,
    num_ranks: int,
    columns: Mapping[str, Int32Array],
    op: Op,
    num_hops: Int64Array,
) -> int:
    """The most hops on any way between a root and a node of its tree, in the rows of one op.

    Parameters
    ----------
    num_flows, num_ranks : int
    columns : mapping of str to numpy.ndarray, int32 (num_transfers,)
        step, op, flow, src and dst of the rows, sorted by step.
    op : Op
    num_hops : numpy.ndarray, int64 (num_transfers,)
        Links on each transfer's route.

    Returns
    -------
    int
        0 where there are no such rows.
    """
    rows = np.flatnonzero(columns["op"] == op)
    if op == Op.REDUCE:
        rows = rows[::-1]
    first, parent, child = _edges(num_ranks, columns, rows, op)
    above, below, hops = first + parent, first + child, num_hops[rows]
    depth = np.zeros(num_flows * num_ranks, np.int64)
    bounds = np.r_[0, np.flatnonzero(np.diff(columns["step"][rows])) + 1, len(rows)]
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        depth[below[start:stop]] = depth[above[start:stop]] + hops[start:stop]
    return int(depth.max())


def _edges(
    num_ranks: int, columns: Mapping[str, Int32Array], rows: np.ndarray, op: Op
) -> tuple[Int64Array, Int32Array, Int32Array]:
    parent, child = ("dst", "src") if op == Op.REDUCE else ("src", "dst")
    first = columns["flow"][rows].astype(np.int64) * num_ranks
    return first, columns[parent][rows], columns[child][rows]
