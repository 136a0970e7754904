"""Check bits find flipped bits of stored words, parities those of queued entries."""

import random
from itertools import combinations

import numpy as np
import pytest
from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import (
    Checked,
    check_of,
    has_parity,
    is_intact,
    numbers_of,
    parity_of,
    parity_width,
)
from multitree.hw.codes import check_columns, check_width
from multitree.hw.stream import Fifo, QuickFifo, Register
from tests.hw.streams import PATTERNS, assert_refused, go, run, run_without_clock, seeded, send

WIDTHS = (1, 2, 9, 32, 54, 130, 155)


def stored_columns(width):
    """What each bit of a stored word, check bits last, does to the syndrome."""
    own = [1 << k for k in range(check_width(width))]
    return np.array([*check_columns(width), *own], dtype=np.int64)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("flips", [1, 2, 3])
def test_no_one_two_or_three_flipped_bits_of_a_stored_word_are_taken_for_right(width, flips):
    # The code is linear: what flips do to the syndrome depends on no word.
    columns = stored_columns(width)
    patterns = np.array(list(combinations(range(len(columns)), flips)))
    assert (np.bitwise_xor.reduce(columns[patterns], axis=1) != 0).all()


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

    run_without_clock(m, bench)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_network_finds_what_the_matrix_does_in_any_word(width):
    rng = seeded(width)
    singles = [1 << k for k in range(width + check_width(width))]
    pairs = [a | b for a, b in combinations(singles, 2)]
    triples = [sum(rng.sample(singles, 3)) for _ in range(300)]
    patterns = [0, *singles, *rng.sample(pairs, min(len(pairs), 800)), *triples]
    finds_exactly(patterns, rng, width, check_width(width), check_of, is_intact)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("width", WIDTHS)
def test_a_parity_finds_odd_numbers_of_flips_and_all_flips_in_a_run_as_long_as_itself(width):
    rng = seeded(width)
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
    assert_refused(parity_width, ValueError, "Width must be at least 1, not 0", 0)


def test_each_check_bit_has_about_as_many_bits_to_add():
    for width in (32, 130, 153):
        columns = check_columns(width)
        loads = [sum(column >> row & 1 for column in columns) for row in range(check_width(width))]
        assert max(loads) - min(loads) <= 2
        assert {column.bit_count() for column in columns} == {3}


def test_a_word_of_32_bits_has_seven_check_bits_and_a_flit_of_16_bytes_eleven():
    assert [check_width(width) for width in (1, 4, 32, 130)] == [3, 4, 7, 11]


def test_words_without_a_bit_are_refused():
    assert_refused(check_width, ValueError, "Width must be at least 1, not 0", 0)
    assert_refused(check_width, TypeError, "Width must be an integer, not 1.5", 1.5)


WIDTH = 16


def struck(queue):
    """A class of queue in which `flips` are exclusive-ored to the entry in front."""

    class Struck(wiring.Component):
        flips = None

        def __init__(self, *, shape, **sizes):
            self._inner = queue(shape=shape, **sizes)
            type(self).flips = Signal(shape)
            payloads, members = stream.Signature(shape), self._inner.signature.members
            level = {"level": Out(members["level"].shape)} if "level" in members else {}
            super().__init__({"i": In(payloads), "o": Out(payloads), **level})

        def elaborate(self, platform):
            m = Module()
            m.submodules.inner = inner = self._inner
            wiring.connect(m, wiring.flipped(self.i), inner.i)
            m.d.comb += [
                self.o.valid.eq(inner.o.valid),
                self.o.payload.eq(inner.o.payload ^ self.flips),
                inner.o.ready.eq(self.o.ready),
            ]
            if "level" in self.signature.members:
                m.d.comb += self.level.eq(inner.level)
            return m

    return Struck


