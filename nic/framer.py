"""Framer: one head flit per message, then its payload, the last one the tail."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.link import Kind
from multitree.nic.config import Config
from multitree.nic.layouts import (
    HEAD,
    RunSignature,
    descriptor_layout,
    flit_stream,
)

__all__ = ["Framer"]


class Framer(wiring.Component):
    """Frames messages: one head flit, then payload flits, the last one marked as the tail.

    A message without payload is one flit of kind SINGLE. One flit per cycle while data are in
    and the link takes them; stops at once on a fault.

    Parameters
    ----------
    config : Config

    Members
    -------
    descriptors : In(stream)
        Flow, op and size of each message.
    payload : In(stream)
        The data read for them, in order.
    run : In(RunSignature)
        The collective that runs.
    flits : Out(stream)
        Flits for the link transmitter.
    starved : Out(1)
        A payload flit is due and its data are not in.
    idle : Out(1)
        No message in hand.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "descriptors": In(stream.Signature(descriptor_layout(config))),
                "payload": In(stream.Signature(8 * config.flit_bytes)),
                "run": In(RunSignature(config)),
                "flits": Out(stream.Signature(flit_stream(config))),
                "starved": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        """One state machine: send the HEAD, then the BODY until the tail."""
        m = Module()
        left = Signal(self._config.address_width)
        head = Signal(HEAD)
        message = self.descriptors.payload
        sent = self.flits.valid & self.flits.ready
        m.d.comb += [
            head.flow.eq(message.flow),
            head.op.eq(message.op),
            head.sequence.eq(self.run.sequence),
        ]
        with m.FSM():
            with m.State("HEAD"):
                empty = message.size == 0
                m.d.comb += [
                    self.idle.eq(~self.descriptors.valid),
                    self.flits.valid.eq(self.descriptors.valid & self.run.running),
                    self.flits.payload.kind.eq(Mux(empty, Kind.SINGLE, Kind.HEAD)),
                    self.flits.payload.payload.eq(head.as_value()),
                    self.descriptors.ready.eq(self.flits.ready & self.run.running),
                ]
                m.d.sync += left.eq(message.size)
                with m.If(sent & ~empty):
                    m.next = "BODY"
            with m.State("BODY"):
                m.d.comb += [
                    self.flits.valid.eq(self.payload.valid & self.run.running),
                    self.flits.payload.kind.eq(Mux(left == 1, Kind.TAIL, Kind.BODY)),
                    self.flits.payload.payload.eq(self.payload.payload),
                    self.payload.ready.eq(self.flits.ready & self.run.running),
                    self.starved.eq(~self.payload.valid),
                ]
                with m.If(sent):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 1):
                        m.next = "HEAD"
        return m
