"""Header lookup: takes a port's heads and asks where their messages may go."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arbiter import RoundRobin
from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import OP_GATHER, ORDER_WIDTH
from multitree.nic.layouts import SHARED_FLOW, flit_stream, head_layout
from multitree.nic.signatures import LookupSignature, ReservationSignature, RunSignature, Verdict

__all__ = ["HeaderLookup", "place_layout"]


def place_layout(config: Config) -> data.StructLayout:
    """Where the payload of an admitted message goes, and what its end reports."""
    return data.StructLayout(
        {
            "address": config.address_width,
            "size": config.address_width,
            "op": 1,
            "flow": 16,
            "order": ORDER_WIDTH,
            "adds": 1,
            "staged": 1,
            "waits": 1,
            "final": 1,
        }
    )


class HeaderLookup(wiring.Component):
    """Takes heads, one after the other, and gives every message a place in memory.

    Only the virtual channels of the running collective's parity are looked at: what comes early
    for the next one waits in its own. Nothing else ever waits for a message in flight: a head is
    looked up, claims its place and gets it within a bounded time, so that the channels drain. A
    message that the flow memory does not expect, or that came before, is a fault.

    Channels take turns: a head that waits is passed over once by each other one at most. Seven
    cycles per head, and what flow memory and sequencer take when others are before it.

    Members
    -------
    heads : In(stream), one per virtual channel
        What is in front of each, while there is room for one more place.
    run : In(RunSignature)
    lookup : Out(LookupSignature)
    reservation : Out(ReservationSignature)
    opened, place : Out(num_vcs), Out
        Strobe: the payload that follows on this channel has this place (`place_layout`).
    flow : Out(16)
        Of the head in hand.
    fault : Out(8)
    """

    def __init__(self, config: Config):
        self.config = config
        self._head = head_layout(config)
        self._chunk, self._slots = Signal(config.address_width), Signal(config.address_width)
        heads = stream.Signature(flit_stream(config))
        super().__init__(
            {
                "heads": In(heads).array(config.num_vcs),
                "run": In(RunSignature(config)),
                "lookup": Out(LookupSignature()),
                "reservation": Out(ReservationSignature()),
                "opened": Out(config.num_vcs),
                "place": Out(place_layout(config)),
                "flow": Out(16),
                "fault": Out(8),
            }
        )

    def elaborate(self, platform):
        """One state machine: PICK a head, LOOK_UP its flow, READ and CHECK that, CLAIM a place."""
        m = Module()
        head, kind = Signal(self._head), Signal(Kind)
        chosen = self._choose(m)
        vc = Signal.like(chosen.grant)
        single = kind == Kind.SINGLE
        with m.FSM():
            with m.State("PICK"):
                front = Array(self.heads)[chosen.grant].payload
                m.d.sync += [head.eq(front.payload), kind.eq(front.kind), vc.eq(chosen.grant)]
                # Not in other states: the next turn would depend on how long a head takes.
                m.d.comb += chosen.advance.eq(1)
                with m.If(chosen.valid):
                    m.d.comb += Cat(flits.ready for flits in self.heads).eq(1 << chosen.grant)
                    m.next = "LOOK_UP"
            with m.State("LOOK_UP"):
                # The head is a register: no path leads from a link's buffer to the arbiter.
                self._judge(m, head, kind)
                m.d.comb += self.lookup.valid.eq(self.fault == 0)
                with m.If(self.fault != 0):
                    m.next = "PICK"
                with m.Elif(self.lookup.granted):
                    m.next = "READ"
            # The entry comes two cycles after the grant.
            with m.State("READ"):
                m.next = "CHECK"
            with m.State("CHECK"):
                entry = data.View(SHARED_FLOW, self.lookup.entry.as_value())
                self._check(m, head, single, entry)
                self._keep(m, entry)
                m.next = "CLAIM"
                with m.If(self.fault != 0):
                    m.next = "PICK"
            with m.State("CLAIM"):
                m.d.comb += [self.reservation.valid.eq(1), self.reservation.empty.eq(single)]
                with m.If(self.reservation.answered):
                    m.next = "PICK"
                    with m.If(self.reservation.verdict == Verdict.TWICE):
                        m.d.comb += self.fault.eq(FaultCode.DUPLICATE_MESSAGE)
                    # The collective was over before the claim: its own message cannot be.
                    with m.Elif(head.sequence != self.run.sequence):
                        m.d.comb += self.fault.eq(FaultCode.STALE_SEQUENCE)
                    with m.Else():
                        m.d.comb += self.opened.eq(Mux(single, 0, 1 << vc))
        self._locate(m, head)
        return m

    def _choose(self, m):
        """A channel of this collective's parity that offers what should be a head."""
        m.submodules.turns = turns = RoundRobin(count=self.config.num_vcs)
        for vc, flits in enumerate(self.heads):
            mine = self.run.running & (self.run.sequence[0] == vc % 2)
            m.d.comb += turns.requests[vc].eq(flits.valid & mine)
        return turns

    def _judge(self, m, head, kind):
        """A head of this collective and of a flow in use."""
        is_head = (kind == Kind.HEAD) | (kind == Kind.SINGLE)
        with m.If(~is_head):
            m.d.comb += self.fault.eq(FaultCode.FRAMING)
        with m.Elif(head.sequence != self.run.sequence):
            m.d.comb += self.fault.eq(FaultCode.STALE_SEQUENCE)
        with m.Elif(head.flow >= self.run.num_flows):
            m.d.comb += self.fault.eq(FaultCode.UNEXPECTED_MESSAGE)

    def _check(self, m, head, single, entry):
        """The flow's entry is valid in this cycle: is the message as it expects it?"""
        header_only = Mux(
            head.op == OP_GATHER, self.run.header_only[OP_GATHER], self.run.header_only[0]
        )
        comes = Mux(head.op == OP_GATHER, entry.parent, head.order < entry.num_children)
        with m.If(~self.lookup.intact):
            m.d.comb += self.fault.eq(FaultCode.TABLE_PARITY)
        with m.Elif(~comes | (single != (header_only | (entry.size == 0)))):
            m.d.comb += self.fault.eq(FaultCode.UNEXPECTED_MESSAGE)
        with m.Elif(~single & (head.size != entry.size)):
            m.d.comb += self.fault.eq(FaultCode.LENGTH)

    def _keep(self, m, entry):
        """Keep what the entry, valid in this cycle, says of the message in hand."""
        run = self.run
        m.d.sync += [
            self.place.size.eq(entry.size),
            self._chunk.eq(run.window_base + entry.base),
            self._slots.eq(run.window_base + entry.staging),
            self.reservation.last.eq(entry.num_children - 1),
        ]

    def _locate(self, m, head):
        """Chunk or slot of the message in hand: the slot is found while the claim is judged."""
        product = Signal(self.config.address_width)
        slot = Signal(self.config.address_width)
        staged = self.reservation.verdict == Verdict.STAGED
        # Size, product and slot are ready in the first three cycles of CLAIM, one after the other;
        # the sequencer answers in the fourth at the earliest.
        m.d.sync += [product.eq(head.order * self.place.size), slot.eq(self._slots + product)]
        m.d.comb += [
            self.place.address.eq(Mux(staged, slot, self._chunk)),
            self.place.op.eq(head.op),
            self.place.flow.eq(head.flow),
            self.place.order.eq(head.order),
            self.place.adds.eq((head.op != OP_GATHER) & ~staged),
            self.place.staged.eq(staged),
            self.place.waits.eq(self.reservation.verdict == Verdict.WAITS),
            self.place.final.eq(head.order == self.reservation.last),
            self.flow.eq(head.flow),
            self.lookup.flow.eq(head.flow),
            self.reservation.op.eq(head.op),
            self.reservation.flow.eq(head.flow),
            self.reservation.order.eq(head.order),
        ]
