"""Addition of binary32 floating-point numbers, exact to the last bit."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["CANONICAL_NAN", "Fp32Adder"]

CANONICAL_NAN = 0x7FC00000
"""The one NaN that results, whatever NaNs went in."""
_INFINITY = 0x7F800000
_MAX_SHIFT = 31  # The largest distance of 5 bits: all of a 24-bit significand becomes sticky.


def _leading_zeros(m, word):
    """Number of zeros above the highest one of a 28-bit word, 28 for none: a tree of halves."""
    # Ones below the word end the count at its own width.
    rest = Cat(Const(0xF, 4), word)
    count = []
    for half in (16, 8, 4, 2, 1):
        empty = Signal(name=f"empty_{half}")
        narrower = Signal(half, name=f"upper_{half}")
        m.d.comb += [
            empty.eq(rest[half:] == 0),
            narrower.eq(Mux(empty, rest[:half], rest[half:])),
        ]
        rest = narrower
        count.insert(0, empty)
    return Cat(*count)


class Fp32Adder(wiring.Component):
    """Adds two IEEE-754 binary32 numbers, rounding to nearest, ties to even.

    Subnormals, infinities and signed zeros are as in the standard (nothing is flushed to zero),
    so that every result has the bits of NumPy's float32 addition; but every NaN result is
    0x7FC00000. There is no handshake and no reset: `o` is the sum of what `a` and `b` were
    `LATENCY` cycles before.

    Latency 4 cycles, one addition per cycle, no backpressure. `o` is a register.

    Members
    -------
    a, b : In(32)
        The summands.
    o : Out(32)
        Their sum.

    References
    ----------
    IEEE Std 754-2019, sections 4.3.1 and 6.3.
    J.-M. Muller et al., "Handbook of Floating-Point Arithmetic", 2nd edition, 2018, section 8.3.
    """

    LATENCY = 4
    """Cycles from the summands to their sum."""

    def __init__(self):
        super().__init__({"a": In(32), "b": In(32), "o": Out(32)})

    def elaborate(self, platform):
        """Sort and compare; align and add; count and normalise; finish and round: four stages."""
        m = Module()
        signals = self._sort(m)
        signals = self._add(m, *signals)
        signals = self._normalise(m, *signals)
        self._round(m, *signals)
        return m

    def _sort(self, m):
        """Stage 1: the larger magnitude first, and how far the other is to be shifted."""
        a, b = self.a, self.b
        swap = Signal()
        subtract = Signal()
        special = Signal()
        larger = Signal(31)
        smaller = Signal(31)
        distance = Signal(8)
        m.d.comb += [
            swap.eq(b[:31] > a[:31]),
            larger.eq(Mux(swap, b[:31], a[:31])),
            smaller.eq(Mux(swap, a[:31], b[:31])),
            subtract.eq(a[31] ^ b[31]),
            special.eq(larger[23:] == 0xFF),
            # Subnormals have the exponent 1, without a hidden one.
            distance.eq((larger[23:] | (larger[23:] == 0)) - (smaller[23:] | (smaller[23:] == 0))),
        ]
        return (
            self._register(m, "larger_1", Cat(larger[:23], larger[23:] != 0)),
            self._register(m, "smaller_1", Cat(smaller[:23], smaller[23:] != 0)),
            self._register(m, "exponent_1", larger[23:] | (larger[23:] == 0)),
            self._register(m, "shift_1", Mux(distance > _MAX_SHIFT, _MAX_SHIFT, distance)[:5]),
            self._register(m, "sign_1", Mux(swap, b[31], a[31])),
            self._register(m, "subtract_1", subtract),
            self._register(m, "special_1", special),
            # The larger magnitude is not below infinity's; equal infinities may cancel.
            self._register(
                m,
                "nan_1",
                special & ((larger[:23] != 0) | (subtract & (smaller[23:] == 0xFF))),
            ),
        )

    def _add(self, m, larger, smaller, exponent, shift, sign, subtract, special, nan):
        """Stage 2: align the smaller significand with guard, round and sticky bit, and add."""
        shifted = Signal(24 + _MAX_SHIFT)
        aligned = Signal(27)
        m.d.comb += [
            shifted.eq(Cat(Const(0, _MAX_SHIFT), smaller) >> shift),
            aligned.eq(Cat(shifted[28] | (shifted[:28] != 0), shifted[29:])),
        ]
        # One adder: the lowest position is the carry that completes the two's complement.
        addend = Mux(subtract, ~Cat(aligned, Const(0, 1)), aligned)[:28]
        total = Cat(subtract, Const(0, 3), larger) + Cat(subtract, addend)
        return (
            self._register(m, "sum_2", total[1:29]),
            # The lowest place a leading one may be shifted from: exponents end at 1.
            self._register(m, "limit_2", (Const(1 << 27, 28) >> exponent)[:28]),
            self._register(m, "exponent_2", exponent),
            self._register(m, "sign_2", sign),
            self._register(m, "subtract_2", subtract),
            self._register(m, "special_2", special),
            self._register(m, "nan_2", nan),
        )

    def _normalise(self, m, total, limit, exponent, sign, subtract, special, nan):
        """Stage 3: shift the leading one to the top eight places, as far as the exponent allows."""
        zeros = _leading_zeros(m, total | limit)
        nonzero = Signal()
        m.d.comb += nonzero.eq(total != 0)
        return (
            self._register(m, "normal_3", (total << Cat(Const(0, 3), zeros[3:]))[:28]),
            # The rest is left to the next stage, which has the time.
            self._register(m, "zeros_3", zeros),
            self._register(m, "exponent_3", exponent),
            self._register(m, "nonzero_3", nonzero),
            # A sum that cancels is +0, one of negative zeros is -0.
            self._register(m, "sign_3", sign & (nonzero | ~subtract)),
            self._register(m, "special_3", special),
            self._register(m, "nan_3", nan),
        )

    def _round(self, m, coarse, zeros, exponent, nonzero, sign, special, nan):
        """Stage 4: round half to even; a carry runs into the exponent, and so to infinity."""
        normal = Signal(28)
        up = normal[3] & ((normal[:3] != 0) | normal[4])
        biased = Signal(8)
        rounded = Signal(32)
        m.d.comb += [
            normal.eq(coarse << zeros[:3]),
            # One less than the exponent of a normal sum: its hidden one adds one.
            biased.eq(Mux(nonzero, exponent - zeros, 0)),
            rounded.eq(Cat(up, normal[4:27], biased) + Cat(up, Const(0, 23), normal[27])),
        ]
        magnitude = rounded[1:]
        infinite = special | (magnitude[23:] == 0xFF)
        with m.If(nan):
            m.d.sync += self.o.eq(CANONICAL_NAN)
        with m.Else():
            m.d.sync += self.o.eq(Cat(Mux(infinite, _INFINITY, magnitude)[:31], sign))

    @staticmethod
    def _register(m, name, value):
        """A register of the pipeline: data only, so no reset."""
        register = Signal(len(value), name=name, reset_less=True)
        m.d.sync += register.eq(value)
        return register
