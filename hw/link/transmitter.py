"""The sending end of a credited link."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import SEQUENCE_WIDTH, check_integer
from multitree.hw.link.check import RunningCheck
from multitree.hw.link.link import (
    ControlSignature,
    LinkSignature,
    check_num_vcs,
    flit_layout,
    vc_unit_layout,
)

__all__ = ["LinkTransmitter"]


class LinkTransmitter(wiring.Component):
    """Puts flits on a link, each only where its virtual channel has a place for it.

    While `open` each virtual channel begins with `credits` credits, spends one per flit and gets
    one back with each of its bits of `credit`. `may_send` says which channels have one: no flit
    is offered on another, so that nothing waits at the link for a credit. Every flit is stamped
    with the number of flits sent on the link since it is `open`, modulo 8, the epoch, and at the
    end of each sub-message the CRC of its channel's message. A credit that would make more than
    `credits` changes nothing but is a fault. While not `open` credits mean nothing. A control flit
    goes before every flit but the one that is taken in the same cycle, at any time.

    Latency 1 cycle from `flit` to `link`, 2 from `control`; one flit per cycle, of any channels.
    `may_send` is a register: a bit is low while there is no credit, all are in the cycle after a
    control flit came, and from one cycle after `open` falls to one after it rises: a flit that is
    taken in between has the old epoch and costs no credit. The outputs to the link are registers.

    Parameters
    ----------
    flit_bytes, num_vcs : int
        As of `LinkSignature`.
    credits : int
        Places in the receiver's buffer of each virtual channel, at least 1.
    submessage_flits : int
        Payload flits of a sub-message, a power of two; the same at the receiver.

    Members
    -------
    flit : In(StructLayout)
        A flit to send: `kind`, `vc` and `payload`.
    take : In(1)
        Take it; only while its channel's `may_send` is high.
    may_send : Out(num_vcs)
        Per virtual channel: a flit of it may be taken in this cycle.
    control : In(ControlSignature)
        A control flit to send; `epoch` is this end's, at any time.
    open : In(1)
        The other end takes data.
    link : Out(LinkSignature)
    available : Out(range(credits + 1)), one per virtual channel
        Credits left.
    fault_credit : Out(1)
        In the cycle before, a credit came that no flit had spent.

    References
    ----------
    W. J. Dally, "Virtual-Channel Flow Control", IEEE Transactions on Parallel and Distributed
    Systems 3(2), 1992.
    """

    def __init__(self, *, flit_bytes: int, credits: int, submessage_flits: int, num_vcs: int = 1):
        self._sizes = {"flit_bytes": flit_bytes, "num_vcs": check_num_vcs(num_vcs)}
        self.credits = check_integer("Credits", credits, least=1)
        self._check = RunningCheck(submessage_flits=submessage_flits, **self._sizes)
        self.num_vcs, self.flit_bytes, self.submessage_flits = num_vcs, flit_bytes, submessage_flits
        super().__init__(
            {
                "link": Out(LinkSignature(**self._sizes)),
                "flit": In(vc_unit_layout(**self._sizes)),
                "take": In(1),
                "may_send": Out(num_vcs),
                "control": In(ControlSignature(flit_bytes=flit_bytes)),
                "open": In(1),
                "available": Out(range(credits + 1), init=credits).array(num_vcs),
                "fault_credit": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.check = check = self._check
        link, control, unit = self.link, self.control, self.flit
        # One number for all channels: a flit that is lost on any of them leaves a gap.
        number = Signal(SEQUENCE_WIDTH)
        stamped = Signal(flit_layout(**self._sizes), reset_less=True)
        sent = self.take
        # A control flit is held for a cycle: `may_send`, a register, is low in the next one only.
        says, epoch = Signal(), Signal()
        held = Signal(vc_unit_layout(**self._sizes), reset_less=True)
        m.d.comb += [
            check.flit.eq(Mux(says, held.as_value(), unit.as_value())),
            check.advance.eq(sent),
            check.clear.eq(~self.open),
        ]
        m.d.sync += [
            says.eq(control.valid),
            epoch.eq(control.epoch),
            held.kind.eq(control.kind),
            held.payload.eq(control.payload),
            number.eq(number + sent),
            link.valid.eq(sent | says),
            self.fault_credit.eq(0),
        ]
        for vc in range(len(self.may_send)):
            self._count(m, vc, sent & (unit.vc == vc))
        with m.If(~self.open):
            m.d.sync += number.eq(0)
        with m.If(sent | says):
            m.d.sync += [
                stamped.sequence.eq(Mux(says, 0, number)),
                # A control flit goes a cycle late, in the epoch of the cycle in which it was given.
                stamped.epoch.eq(Mux(says, epoch, control.epoch)),
                *(stamped[name].eq(check.flit[name]) for name, _ in check.flit.shape()),
                stamped.check.eq(Mux(check.carries, check.check, 0)),
            ]
        m.d.comb += [getattr(link, name).eq(stamped[name]) for name, _ in stamped.shape()]
        return m

    def _count(self, m, vc, spent):
        """Credits of one channel, and whether it has one in the next cycle."""
        available = self.available[vc]
        unspent, back, left = Signal(), Signal(), Signal()
        # `spent` depends on the producer and settles last, so it only selects between comparisons.
        m.d.comb += [
            unspent.eq(self.link.credit[vc] & (available == self.credits) & self.open),
            back.eq(self.link.credit[vc] & ~unspent),
            left.eq(Mux(spent, available > 1, available != 0) | back),
        ]
        m.d.sync += [
            available.eq(Mux(spent, available - 1 + back, available + back)),
            self.may_send[vc].eq(self.open & ~self.control.valid & left),
        ]
        with m.If(unspent):
            m.d.sync += self.fault_credit.eq(1)
        with m.If(~self.open):
            # The later assignment wins: credits that come back now are of an earlier session.
            m.d.sync += available.eq(self.credits)
