"""Admission on shared links: all virtual channels into memory, flit by flit."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arbiter import RoundRobin, stay
from multitree.hw.link import Kind
from multitree.nic.config import Config
from multitree.nic.faults import Awaited, FaultCode
from multitree.nic.layouts import flit_stream
from multitree.nic.reception import Reception, place_layout
from multitree.nic.reducer import item_layout
from multitree.nic.signatures import ClaimSignature, LookupSignature, RunSignature, WaitSignature

__all__ = ["SharedAdmission"]

_OP_GATHER = 1


class SharedAdmission(wiring.Component):
    """Lets every message in at once: to its chunk if it is next in order, else to its slot.

    Each virtual channel has at most one message in hand; their payload takes turns flit by flit,
    so that none waits for another one's tail. What comes before its turn is staged in memory
    (`Reception`): this end of a link always sinks. While `run.faulted` everything is taken and
    dropped.

    One flit per cycle; a message's payload begins seven cycles after its head at the earliest.

    Parameters
    ----------
    config : Config
        Of an interface on shared links.
    port : int
        Number of this port.

    Members
    -------
    flits : In(stream), one per virtual channel
        From the link's buffers.
    run : In(RunSignature)
        The collective that runs.
    lookup : Out(LookupSignature)
        Question to the flow memory.
    claim : Out(ClaimSignature)
        Question to the collector.
    items : Out(stream)
        Flits for the reducer (`item_layout`).
    fault : Out(8)
        `FaultCode`, a strobe.
    wait : Out(WaitSignature)
        What is awaited in the middle of a message; its flow is that of a fault, too.
    """

    def __init__(self, config: Config, *, port: int):
        self._config = config
        self._port = port
        flits = stream.Signature(flit_stream(config))
        super().__init__(
            {
                "flits": In(flits).array(config.num_vcs),
                "run": In(RunSignature(config)),
                "lookup": Out(LookupSignature()),
                "claim": Out(ClaimSignature()),
                "items": Out(stream.Signature(item_layout(config))),
                "fault": Out(8),
                "wait": Out(WaitSignature()),
            }
        )

    def elaborate(self, platform):
        """Heads to the reception; payload in turns, each channel to where its message goes."""
        m = Module()
        num_vcs = self._config.num_vcs
        m.submodules.reception = reception = Reception(self._config)
        wiring.connect(m, wiring.flipped(self.run), reception.run)
        for name in ("lookup", "claim"):
            wiring.connect(m, getattr(reception, name), wiring.flipped(getattr(self, name)))
        busy = Signal(num_vcs)
        places = Array(
            Signal(place_layout(self._config), name=f"place_{k}") for k in range(num_vcs)
        )
        grant, valid, moved = self._take_turns(m, busy)
        place, flit = places[grant], Array(self.flits)[grant].payload
        last = place.size == 1
        right_kind = flit.kind == Mux(last, Kind.TAIL, Kind.BODY)
        m.d.comb += [
            reception.busy.eq(busy),
            self.items.valid.eq(valid & right_kind & self.run.running),
            moved.eq(self.items.valid & self.items.ready),
        ]
        self._name_item(m, place, flit, last)
        for vc, (flits, heads) in enumerate(zip(self.flits, reception.heads, strict=True)):
            mine = grant == vc
            m.d.comb += [
                heads.valid.eq(flits.valid),
                heads.payload.eq(flits.payload),
                flits.ready.eq(heads.ready | (moved & mine) | self.run.faulted),
            ]
            with m.If(reception.opened[vc]):
                m.d.sync += [places[vc].eq(reception.place), busy[vc].eq(1)]
            with m.Elif(moved & mine):
                m.d.sync += [
                    places[vc].address.eq(places[vc].address + 1),
                    places[vc].size.eq(places[vc].size - 1),
                    busy[vc].eq(~last),
                ]
        with m.If(self.run.faulted):
            m.d.sync += busy.eq(0)
        self._report(m, reception, busy, places, valid & ~right_kind & self.run.running, place)
        return m

    def _take_turns(self, m, busy):
        """Whose flit goes next; what is offered stays until it is taken."""
        m.submodules.turns = turns = RoundRobin(count=self._config.num_vcs)
        moved = Signal()
        m.d.comb += [
            Cat(turns.requests).eq(Cat(flits.valid for flits in self.flits) & busy),
            turns.advance.eq(moved),
        ]
        return stay(m, turns.grant, turns.valid, moved), turns.valid, moved

    def _name_item(self, m, place, flit, last):
        """What the reducer has to know of the flit in turn."""
        item = self.items.payload
        m.d.comb += [
            item.payload.eq(flit.payload),
            item.address.eq(place.address),
            item.replace.eq((place.op == _OP_GATHER) | place.staged),
            item.end.eq(last),
            item.mark.op.eq(place.op),
            item.mark.flow.eq(place.flow),
            item.mark.count.eq(1),
            item.mark.last.eq(1),
            item.mark.order.eq(place.order),
            item.mark.staged.eq(place.staged),
            item.mark.final.eq(place.final),
        ]

    def _report(self, m, reception, busy, places, wrong_kind, place):
        """Faults, and the flow of one of the messages that are in hand and have no flit."""
        m.d.comb += [
            self.fault.eq(reception.fault),
            self.wait.port.eq(self._port),
            self.wait.flow.eq(reception.flow),
        ]
        for vc in range(self._config.num_vcs):
            with m.If(busy[vc] & ~self.flits[vc].valid & (reception.fault == 0)):
                m.d.comb += [
                    self.wait.awaited.eq(Awaited.FLIT),
                    self.wait.flow.eq(places[vc].flow),
                    self.wait.op.eq(places[vc].op),
                ]
        with m.If(wrong_kind):
            m.d.comb += [self.fault.eq(FaultCode.FRAMING), self.wait.flow.eq(place.flow)]
