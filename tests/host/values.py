"""Buffers for tests: sums that depend on the order, and every odd value."""

import numpy as np

__all__ = ["bits", "make_buffers", "with_odd_values"]


def make_buffers(seed, num_ranks, n, dtype="float32"):
    """Seeded normal values with exponents spread over 2^±20, or integers of all sizes."""
    rng = np.random.default_rng(seed)
    if dtype == "int32":
        return rng.integers(-(2**31), 2**31, (num_ranks, n)).astype(np.int32)
    scale = 2.0 ** rng.integers(-20, 21, (num_ranks, n))
    return (rng.standard_normal((num_ranks, n)) * scale).astype(np.float32)


def with_odd_values(buffers):
    """Add infinities, NaNs of other bits, signed zeros and subnormals, columns 3 to 15."""
    odd = buffers.copy()
    words = odd.view(np.uint32)
    odd[0, 3], odd[1, 3] = np.inf, -np.inf
    words[1, 5] = 0xFFC12345
    words[0, 7] = 0x7F800001
    odd[:, 9] = -0.0
    words[:, 11] = np.arange(len(odd)) + 1
    odd[:, 13] = np.finfo(np.float32).max
    return odd


def bits(array):
    """The bits of an array of 32-bit elements."""
    return np.ascontiguousarray(array).view(np.uint32)
