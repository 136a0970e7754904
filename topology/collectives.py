"""Collectives: element types and ops, and where their trees' roots must be."""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from ml_dtypes import bfloat16

from multitree.topology.arrays import Int32Array, positions_in_group
from multitree.topology.errors import ScheduleError

__all__ = [
    "CANONICAL_NAN",
    "DTYPES",
    "OPS",
    "Op",
    "as_bits",
    "check_collective",
    "check_dtype",
    "check_roots",
    "chosen_roots",
    "combine",
    "make_canonical",
]

Elements = npt.NDArray[Any]

DTYPES = {
    "int32": np.dtype(np.int32),
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(bfloat16),
}
"""Types of elements by their names, in the host's byte order."""

OPS = ("sum", "max")
"""What a REDUCE does with what is there and what comes in."""

CANONICAL_NAN = {"float32": 0x7FC00000, "bfloat16": 0x7FC0}
"""Bits of the one NaN that sums and maxima give, by the type's name."""


def check_dtype(thing: str, dtype: Any) -> None:
    """Raise unless a NumPy or torch type is one of `DTYPES`; `thing` is what has it.

    Raises
    ------
    TypeError
    """
    if str(dtype).removeprefix("torch.") not in DTYPES:
        *others, last = DTYPES
        raise TypeError(f"{thing} must be {', '.join(others)} or {last}, not {dtype}")


def as_bits(elements: Elements) -> Elements:
    """The same memory as unsigned integers, to compare bit by bit."""
    return elements.view(f"u{elements.dtype.itemsize}")


def combine(target: Elements, contribution: Elements, op: str) -> None:
    """Add elements to those of `target`, or keep the larger ones, in place.

    int32 wraps around. A float32 or bfloat16 sum is the exact sum rounded once, to nearest, ties
    to even, subnormals kept; for bfloat16 that equals an addition in float32 whose sum is rounded
    to bfloat16, since 24 bits are at least 2 x 8 + 2. The maximum of floats is `maximum` of
    IEEE 754-2019: a NaN propagates, and +0 is above -0. Every NaN result is the canonical one.

    Parameters
    ----------
    target, contribution : arrays of one type of `DTYPES` and one shape
    op : str
        One of `OPS`.
    """
    if target.dtype == np.int32:
        (np.add if op == "sum" else np.maximum)(target, contribution, out=target)
        return
    with np.errstate(all="ignore"):
        if op == "sum":
            np.add(target, contribution, out=target)
        else:
            # Equal numbers differ at most in the sign of zero: of two zeros, -0 only if both are.
            equal = target == contribution
            both = as_bits(target) & as_bits(contribution)
            np.maximum(target, contribution, out=target)
            np.copyto(as_bits(target), both, where=equal)
    make_canonical(target)


def make_canonical(elements: Elements) -> None:
    """Put the canonical NaN in the place of every NaN, in memory as it is."""
    with np.errstate(invalid="ignore"):  # a signalling NaN of bfloat16 would warn
        not_a_number = np.isnan(elements)
    if not_a_number.any():
        as_bits(elements)[not_a_number] = CANONICAL_NAN[elements.dtype.name]


class Op(IntEnum):
    """What a row does: add into the parent, replace at the child, or (tables only) wait."""

    REDUCE = 0
    GATHER = 1
    NOP = 2


OPS_OF = {
    "all_reduce": (Op.REDUCE, Op.GATHER),
    "reduce_scatter": (Op.REDUCE,),
    "all_gather": (Op.GATHER,),
    "broadcast": (Op.GATHER,),
    "reduce": (Op.REDUCE,),
}
COLLECTIVES = tuple(OPS_OF)
ROOTED = ("broadcast", "reduce")


def check_collective(collective: str, root: int | None, num_ranks: int) -> None:
    """Check a collective's name and that it has a root exactly where it needs one.

    Parameters
    ----------
    collective : str
    root : int or None
    num_ranks : int

    Raises
    ------
    ScheduleError
        If the name is unknown, or the root missing, no rank or uncalled for.
    """
    if collective not in COLLECTIVES:
        known = ", ".join(COLLECTIVES)
        raise ScheduleError(f"Collective must be one of {known}, not {collective!r}")
    if collective in ROOTED:
        chosen_roots([root], num_ranks)
    elif root is not None:
        raise ScheduleError(f"Root of {collective} must be None, not {root!r}")


def chosen_roots(roots: Sequence[int | None] | None, num_ranks: int) -> list[int]:
    """The roots of a schedule's flows as a list; every rank once where none are given.

    Parameters
    ----------
    roots : sequence of int, or None
    num_ranks : int

    Returns
    -------
    list of int

    Raises
    ------
    ScheduleError
        If the sequence is empty or a root is no rank.

    Examples
    --------
    >>> chosen_roots(None, 3), chosen_roots([2, 2], 3)
    ([0, 1, 2], [2, 2])
    """
    if roots is None:
        return list(range(num_ranks))
    chosen = []
    for root in roots:
        is_whole = isinstance(root, int | np.integer) and not isinstance(root, bool)
        if root is None or not is_whole or not 0 <= root < num_ranks:
            raise ScheduleError(f"Root must be a rank 0..{num_ranks - 1}, not {root!r}")
        chosen.append(int(root))
    if not chosen:
        raise ScheduleError("Roots must be at least one rank, not none")
    return chosen


def check_roots(
    collective: str,
    roots: Int32Array,
    root: int | None,
    num_ranks: int,
    *,
    describe: Callable[[int], str] = "Flow {}".format,
) -> None:
    """Check that trees have their roots where a collective needs them.

    Parameters
    ----------
    collective : str
    roots : numpy.ndarray, int32 (num_flows,)
    root : int or None
        The one that broadcast and reduce must have; None for any one.
    num_ranks : int
    describe : callable
        Names a flow, by its number, in a message.

    Raises
    ------
    ScheduleError
        If reduce_scatter or all_gather lack one flow rooted at each rank, or the trees of
        broadcast or reduce do not share their root.
    """
    if collective == "all_reduce":
        return
    if collective in ROOTED:
        wanted = int(roots[0]) if root is None else root
        wrong = np.flatnonzero(roots != wanted)
        where = f"every flow rooted at rank {wanted}"
    elif len(roots) != num_ranks:
        raise ScheduleError(
            f"{collective} must have one flow rooted at each rank, "
            f"not {len(roots)} flows for {num_ranks} ranks"
        )
    else:
        wrong = np.flatnonzero(positions_in_group(roots.astype(np.int64)) > 0)
        where = "one flow rooted at each rank"
    if wrong.size:
        flow = int(wrong[0])
        raise ScheduleError(
            f"{describe(flow)}: {collective} must have {where}, not flow {flow} at {roots[flow]}"
        )
