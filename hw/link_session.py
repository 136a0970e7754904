"""Brings both ends of a link up together, and down together."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.link import ControlSignature, Kind

__all__ = ["PERIOD_CYCLES", "LinkSession"]

PERIOD_CYCLES = 16
"""From one control flit of a link that is not up to the next."""


class LinkSession(wiring.Component):
    """One end of a three-way handshake: DOWN, then INIT, then UP.

    An end that is not up says so once per `PERIOD_CYCLES`. It goes from DOWN to INIT when the
    other says DOWN, and up when the other says INIT, or UP while it is in INIT itself; an end
    that is up answers each INIT with UP. DOWN from the other end brings it down at once. Each
    flit carries its sender's epoch, one bit that changes with each time the end goes down, also
    by a reset; INIT and UP carry the epoch last heard from the other end too, and count only if
    that is right: what the other end said before it knew of this end's reset brings nothing up.

    An end that is up takes data at once and sends none for `PERIOD_CYCLES`, so that its UP is
    heard before its data. On wires that keep order both ends then begin with empty buffers, full
    credits and nothing in flight: what was sent before lies ahead of the DOWN, where it is
    dropped.

    Latency 1 cycle from `received` to `up`.

    Parameters
    ----------
    flit_bytes : int
        Bytes of a flit's payload.

    Members
    -------
    received : In(ControlSignature)
        Control flits from the other end.
    send : Out(ControlSignature)
        Control flits to it, taken at once; `epoch` is this end's.
    up : Out(1)
        Data may come in.
    open : Out(1)
        Data may be sent.
    peer_epoch : Out(1)
        Of the other end, as it was when the link came up.
    lost : Out(1)
        Strobe: the other end went down while this one was up.

    References
    ----------
    D. Katz, D. Ward, "Bidirectional Forwarding Detection (BFD)", RFC 5880, 2010, section 6.2.
    """

    def __init__(self, *, flit_bytes: int):
        control = ControlSignature(flit_bytes=flit_bytes)
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
        timer = Signal(range(PERIOD_CYCLES))
        # These two outlive a reset of everything else, or it could not change the epoch.
        epoch, was_up = Signal(reset_less=True), Signal(reset_less=True)
        answer, echoed = Signal(), Signal()
        comes = {
            kind: Signal(name=f"comes_{kind.name}") for kind in (Kind.DOWN, Kind.INIT, Kind.UP)
        }
        m.d.comb += [
            signal.eq(received.valid & (received.kind == kind)) for kind, signal in comes.items()
        ]
        m.d.comb += [
            echoed.eq(received.news[0] == epoch),
            send.epoch.eq(epoch),
            send.news.eq(self.peer_epoch),
        ]
        m.d.sync += [was_up.eq(1), timer.eq(timer + 1), answer.eq(0)]
        with m.FSM():
            with m.State("LISTEN"):
                m.d.sync += was_up.eq(0)
                m.d.comb += [send.kind.eq(Kind.DOWN), send.valid.eq((timer == 0) & ~was_up)]
                with m.If(was_up):
                    m.d.sync += [epoch.eq(~epoch), timer.eq(0)]
                with m.Elif(comes[Kind.DOWN]):
                    m.d.sync += [self.peer_epoch.eq(received.epoch), timer.eq(0)]
                    m.next = "ANSWER"
                with m.Elif(comes[Kind.INIT] & echoed):
                    self._rise(m, timer, answer)
            with m.State("ANSWER"):
                m.d.comb += [send.kind.eq(Kind.INIT), send.valid.eq(timer == 0)]
                with m.If(comes[Kind.DOWN]):
                    m.d.sync += self.peer_epoch.eq(received.epoch)
                with m.Elif((comes[Kind.INIT] | comes[Kind.UP]) & echoed):
                    self._rise(m, timer, answer)
            with m.State("CARRY"):
                m.d.comb += [
                    send.kind.eq(Kind.UP),
                    send.valid.eq(answer),
                    self.up.eq(1),
                    self.open.eq(timer == PERIOD_CYCLES - 1),
                    self.lost.eq(comes[Kind.DOWN]),
                ]
                m.d.sync += [
                    answer.eq(comes[Kind.INIT]),
                    timer.eq(Mux(self.open, timer, timer + 1)),
                ]
                with m.If(self.lost):
                    m.d.sync += timer.eq(0)
                    m.next = "LISTEN"
        return m

    def _rise(self, m, timer, answer):
        """Go up: say so, and wait for a period before data are sent."""
        m.d.sync += [self.peer_epoch.eq(self.received.epoch), timer.eq(0), answer.eq(1)]
        m.next = "CARRY"
