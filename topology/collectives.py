"""Collectives: element types and ops, and where their trees' roots must be."""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from ml_dtypes import bfloat16

from multitree.topology.arrays import Int32Array, positions_in_group
from multitree.topology.errors import ScheduleError, not_one_of

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
    """Raise a TypeError unless a NumPy or torch type is one of `DTYPES`; `thing` is what has it."""
    if str(dtype).removeprefix("torch.") not in DTYPES:
        *others, last = DTYPES
        raise TypeError(f"{thing} must be {', '.join(others)} or {last}, not {dtype}")


def as_bits(elements: Elements) -> Elements:
    """The same memory as unsigned integers, to compare bit by bit."""
    return elements.view(f"u{elements.dtype.itemsize}")


def combine(target: Elements, contribution: Elements, op: str) -> None:
    """Add elements to those of `target` by "sum", or keep the larger ones by "max", in place.

    int32 wraps around. Floats are rounded once, to nearest even, subnormals kept. The maximum is
    that of IEEE 754-2019: a NaN propagates, +0 is above -0. Every NaN result is the canonical one.
    """
    if target.dtype == np.int32:
        (np.add if op == "sum" else np.maximum)(target, contribution, out=target)
        return
    with np.errstate(all="ignore"):
        # ml_dtypes adds bfloat16 in float32 and rounds the sum. That equals one rounding of the
        # exact sum, since 24 bits are at least 2 x 8 + 2.
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
    """Raise a ScheduleError unless a collective is known and has a root where it needs one."""
    if collective not in COLLECTIVES:
        raise ScheduleError(not_one_of("Collective", collective, COLLECTIVES))
    if collective in ROOTED:
        chosen_roots([root], num_ranks)
    elif root is not None:
        raise ScheduleError(f"Root of {collective} must be None, not {root!r}")


def chosen_roots(roots: Sequence[int | None] | None, num_ranks: int) -> list[int]:
    """The roots of flows as a list, by default every rank once, or a ScheduleError."""
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
    """Raise a ScheduleError unless trees have their roots where a collective needs them.

    reduce_scatter and all_gather need one flow rooted at each rank, broadcast and reduce one root
    for all: `root`, or any if that is None. `describe` names a flow in the message.
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
