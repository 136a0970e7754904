"""Read-only NumPy arrays, which topologies and schedules share, and ragged ones."""

from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.topology.errors import ScheduleError

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def int32s(thing: str, values: Any) -> Int32Array:
    """Copy integers into a read-only int32 array of the same shape.

    A TypeError says that they are no integers, a ValueError that one does not fit; `thing` begins
    the message.
    """
    copy: Int32Array = _whole_numbers(thing, values, np.iinfo(np.int32)).astype(np.int32)
    copy.flags.writeable = False
    return copy


def int64s(thing: str, values: Any) -> Int64Array:
    """Copy integers into a read-only int64 array; all else as `int32s`."""
    copy: Int64Array = _whole_numbers(thing, values, np.iinfo(np.int64)).astype(np.int64)
    copy.flags.writeable = False
    return copy


def _whole_numbers(thing: str, values: Any, limits: Any) -> npt.NDArray[Any]:
    given = np.asarray(values)
    # NumPy takes an empty list for float64; without entries there is nothing to refuse.
    if given.size == 0:
        return given
    if given.dtype.kind not in "iu":
        raise TypeError(f"{thing} must be integers, not {given.dtype}")
    # Compared as Python integers, which are exact for all widths, uint64 included.
    if int(given.min()) < limits.min or int(given.max()) > limits.max:
        worst = max(int(given.max()), -int(given.min()))
        raise ValueError(f"{thing} must be within {limits.bits} bits, not {worst}")
    return given


def positions_in_group(keys: Int64Array) -> Int64Array:
    """Number the members of each group of equal keys, in the order in which they stand.

    >>> positions_in_group(np.array([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    by_key = np.argsort(keys, kind="stable")
    ordered = keys[by_key]
    # Cut to length, so that no keys have no groups.
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(keys)])
    sizes = np.diff(np.r_[starts, len(keys)])
    position = np.empty(len(keys), np.int64)
    position[by_key] = np.arange(len(keys)) - np.repeat(starts, sizes)
    return position


def largest_group(keys: Int64Array) -> int:
    """How often the most frequent of some keys occurs, 0 without keys; O(n log n)."""
    return int(np.unique(keys, return_counts=True)[1].max(initial=0))


def rows_of_entries(offsets: Int64Array) -> Int64Array:
    """The row of each entry of a ragged array whose row i holds entries offsets[i] to offsets[i+1].

    >>> rows_of_entries(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def select_routes(
    offsets: Int64Array, kept: BoolArray, columns: tuple[Int32Array, ...]
) -> tuple[Int64Array, tuple[Int32Array, ...]]:
    """Keep the routes of some rows: their offsets anew, and each column's entries of these rows."""
    entries = kept[rows_of_entries(offsets)]
    lengths = np.diff(offsets)[kept]
    return np.r_[0, np.cumsum(lengths)], tuple(column[entries] for column in columns)


def reordered_routes(
    routes: tuple[Any, Any, Any], order: Int64Array
) -> tuple[Int64Array, Int32Array, Int32Array]:
    """The routes of rows in another order: row `order[i]` comes to place i.

    Routes are offsets (num_rows + 1,), links and classes (num_hops,). A ScheduleError says that the
    offsets are not one more than rows, rising from 0 to the number of links.
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
    return chosen_routes((offsets, links, classes), order)


def chosen_routes(
    routes: tuple[Int64Array, Any, Any], rows: Int64Array
) -> tuple[Int64Array, Any, Any]:
    """The routes of some rows, one behind the other; a row may be chosen several times."""
    offsets, links, classes = routes
    lengths = np.diff(offsets)[rows]
    ends = np.cumsum(lengths)
    # A ragged gather: each route moves from its old offset to its new one, ends - lengths.
    entries = np.arange(lengths.sum()) + np.repeat(offsets[:-1][rows] - ends + lengths, lengths)
    return np.r_[0, ends], links[entries], classes[entries]
