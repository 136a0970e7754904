"""A port's receiver on shared links: header check, then reduction into memory."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arbiter import stay
from multitree.nic.config import Config, flit_stream
from multitree.nic.receive.shared_header_check import SharedHeaderCheck
from multitree.nic.reduce.reducer import Reducer, item_layout
from multitree.nic.signatures import (
    ArrivalSignature,
    LookupSignature,
    MemoryReadSignature,
    MemoryWriteSignature,
    ReservationSignature,
    RunSignature,
    TurnSignature,
    WaitSignature,
)

__all__ = ["SharedReceiver"]


class SharedReceiver(wiring.Component):
    """A port's receiving side on shared links: it takes whatever comes, as fast as memory does.

    What comes over the link goes before what was staged. A message is reported a cycle after its
    last write is acknowledged.

    Parameters
    ----------
    config : Config
        Of an interface on shared links.

    Members
    -------
    port : In(4)
        Number of this port.
    flits : In(stream), one per virtual channel
        From the link's buffers.
    run : In(RunSignature)
        The collective that runs.
    lookup : Out(LookupSignature)
        Question to the flow memory.
    reservation : Out(ReservationSignature)
        Question to the sequencer.
    turn : In(TurnSignature)
        Strobe: all contributions before this one are in memory.
    staged : In(stream)
        Flits of staged contributions (`item_layout`).
    fetch : Out(MemoryReadSignature)
        Read channel.
    write : Out(MemoryWriteSignature)
        Write channel.
    arrival : Out(ArrivalSignature)
        A message is in memory.
    fault : Out(8)
        `FaultCode`, a strobe, a cycle after it was found.
    wait : Out(WaitSignature)
        What is awaited in the middle of a message, or was in the cycle before.
    state_error : Out(1)
        Strobe: bits of what it queues have flipped.
    """

    def __init__(self, config: Config):
        self.config = config
        flits = stream.Signature(flit_stream(config))
        super().__init__(
            {
                "port": In(4),
                "flits": In(flits).array(config.num_vcs),
                "run": In(RunSignature(config)),
                "lookup": Out(LookupSignature()),
                "reservation": Out(ReservationSignature()),
                "turn": In(TurnSignature()),
                "staged": In(stream.Signature(item_layout(config))),
                "fetch": Out(MemoryReadSignature(config)),
                "write": Out(MemoryWriteSignature(config)),
                "arrival": Out(ArrivalSignature(config)),
                "fault": Out(8),
                "wait": Out(WaitSignature(config)),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        """Wire header check and reducer, and let staged flits into the gaps."""
        m = Module()
        # Twice the queue: before the write request, and from there to the acknowledgement.
        unwritten = Signal(range(2 * self.config.memory_queue_flits + 1))
        m.submodules.header_check = header_check = SharedHeaderCheck(
            self.config, unwritten_width=len(unwritten)
        )
        m.submodules.reducer = reducer = Reducer(self.config)
        for name in ("run", "turn"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(header_check, name))
        for outer, inner in zip(self.flits, header_check.flits, strict=True):
            wiring.connect(m, wiring.flipped(outer), inner)
        for name in ("lookup", "reservation"):
            wiring.connect(m, getattr(header_check, name), wiring.flipped(getattr(self, name)))
        for name in ("fetch", "write", "arrival"):
            wiring.connect(m, getattr(reducer, name), wiring.flipped(getattr(self, name)))
        m.d.sync += unwritten.eq(
            unwritten + (reducer.items.valid & reducer.items.ready) - self.write.ack
        )
        m.d.comb += [header_check.port.eq(self.port), header_check.unwritten.eq(unwritten)]
        self._follow(m, reducer.items, header_check.following)
        items, came, staged = reducer.items, header_check.items, self.staged
        # What is offered stays until it is taken, so a staged flit is not pushed aside.
        second = stay(m, ~came.valid, items.valid, items.ready)
        m.d.comb += [
            items.valid.eq(Mux(second, staged.valid, came.valid)),
            items.payload.eq(Mux(second, staged.payload.as_value(), came.payload.as_value())),
            came.ready.eq(items.ready & ~second),
            staged.ready.eq(items.ready & second),
            reducer.dtype.eq(self.run.dtype),
            reducer.maximum.eq(self.run.maximum),
            self.state_error.eq(reducer.state_error | header_check.state_error),
        ]
        # Both together, so that a fault comes with what it concerns.
        m.d.sync += self.fault.eq(header_check.fault)
        for name in self.wait.signature.members:
            m.d.sync += getattr(self.wait, name).eq(getattr(header_check.wait, name))
        return m

    def _follow(self, m, items, following):
        """Note the contribution behind the one that the reducer took last as a whole."""
        item = items.payload
        with m.If(~self.run.running):
            m.d.sync += following.valid.eq(0)
        # What replaces is a result or goes to a slot: no sum has moved on.
        with m.Elif(items.valid & items.ready & item.end & ~item.replace):
            m.d.sync += [
                following.valid.eq(1),
                following.flow.eq(item.mark.flow),
                following.order.eq(item.mark.order + 1),
            ]
