"""Elements of buffers: their types, and what becomes of two of them."""

from typing import Any

import numpy as np
import numpy.typing as npt
from ml_dtypes import bfloat16

__all__ = ["CANONICAL_NAN", "DTYPES", "OPS", "as_bits", "check_dtype", "combine", "make_canonical"]

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
