"""Addition of a flit's lanes, as integers or as floating-point numbers."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arguments import check_integer
from multitree.hw.float_add import Fp32Adder

__all__ = ["DType", "LaneAdder"]

LANE_BYTES = 4
"""Bytes of a lane, little-endian in the flit."""


class DType(enum.Enum, shape=2):
    """Type of a flit's lanes."""

    INT32 = 0
    FP32 = 1


class LaneAdder(wiring.Component):
    """Adds two flits lane by lane, each lane 32 bits wide, lane 0 in the lowest bytes.

    INT32 lanes wrap around; FP32 lanes are added by `Fp32Adder`. The type travels with its
    operands and may change in every cycle; a type that is not in `DType` gives the INT32 sum.
    There is no handshake: `o` is the sum of what `a` and `b` were `LATENCY` cycles before.

    Latency 4 cycles, one flit per cycle, no backpressure. `o` is a choice between two registers.

    Parameters
    ----------
    flit_bytes : int
        Bytes of a flit, a multiple of 4.

    Members
    -------
    a, b : In(8 * flit_bytes)
        The summands.
    dtype : In(DType)
        Type of their lanes.
    o : Out(8 * flit_bytes)
        The sums.

    Raises
    ------
    TypeError
        If `flit_bytes` is not an integer.
    ValueError
        If it is not a positive multiple of 4.
    """

    LATENCY = Fp32Adder.LATENCY
    """Cycles from the summands to their sums."""

    def __init__(self, *, flit_bytes: int):
        check_integer("Flit bytes", flit_bytes, least=LANE_BYTES)
        if flit_bytes % LANE_BYTES:
            raise ValueError(f"Flit bytes must be a multiple of {LANE_BYTES}, not {flit_bytes!r}")
        self._flit_bytes = flit_bytes
        super().__init__(
            {
                "a": In(8 * flit_bytes),
                "b": In(8 * flit_bytes),
                "dtype": In(DType),
                "o": Out(8 * flit_bytes),
            }
        )

    def elaborate(self, platform):
        """An adder per lane; the integer sums wait in one wide shift register."""
        m = Module()
        floats, integers = [], []
        for lane in range(self._flit_bytes // LANE_BYTES):
            m.submodules[f"lane_{lane}"] = adder = Fp32Adder()
            a, b = self.a.word_select(lane, 32), self.b.word_select(lane, 32)
            m.d.comb += [adder.a.eq(a), adder.b.eq(b)]
            floats.append(adder.o)
            integers.append((a + b)[:32])
        is_float, integer = self.dtype == DType.FP32, Cat(*integers)
        for stage in range(1, self.LATENCY + 1):
            next_is_float = Signal(name=f"is_float_{stage}")
            next_integer = Signal(8 * self._flit_bytes, name=f"integer_{stage}", reset_less=True)
            m.d.sync += [next_is_float.eq(is_float), next_integer.eq(integer)]
            is_float, integer = next_is_float, next_integer
        m.d.comb += self.o.eq(Mux(is_float, Cat(*floats), integer))
        return m
