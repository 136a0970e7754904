"""The CRC of a message while its flits go by, the same at both ends of a link."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import CHECK_WIDTH, check_integer
from multitree.hw.component import is_synthesised
from multitree.hw.crc import CRC32_INIT, crc32_step
from multitree.hw.link.link import Kind, check_num_vcs, vc_unit_layout

__all__ = ["RunningCheck", "compare"]


def _follow(m, block, content, register, place, *, sums):
    """What register and place become after the block's flit: a beginning starts them anew."""
    kind = block.flit.kind
    after = Signal(CHECK_WIDTH)
    # The CRC is linear: step(R, d) = step(INIT, d) ^ step(R ^ INIT, 0), so that neither the flit's
    # part nor that of what came before waits for the other, or for the kind.
    fresh, follows = Signal(CHECK_WIDTH), Signal(CHECK_WIDTH)
    # Signals, since what is written as a slice of an expression has all of it each time.
    flit, before = Signal(len(content)), Signal(CHECK_WIDTH)
    begins = (kind == Kind.HEAD) | (kind == Kind.SINGLE) | kind.as_value()[2]
    ends = (kind == Kind.TAIL) | (kind == Kind.SINGLE) | kind.as_value()[2]
    m.d.comb += [
        flit.eq(content),
        before.eq(register ^ CRC32_INIT),
        fresh.eq(crc32_step(Const(CRC32_INIT, CHECK_WIDTH), flit, sums=sums)),
        follows.eq(crc32_step(before, Const(0, len(flit)), sums=sums)),
        after.eq(fresh ^ Mux(begins, 0, follows)),
        block.check.eq(~after),
        # `place` counts payload flits and wraps with each sub-message, which is a power of two.
        block.carries.eq(ends | ((kind == Kind.BODY) & place.all())),
    ]
    return after, Mux(begins, 0, place + 1)


class RunningCheck(wiring.Component):
    """Computes each message's CRC-32 up to each flit, and says which flits carry it.

    A head begins anew. The end of every sub-message carries the CRC of the message as far as it
    came: each `submessage_flits`-th payload flit, and whatever is a TAIL or a SINGLE. A control
    flit carries a CRC of its own, is on channel 0 and leaves the messages' alone. Messages on
    several virtual channels may take turns: each channel has a CRC and a place of its own, and the
    network of exclusive ors is shared.

    Combinational from `flit` to `check` and `carries`.

    Parameters
    ----------
    flit_bytes, num_vcs : int
        As of `LinkSignature`.
    submessage_flits : int
        Payload flits of a sub-message, a power of two.

    Members
    -------
    flit : In(StructLayout)
        The flit that goes by: `kind`, `vc` and `payload`.
    advance : In(1)
        It does so in this cycle, and is no control flit.
    clear : In(1)
        Forget everything.
    check : Out(32)
        CRC of its channel's message up to and with `flit`.
    carries : Out(1)
        A flit like this has to carry it.
    """

    def __init__(self, *, flit_bytes: int, submessage_flits: int, num_vcs: int = 1):
        self.num_vcs = check_num_vcs(num_vcs)
        self.flit_bytes = check_integer("Flit bytes", flit_bytes, least=1)
        self.submessage_flits = check_integer("Sub-message flits", submessage_flits, least=2)
        if submessage_flits & (submessage_flits - 1):
            raise ValueError(f"Sub-message flits must be a power of two, not {submessage_flits!r}")
        super().__init__(
            {
                "flit": In(vc_unit_layout(flit_bytes=flit_bytes, num_vcs=num_vcs)),
                "advance": In(1),
                "clear": In(1),
                "check": Out(CHECK_WIDTH),
                "carries": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        vc = self.flit.vc
        registers = [
            Signal(CHECK_WIDTH, init=CRC32_INIT, name=f"register_{k}") for k in range(self.num_vcs)
        ]
        places = [
            Signal(range(self.submessage_flits), name=f"place_{k}") for k in range(self.num_vcs)
        ]
        # A number beyond `num_vcs` selects the last channel, but the receiver takes no such flit.
        register, place = Array(registers)[vc], Array(places)[vc]
        content = Cat(self.flit.payload, self.flit.kind, vc, Const(0, 5 - len(vc)))
        sums = m if is_synthesised(platform) else None
        after, next_place = _follow(m, self, content, register, place, sums=sums)
        with m.If(self.advance):
            m.d.sync += [register.eq(after), place.eq(next_place)]
        with m.If(self.clear):
            m.d.sync += [signal.eq(CRC32_INIT) for signal in registers]
            m.d.sync += [signal.eq(0) for signal in places]
        return m


def compare(m, receiver, check, flit, entry, taken, is_control):
    """Whether no CRC was wrong so far: low from the first wrong one on, until the receiver is down.
    `flit` is what came, `entry` the one before it; `taken` and `is_control` are of `flit`.
    """
    control = receiver.control
    found, given = Signal(CHECK_WIDTH), Signal(CHECK_WIDTH)
    pending, was_control, broken = Signal(), Signal(), Signal()
    wrong = pending & (found != given)
    m.d.comb += [check.flit[name].eq(flit[name]) for name, _ in check.flit.shape()]
    m.d.comb += [check.advance.eq(taken), check.clear.eq(~receiver.up)]
    m.d.sync += [
        found.eq(check.check),
        given.eq(flit.check),
        pending.eq((taken & check.carries) | is_control),
        was_control.eq(is_control),
        control.valid.eq(was_control & (found == given)),
        # A flit leaves its buffer no earlier than two cycles after it came: in the first one the
        # CRCs are registered, in the second they are compared.
        # No error while down: the handshake repeats a control flit that was spoilt.
        receiver.check_error.eq(wrong & receiver.up),
        # Set in the cycle in which the flit with the wrong CRC first reaches the buffer's output.
        broken.eq((broken | wrong) & receiver.up),
    ]
    epoch = Signal.like(flit.epoch)
    m.d.sync += epoch.eq(flit.epoch)
    with m.If(was_control):
        m.d.sync += [
            control.kind.eq(entry.kind),
            control.epoch.eq(epoch),
            control.payload.eq(entry.payload),
        ]
    return ~broken
