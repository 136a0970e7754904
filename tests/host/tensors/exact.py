"""Floats as fractions, and fractions rounded once, by integers alone."""

from fractions import Fraction

import torch

from multitree.host.tensors.operators import as_integers

__all__ = ["FORMATS", "bits_of", "exact_sum", "random_floats", "rounded", "unit_of"]

FORMATS = {
    torch.float32: (24, -126, 128),
    torch.bfloat16: (8, -126, 128),
    torch.float16: (11, -14, 16),
}
"""Precision in bits, exponent of the least normal number, and of what is too large."""


def bits_of(tensor):
    """A tensor's bits as integers without a sign, in a list."""
    mask = (1 << 8 * tensor.element_size()) - 1
    return [int(bits) & mask for bits in as_integers(tensor.contiguous()).reshape(-1).tolist()]


def random_floats(seed, shape, dtype):
    """Floats of random bits: every exponent, signed zeros, NaN and infinities."""
    generator = torch.Generator().manual_seed(seed)
    size = torch.finfo(dtype).bits
    integers = {16: torch.int16, 32: torch.int32}[size]
    bits = torch.randint(-(1 << size - 1), 1 << size - 1, shape, generator=generator)
    return bits.to(integers).view(dtype)


def rounded(value, dtype):
    """Bits of a fraction rounded to nearest, ties to even; zero is +0."""
    precision, least, above = FORMATS[dtype]
    sign, magnitude = value < 0, abs(value)
    if not magnitude:
        return 0
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    quantum = max(exponent, least) - precision + 1
    # `round` of a fraction takes ties to even.
    significand = round(magnitude / Fraction(2) ** quantum)
    fraction_bits = precision - 1
    bits = significand + (quantum + fraction_bits - least << fraction_bits)
    infinity = above - least + 1 << fraction_bits
    return min(bits, infinity) | sign << torch.finfo(dtype).bits - 1


def unit_of(values):
    """What the summands of an invariant sum are rounded to multiples of."""
    largest = max(map(abs, values))
    exponent = -126
    while largest >= Fraction(2) ** (exponent + 1):
        exponent += 1
    return Fraction(2) ** (exponent - 42)


def exact_sum(values):
    """Sum of floats as a fraction, and that of what an invariant sum makes of them."""
    fractions = [Fraction(value) for value in values]
    unit = unit_of(fractions)
    return sum(fractions), sum(round(value / unit) for value in fractions) * unit
