"""A port's receiver on shared links: heads of all channels, and a reducer."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arbiter import RoundRobin, stay
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.layouts import flit_stream
from multitree.nic.receive.header_lookup import HeaderLookup
from multitree.nic.receive.shared_lane import SharedLane
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

__all__ = ["SharedHeaderCheck", "SharedReceiver"]


class SharedHeaderCheck(wiring.Component):
    """Lets every message in at once: to its chunk if it is next in order, else to its slot.

    Each virtual channel is a lane (`SharedLane`) that has at most one message in hand; their
    payload takes turns flit by flit, so that none waits for another one's tail: one that waits is
    passed over twice by each other one at most. What comes before those before it is staged in
    memory (`HeaderLookup`): this end of a link sinks whatever may hold up another message. While
    `run.faulted` everything is taken and dropped.

    One flit per cycle; a message's payload begins nine cycles after its head at the earliest.

    Members
    -------
    port : In(4)
    flits : In(stream), one per virtual channel
    run : In(RunSignature)
    lookup : Out(LookupSignature)
    reservation : Out(ReservationSignature)
    turn, following, unwritten : In
        As of `SharedLane`.
    items : Out(stream)
        Flits for the reducer (`item_layout`).
    fault : Out(8)
    wait : Out(WaitSignature)
        What one of the messages in hand waits for; its flow is that of a fault, too.
    state_error : Out(1)
    """

    def __init__(self, config: Config, *, unwritten_width: int):
        self.config = config
        flits = stream.Signature(flit_stream(config))
        self._lanes = [
            SharedLane(config, unwritten_width=unwritten_width) for _ in range(config.num_vcs)
        ]
        self.unwritten_width = unwritten_width
        super().__init__(
            {
                "port": In(4),
                "flits": In(flits).array(config.num_vcs),
                "run": In(RunSignature(config)),
                "lookup": Out(LookupSignature()),
                "reservation": Out(ReservationSignature()),
                "turn": In(TurnSignature()),
                "following": In(TurnSignature()),
                "unwritten": In(unwritten_width),
                "items": Out(stream.Signature(item_layout(config))),
                "fault": Out(8),
                "wait": Out(WaitSignature(config)),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        """Heads to the header lookup; payload in turns, each channel to where its message goes."""
        m = Module()
        m.submodules.header_lookup = header_lookup = HeaderLookup(self.config)
        wiring.connect(m, wiring.flipped(self.run), header_lookup.run)
        for name in ("lookup", "reservation"):
            wiring.connect(m, getattr(header_lookup, name), wiring.flipped(getattr(self, name)))
        for vc, lane in enumerate(self._lanes):
            m.submodules[f"lane_{vc}"] = lane
            wiring.connect(m, wiring.flipped(self.flits[vc]), lane.flits)
            wiring.connect(m, lane.head, header_lookup.heads[vc])
            for name in ("run", "turn", "following"):
                wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(lane, name))
            m.d.comb += [
                lane.opened.eq(header_lookup.opened[vc]),
                lane.place.eq(header_lookup.place),
                lane.unwritten.eq(self.unwritten),
            ]
        self._take_turns(m)
        self._report(m, header_lookup)
        return m

    def _take_turns(self, m):
        """One lane's flit to the reducer; what is offered stays until it is taken."""
        m.submodules.turns = turns = RoundRobin(count=len(self._lanes))
        items = Array(lane.items for lane in self._lanes)
        moved = self.items.valid & self.items.ready
        grant = stay(m, turns.grant, self.items.valid, moved)
        m.d.comb += [
            # While an offer stays, `turns` may point to another lane, which then loses its turn.
            Cat(turns.requests).eq(Cat(lane.items.valid for lane in self._lanes)),
            turns.advance.eq(moved),
            self.items.valid.eq(turns.valid),
            self.items.payload.eq(items[grant].payload),
        ]
        for vc, lane in enumerate(self._lanes):
            m.d.comb += lane.items.ready.eq(self.items.ready & (grant == vc))

    def _report(self, m, header_lookup):
        """Faults, and what one of the lanes waits for."""
        m.d.comb += [
            self.fault.eq(header_lookup.fault),
            self.state_error.eq(Cat(lane.state_error for lane in self._lanes).any()),
            self.wait.port.eq(self.port),
            self.wait.flow.eq(header_lookup.flow),
        ]
        for lane in self._lanes:
            with m.If((lane.awaited != Awaited.NOTHING) & (header_lookup.fault == 0)):
                m.d.comb += [
                    self.wait.awaited.eq(lane.awaited),
                    self.wait.flow.eq(lane.flow),
                    self.wait.op.eq(lane.op),
                ]
        for lane in self._lanes:
            # The later assignment wins, for fault and flow alike: they belong together.
            with m.If(lane.wrong_kind):
                m.d.comb += [self.fault.eq(FaultCode.FRAMING), self.wait.flow.eq(lane.flow)]


class SharedReceiver(wiring.Component):
    """A port's receiving side on shared links: it takes whatever comes, as fast as memory does.

    What comes over the link goes before what was staged. A message is reported a cycle after its
    last write is acknowledged.

    Members
    -------
    port : In(4)
    flits : In(stream), one per virtual channel
    run : In(RunSignature)
    lookup : Out(LookupSignature)
    reservation : Out(ReservationSignature)
    turn : In(TurnSignature)
        Strobe: all contributions before this one are in memory.
    staged : In(stream)
        Flits of staged contributions (`item_layout`).
    fetch : Out(MemoryReadSignature)
    write : Out(MemoryWriteSignature)
    arrival : Out(ArrivalSignature)
        A message is in memory.
    fault : Out(8)
        `FaultCode`, a strobe, a cycle after it was found.
    wait : Out(WaitSignature)
        What is awaited in the middle of a message, or was in the cycle before.
    state_error : Out(1)
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
