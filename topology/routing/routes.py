"""Routes of transfers: finding direct ones, and the load they put on links."""

from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.topology.arrays import (
    BoolArray,
    Int32Array,
    Int64Array,
    int32s,
    int64s,
    largest_group,
)
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology


class LinkFinder:
    """Finds the links that lead from one node straight to another.

    Parameters
    ----------
    topology : Topology

    Examples
    --------
    >>> pair = Topology("pair", 2, 0, [[1, 0], [0, 1], [0, 1]], 16.0, 150.0)
    >>> zero, one = np.array([0, 0]), np.array([1, 0])
    >>> LinkFinder(pair).lowest(zero, one).tolist()
    [1, -1]
    """

    def __init__(self, topology: Topology) -> None:
        ends = topology.links.astype(np.int64)
        key = ends[:, 0] * topology.num_nodes + ends[:, 1]
        self._num_nodes = topology.num_nodes
        # Stable, so among parallel links the one of lowest id comes first.
        self._by_key = np.argsort(key, kind="stable")
        self._key = key[self._by_key]

    def lowest(self, src: Int64Array, dst: Int64Array) -> Int64Array:
        """The link of lowest id from each node to another, int64 (n,); -1 where there is none."""
        wanted = src * self._num_nodes + dst
        # What lies behind the last key is clipped; the comparison then finds that it differs.
        place = np.minimum(np.searchsorted(self._key, wanted), len(self._key) - 1)
        return np.where(self._key[place] == wanted, self._by_key[place], -1)

    def picked(self, src: Int64Array, dst: Int64Array, number: Int64Array) -> Int64Array:
        """Of the parallel links from each node to another that a number picks, int64 (n,)."""
        wanted = src * self._num_nodes + dst
        first, last = (np.searchsorted(self._key, wanted, side) for side in ("left", "right"))
        return self._by_key[first + number % (last - first)]


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


def reordered_routes(
    routes: tuple[Any, Any, Any], order: Int64Array
) -> tuple[Int64Array, Int32Array, Int32Array]:
    """The routes of rows in another order.

    Parameters
    ----------
    routes : tuple of array_like, int (num_rows + 1,), (num_hops,) and (num_hops,)
        Offsets, links and classes.
    order : numpy.ndarray, int64 (num_rows,)
        The row that comes to each place.

    Returns
    -------
    tuple of numpy.ndarray

    Raises
    ------
    ScheduleError
        If the offsets are not one more than rows, from 0 rising to the number of links.

    Examples
    --------
    >>> offsets, links, _ = reordered_routes(([0, 2, 3], [7, 8, 9], [0, 0, 0]), np.array([1, 0]))
    >>> offsets.tolist(), links.tolist()
    ([0, 1, 3], [9, 7, 8])
    """
    offsets, links, classes = int64s("Offsets", routes[0]), *(int32s("Hops", x) for x in routes[1:])
    lengths = np.diff(offsets)
    if (
        offsets.shape != (len(order) + 1,)
        or (lengths < 0).any()
        or (offsets[0], offsets[-1]) != (0, len(links))
        or links.shape != classes.shape
    ):
        raise ScheduleError(
            f"Routes must be {len(order)} parts of as many links as classes, "
            f"not {offsets.shape}, {links.shape} and {classes.shape} numbers"
        )
    ends = np.cumsum(lengths[order])
    # A ragged gather: each route moves from its old offset to its new one, ends - lengths.
    entries = np.arange(len(links)) + np.repeat(
        offsets[:-1][order] - ends + lengths[order], lengths[order]
    )
    return np.r_[0, ends], links[entries], classes[entries]


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
    # In 64 bits: steps times links may exceed 32.
    return largest_group(step[rows_of_entries(offsets)].astype(np.int64) * num_links + links)
