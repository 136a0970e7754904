"""Check bits find up to three flipped bits of a stored word; a parity finds runs."""

import random
from itertools import combinations

import numpy as np
import pytest
from amaranth import Cat, Module, Signal
from amaranth.sim import Simulator

from multitree.hw.check_bits import (
    check_columns,
    check_of,
    check_width,
    has_parity,
    is_intact,
    parity_of,
    parity_width,
)
from tests.hw.streams import assert_refused

WIDTHS = (1, 2, 9, 32, 54, 130, 155)


def stored_columns(width):
    """What each bit of a stored word, check bits last, does to the syndrome."""
    own = [1 << k for k in range(check_width(width))]
    return np.array([*check_columns(width), *own], dtype=np.int64)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("flips", [1, 2, 3])
def test_no_one_two_or_three_flipped_bits_of_a_stored_word_are_taken_for_right(width, flips):
    rng = random.Random(width)
    columns = stored_columns(width)
    patterns = np.array(list(combinations(range(len(columns)), flips)))
    for word in (0, (1 << width) - 1, rng.getrandbits(width)):
        bits = np.array([word >> k & 1 for k in range(width)])
        check = np.bitwise_xor.reduce(np.where(bits, columns[:width], 0))
        whole = np.bitwise_xor.reduce(np.where(bits, columns[:width], 0)) ^ check
        assert whole == 0
        assert (whole ^ np.bitwise_xor.reduce(columns[patterns], axis=1) != 0).all()


def finds_exactly(patterns, rng, width, code_width, code_of, is_right):
    """Flips some bits of random words: they are right exactly where none flipped."""
    m, word, flips = Module(), Signal(width), Signal(width + code_width)
    stored, right, code = Signal.like(flips), Signal(), Signal(code_width)
    m.d.comb += [
        code.eq(code_of(word)),
        stored.eq(Cat(word, code) ^ flips),
        right.eq(is_right(stored[:width], stored[width:])),
    ]

    async def bench(ctx):
        for pattern in patterns:
            ctx.set(word, rng.getrandbits(width))
            ctx.set(flips, pattern)
            assert ctx.get(right) == (pattern == 0), f"{pattern:b}"
        ctx.set(word, 0)
        assert ctx.get(code) == 0

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_network_finds_what_the_matrix_does_in_any_word(width):
    print(f"seed {width}")
    rng = random.Random(width)
    singles = [1 << k for k in range(width + check_width(width))]
    pairs = [a | b for a, b in combinations(singles, 2)]
    triples = [sum(rng.sample(singles, 3)) for _ in range(300)]
    patterns = [0, *singles, *rng.sample(pairs, min(len(pairs), 800)), *triples]
    finds_exactly(patterns, rng, width, check_width(width), check_of, is_intact)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_parity_finds_odd_numbers_of_flips_and_all_flips_in_a_run_as_long_as_itself(width):
    print(f"seed {width}")
    rng = random.Random(width)
    groups = parity_width(width)
    stored = width + groups
    odd = [
        sum(1 << bit for bit in rng.sample(range(stored), rng.randrange(1, stored, 2)))
        for _ in range(300)
    ]
    runs = [
        rng.randrange(1, 1 << groups) << first
        for first in range(stored - groups + 1)
        for _ in range(8)
    ]
    finds_exactly([0, *odd, *runs], rng, width, groups, parity_of, has_parity)


def test_a_parity_has_eight_bits_and_fewer_for_narrow_words_but_two():
    assert [parity_width(width) for width in (1, 2, 5, 8, 9, 515)] == [2, 2, 5, 8, 8, 8]
    assert_refused(lambda: parity_width(0), ValueError, "Width must be at least 1, not 0")


def test_each_check_bit_has_about_as_many_bits_to_add():
    for width in (32, 130, 153):
        columns = check_columns(width)
        loads = [sum(column >> row & 1 for column in columns) for row in range(check_width(width))]
        assert max(loads) - min(loads) <= 2
        assert {column.bit_count() for column in columns} == {3}


def test_a_word_of_32_bits_has_seven_check_bits_and_a_flit_of_16_bytes_eleven():
    assert [check_width(width) for width in (1, 4, 32, 130)] == [3, 4, 7, 11]


def test_words_without_a_bit_are_refused():
    assert_refused(lambda: check_width(0), ValueError, "Width must be at least 1, not 0")