@pytest.mark.parametrize("stall", PATTERNS)
@pytest.mark.parametrize(
    ("queue", "sizes"), [(Register, {}), (Fifo, {"depth": 5}), (QuickFifo, {"depth": 5})]
)
def test_an_entry_is_reported_in_the_cycle_behind_exactly_if_one_or_three_bits_or_two_near_flipped(
    queue, sizes, stall
):
    rng = random.Random(f"{queue.__name__} {stall}")
    stand_in = struck(queue)
    block = Checked(stand_in, shape=WIDTH, **sizes)
    payloads = [rng.getrandbits(WIDTH) for _ in range(200)]
    reported, expected = [], []

    async def producer(ctx):
        await send(ctx, block.i, payloads, go("seldom", 1))

    async def strike(ctx):
        flips, moves, left = block._queue.flips, go(stall, 2), 0
        while left < len(payloads):
            bits = rng.sample(range(len(flips)), rng.choice([0, 0, 1, 3]))
            if rng.random() < 0.2:
                first = rng.randrange(len(flips) - 7)
                bits = [first, first + rng.randrange(1, 8)]
            pattern = sum(1 << bit for bit in bits)
            ready = next(moves)
            ctx.set(flips, pattern)
            ctx.set(block.o.ready, ready)
            _, _, valid = await ctx.tick().sample(block.o.valid)
            left += valid and ready
            expected.append(bool(valid and ready and pattern))
            reported.append(bool(ctx.get(block.state_error)))

    run(block, producer, strike)
    assert reported == expected and sum(expected) > 50


def stumbling(queue):
    """A class of queue that loses what comes in while `loses`, and doubles what leaves while
    `doubles`.
    """

    class Stumbling(wiring.Component):
        loses, doubles = Signal(), Signal()

        def __init__(self, *, shape, **sizes):
            self._inner = queue(shape=shape, **sizes)
            payloads = stream.Signature(shape)
            super().__init__({"i": In(payloads), "o": Out(payloads)})

        def elaborate(self, platform):
            m = Module()
            m.submodules.inner = inner = self._inner
            m.d.comb += [
                inner.i.payload.eq(self.i.payload),
                inner.i.valid.eq(self.i.valid & ~self.loses),
                self.i.ready.eq(inner.i.ready),
                self.o.payload.eq(inner.o.payload),
                self.o.valid.eq(inner.o.valid),
                inner.o.ready.eq(self.o.ready & ~self.doubles),
            ]
            return m

    return Stumbling


@pytest.mark.parametrize("fault", ["loses", "doubles", None])
@pytest.mark.parametrize(("queue", "sizes"), [(Register, {}), (Fifo, {"depth": 5})])
@pytest.mark.parametrize("width", [1, 16])
def test_the_entry_behind_one_that_is_lost_or_doubled_is_reported(queue, sizes, width, fault):
    stand_in, happened = stumbling(queue), []
    block = Checked(stand_in, shape=width, **sizes)

    async def bench(ctx):
        # All payloads are equal: only their numbers differ.
        ctx.set(block.i.valid, 1)
        for cycle in range(60):
            ctx.set(block.o.ready, cycle % 3 > 0)
            strikes = fault is not None and cycle >= 20 and not happened
            signal = stand_in.doubles if fault == "doubles" else stand_in.loses
            ctx.set(signal, strikes)
            ends = (block.o if fault == "doubles" else block.i) if fault else block.i
            _, _, valid, ready = await ctx.tick().sample(ends.valid, ends.ready)
            happened.extend([cycle] * (strikes and valid and ready))
            assert not ctx.get(block.state_error) or (happened and happened[0] <= cycle)
            if ctx.get(block.state_error):
                break
        assert bool(happened) == (fault is not None) == bool(ctx.get(block.state_error))

    run(block, bench)


@pytest.mark.parametrize("depth", [2, 3, 4, 5, 8, 16, 32, 64, 128, 256])
@pytest.mark.parametrize("width", [2, 8])
def test_numbers_tell_each_distance_that_a_flipped_bit_moves_an_entry(depth, width):
    places, count = depth - 1, numbers_of(depth - 1, width)
    assert 3 <= count <= 1 << width
    # An address of so many places, and a count, one bit flipped.
    steps = {1 << k for k in range(places.bit_length())}
    unseen = [step for step in steps if not step % count]
    assert not unseen or width == 2
    if width == 8:
        assert places % count or places in steps
