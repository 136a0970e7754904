"""Check bits find every one, two and three flipped bits of a stored word."""

import random
from itertools import combinations

import numpy as np
import pytest
from amaranth import Cat, Module, Signal
from amaranth.sim import Simulator

from multitree.hw.checked_queue import check_columns, check_of, check_width, is_intact
from tests.hw.streams import assert_refused

WIDTHS = (1, 2, 9, 32, 54, 130)


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


@pytest.mark.parametrize("width", WIDTHS)
def test_the_network_finds_what_the_matrix_does_in_any_word(width):
    print(f"seed {width}")
    rng = random.Random(width)
    m, word, flips = Module(), Signal(width), Signal(width + check_width(width))
    stored, intact, check = Signal.like(flips), Signal(), Signal(check_width(width))
    m.d.comb += [
        check.eq(check_of(word)),
        stored.eq(Cat(word, check) ^ flips),
        intact.eq(is_intact(stored[:width], stored[width:])),
    ]
    singles = [1 << k for k in range(len(flips))]
    pairs = [a | b for a, b in combinations(singles, 2)]
    triples = [sum(rng.sample(singles, 3)) for _ in range(300)]

    async def bench(ctx):
        for pattern in [0, *singles, *rng.sample(pairs, min(len(pairs), 800)), *triples]:
            ctx.set(word, rng.getrandbits(width))
            ctx.set(flips, pattern)
            assert ctx.get(intact) == (pattern == 0), f"{pattern:b}"
        ctx.set(word, 0)
        assert ctx.get(check) == 0

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


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
