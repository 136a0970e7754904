"""Both ends of a link of one channel, each with one stream on the inside."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.link.link import unit_layout
from multitree.hw.link.receiver import LinkReceiver
from multitree.hw.link.transmitter import LinkTransmitter

__all__ = ["StreamReceiver", "StreamTransmitter"]


class StreamTransmitter(wiring.Component):
    """A `LinkTransmitter` that is offered a stream of flits."""

    def __init__(self, *, flit_bytes, credits, submessage_flits):
        sizes = {"flit_bytes": flit_bytes, "submessage_flits": submessage_flits}
        self._inner = LinkTransmitter(credits=credits, **sizes)
        members = self._inner.signature.members
        own = {name: members[name] for name in ("link", "control", "open", "fault_credit")}
        flits = stream.Signature(unit_layout(flit_bytes=flit_bytes))
        available = Out(range(credits + 1), init=credits)
        super().__init__(own | {"i": In(flits), "available": available})

    def elaborate(self, platform):
        """The stream moves where the channel may send."""
        m = Module()
        m.submodules.inner = inner = self._inner
        wiring.connect(m, inner.link, wiring.flipped(self.link))
        wiring.connect(m, wiring.flipped(self.control), inner.control)
        m.d.comb += [
            self.i.ready.eq(inner.may_send[0]),
            inner.take.eq(self.i.valid & self.i.ready),
            inner.flit.kind.eq(self.i.payload.kind),
            inner.flit.payload.eq(self.i.payload.payload),
            inner.open.eq(self.open),
            self.available.eq(inner.available[0]),
            self.fault_credit.eq(inner.fault_credit),
        ]
        return m


class StreamReceiver(wiring.Component):
    """A `LinkReceiver` that offers one stream of flits."""

    def __init__(self, *, flit_bytes, depth, submessage_flits):
        sizes = {"flit_bytes": flit_bytes, "submessage_flits": submessage_flits}
        self._inner = LinkReceiver(depth=depth, **sizes)
        members = dict(self._inner.signature.members.items())
        del members["o"]
        self._plain = [name for name in members if name not in ("link", "control", "up", "epoch")]
        flits = stream.Signature(unit_layout(flit_bytes=flit_bytes))
        super().__init__({**members, "o": Out(flits)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = self._inner
        wiring.connect(m, wiring.flipped(self.link), inner.link)
        wiring.connect(m, inner.control, wiring.flipped(self.control))
        wiring.connect(m, inner.o[0], wiring.flipped(self.o))
        m.d.comb += [inner.up.eq(self.up), inner.epoch.eq(self.epoch)]
        m.d.comb += [getattr(self, name).eq(getattr(inner, name)) for name in self._plain]
        return m
