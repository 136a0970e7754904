"""Buffers for tests: sums that depend on the order, and every odd value."""

import numpy as np

from multitree.topology.collectives import CANONICAL_NAN, DTYPES, as_bits

__all__ = ["bits", "make_buffers", "odd_buffers", "with_odd_values"]


def make_buffers(seed, num_ranks, n, dtype="float32"):
    """Seeded normal values with exponents spread over 2^±20, or integers of all sizes."""
    rng = np.random.default_rng(seed)
    if dtype == "int32":
        return rng.integers(-(2**31), 2**31, (num_ranks, n)).astype(np.int32)
    scale = 2.0 ** rng.integers(-20, 21, (num_ranks, n))
    values = (rng.standard_normal((num_ranks, n)) * scale).astype(np.float32)
    return values.astype(DTYPES[dtype])


def with_odd_values(buffers):
    """Add infinities, NaNs of other bits, signed zeros and subnormals, columns 3 to 15."""
    odd = buffers.copy()
    words = as_bits(odd)
    canonical = CANONICAL_NAN[odd.dtype.name]
    infinity = canonical - (canonical & -canonical)
    odd[0, 3], odd[1, 3] = np.inf, -np.inf
    words[1, 5] = np.iinfo(words.dtype).max  # a NaN with a payload and a sign
    words[0, 7] = infinity + 1  # a signalling NaN
    odd[:, 9] = -0.0
    odd[:, 10] = [0.0, *[-0.0] * (len(odd) - 1)]
    words[:, 11] = np.arange(len(odd)) + 1
    words[:, 13] = infinity - 1  # the largest number
    return odd


def odd_buffers(seed, num_ranks, n, dtype="float32"):
    """Buffers of `make_buffers` with odd values, where there is room for them."""
    buffers = make_buffers(seed, num_ranks, n, dtype)
    return with_odd_values(buffers) if n > 16 and dtype != "int32" else buffers


def bits(array):
    return as_bits(np.ascontiguousarray(array))
