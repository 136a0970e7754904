"""Tests of the floating-point adder: all pairs of a tiny format, others by hand."""

import itertools

import pytest

from multitree.hw.float_add import FloatAdder
from tests.hw.streams import assert_refused, put, simulation

FP32 = {"exponent_width": 8, "fraction_width": 23}
BF16 = {"exponent_width": 8, "fraction_width": 7}
TINY = {"exponent_width": 3, "fraction_width": 3}


@simulation
async def simulate(ctx, adder, pairs, *, maximum=0, narrow=0):
    """Results of the block for pairs that follow each other in every cycle."""
    results = []
    put(ctx, adder, maximum=maximum, narrow=narrow)
    for a, b in [*pairs, *[(0, 0)] * adder.stages]:
        put(ctx, adder, a=a, b=b)
        results.append(ctx.get(adder.o))
        await ctx.tick()
    return results[adder.stages :]


class Format:
    """A binary format by the standard's own words: its magnitudes, in order, as integers."""

    def __init__(self, exponent_width, fraction_width):
        self.sign = 1 << (exponent_width + fraction_width)
        self.infinity = ((1 << exponent_width) - 1) << fraction_width
        self.nan = self.infinity | 1 << (fraction_width - 1)
        self.values = []
        # One more than the largest finite number: what rounds to it is infinite.
        for bits in range(self.infinity + 1):
            exponent, fraction = divmod(bits, 1 << fraction_width)
            hidden = (1 << fraction_width) * (exponent > 0)
            # The unit is the smallest subnormal number.
            self.values.append((hidden + fraction) << max(exponent, 1) - 1)

    def split(self, bits):
        """Sign, and the magnitude's bits."""
        return bits & self.sign, bits & (self.sign - 1)

    def round(self, value):
        """Bits of the nearest number, of two the one whose last bit is 0."""
        return min(range(len(self.values)), key=lambda k: (abs(self.values[k] - value), k & 1))

    def add(self, a, b):
        """Sum of two numbers' bits."""
        (sign_a, a), (sign_b, b) = self.split(a), self.split(b)
        opposite = sign_a != sign_b
        if max(a, b) > self.infinity or (a == b == self.infinity and opposite):
            return self.nan
        if self.infinity in (a, b):
            return self.infinity | (self.sign if (sign_a if a == self.infinity else sign_b) else 0)
        total = (-1) ** bool(sign_a) * self.values[a] + (-1) ** bool(sign_b) * self.values[b]
        negative = total < 0 or (total == 0 and sign_a and sign_b)
        return self.round(abs(total)) | (self.sign if negative else 0)

    def maximum(self, a, b):
        """The larger of two numbers' bits: -0 is below +0."""
        if max(self.split(a)[1], self.split(b)[1]) > self.infinity:
            return self.nan
        key = {bits: -self.split(bits)[1] - 1 if bits & self.sign else bits for bits in (a, b)}
        return max((a, b), key=key.__getitem__)


EVERY = list(itertools.product(range(1 << 7), repeat=2))


@pytest.mark.slow
def test_every_sum_of_a_tiny_format_is_the_nearest_number_to_the_exact_sum():
    tiny = Format(3, 3)
    assert simulate(FloatAdder(**TINY), EVERY) == [tiny.add(a, b) for a, b in EVERY]


@pytest.mark.slow
def test_every_sum_of_a_narrow_format_is_its_own_although_the_adder_is_wider():
    narrow = Format(3, 3)
    wide = {"exponent_width": 3, "fraction_width": 9, "narrow_fraction_width": 3}
    sums = simulate(FloatAdder(**wide), [(a << 6, b << 6) for a, b in EVERY], narrow=1)
    assert [total >> 6 for total in sums] == [narrow.add(a, b) for a, b in EVERY]


@pytest.mark.slow
def test_every_maximum_of_a_tiny_format_is_the_standards():
    tiny = Format(3, 3)
    assert simulate(FloatAdder(**TINY), EVERY, maximum=1) == [tiny.maximum(a, b) for a, b in EVERY]


