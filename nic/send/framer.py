"""Framer: a head flit per message or packet, then payload, the last one the tail."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.link.link import Kind
from multitree.nic.config import NO_PORT, Config, descriptor_layout, flit_stream, head_layout
from multitree.nic.faults import Awaited
from multitree.nic.signatures import RunSignature, WaitSignature

__all__ = ["Framer"]


class Framer(wiring.Component):
    """Frames messages: one head flit, then payload flits, the last one marked as the tail.

    With `run.packets` every sub-message is a packet, with the head repeated and a tail of its
    own. A message without payload is one flit of kind SINGLE. One flit per cycle while data are in
    and the link takes them; stops at once on a fault.

    Parameters
    ----------
    config : Config

    Members
    -------
    descriptors : In(stream)
        Each message (`descriptor_layout`).
    payload : In(stream)
        The data read for them, in order.
    run : In(RunSignature)
        The collective that runs.
    flits : Out(stream)
        Flits for the link transmitter.
    wait : Out(WaitSignature)
        What the message in hand waits for: a place on the link, or its data.
    idle : Out(1)
        No message in hand.
    vc : Out(range(num_vcs))
        Virtual channel of the flit that is offered; on shared links only.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "descriptors": In(stream.Signature(descriptor_layout(config))),
                "payload": In(stream.Signature(8 * config.flit_bytes)),
                "run": In(RunSignature(config)),
                "flits": Out(stream.Signature(flit_stream(config))),
                "wait": Out(WaitSignature(config)),
                "idle": Out(1),
                **({"vc": Out(range(config.num_vcs))} if config.shared else {}),
            }
        )

    def elaborate(self, platform):
        """One state machine: send the HEAD, then the BODY until the message's or packet's tail."""
        m = Module()
        left = Signal(self.config.address_width)
        place = Signal(self.config.submessage_flits.bit_length() - 1)
        held = Signal(descriptor_layout(self.config))
        # In hand: the one offered, until its head is sent.
        begun, message = Signal(), Signal(descriptor_layout(self.config))
        head, sent = Signal(head_layout(self.config)), self.flits.valid & self.flits.ready
        m.d.comb += [
            head.flow.eq(message.flow),
            head.op.eq(message.op),
            *([] if self.config.shared else [head.continued.eq(begun), head.wave.eq(message.wave)]),
            head.sequence.eq(self.run.sequence),
            head.size.eq(message.size),
            self.wait.port.eq(NO_PORT),
        ]
        if self.config.shared:
            self._route(m, head, message)
        with m.If(self.flits.valid & ~self.flits.ready):
            m.d.comb += self.wait.awaited.eq(Awaited.CREDIT)
        self._name(m, message)
        with m.FSM() as fsm:
            with m.State("HEAD"):
                empty = ~begun & (message.size == 0)
                m.d.comb += [
                    self.idle.eq(~begun & ~self.descriptors.valid),
                    self.flits.valid.eq((begun | self.descriptors.valid) & self.run.running),
                    self.flits.payload.kind.eq(Mux(empty, Kind.SINGLE, Kind.HEAD)),
                    self.flits.payload.payload.eq(head.as_value()),
                    self.descriptors.ready.eq(~begun & self.flits.ready & self.run.running),
                ]
                m.d.sync += [held.eq(message), place.eq(0)]
                # `left` goes on over all packets of a message.
                with m.If(~begun):
                    m.d.sync += left.eq(message.size)
                with m.If(sent & ~empty):
                    m.next = "BODY"
            with m.State("BODY"):
                last = (left == 1) | (place.all() & self.run.packets)
                m.d.comb += [
                    self.flits.valid.eq(self.payload.valid & self.run.running),
                    self.flits.payload.kind.eq(Mux(last, Kind.TAIL, Kind.BODY)),
                    self.flits.payload.payload.eq(self.payload.payload),
                    self.payload.ready.eq(self.flits.ready & self.run.running),
                ]
                with m.If(~self.payload.valid):
                    m.d.comb += self.wait.awaited.eq(Awaited.MEMORY_READ)
                with m.If(sent):
                    # Used in HEAD only: more packets of this message follow.
                    m.d.sync += [left.eq(left - 1), place.eq(place + 1), begun.eq(left != 1)]
                    with m.If(last):
                        m.next = "HEAD"
        in_hand = begun | fsm.ongoing("BODY")
        offered = self.descriptors.payload
        m.d.comb += message.eq(Mux(in_hand, held.as_value(), offered.as_value()))
        return m

    def _route(self, m, head, message):
        """What a head says on shared links, and the channel that its message takes."""
        m.d.comb += [head[name].eq(message[name]) for name in ("order", "step", "route")]
        m.d.comb += self.vc.eq(Cat(self.run.sequence[0], message.vc_class))

    def _name(self, m, message):
        """Say which message is in hand."""
        m.d.comb += [
            self.wait.row.eq(message.row),
            self.wait.flow.eq(message.flow),
            self.wait.op.eq(message.op),
        ]
        if self.config.wave_width:
            m.d.comb += self.wait.wave.eq(message.wave)
