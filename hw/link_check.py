"""The CRC of a message while its flits go by, the same at both ends of a link."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arguments import check_integer
from multitree.hw.crc import CRC32_INIT, crc32_step
from multitree.hw.link import CHECK_WIDTH, Kind, unit_layout

__all__ = ["RunningCheck"]


class RunningCheck(wiring.Component):
    """Computes a message's CRC-32 up to each flit, and says which flits carry it.

    A head begins anew. The end of every sub-message carries the CRC of the message as far as it
    came: each `submessage_flits`-th payload flit, and whatever is a TAIL or a SINGLE. A control
    flit carries a CRC of its own and leaves the message's alone.

    Combinational from `flit` to `check` and `carries`.

    Parameters
    ----------
    flit_bytes : int
        Bytes of a flit's payload.
    submessage_flits : int
        Payload flits of a sub-message, a power of two.

    Members
    -------
    flit : In(StructLayout)
        The flit that goes by: `kind` and `payload`.
    advance : In(1)
        It does so in this cycle, and is no control flit.
    clear : In(1)
        Forget everything.
    check : Out(32)
        CRC up to and with `flit`.
    carries : Out(1)
        A flit like this has to carry it.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If `flit_bytes` is less than 1, or `submessage_flits` no power of two from 2 on.
    """

    def __init__(self, *, flit_bytes: int, submessage_flits: int):
        check_integer("Flit bytes", flit_bytes, least=1)
        self._submessage_flits = check_integer("Sub-message flits", submessage_flits, least=2)
        if submessage_flits & (submessage_flits - 1):
            raise ValueError(f"Sub-message flits must be a power of two, not {submessage_flits!r}")
        super().__init__(
            {
                "flit": In(unit_layout(flit_bytes=flit_bytes)),
                "advance": In(1),
                "clear": In(1),
                "check": Out(CHECK_WIDTH),
                "carries": Out(1),
            }
        )

    def elaborate(self, platform):
        """One network of exclusive ors; a flit that begins something starts it anew."""
        m = Module()
        kind = self.flit.kind
        register = Signal(CHECK_WIDTH, init=CRC32_INIT)
        place = Signal(range(self._submessage_flits))
        after = Signal(CHECK_WIDTH)
        # The CRC is linear: what the flit does to it and what came before do not wait for each
        # other, nor either for the kind.
        fresh, follows = Signal(CHECK_WIDTH), Signal(CHECK_WIDTH)
        begins = (kind == Kind.HEAD) | (kind == Kind.SINGLE) | kind.as_value()[2]
        ends = (kind == Kind.TAIL) | (kind == Kind.SINGLE) | kind.as_value()[2]
        # Kind and virtual channel 0 make the last byte.
        content = Cat(self.flit.payload, kind, Const(0, 5))
        m.d.comb += [
            fresh.eq(crc32_step(Const(CRC32_INIT, CHECK_WIDTH), content)),
            follows.eq(crc32_step(register ^ CRC32_INIT, Const(0, len(content)))),
            after.eq(fresh ^ Mux(begins, 0, follows)),
            self.check.eq(~after),
            self.carries.eq(ends | ((kind == Kind.BODY) & place.all())),
        ]
        with m.If(self.advance):
            m.d.sync += [register.eq(after), place.eq(Mux(begins, 0, place + 1))]
        with m.If(self.clear):
            m.d.sync += [register.eq(CRC32_INIT), place.eq(0)]
        return m