@pytest.mark.parametrize(
    ("a", "b", "total"),
    [
        (0x3F800000, 0x3F800000, 0x40000000),  # 1 + 1 = 2
        (0x3F800000, 0x33800000, 0x3F800000),  # half a last place: to even, down
        (0x3F800001, 0x33800000, 0x3F800002),  # half a last place: to even, up
        (0x3F800000, 0x33800001, 0x3F800001),  # a little more than half
        (0x7F7FFFFF, 0x73000000, 0x7F800000),  # half a last place above the largest: infinity
        (0x7F7FFFFF, 0x72FFFFFF, 0x7F7FFFFF),  # a little less
        (0x00000001, 0x00000001, 0x00000002),  # subnormals
        (0x007FFFFF, 0x00000001, 0x00800000),  # the largest subnormal becomes normal
        (0x00800000, 0x80000001, 0x007FFFFF),  # and back
        (0x3F800000, 0xBF800000, 0x00000000),  # cancellation is +0
        (0x80000000, 0x80000000, 0x80000000),  # -0 + -0 = -0
        (0x80000000, 0x00000000, 0x00000000),  # -0 + 0 = +0
        (0x7F800000, 0xFF7FFFFF, 0x7F800000),  # infinity stays
        (0x7F800000, 0xFF800000, 0x7FC00000),  # infinity - infinity
        (0x7F800001, 0x3F800000, 0x7FC00000),  # signalling NaN
        (0xFFFFFFFF, 0x3F800000, 0x7FC00000),  # NaN with a payload and a sign
    ],
)
def test_sums_by_hand(a, b, total):
    sums = simulate(FloatAdder(**FP32), [(a, b), (b, a)])
    assert [hex(x) for x in sums] == [hex(total)] * 2


@pytest.mark.parametrize(
    ("a", "b", "total"),
    [
        (0x3F80, 0x3F80, 0x4000),  # 1 + 1 = 2
        (0x3F80, 0x3B80, 0x3F80),  # half a last place: to even, down
        (0x3F81, 0x3B80, 0x3F82),  # half a last place: to even, up
        (0x3F80, 0x3B81, 0x3F81),  # a little more than half
        (0x7F7F, 0x7B00, 0x7F80),  # half a last place above the largest: infinity
        (0x007F, 0x0001, 0x0080),  # the largest subnormal becomes normal
        (0x7F80, 0xFF80, 0x7FC0),  # infinity - infinity
        (0xFF81, 0x0000, 0x7FC0),  # signalling NaN with a sign
    ],
)
def test_sums_of_bf16_by_hand_are_those_of_fp32_rounded_there(a, b, total):
    assert simulate(FloatAdder(**BF16), [(a, b), (b, a)]) == [total] * 2
    adder = FloatAdder(narrow_fraction_width=7, **FP32)
    wide = simulate(adder, [(a << 16, b << 16)], narrow=1)
    assert [word >> 16 for word in wide] == [total]


@pytest.mark.parametrize(
    ("a", "b", "larger"),
    [
        (0x3F800000, 0xC0000000, 0x3F800000),  # 1 and -2
        (0xBF800000, 0xC0000000, 0xBF800000),  # -1 and -2
        (0x80000000, 0x00000000, 0x00000000),  # -0 is below +0
        (0x80000000, 0x80000000, 0x80000000),
        (0x00000001, 0x80000000, 0x00000001),  # subnormals
        (0xFF800000, 0xFF7FFFFF, 0xFF7FFFFF),  # -infinity
        (0x7F800000, 0x7FC00001, 0x7FC00000),  # NaN, not infinity
        (0xFFC00001, 0xFF800000, 0x7FC00000),
        (0x7F800000, 0xFF800000, 0x7F800000),
    ],
)
def test_maxima_by_hand(a, b, larger):
    maxima = simulate(FloatAdder(**FP32), [(a, b), (b, a)], maximum=1)
    assert [hex(x) for x in maxima] == [hex(larger)] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exponent_width": 1}, "Exponent width must be at least 2, not 1"),
        ({"fraction_width": 1}, "Fraction width must be at least 2, not 1"),
        ({"narrow_fraction_width": 24}, "Narrow fraction width must be from 2 to 23, not 24"),
    ],
)
def test_a_wrong_width_is_named(change, message):
    assert_refused(FloatAdder, ValueError, message, **FP32 | change)
