"""Sums whose bits depend on the ranks' elements alone, from integer all-reduces.

A sum of floats depends on the order of its additions, so on topology, algorithm, chunks and
waves. Here it is made of three integer collectives, whose bits do not: the largest magnitude of
every element among the ranks (an int32 maximum), then two int32 sums of what each rank's element
is worth in a unit that this magnitude determines; the integer they hold is rounded once.

The idea, summands cut at bits that the largest of them determines, is that of J. Demmel and
H. D. Nguyen, "Parallel Reproducible Summation", IEEE Transactions on Computers 64(7), 2015, and of
P. Ahrens, H. D. Nguyen and J. Demmel, "Efficient Reproducible Floating Point Summation and BLAS",
UCB/EECS-2015-229, 2015. Their accumulators are floats, these are the integers that the hardware
adds; since every rank knows the largest magnitude first, each needs one pair of limbs.

Let M be the largest magnitude among N finite summands, p the precision of the type (24, 8 or 11
bits), s the exact sum, and S the integer, in units, that is rounded to the result. Then::

    |S - s| <= (N - 1) 2^-43 M
    |result - S| <= 2^-p |S|                 unless the result is infinite
    |average - S/N| <= 2^-p |S/N| + 2^-150   (2^-134 for bfloat16, 2^-25 for float16)
"""

from collections.abc import Callable, Iterator

import torch

from multitree.host.tensors.operators import make_canonical

__all__ = [
    "INVARIANT_DTYPES",
    "MOST_RANKS",
    "check_invariant",
    "invariant_sum",
    "keys_of",
    "limbs_of",
    "needs_limbs",
    "sum_of",
]

INVARIANT_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.complex64)
"""Types whose sums can be invariant; complex numbers are pairs of float32."""

MOST_RANKS = 1024
"""Summands that the limbs have room for."""

# Error. Let 2^E <= M < 2^(E+1), but E = -126 where M is smaller. The unit is u = 2^(E-42), and a
# summand rounded to the nearest multiple of u errs by u/2 = 2^(E-43) at most. If M >= 2^-126 this
# is at most 2^-43 M, and the largest summand, a multiple of 2^(E-23), is not rounded, so that at
# most N - 1 summands err; if M < 2^-126 none does, for u < 2^-149 divides all. The result is S
# rounded once. A subnormal S is not rounded at all: if u is at most the type's least number, no
# summand was rounded, so that S is a multiple of that number, and else it is one as a multiple of
# u.
#
# A summand of precision p is rounded only if it is below 2^(p-42) M: where the magnitudes of an
# element span less, the sum is the exact one rounded once, and so are all sums of float16, whose
# numbers are multiples of 2^-24 below 2^16, hence of u.
#
# Range. A rounded summand is an integer v of units, |v| < 2^43: |x| < 2^(E+1) = 2^43 u, and where
# |x| is next to that it is not rounded. It is sent as v = 2^22 high + low, 0 <= low < 2^22,
# -2^21 <= high < 2^21. Sums of N <= 2^10 stay within -2^31 <= sum of high < 2^31 and
# 0 <= sum of low < 2^32: the first is right as int32, the second as what wraps around in 32 bits,
# read without a sign. Their total is below 2^53, so that float64 holds it.
_LOW_BITS = 22
_KEPT_BITS = 43
_INFINITY = 0x7F800000  # as the bits of a float32; the keys of NaN are above
_LEAST_NORMAL = 0x00800000
_UNIT = 2.0 ** (1 - _KEPT_BITS)  # in powers of two 2^E
_INVERSE_SCALE = 1 / (2 * _UNIT)  # units in 2^(E-1)
_BIAS, _BIAS_BITS = 1.5 * 2.0**52, 0x4338 << 48  # float64 from 2^52 to 2^53 are the integers
# Elements of a block: temporaries fit a CPU's cache, and fill a GPU.
_CPU_BLOCK, _GPU_BLOCK = 1 << 16, 1 << 24

AllReduce = Callable[[torch.Tensor, str], torch.Tensor]
"""Of a one-dimensional int32 tensor by "max" or a "sum" that wraps around, maybe in place."""


def needs_limbs(op: str, dtype: torch.dtype) -> bool:
    """Whether the bits of a reduction depend on the order unless it is made of integers.

    Integers wrap around, maxima and minima are one of the elements (`operators.combine` orders
    zeros and makes NaN canonical), and bitwise operators are associative: these are invariant
    anyway.
    """
    inexact = dtype.is_floating_point or dtype.is_complex
    return inexact and op in ("sum", "average", "product")


