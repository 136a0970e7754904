"""What reductions do with two tensors' elements, with the bits of the hardware."""

from collections.abc import Callable

import torch

from multitree.topology.collectives import CANONICAL_NAN

__all__ = [
    "ADDED_DTYPES",
    "OPERATORS",
    "as_integers",
    "check_operator",
    "combine",
    "divide_by_ranks",
    "make_canonical",
    "reduction_of",
]

_INTEGER_VIEW = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_CANONICAL = {
    **{getattr(torch, name): bits for name, bits in CANONICAL_NAN.items()},
    torch.float16: 0x7E00,
    torch.float64: 0x7FF8 << 48,
}
_BITWISE = {
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
}

ADDED_DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
    *(torch.complex32, torch.complex64, torch.complex128),
)
"""Types whose elements PyTorch combines. Others are bytes, which can only be copied."""

OPERATORS = ("sum", "average", "product", "min", "max", *_BITWISE)
"""All that a reduction can be. The hardware knows sum, max, and the average as a divided sum."""


def check_operator(op: str, dtype: torch.dtype) -> None:
    """Raise ValueError for an unknown operator, TypeError for one that the type does not have."""
    if op not in OPERATORS:
        raise ValueError(f"Operator must be one of {', '.join(OPERATORS)}, not {op!r}")
    if dtype not in ADDED_DTYPES:
        *others, last = (str(known).removeprefix("torch.") for known in ADDED_DTYPES)
        raise TypeError(f"Buffers must be {', '.join(others)} or {last} for {op}, not {dtype}")
    if op == "average" and dtype == torch.bool:
        raise TypeError(f"Buffers must be numbers for an average, not {dtype}")
    if op in ("min", "max") and dtype.is_complex:
        raise TypeError(f"Buffers must be real for {op}, not {dtype}")
    if op in _BITWISE and (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(f"Buffers must be integers for {op}, not {dtype}")


def reduction_of(op: str) -> str:
    """What contributions are combined with: an average is a sum, divided at the end."""
    return "sum" if op == "average" else op


def combine(value: torch.Tensor, contribution: torch.Tensor, op: str, out: torch.Tensor) -> None:
    """Combine elements of two tensors of one type into a third, which may be one of them.

    float16 and bfloat16 are added in float32 and rounded once. A minimum or maximum of floats is
    that of IEEE 754-2019: a NaN propagates, and +0 is above -0. NaN are not yet canonical.
    """
    if op == "sum":
        torch.add(value, contribution, out=out)
    elif op == "product":
        torch.mul(value, contribution, out=out)
    elif op in _BITWISE:
        _BITWISE[op](value, contribution, out=out)
    elif not value.is_floating_point():
        (torch.maximum if op == "max" else torch.minimum)(value, contribution, out=out)
    else:
        _extremum(value, contribution, op, out)


def _extremum(value: torch.Tensor, contribution: torch.Tensor, op: str, out: torch.Tensor) -> None:
    """The larger or smaller floats, NaN if one is, zeros ordered by sign."""
    extremum: Callable[..., torch.Tensor] = torch.maximum if op == "max" else torch.minimum
    merge = torch.bitwise_and if op == "max" else torch.bitwise_or
    # Equal numbers differ at most in the sign of zero.
    merged = merge(as_integers(value), as_integers(contribution))
    equal = value == contribution
    larger = extremum(value, contribution)
    torch.where(equal, merged, as_integers(larger), out=as_integers(out))


def as_integers(elements: torch.Tensor) -> torch.Tensor:
    """The same memory as integers of the same size, to compare or write bit by bit."""
    return elements.view(_INTEGER_VIEW[elements.element_size()])


def make_canonical(elements: torch.Tensor, where: torch.Tensor | None = None) -> None:
    """Write the canonical NaN in the place of every NaN, or of those in a mask."""
    # Complex numbers are left as they are: the hardware has none, so that no bits are defined.
    canonical = _CANONICAL.get(elements.dtype)
    if canonical is not None:
        wrong = torch.isnan(elements) if where is None else torch.isnan(elements) & where
        as_integers(elements).masked_fill_(wrong, canonical)


def divide_by_ranks(sums: torch.Tensor, num_ranks: int) -> None:
    """Divide sums by the number of ranks in place, 16-bit floats as float32.

    Quotients of integers are rounded towards zero, as NCCL does (`FuncSumPostDiv`).
    """
    if not (sums.is_floating_point() or sums.is_complex()):
        sums.copy_(torch.div(sums, num_ranks, rounding_mode="trunc"))
        return
    wide = torch.float32 if sums.dtype in (torch.float16, torch.bfloat16) else sums.dtype
    # A divisor on the device: CUDA multiplies by the reciprocal of a Python number, and the
    # reciprocal of 15 is not exact.
    divisor = torch.full((1,), num_ranks, dtype=wide, device=sums.device)
    sums.copy_(torch.div(sums.to(wide), divisor))
