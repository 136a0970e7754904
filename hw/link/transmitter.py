"""The sending end of a credited link."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arguments import check_integer
from multitree.hw.link.check import RunningCheck
from multitree.hw.link.link import (
    SEQUENCE_WIDTH,
    ControlSignature,
    LinkSignature,
    flit_layout,
    unit_layout,
)

__all__ = ["LinkTransmitter", "stamp"]


def stamp(m, transmitter, check, flit, *, sent, says, epoch, number):
    """Register the flit that is taken, or the control flit that came, for the link.

    Parameters
    ----------
    m : Module
    transmitter : Component
        A transmitter: `link` and `control`.
    check : Component
        Its running check, which has the flit.
    flit : View
        The register.
    sent, says : Value
        It is a flit that is taken, a control flit.
    epoch, number : Value
        Of the control flit; number of the one that is taken.
    """
    with m.If(sent | says):
        m.d.sync += [
            flit.sequence.eq(Mux(says, 0, number)),
            # A control flit goes a cycle late, in the epoch of the cycle in which it was given.
            flit.epoch.eq(Mux(says, epoch, transmitter.control.epoch)),
            *(flit[name].eq(check.flit[name]) for name, _ in check.flit.shape()),
            flit.check.eq(Mux(check.carries, check.check, 0)),
        ]
    m.d.comb += [getattr(transmitter.link, name).eq(flit[name]) for name, _ in flit.shape()]


class LinkTransmitter(wiring.Component):
    """Puts a stream of flits on a link, never more than the receiver has room for.

    While `open` it begins with `credits` credits, spends one per flit and gets one back with each
    `credit`. Every flit is stamped with the number of flits sent since then, modulo 8, virtual
    channel 0, the epoch, and at the end of each sub-message the message's CRC. A credit that
    would make more than `credits` changes nothing but is a fault. While not `open` no data are
    taken and credits mean nothing. A control flit goes before every flit but the
    one that is taken in the same cycle, at any time.

    Latency 1 cycle from `i` to `link`, 2 from `control`; one flit per cycle while there are
    credits. `i.ready` is a register: it is low while there is no credit, in the cycle after a
    control flit came, and from one cycle after `open` falls to one after it rises: a flit that is
    taken in between has the old epoch and costs no credit. The outputs to the link are registers.

    Parameters
    ----------
    flit_bytes : int
        Bytes of a flit's payload.
    credits : int
        Places in the receiver's buffer, at least 1.
    submessage_flits : int
        Payload flits of a sub-message, a power of two; the same at the receiver.

    Members
    -------
    i : In(stream.Signature(StructLayout))
        Flits: `kind` and `payload`.
    control : In(ControlSignature)
        A control flit to send; `epoch` is this end's, at any time.
    open : In(1)
        The other end takes data.
    link : Out(LinkSignature)
        The link.
    stalled : Out(1)
        A flit waits for a credit; combinational.
    available : Out(range(credits + 1))
        Credits left.
    fault_credit : Out(1)
        In the cycle before, a credit came that no flit had spent.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If an argument is less than 1, or a sub-message's flits are no power of two.

    References
    ----------
    W. J. Dally, B. Towles, "Principles and Practices of Interconnection Networks", 2004,
    section 13.3: credit-based flow control.
    """

    def __init__(self, *, flit_bytes: int, credits: int, submessage_flits: int):
        self.flit_bytes = flit_bytes
        self.credits = check_integer("Credits", credits, least=1)
        self._check = RunningCheck(flit_bytes=flit_bytes, submessage_flits=submessage_flits)
        self.submessage_flits = submessage_flits
        super().__init__(
            {
                "link": Out(LinkSignature(flit_bytes=flit_bytes)),
                "i": In(stream.Signature(unit_layout(flit_bytes=flit_bytes))),
                "control": In(ControlSignature(flit_bytes=flit_bytes)),
                "open": In(1),
                "stalled": Out(1),
                "available": Out(range(credits + 1), init=credits),
                "fault_credit": Out(1),
            }
        )

    def elaborate(self, platform):
        """Count credits; stamp and register the flit that is taken."""
        m = Module()
        m.submodules.check = check = self._check
        link, control, available = self.link, self.control, self.available
        number = Signal(SEQUENCE_WIDTH)
        flit = Signal(flit_layout(flit_bytes=self.flit_bytes), reset_less=True)
        sent, unspent, ready, back = Signal(), Signal(), Signal(), Signal()
        # A control flit is held for a cycle: `ready`, a register, is low in the next one only.
        says, epoch = Signal(), Signal()
        held = Signal(unit_layout(flit_bytes=self.flit_bytes), reset_less=True)
        m.d.comb += [
            self.i.ready.eq(ready),
            self.stalled.eq(self.i.valid & ~self.i.ready),
            sent.eq(self.i.valid & ready),
            unspent.eq(link.credit & (available == self.credits) & self.open),
            back.eq(link.credit & ~unspent),
            check.flit.eq(Mux(says, held.as_value(), self.i.payload.as_value())),
            check.advance.eq(sent),
            check.clear.eq(~self.open),
        ]
        # `sent` depends on the producer and settles last, so it only selects between comparisons.
        left = Mux(sent, available > 1, available != 0) | link.credit
        m.d.sync += [
            ready.eq(self.open & ~control.valid & left),
            says.eq(control.valid),
            epoch.eq(control.epoch),
            held.kind.eq(control.kind),
            held.payload.eq(control.payload),
            available.eq(Mux(sent, available - 1 + back, available + back)),
            number.eq(number + sent),
            self.fault_credit.eq(unspent),
            link.valid.eq(sent | says),
        ]
        with m.If(~self.open):
            # The later assignment wins: credits that come back now are those of an earlier session.
            m.d.sync += [available.eq(self.credits), number.eq(0)]
        stamp(m, self, check, flit, sent=sent, says=says, epoch=epoch, number=number)
        return m