def check_invariant(op: str, dtype: torch.dtype, num_ranks: int) -> None:
    """Raise where a reduction that `needs_limbs` has no invariant form.

    ValueError for an operator but "sum" and "average" and for more than `MOST_RANKS` ranks,
    TypeError for another type: the limbs have no room for float64.
    """
    if op not in ("sum", "average"):
        raise ValueError(f"Operator must be sum or average to be invariant, not {op!r}")
    if dtype not in INVARIANT_DTYPES:
        *others, last = (str(known).removeprefix("torch.") for known in INVARIANT_DTYPES)
        raise TypeError(
            f"Buffers must be {', '.join(others)} or {last} for an invariant {op}, not {dtype}"
        )
    if num_ranks > MOST_RANKS:
        raise ValueError(f"Ranks of an invariant sum must be at most {MOST_RANKS}, not {num_ranks}")


def invariant_sum(
    all_reduce: AllReduce, x: torch.Tensor, op: str = "sum", *, num_ranks: int
) -> torch.Tensor:
    """Sum or average of n floats over ranks, by two int32 all-reduces: "max" of n, "sum" of 2 n.

    The bits are the same whatever the order and schedule of the all-reduces: -0 if all summands
    are, +0 if they cancel, the canonical NaN if one is NaN or infinities of both signs are among
    them. 12 bytes per float on the wire; complex64 counts as two floats.
    """
    check_invariant(op, x.dtype, num_ranks)
    # A process that has called `torch.set_flush_denormal(True)` takes subnormals for zeros here.
    largest = all_reduce(keys_of(x), "max")
    limbs = all_reduce(limbs_of(x, largest).view(-1), "sum").view(2, -1)
    divisor = num_ranks if op == "average" else None
    return sum_of(limbs, largest, x.dtype, divisor).reshape(x.shape)


def keys_of(x: torch.Tensor) -> torch.Tensor:
    """Integers in the order of magnitudes, int32 (n,), by whose maximum the largest one is found.

    +0 is 0, numbers are above, as the bits of float32, then infinity, then NaN. -0 is -1, so that
    the largest key tells whether all are -0.
    """
    x = _flat(x)
    keys = torch.empty(x.numel(), dtype=torch.int32, device=x.device)
    for block in _blocks(x):
        bits = _bits(x[block])
        torch.bitwise_and(bits, 0x7FFFFFFF, out=keys[block])
        keys[block].masked_fill_(bits == -(1 << 31), -1)
    return keys


def limbs_of(x: torch.Tensor, largest_keys: torch.Tensor) -> torch.Tensor:
    """High and low limb of the units that n elements add, int32 (2, n), to be summed as int32.

    Where the largest key over all ranks is that of infinity, or NaN: whether the element is
    +infinity, whether it is -infinity.
    """
    x, largest_keys = _flat(x), largest_keys.reshape(-1)
    limbs = torch.empty((2, x.numel()), dtype=torch.int32, device=x.device)
    bias = torch.full((1,), _BIAS, dtype=torch.float64, device=x.device)
    for block in _blocks(x):
        keys, values = largest_keys[block], x[block]
        # Powers of two only move the exponent: products are exact. The addition rounds to an
        # integer, ties to even, and leaves that in the low bits of the sum.
        scaled = torch.addcmul(
            bias, values.to(torch.float64), _power_of(keys, inverse=True), value=_INVERSE_SCALE
        )
        integers = scaled.view(torch.int64).sub_(_BIAS_BITS)
        high, low = limbs[:, block]
        torch.bitwise_and(integers.to(torch.int32), (1 << _LOW_BITS) - 1, out=low)
        high.copy_(integers.bitwise_right_shift_(_LOW_BITS))
        special = _special(keys)
        if special is not None:
            for limb, infinity in ((high, torch.inf), (low, -torch.inf)):
                counted = (values == infinity).to(torch.int32)
                limb.copy_(torch.where(special, counted, limb))
    return limbs


