"""One end of a link: both directions and their handshake."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.link.link import (
    LinkSignature,
    check_num_vcs,
    fault_record_width,
    unit_layout,
    vc_unit_layout,
)
from multitree.hw.link.receiver import LinkReceiver
from multitree.hw.link.session import LinkSession, bring_up
from multitree.hw.link.transmitter import LinkTransmitter

__all__ = ["LinkPort"]

_FAULTS = ("sequence_error", "epoch_error", "check_error", "overflow", "state_error")


class LinkPort(wiring.Component):
    """A transmitter, a receiver, and the session that brings them up and down with the other end.

    While `up`, flits go out on their virtual channels, and what comes in is offered per virtual
    channel. When the other end goes down, what is in flight and in the buffers is dropped; both
    ends come up again with empty buffers and all credits. FAULT flits are sent and received between
    data flits.

    Latency 1 cycle from `flit` to `tx`, 3 from `rx` to `o`; one flit per cycle in each direction.
    Outputs to the link, `may_send` and what is offered are registers.

    Parameters
    ----------
    flit_bytes, num_vcs : int
        As of `LinkSignature`.
    depth, submessage_flits : int
        As of `LinkReceiver`; the same at the other end.

    Members
    -------
    tx, rx : Out, In(LinkSignature)
        Outgoing and incoming link.
    flit, take, may_send, available : In, In, Out, Out
        As of `LinkTransmitter`.
    o : Out(stream.Signature(StructLayout)), one per virtual channel
        Flits that came in: `kind` and `payload`.
    up : Out(1)
        The link carries data in both directions.
    lost : Out(1)
        Strobe: the other end went down while this one was up; buffers are emptied with its end.
    send_fault, fault_record : In(1), In
        Send a FAULT flit, and what it reports.
    fault_sent, fault_received : Out(1)
        Strobe: it is sent; one came in.
    received_fault : Out
        What that one reports.
    sequence_error, epoch_error, check_error, overflow, state_error, fault_credit : Out(1)
        Strobe: what `LinkReceiver` and `LinkTransmitter` find wrong.
    """

    def __init__(self, *, flit_bytes: int, depth: int, submessage_flits: int, num_vcs: int = 1):
        sizes = {"num_vcs": check_num_vcs(num_vcs), "flit_bytes": flit_bytes}
        flits = {**sizes, "submessage_flits": submessage_flits}
        self.flit_bytes = flit_bytes
        self._receiver = LinkReceiver(depth=depth, **flits)
        self._transmitter = LinkTransmitter(credits=depth, **flits)
        incoming = stream.Signature(unit_layout(flit_bytes=flit_bytes))
        self.num_vcs, self.depth, self.submessage_flits = num_vcs, depth, submessage_flits
        super().__init__(
            {
                "tx": Out(LinkSignature(**sizes)),
                "rx": In(LinkSignature(**sizes)),
                "flit": In(vc_unit_layout(**sizes)),
                "take": In(1),
                "may_send": Out(num_vcs),
                "o": Out(incoming).array(num_vcs),
                "up": Out(1),
                "lost": Out(1),
                "send_fault": In(1),
                "fault_record": In(fault_record_width(flit_bytes)),
                "fault_sent": Out(1),
                "fault_received": Out(1),
                "received_fault": Out(fault_record_width(flit_bytes)),
                "available": Out(range(depth + 1)).array(num_vcs),
                **{name: Out(1) for name in (*_FAULTS, "fault_credit")},
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = self._receiver
        m.submodules.transmitter = transmitter = self._transmitter
        m.submodules.session = session = LinkSession(flit_bytes=self.flit_bytes)
        wiring.connect(m, transmitter.link, wiring.flipped(self.tx))
        wiring.connect(m, wiring.flipped(self.rx), receiver.link)
        m.d.comb += [transmitter.flit.eq(self.flit), transmitter.take.eq(self.take)]
        for vc, incoming in enumerate(receiver.o):
            wiring.connect(m, incoming, wiring.flipped(self.o[vc]))
            m.d.comb += self.available[vc].eq(transmitter.available[vc])
        bring_up(m, self, session, transmitter, receiver)
        m.d.comb += [getattr(self, name).eq(getattr(receiver, name)) for name in _FAULTS]
        m.d.comb += [
            self.may_send.eq(transmitter.may_send),
            self.lost.eq(session.lost),
            self.fault_credit.eq(transmitter.fault_credit),
        ]
        return m
