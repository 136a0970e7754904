"""Header check: reads heads in order and passes their flits on when they may."""

from typing import NamedTuple

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.formats import OP_GATHER, UNKNOWN
from multitree.nic.layouts import flit_stream, head_layout
from multitree.nic.receive.duplicate_filter import DuplicateFilter, Expectation, refusal
from multitree.nic.reduce.reducer import item_layout
from multitree.nic.send.rows import WaveOffset
from multitree.nic.signatures import (
    ArrivalSignature,
    LookupSignature,
    QuerySignature,
    RunSignature,
    WaitSignature,
)

__all__ = ["HeaderCheck", "InHand"]


class InHand(NamedTuple):
    """What is known of the message in hand; all are registers."""

    op: Signal
    flow: Signal
    wave: Signal
    after: Signal
    """It waits for a sibling."""
    left: Signal
    """Payload flits that have not passed."""
    next_count: Signal
    """What the sub-message that passes will be reported as."""


class HeaderCheck(wiring.Component):
    """Reads heads, looks up what they may do, and passes payload flits on when they may.

    A message of a later collective, or one that arrives while nothing runs, waits in the link
    buffer; a contribution waits there, sub-message by sub-message, for the sibling before it.
    Anything the flow memory does not expect, or that came in this collective before, is a fault
    and moves nothing to memory; so is an entry or a mark whose check bits are wrong. While
    `run.faulted` everything is taken and dropped, so that the links drain.

    One flit per cycle; four cycles per head, five where there are waves, and one more for each
    client of the flow memory that is before it. A head is taken before it is looked up, so that no
    path leads from one port's link buffer through the flow memory's arbiter to another port's.

    Members
    -------
    port : In(4)
    flits : In(stream)
    run : In(RunSignature)
    lookup : Out(LookupSignature)
    query : Out(QuerySignature)
    items : Out(stream)
        Flits for the reducer (`item_layout`).
    drained, empty : In(1), Out(ArrivalSignature)
        The reducer is idle; a message without payload is in.
    fault : Out(8)
    wait : Out(WaitSignature)
        What is awaited in the middle of a message; its flow is that of a fault, too.
    """

    def __init__(self, config: Config):
        self.config = config
        self._head = head_layout(config)
        super().__init__(
            {
                "port": In(4),
                "flits": In(stream.Signature(flit_stream(config))),
                "run": In(RunSignature(config)),
                "lookup": Out(LookupSignature()),
                "items": Out(stream.Signature(item_layout(config))),
                "drained": In(1),
                "empty": Out(ArrivalSignature(config)),
                "fault": Out(8),
                "wait": Out(WaitSignature(config)),
                "query": Out(QuerySignature(config)),
            }
        )

    def elaborate(self, platform):
        """One state machine: AWAIT_HEAD, LOOK_UP, READ, CHECK, MOVE, PASS, NEXT_HEAD, REPORT."""
        m = Module()
        flit, run = self.flits.payload, self.run
        m.submodules.expectation = expectation = Expectation()
        head = data.View(self._head, flit.payload[: self._head.size])
        op, flow, single, phase = Signal(), Signal(16), Signal(), Signal()
        wave = Signal(self.config.wave_width)
        first = Cat(Const(1, self.config.part_width), head.wave[: len(wave)])
        size = Signal.like(head.size)
        after, left = Signal(), Signal(self.config.address_width)
        next_count = Signal(self.config.count_width)
        message = InHand(op, flow, wave, after, left, next_count)
        gate = self._gate(m, message)
        is_head = (flit.kind == Kind.HEAD) | (flit.kind == Kind.SINGLE)
        m.d.comb += [expectation.entry.eq(self.lookup.entry), expectation.op.eq(op)]
        m.d.comb += [expectation.port.eq(self.port), expectation.single.eq(single)]
        m.d.comb += [self.lookup.flow.eq(flow), self.wait.flow.eq(flow)]
        self._item(m, op, flow, left, next_count)
        duplicates = self._duplicates(m, op, flow, phase, wave)
        reported_wave = [self.wait.wave] if len(wave) else []
        m.d.comb += [each.eq(wave) for each in reported_wave]
        with m.FSM():
            with m.State("AWAIT_HEAD"):
                m.d.comb += self.wait.flow.eq(Mux(is_head, head.flow, UNKNOWN))
                m.d.comb += [each.eq(head.wave) for each in reported_wave]
                m.d.sync += [op.eq(head.op), flow.eq(head.flow)]
                m.d.sync += [single.eq(flit.kind == Kind.SINGLE), next_count.eq(first)]
                m.d.sync += [wave.eq(head.wave), phase.eq(head.sequence[0]), size.eq(head.size)]
                with m.If(self.flits.valid & run.running):
                    self._judge(m, head, is_head)
            with m.State("LOOK_UP"):
                m.d.comb += self.lookup.valid.eq(1)
                with m.If(self.lookup.granted):
                    m.next = "READ"
            # The entry comes two cycles after the grant.
            with m.State("READ"):
                m.next = "CHECK"
            with m.State("CHECK"):
                entry = self.lookup.entry
                m.d.sync += self.items.payload.address.eq(run.window_base + entry.base)
                m.d.sync += [left.eq(entry.size), after.eq(expectation.after)]
                stale = phase != run.sequence[0]
                wrong = stale, size != entry.size[: len(size)]
                m.d.comb += self.fault.eq(refusal(m, self.lookup, expectation, duplicates, *wrong))
                m.next = "AWAIT_HEAD"
                m.d.sync += self.query.port.eq(expectation.sibling)
                with m.If(self.fault == 0):
                    m.d.sync += duplicates.mark.eq(1)
                    m.next = "MOVE" if self.config.wave_width else "PASS"
                    with m.If(single):
                        m.next = "REPORT"
            self._move(m, wave)
            with m.State("PASS"):
                self._pass(m, after, left, next_count, gate)
            with m.State("REPORT"):
                self._report(m, after, gate)
            with m.State("NEXT_HEAD"):
                self._repeat(m, head, op, flow, after, wave)
        with m.If(run.faulted):
            m.d.comb += [self.flits.ready.eq(1), self.items.valid.eq(0)]
        return m

    def _report(self, m, after, gate):
        """Report a message without payload once all before it is in memory."""
        m.d.comb += self.empty.valid.eq(gate & self.drained)
        self._ask(m, after)
        self._await_sibling(m, gate)
        with m.If(self.empty.valid | self.run.faulted):
            m.next = "AWAIT_HEAD"

    def _move(self, m, wave):
        """The state in which an address moves on to its wave's chunk, if there is such a place."""
        if not self.config.wave_width:
            return
        m.submodules.offset = offset = WaveOffset(self.config)
        m.d.comb += [offset.wave.eq(wave), offset.stride.eq(self.lookup.entry.stride)]
        address = self.items.payload.address
        m.d.comb += offset.base.eq(address)
        with m.State("MOVE"):
            # The product is of the stride in CHECK, where alone the entry is valid.
            m.d.sync += address.eq(offset.address)
            m.next = "PASS"
            with m.If(offset.beyond):
                m.d.comb += self.fault.eq(FaultCode.OUT_OF_WINDOW)
                m.next = "AWAIT_HEAD"

    def _duplicates(self, m, op, flow, phase, wave):
        m.submodules.scoreboard = duplicates = DuplicateFilter(self.config)
        # Marked a cycle late: the next head is looked up two cycles behind it at the earliest.
        m.d.sync += duplicates.mark.eq(0)
        m.d.comb += [
            duplicates.bank.eq(self.run.bank),
            duplicates.clear.eq(self.run.clear),
            duplicates.phase.eq(phase),
            duplicates.wave.eq(wave),
            duplicates.op.eq(op),
            duplicates.flow.eq(flow),
        ]
        return duplicates

    def _repeat(self, m, head, op, flow, after, wave):
        """Between packets: the head must be that of the message in hand."""
        same = (head.op == op) & (head.flow == flow) & (head.sequence == self.run.sequence)
        if len(wave):
            same &= head.wave == wave
        same &= head.continued
        self._ask(m, after)
        self._await_flit(m)
        m.d.comb += self.flits.ready.eq(self.run.running)
        with m.If(self.flits.valid & self.run.running):
            m.next = "PASS"
            with m.If((self.flits.payload.kind != Kind.HEAD) | ~same):
                m.d.comb += self.fault.eq(FaultCode.FRAMING)
                m.next = "AWAIT_HEAD"
        with m.If(self.run.faulted):
            m.next = "AWAIT_HEAD"

    def _judge(self, m, head, is_head):
        """Take a head of this collective; a later one's has to wait."""
        run = self.run
        # By its number alone, which is sooner known than whether it is right.
        m.d.comb += self.flits.ready.eq(head.sequence == run.sequence)
        ahead = (head.sequence - run.sequence)[: len(run.sequence)]
        with m.If(~is_head | head.continued):
            m.d.comb += self.fault.eq(FaultCode.FRAMING)
        # Within the nearer half of all numbers.
        with m.Elif(ahead[-1]):
            m.d.comb += self.fault.eq(FaultCode.STALE_SEQUENCE)
        # A later collective's flows are not this one's: its message waits, whatever it is.
        with m.Elif(ahead == 0):
            with m.If((head.flow >= run.num_flows) | (head.wave > run.last_wave)):
                m.d.comb += self.fault.eq(FaultCode.UNEXPECTED_MESSAGE)
            with m.Else():
                m.next = "LOOK_UP"

    def _gate(self, m, message):
        """Whether the next sub-message of the message in hand may pass."""
        known, asked, gate = Signal(self.config.count_width), Signal(), Signal()
        fresh = self.query.answered & asked
        m.d.comb += [self.query.op.eq(0), self.query.flow.eq(message.flow)]
        # A sub-message may pass once the sibling has the count that it will report itself.
        m.d.comb += gate.eq(
            ~message.after
            | (known >= message.next_count)
            | (fresh & (self.query.count >= message.next_count))
        )
        m.d.sync += asked.eq(self.query.valid)
        with m.If(fresh):
            m.d.sync += known.eq(self.query.count)
        # What was asked for another message does not count.
        with m.If(self.lookup.valid):
            m.d.sync += [known.eq(0), asked.eq(0)]
        return gate

    def _ask(self, m, after):
        m.d.comb += self.query.valid.eq(after)

    def _await_flit(self, m):
        m.d.comb += [self.wait.port.eq(self.port), self.wait.op.eq(self.items.payload.mark.op)]
        with m.If(~self.flits.valid):
            m.d.comb += self.wait.awaited.eq(Awaited.FLIT)

    def _await_sibling(self, m, gate):
        """Say so while the gate is closed: it is always a REDUCE that waits for another."""
        with m.If(~gate):
            m.d.comb += [
                self.wait.awaited.eq(Awaited.SIBLING),
                self.wait.port.eq(self.query.port),
                self.wait.op.eq(self.query.op),
            ]

    def _item(self, m, op, flow, left, next_count):
        item = self.items.payload
        last = left == 1
        inside = self.config.submessage_flits.bit_length() - 1
        # The address inside the chunk decides where a sub-message ends: count from its start.
        place = Signal(inside)
        moved = self.items.valid & self.items.ready
        with m.If(self.lookup.valid):
            m.d.sync += place.eq(0)
        with m.Elif(moved):
            m.d.sync += place.eq(place + 1)
        m.d.comb += [
            item.payload.eq(self.flits.payload.payload),
            item.replace.eq(op == OP_GATHER),
            item.end.eq(last | place.all()),
            item.mark.op.eq(op),
            item.mark.flow.eq(flow),
            item.mark.count.eq(next_count),
            item.mark.last.eq(last),
            self.empty.op.eq(op),
            self.empty.flow.eq(flow),
            self.empty.count.eq(next_count if self.config.wave_width else 1),
            self.empty.last.eq(1),
        ]

    def _pass(self, m, after, left, next_count, gate):
        """Pass payload flits on while the gate is open; check that the tail is where it must be."""
        flit, item = self.flits.payload, self.items.payload
        last = (left == 1) | (item.end & self.run.packets)
        right_kind = Mux(last, flit.kind == Kind.TAIL, flit.kind == Kind.BODY)
        m.d.comb += [
            self.items.valid.eq(self.flits.valid & gate & right_kind & self.run.running),
            self.flits.ready.eq(self.items.valid & self.items.ready),
        ]
        self._await_flit(m)
        self._ask(m, after)
        self._await_sibling(m, gate)
        # The flit stays in front until the fault holds, and is dropped then.
        with m.If(self.flits.valid & ~right_kind & self.run.running):
            m.d.comb += self.fault.eq(FaultCode.FRAMING)
        with m.If(self.items.valid & self.items.ready):
            m.d.sync += [item.address.eq(item.address + 1), left.eq(left - 1)]
            with m.If(item.end):
                m.d.sync += next_count.eq(next_count + 1)
            with m.If(item.end & self.run.packets):
                m.next = "NEXT_HEAD"
        # The later assignment wins: with packets a message's last flit ends a packet, too.
        with m.If(self.run.faulted | (self.items.valid & self.items.ready & (left == 1))):
            m.next = "AWAIT_HEAD"
