"""Routes of transfers: finding direct ones, and the load they put on links."""

import numpy as np
import numpy.typing as npt

from multitree.topology.arrays import BoolArray, Int32Array, Int64Array, int32s
from multitree.topology.errors import ScheduleError
from multitree.topology.topology import Topology


def direct_links(topology: Topology, src: Int32Array, dst: Int32Array) -> Int32Array:
    """The link of lowest id from each source to each destination.

    Parameters
    ----------
    topology : Topology
    src, dst : numpy.ndarray, int32 (n,)

    Returns
    -------
    numpy.ndarray, int32 (n,)

    Raises
    ------
    ScheduleError
        If no link joins a pair; the message names the first such row.
    """
    ends = topology.links.astype(np.int64)
    key = ends[:, 0] * topology.num_nodes + ends[:, 1]
    by_key = np.argsort(key, kind="stable")
    wanted = src.astype(np.int64) * topology.num_nodes + dst
    place = np.minimum(np.searchsorted(key[by_key], wanted), len(key) - 1)
    found = by_key[place]
    missing = np.flatnonzero(key[found] != wanted)
    if missing.size:
        row = int(missing[0])
        raise ScheduleError(
            f"Row {row}: src and dst must be joined by a link of {topology.name!r}, "
            f"not {int(src[row])} and {int(dst[row])}"
        )
    return int32s("Links", found)


def rows_of_entries(offsets: Int64Array) -> Int64Array:
    """The row to which each entry of a ragged array belongs.

    Parameters
    ----------
    offsets : numpy.ndarray, int64 (num_rows + 1,)
        Row i holds entries offsets[i] to offsets[i+1].

    Returns
    -------
    numpy.ndarray, int64 (offsets[-1],)

    Examples
    --------
    >>> rows_of_entries(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def select_routes(
    offsets: Int64Array, kept: BoolArray, columns: tuple[Int32Array, ...]
) -> tuple[Int64Array, tuple[npt.NDArray[np.int32], ...]]:
    """Keep some rows' routes: their offsets anew, and each column's entries of these rows.

    Parameters
    ----------
    offsets : numpy.ndarray, int64 (num_rows + 1,)
    kept : numpy.ndarray, bool (num_rows,)
    columns : tuple of numpy.ndarray (offsets[-1],)

    Returns
    -------
    tuple
        New offsets and new columns.
    """
    entries = kept[rows_of_entries(offsets)]
    lengths = np.diff(offsets)[kept]
    return np.r_[0, np.cumsum(lengths)], tuple(column[entries] for column in columns)


def max_load(step: Int32Array, offsets: Int64Array, links: Int32Array, num_links: int) -> int:
    """The largest number of transfers that cross one link in one step.

    Parameters
    ----------
    step : numpy.ndarray, int32 (num_rows,)
    offsets : numpy.ndarray, int64 (num_rows + 1,)
    links : numpy.ndarray, int32 (offsets[-1],)
    num_links : int

    Returns
    -------
    int
        0 where there are no transfers.
    """
    key = step[rows_of_entries(offsets)].astype(np.int64) * num_links + links
    return int(np.unique(key, return_counts=True)[1].max(initial=0))