def sum_of(
    limbs: torch.Tensor,
    largest_keys: torch.Tensor,
    dtype: torch.dtype,
    num_ranks: int | None = None,
) -> torch.Tensor:
    """Round the integer that summed limbs hold, once, to nearest, ties to even: n floats.

    With `num_ranks` it is divided for an average: the exact quotient rounded once, not a rounded
    sum divided, for half the error, no overflow on the way, and no more work.
    """
    largest_keys = largest_keys.reshape(-1)
    real = torch.float32 if dtype.is_complex else dtype
    sums = torch.empty(limbs.shape[1], dtype=real, device=limbs.device)
    divisor = None
    if num_ranks is not None:
        # A divisor on the device: CUDA multiplies by the reciprocal of a Python number.
        divisor = torch.full((1,), num_ranks, dtype=torch.float64, device=limbs.device)
    for block in _blocks(sums):
        keys = largest_keys[block]
        high, low = limbs[:, block]
        # The sum of low limbs has no sign: its highest bit, which counts as -2^31, is flipped, and
        # what that takes away is added. All sums are exact, in units and so in powers of two.
        total = (low ^ -(1 << 31)).to(torch.float64).add_(2.0**31).mul_(_UNIT)
        values = total.add_(high.to(torch.float64), alpha=_UNIT * 2.0**_LOW_BITS)
        if divisor is not None:
            # That S/N is first rounded to float64 does not matter. Let 2^e <= |S/N| < 2^(e+1) and
            # m, in units, be half way between two numbers of the type, a multiple of 2^(e-24). With
            # g = min(2^(e-24), 1), S and N m are multiples of g: S/N is m or differs from it by g/N
            # at least. That is more than half an ulp of float64, 2^(e-53), for N <= 2^10 and
            # 2^e N <= |S| < 2^53, so that S/N is never rounded to m, nor beyond it. Halfway points
            # of subnormal numbers are farther apart, and the same holds.
            values.div_(divisor)
        values.mul_(_power_of(keys))
        if int(keys.amin()) < 0:
            values.masked_fill_(keys < 0, -0.0)
        special = _special(keys)
        if special is not None:
            values = torch.where(special, _infinite(limbs[:, block], keys), values)
        sums[block] = _rounded(values, real)
        if special is not None:
            make_canonical(sums[block])
    return torch.view_as_complex(sums.view(-1, 2)) if dtype.is_complex else sums


def _flat(x: torch.Tensor) -> torch.Tensor:
    """One dimension of real numbers."""
    return (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x).reshape(-1)


def _blocks(x: torch.Tensor) -> Iterator[slice]:
    """Parts of a tensor that temporaries of whole length are made for."""
    length = _CPU_BLOCK if x.device.type == "cpu" else _GPU_BLOCK
    return (slice(begin, begin + length) for begin in range(0, len(x), length))


def _bits(values: torch.Tensor) -> torch.Tensor:
    """Bits of floats as float32, which holds all of bfloat16 and float16."""
    return values.to(torch.float32).view(torch.int32)


def _power_of(keys: torch.Tensor, *, inverse: bool = False) -> torch.Tensor:
    """2^E as float64, of the magnitudes of keys that are finite; or 2^(1-E)."""
    bits = keys.clamp(min=_LEAST_NORMAL).bitwise_and_(_INFINITY)
    if inverse:
        # From exponents 1 to 254 to those from 254 to 1: none is subnormal as a float32.
        bits = torch.sub(_INFINITY, bits)
    # All operands are of one type: PyTorch is slow where it has to convert one of two.
    return bits.view(torch.float32).to(torch.float64)


def _special(keys: torch.Tensor) -> torch.Tensor | None:
    """Where a key is that of an infinity or NaN; None if nowhere."""
    return keys >= _INFINITY if int(keys.amax()) >= _INFINITY else None


def _infinite(limbs: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Sums of infinities: of one sign that infinity, of both NaN; NaN where a key is NaN's."""
    positive, negative = (limb > 0 for limb in limbs)
    infinity = torch.where(negative, -torch.inf, torch.inf).to(torch.float64)
    return infinity.masked_fill_((positive & negative) | (keys > _INFINITY), torch.nan)


def _rounded(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float64 rounded once; NaN not yet canonical."""
    single = values.to(torch.float32)
    if dtype == torch.float32:
        return single
    # PyTorch rounds float64 to float32 on the way, twice. Rounding to odd first is as good as not
    # at all, where two bits are to spare: toward zero, the last bit set if anything was cut off.
    wide = single.to(torch.float64)
    bits = single.view(torch.int32)
    cut_off = (wide != values).to(torch.int32)
    bits.sub_((wide.abs_() > values.abs()).to(torch.int32)).bitwise_or_(cut_off)
    return single.to(dtype)
