"""One end of a link: the handshake that brings it up, and both directions."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import PERIOD_CYCLES
from multitree.hw.link.link import (
    ControlSignature,
    Kind,
    LinkSignature,
    check_num_vcs,
    fault_record_width,
    unit_layout,
    vc_unit_layout,
)
from multitree.hw.link.receiver import LinkReceiver
from multitree.hw.link.transmitter import LinkTransmitter

__all__ = ["LinkPort", "LinkSession", "bring_up"]


def bring_up(m, end, session, transmitter, receiver):
    """Wire the blocks of an end of a link, such as `LinkPort`: the session says when both ends take
    and send data. A FAULT flit goes when the session has nothing to send.
    """
    wiring.connect(m, receiver.control, session.received)
    send, control, received = session.send, transmitter.control, receiver.control
    # A FAULT flit counts if the other end sent it in its present epoch, not before a reset.
    current = session.up & (received.epoch == session.peer_epoch)
    m.d.comb += [
        # An answer to INIT goes first: without it the other end stays down.
        end.fault_sent.eq(end.send_fault & session.open & ~send.valid),
        control.valid.eq(send.valid | end.fault_sent),
        control.kind.eq(Mux(send.valid, send.kind.as_value(), Kind.FAULT)),
        control.epoch.eq(send.epoch),
        control.payload.eq(Mux(send.valid, send.payload, end.fault_record)),
        end.fault_received.eq(received.valid & (received.kind == Kind.FAULT) & current),
        end.received_fault.eq(received.payload),
        transmitter.open.eq(session.open),
        receiver.up.eq(session.up),
        receiver.epoch.eq(session.peer_epoch),
        end.up.eq(session.open),
    ]


class LinkSession(wiring.Component):
    """One end of a three-way handshake: DOWN, then INIT, then UP.

    An end that is not up says so once per `PERIOD_CYCLES`. It goes from DOWN to INIT when the
    other says DOWN, and up when the other says INIT, or UP while it is in INIT itself; an end
    that is up answers each INIT with UP. DOWN from the other end brings it down at once. Each
    flit carries its sender's epoch, one bit, and the epoch last received from the other end since
    the last reset, if any: INIT and UP count only if they return the receiver's epoch.

    An end that said INIT or UP takes another epoch before it answers again, whether it was reset
    or fell: it says DOWN in the old epoch until that comes back. Wires keep order, so that then
    nothing in flight or kept at the other end has any other epoch than the old one, and what
    returns the new one was said after it was taken. Hence one bit is enough for resets in any
    cycle, however many, and wires of any latency. It has to outlive them, but not a loss of
    power: while an end is without, what is in flight has to arrive.

    An end that is up takes data at once and sends none for `PERIOD_CYCLES`, so that its UP is
    received before its data. On wires that keep order both ends then begin with empty buffers, full
    credits and nothing in flight: what was sent before lies ahead of the DOWN, where it is
    dropped.

    Latency 1 cycle from `received` to `up`.

    Members
    -------
    received : In(ControlSignature)
        Control flits from the other end.
    send : Out(ControlSignature)
        Control flits to it, taken at once; `epoch` is this end's, `payload` the other's epoch and,
        above it, whether that is known.
    up, open : Out(1)
        Data may come in; data may be sent.
    peer_epoch : Out(1)
        Of the other end, as last received; while `up`, as it was when the link came up.
    lost : Out(1)
        Strobe: the other end went down while this one was up.

    References
    ----------
    D. Katz, D. Ward, "Bidirectional Forwarding Detection (BFD)", RFC 5880, 2010, section 6.2.

    A. E. Baratz, A. Segall, "Reliable link initialization procedures", IEEE Transactions on
    Communications 36(2), 1988: one bit that outlives a reset is enough.
    """

    def __init__(self, *, flit_bytes: int):
        control = ControlSignature(flit_bytes=flit_bytes)
        self.flit_bytes = flit_bytes
        super().__init__(
            {
                "received": In(control),
                "send": Out(control),
                "up": Out(1),
                "open": Out(1),
                "peer_epoch": Out(1),
                "lost": Out(1),
            }
        )

    def elaborate(self, platform):
        """One state machine: LISTEN while down, ANSWER in INIT, CARRY data while up."""
        m = Module()
        received, send = self.received, self.send
        # The period is a power of two: the timer wraps by itself, except in CARRY, where it stops.
        timer = Signal(range(PERIOD_CYCLES))
        # These two outlive a reset of everything else, or it could not change the epoch.
        epoch, used = Signal(reset_less=True), Signal(reset_less=True)
        known, answer, echoed = Signal(), Signal(), Signal()
        comes = {
            kind: Signal(name=f"comes_{kind.name}") for kind in (Kind.DOWN, Kind.INIT, Kind.UP)
        }
        m.d.comb += [
            signal.eq(received.valid & (received.kind == kind)) for kind, signal in comes.items()
        ]
        m.d.comb += [
            # Bit 1 says that the other end has received an epoch since its last reset.
            echoed.eq((received.payload[:2] == Cat(epoch, 1)) & Cat(comes.values()).any()),
            send.epoch.eq(epoch),
            send.payload.eq(Cat(self.peer_epoch, known)),
        ]
        m.d.sync += [timer.eq(timer + 1), answer.eq(0)]
        # In every state: of two ends that both wait for their old epochs, each has to return one.
        with m.If(comes[Kind.DOWN]):
            m.d.sync += [self.peer_epoch.eq(received.epoch), known.eq(1)]
        with m.FSM():
            with m.State("LISTEN"):
                m.d.comb += [send.kind.eq(Kind.DOWN), send.valid.eq(timer == 0)]
                # The old epoch came back: nothing that carries another one is in flight any more.
                with m.If(used & echoed):
                    m.d.sync += [epoch.eq(~epoch), used.eq(0), timer.eq(0)]
                # At 0 the timer sends INIT in the first cycle of the next state.
                with m.Elif(~used & comes[Kind.DOWN]):
                    m.d.sync += timer.eq(0)
                    m.next = "ANSWER"
                with m.Elif(~used & comes[Kind.INIT] & echoed):
                    self._rise(m, timer, answer, known)
            with m.State("ANSWER"):
                # INIT takes this epoch to the other end: after a reset another one is needed.
                m.d.sync += used.eq(1)
                m.d.comb += [send.kind.eq(Kind.INIT), send.valid.eq(timer == 0)]
                with m.If((comes[Kind.INIT] | comes[Kind.UP]) & echoed):
                    self._rise(m, timer, answer, known)
            with m.State("CARRY"):
                m.d.comb += [
                    send.kind.eq(Kind.UP),
                    send.valid.eq(answer),
                    self.up.eq(1),
                    # The timer stands still here, a period after the link came up.
                    self.open.eq(timer == PERIOD_CYCLES - 1),
                    self.lost.eq(comes[Kind.DOWN]),
                ]
                m.d.sync += [
                    used.eq(1),
                    answer.eq(comes[Kind.INIT]),
                    timer.eq(Mux(self.open, timer, timer + 1)),
                ]
                # The later assignment wins: DOWN is sent in the first cycle of LISTEN.
                with m.If(self.lost):
                    m.d.sync += timer.eq(0)
                    m.next = "LISTEN"
        return m

    def _rise(self, m, timer, answer, known):
        m.d.sync += [self.peer_epoch.eq(self.received.epoch), known.eq(1)]
        m.d.sync += [timer.eq(0), answer.eq(1)]
        m.next = "CARRY"


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
