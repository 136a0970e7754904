"""Sums and maxima of two elements, by the definition of each type."""

import itertools

import numpy as np
import pytest
from ml_dtypes import bfloat16

from multitree.topology.collectives import CANONICAL_NAN, DTYPES, as_bits, combine

EDGES = (0x0000, 0x0001, 0x0002, 0x007F, 0x0080, 0x00FF, 0x3B80, 0x3B81, 0x3F80, 0x3F81)
EDGES += (0x4000, 0x7F00, 0x7F7F, 0x7F80, 0x7F81, 0x7FBF, 0x7FC0, 0x7FFF)
BFLOATS = np.array([*EDGES, *(0x8000 | edge for edge in EDGES)], np.uint16)


def combined(a, b, op):
    target = a.copy()
    combine(target, b, op)
    return as_bits(target)


def rounded(numbers):
    """Bits of float32 numbers rounded to bfloat16: half a last place is added, or less if even."""
    words = numbers.view(np.uint32).astype(np.uint64)
    nearest = (words + 0x7FFF + (words >> 16 & 1) >> 16).astype(np.uint16)
    return np.where(np.isnan(numbers), np.uint16(0x7FC0), nearest)


def pairs_of_bfloats():
    """Every edge with every other, and random bits."""
    seed = 9
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    edges = np.array(list(itertools.product(BFLOATS, BFLOATS)), np.uint16)
    drawn = rng.integers(0, 1 << 16, (200_000, 2), dtype=np.uint16)
    drawn[::2, 1] = (drawn[::2, 0] + rng.integers(-300, 300, 100_000)) & 0xFFFF
    return np.concatenate([edges, drawn]).T.copy()


def test_a_bfloat16_sum_is_the_float32_sum_rounded_once():
    a, b = pairs_of_bfloats()
    with np.errstate(all="ignore"):
        wide = a.view(bfloat16).astype(np.float32) + b.view(bfloat16).astype(np.float32)
    assert (combined(a.view(bfloat16), b.view(bfloat16), "sum") == rounded(wide)).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_maximum_is_the_larger_one_of_a_total_order_in_which_nan_is_above_all(dtype):
    a, b = pairs_of_bfloats()
    if dtype == "float32":
        a, b = (words.astype(np.uint32) << np.uint32(16) for words in (a, b))
    kind, canonical = DTYPES[dtype], CANONICAL_NAN[dtype]
    sign = 1 << 8 * kind.itemsize - 1

    def key(word):
        magnitude = int(word) & sign - 1
        if magnitude > canonical - (canonical & -canonical):
            return canonical
        return -magnitude - 1 if word & sign else magnitude

    keys = [max(map(key, pair)) for pair in zip(a, b, strict=True)]
    wanted = [place if place >= 0 else sign - 1 - place for place in keys]
    assert combined(a.view(kind), b.view(kind), "max").tolist() == wanted


def test_integers_wrap_around_and_their_maximum_is_signed():
    a, b = np.array([2**31 - 1, -5], np.int32), np.array([1, -7], np.int32)
    assert combined(a, b, "sum").view(np.int32).tolist() == [-(2**31), -12]
    assert combined(a, b, "max").view(np.int32).tolist() == [2**31 - 1, -5]
