"""Sums and maxima of a flit's lanes, integers or floating-point numbers."""

from collections.abc import Collection
from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw import codes
from multitree.hw.codes import LEAST_STAGES, MOST_STAGES, check_integer
from multitree.hw.float_add import FloatAdder

__all__ = ["DType", "LaneOp", "LaneUnit"]

WORD_BYTES = 4
"""Bytes of a word: one lane of 32 bits or two of 16, little-endian in the flit."""


class DType(enum.Enum, shape=2):
    """Type of a flit's lanes: the codes of `hw.codes`."""

    INT32 = codes.DType.INT32.value
    FP32 = codes.DType.FP32.value
    BF16 = codes.DType.BF16.value


class LaneOp(enum.Enum, shape=2):
    """What becomes of two lanes."""

    SUM = 0
    MAXIMUM = 1
    SECOND = 2


class LaneUnit(wiring.Component):
    """Combines two flits lane by lane, `a op b`, lane 0 in the lowest bytes.

    INT32 lanes have 32 bits; sums wrap around, the maximum is that of signed numbers. FP32 lanes
    have 32 bits and BF16 lanes 16: each sum is the exact one rounded once, to nearest, ties to
    even; the maximum is IEEE 754-2019's; every NaN result is 0x7FC00000 or 0x7FC0. SECOND is the
    bits of `b`, whatever they mean. Type and operation travel with their operands and may change in
    every cycle. A type that is not built gives results without meaning, but for SECOND.

    There is no handshake: `o` is the result for what was there `stages` cycles before; one flit per
    cycle, no backpressure. `o` is a choice between registers.

    Parameters
    ----------
    flit_bytes : int
        Bytes of a flit, a multiple of 4.
    dtypes : collection of DType
        The types to build; all if not said.
    stages : int
        Cycles from the operands to their results, 4 to 6: with 5 the operands are registered first,
        with 6 the second stage of the adders is two (`FloatAdder`).

    Members
    -------
    a, b, o : In, In, Out(8 * flit_bytes)
        The operands and the results.
    dtype, op : In(DType), In(LaneOp)
        Type of the lanes; what becomes of them.
    """

    def __init__(
        self,
        *,
        flit_bytes: int,
        dtypes: Collection[DType] = tuple(DType),
        stages: int = LEAST_STAGES,
    ):
        self.stages = check_integer("Stages", stages, least=LEAST_STAGES, most=MOST_STAGES)
        check_integer("Flit bytes", flit_bytes, least=WORD_BYTES)
        if flit_bytes % WORD_BYTES:
            raise ValueError(f"Flit bytes must be a multiple of {WORD_BYTES}, not {flit_bytes!r}")
        if not dtypes or not set(dtypes) <= set(DType):
            raise ValueError(f"Dtypes must be some of {list(DType)}, not {dtypes!r}")
        self.flit_bytes = flit_bytes
        self.dtypes = frozenset(dtypes)
        super().__init__(
            {
                "a": In(8 * flit_bytes),
                "b": In(8 * flit_bytes),
                "dtype": In(DType),
                "op": In(LaneOp),
                "o": Out(8 * flit_bytes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        given = self._given(m)
        # SECOND goes past the adders, which would replace a NaN by the canonical one.
        is_float = (given.dtype != DType.INT32) & (given.op != LaneOp.SECOND)
        if self.dtypes == {DType.INT32}:
            is_float = Const(0)
        words = range(self.flit_bytes // WORD_BYTES)
        chosen = [self._choose(m, word, given) for word in words]
        early, delayed_inputs = Cat(is_float, given.dtype == DType.BF16), Signal(2 + len(self.a))
        came = Signal.like(early)
        m.d.sync += came.eq(early)
        m.d.comb += delayed_inputs.eq(Cat(came, *chosen))
        # `_choose` takes the first cycle; the others delay its result to that of the adders.
        for stage in range(2, self._adder_stages + 1):
            delayed = Signal(len(delayed_inputs), name=f"delayed_{stage}", reset_less=True)
            m.d.sync += delayed.eq(delayed_inputs)
            delayed_inputs = delayed
        floats = [self._float_word(m, word, given, delayed_inputs[1]) for word in words]
        m.d.comb += self.o.eq(Mux(delayed_inputs[0], Cat(*floats), delayed_inputs[2:]))
        return m

    @property
    def _adder_stages(self):
        """Stages behind the register of operands, if there is one."""
        return max(LEAST_STAGES, self.stages - 1)

    def _given(self, m):
        names = ("a", "b", "dtype", "op")
        if self.stages == LEAST_STAGES:
            return SimpleNamespace(**{name: getattr(self, name) for name in names})
        given = {name: Signal.like(getattr(self, name), reset_less=True) for name in names}
        m.d.sync += [register.eq(getattr(self, name)) for name, register in given.items()]
        return SimpleNamespace(**given)

    def _choose(self, m, word, given):
        """The result of a word as an integer, or its second operand, a cycle later."""
        a, b = given.a.word_select(word, 32), given.b.word_select(word, 32)
        second = Signal(32, name=f"second_{word}", reset_less=True)
        m.d.sync += second.eq(b)
        if DType.INT32 not in self.dtypes:
            return second
        # One adder gives one of its operands as well: the other one is made 0. Which one, takes
        # as long as adding them: a cycle each.
        above = a.as_signed() > b.as_signed()
        first = Signal(32, name=f"first_{word}", reset_less=True)
        has_first, has_second = (Signal(name=f"{name}_{word}") for name in ("has_a", "has_b"))
        m.d.sync += [
            first.eq(a),
            has_first.eq((given.op == LaneOp.SUM) | ((given.op == LaneOp.MAXIMUM) & above)),
            has_second.eq((given.op != LaneOp.MAXIMUM) | ~above),
        ]
        return ((first & has_first.replicate(32)) + (second & has_second.replicate(32)))[:32]

    def _float_word(self, m, word, given, was_bf16):
        """The result of a word as FP32 or BF16 lanes."""
        a, b = given.a.word_select(word, 32), given.b.word_select(word, 32)
        has_fp32, has_bf16 = DType.FP32 in self.dtypes, DType.BF16 in self.dtypes
        is_bf16 = given.dtype == DType.BF16

        def add(name, a, b, **widths):
            adder = FloatAdder(exponent_width=8, stages=self._adder_stages, **widths)
            m.submodules[f"{name}_{word}"] = adder
            m.d.comb += [adder.a.eq(a), adder.b.eq(b), adder.narrow.eq(is_bf16)]
            m.d.comb += adder.maximum.eq(given.op == LaneOp.MAXIMUM)
            return adder.o

        if not has_fp32 and not has_bf16:
            return Const(0, 32)
        if not has_bf16:
            return add("fp32", a, b, fraction_width=23)
        lower = add("bf16_lower", a[:16], b[:16], fraction_width=7)
        if not has_fp32:
            return Cat(lower, add("bf16_upper", a[16:], b[16:], fraction_width=7))
        # In BF16 the lower half is a lane of its own: zeros there leave the upper lane's sum exact.
        kept = Cat((~is_bf16).replicate(16), Const(-1, 16))
        both = add("fp32", a & kept, b & kept, fraction_width=23, narrow_fraction_width=7)
        return Cat(Mux(was_bf16, lower, both[:16]), both[16:])
