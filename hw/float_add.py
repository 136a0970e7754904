"""Addition and maximum of floating-point numbers, exact to the last bit."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import check_integer

__all__ = ["FloatAdder"]


def _leading_zeros(m, word):
    """Number of zeros above the highest one of a word, its length for none: a tree of halves."""
    below = (1 << (len(word) - 1).bit_length()) - len(word)
    # Ones below the word end the count at its own width.
    rest = Cat(Const((1 << below) - 1, below), word)
    count = []
    while (half := len(rest) // 2) > 0:
        empty = Signal(name=f"empty_{half}")
        narrower = Signal(half, name=f"upper_{half}")
        m.d.comb += [
            empty.eq(rest[half:] == 0),
            narrower.eq(Mux(empty, rest[:half], rest[half:])),
        ]
        rest = narrower
        count.insert(0, empty)
    return Cat(*count)


class FloatAdder(wiring.Component):
    """Adds two IEEE-754 binary numbers, rounding to nearest, ties to even; or takes the larger.

    Subnormals, infinities and signed zeros are as in the standard (nothing is flushed to zero),
    so that every float32 result has the bits of NumPy's float32 addition; but every NaN result is
    the canonical one: positive, quiet, without payload. The maximum is the standard's `maximum`:
    a NaN propagates, and +0 is above -0, so that it is associative and commutative.

    Numbers with fewer bits of fraction, `narrow_fraction_width`, are added as well, in the upper
    bits of `a` and `b` with zeros below: while `narrow`, the exact sum is rounded once, directly to
    so many bits. It is in the upper bits of `o`; those below have then no meaning.

    There is no handshake and no reset: `o` is the result for what `a`, `b`, `maximum` and `narrow`
    were `stages` cycles before; one result per cycle, no backpressure. `o` is a register.

    Parameters
    ----------
    exponent_width, fraction_width : int
        Bits of the exponent and of the fraction, at least 2.
    narrow_fraction_width : int, optional
        Bits of the fraction while `narrow`, from 2 up to `fraction_width`; all if not said.
    stages : int
        Cycles from the operands to their result: 4, or 5 with a register between the shift of the
        smaller one and the sum.

    Members
    -------
    a, b, o : In, In, Out(1 + exponent_width + fraction_width)
        The operands and the result.
    maximum : In(1)
        Take the larger one instead of the sum.
    narrow : In(1)
        The operands have `narrow_fraction_width` bits of fraction, and the result shall.
    References
    ----------
    IEEE Std 754-2019, sections 4.3.1, 6.3 and 9.6.
    J.-M. Muller et al., "Handbook of Floating-Point Arithmetic", 2nd edition, 2018, section 8.3.
    """

    def __init__(
        self,
        *,
        exponent_width: int,
        fraction_width: int,
        narrow_fraction_width: int | None = None,
        stages: int = 4,
    ):
        narrow = fraction_width if narrow_fraction_width is None else narrow_fraction_width
        check_integer("Exponent width", exponent_width, least=2)
        check_integer("Fraction width", fraction_width, least=2)
        check_integer("Narrow fraction width", narrow, least=2, most=fraction_width)
        self.stages = check_integer("Stages", stages, least=4, most=5)
        self.exponent_width = exponent_width
        self.fraction_width = fraction_width
        self._dropped = fraction_width - narrow
        # The smaller significand is shifted by at most so much: all of it becomes sticky.
        self._shift_width = (fraction_width + 3).bit_length()
        width = 1 + exponent_width + fraction_width
        self.narrow_fraction_width = narrow_fraction_width
        super().__init__(
            {"a": In(width), "b": In(width), "maximum": In(1), "narrow": In(1), "o": Out(width)}
        )

    def elaborate(self, platform):
        """Sort and compare; align and add; count and normalise; finish and round."""
        m = Module()
        signals = self._sort(m)
        signals = self._align(m, *signals)
        signals = self._add(m, *signals)
        signals = self._normalise(m, *signals)
        self._round(m, *signals)
        return m

    def _fields(self, word):
        """Fraction, exponent and whether the number is infinite and whether it is no number."""
        fraction = word[: self.fraction_width]
        exponent = word[self.fraction_width :][: self.exponent_width]
        special = exponent.all()
        return fraction, exponent, special & (fraction == 0), special & (fraction != 0)

    def _sort(self, m):
        """Stage 1: the larger magnitude first, and how far the other is to be shifted."""
        a, b = self.a[:-1], self.b[:-1]
        sign_a, sign_b = self.a[-1], self.b[-1]
        _, _, infinite_a, nan_a = self._fields(a)
        _, _, infinite_b, nan_b = self._fields(b)
        above, swap, subtract = Signal(), Signal(), Signal()
        larger, smaller = Signal(len(a)), Signal(len(a))
        m.d.comb += [
            above.eq(b > a),
            # The maximum comes first, and 0 is added to it. It is the positive one; of two negative
            # ones the smaller magnitude.
            swap.eq(
                Mux(self.maximum & (sign_a != sign_b), sign_a, above ^ (self.maximum & sign_a))
            ),
            larger.eq(Mux(swap, b, a)),
            smaller.eq(Mux(swap, a, b) & ~self.maximum.replicate(len(a))),
            subtract.eq((sign_a ^ sign_b) & ~self.maximum),
        ]
        fraction, exponent, _, _ = self._fields(larger)
        small_fraction, small_exponent, _, _ = self._fields(smaller)
        # Both ways, so that no subtraction waits for the comparison. With a maximum, whose smaller
        # one is 0, any shift will do.
        shift = Mux(swap, self._shift(m, b, a, "b"), self._shift(m, a, b, "a"))
        # Infinity minus infinity is no number; for a maximum `subtract` is low.
        nan = nan_a | nan_b | (infinite_a & infinite_b & subtract)
        return (
            self._register(m, "larger_1", Cat(fraction, exponent != 0)),
            self._register(m, "smaller_1", Cat(small_fraction, small_exponent != 0)),
            self._register(m, "exponent_1", exponent | (exponent == 0)),
            self._register(m, "shift_1", shift),
            self._register(m, "sign_1", Mux(swap, sign_b, sign_a)),
            self._register(m, "subtract_1", subtract),
            self._register(m, "special_1", exponent.all()),
            self._register(m, "nan_1", nan),
            self._register(m, "narrow_1", self.narrow),
        )

    def _shift(self, m, larger, smaller, name):
        """How far the smaller significand is to be shifted, at most as far as the register goes."""
        exponents = (self._fields(number)[1] for number in (larger, smaller))
        # Subnormals have the exponent 1, without a hidden one.
        above, below = (exponent | (exponent == 0) for exponent in exponents)
        distance = Signal(self.exponent_width, name=f"distance_{name}")
        m.d.comb += distance.eq(above - below)
        most = (1 << self._shift_width) - 1
        return Mux(distance > most, most, distance)[: self._shift_width]

    def _align(self, m, larger, smaller, exponent, shift, *others):
        """Stage 2, or the first half of it: shift the smaller one, with guard, round and sticky."""
        most = (1 << self._shift_width) - 1
        shifted = Signal(len(smaller) + most)
        aligned = Signal(len(smaller) + 3)
        m.d.comb += [
            shifted.eq(Cat(Const(0, most), smaller) >> shift),
            aligned.eq(Cat(shifted[: most - 2] != 0, shifted[most - 2 :])),
        ]
        found = (larger, aligned, exponent, *others)
        if self.stages == 4:
            return found
        return [self._register(m, f"aligned_{k}", value) for k, value in enumerate(found)]

    def _add(self, m, larger, aligned, exponent, sign, subtract, *flags):
        """Stage 2, or the second half of it: add."""
        # One adder: the lowest position is the carry that completes the two's complement.
        width = len(aligned) + 1
        addend = Mux(subtract, ~Cat(aligned, Const(0, 1)), aligned)[:width]
        total = Cat(subtract, Const(0, 3), larger) + Cat(subtract, addend)
        return (
            self._register(m, "sum_2", total[1 : 1 + width]),
            # The lowest place a leading one may be shifted from: exponents end at 1.
            self._register(m, "limit_2", (Const(1 << (width - 1), width) >> exponent)[:width]),
            self._register(m, "exponent_2", exponent),
            self._register(m, "sign_2", sign),
            self._register(m, "subtract_2", subtract),
            *self._pass_on(m, 2, *flags),
        )

    def _normalise(self, m, total, limit, exponent, sign, subtract, *flags):
        """Stage 3: shift the leading one to the top eight places, as far as the exponent allows."""
        zeros = _leading_zeros(m, total | limit)
        nonzero = Signal()
        m.d.comb += nonzero.eq(total != 0)
        coarse = (total << Cat(Const(0, 3), zeros[3:]))[: len(total)]
        return (
            self._register(m, "normal_3", coarse),
            # The rest is left to the next stage, which has the time.
            self._register(m, "zeros_3", zeros),
            self._register(m, "exponent_3", exponent),
            self._register(m, "nonzero_3", nonzero),
            # A sum that cancels is +0, one of negative zeros is -0.
            self._register(m, "sign_3", sign & (nonzero | ~subtract)),
            *self._pass_on(m, 3, *flags),
        )

    def _round(self, m, coarse, zeros, exponent, nonzero, sign, special, nan, narrow):
        """Stage 4: round half to even; a carry runs into the exponent, and so to infinity."""
        width, dropped = self.fraction_width, self._dropped
        normal = Signal(len(coarse))
        # Fraction bits that are cut off are made ones, through which the carry runs. It never
        # runs out of the exponent: a sum of the two largest numbers needs no rounding.
        ones = narrow.replicate(dropped)
        # Up to seven places are left: what lies lower than that need not wait for the shift.
        low = max(dropped - 4, 0)
        rest = Mux(narrow, Cat(coarse[:low], normal[low : 3 + dropped]) != 0, normal[:3] != 0)
        half, last = (Mux(narrow, normal[k + dropped], normal[k]) for k in (3, 4))
        up = Signal()
        biased = Signal(self.exponent_width)
        rounded = Signal(len(self.o))
        m.d.comb += [
            normal.eq(coarse << zeros[:3]),
            up.eq(half & (rest | last)),
            # One less than the exponent of a normal sum: its hidden one adds one.
            biased.eq(Mux(nonzero, exponent - zeros, 0)),
            rounded.eq(
                Cat(up, normal[4 : 4 + width] | ones, biased)
                + Cat(up, Const(0, width), normal[4 + width])
            ),
        ]
        magnitude = rounded[1:]
        infinity = ((1 << self.exponent_width) - 1) << width
        infinite = special | magnitude[width:].all()
        with m.If(nan):
            m.d.sync += self.o.eq(infinity | 1 << (width - 1))
        with m.Else():
            m.d.sync += self.o.eq(Cat(Mux(infinite, infinity, magnitude), sign))

    def _pass_on(self, m, stage, special, nan, narrow):
        """Flags of a number that the next stages need."""
        named = {"special": special, "nan": nan, "narrow": narrow}
        return [self._register(m, f"{name}_{stage}", value) for name, value in named.items()]

    @staticmethod
    def _register(m, name, value):
        """A register of the pipeline: data only, so no reset."""
        register = Signal(len(value), name=name, reset_less=True)
        m.d.sync += register.eq(value)
        return register
