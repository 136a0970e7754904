"""Head reader: looks messages up while the payload of those before them passes."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import NO_PORT, OP_GATHER
from multitree.nic.layouts import flit_stream, head_layout
from multitree.nic.receive.duplicate_filter import DuplicateFilter, Expectation, refusal
from multitree.nic.send.rows import WaveOffset, last_child_of
from multitree.nic.signatures import LookupSignature, RunSignature

__all__ = ["TURN_WIDTH", "HeadReader", "ahead_layout", "message_layout"]

TURN_WIDTH = 4
"""Bits of a message's number, modulo more than there are between its head and its turn."""


def message_layout(config: Config) -> data.StructLayout:
    """A message whose head was read: where it goes, the port `before` of the message that wrote its
    addresses before it, if `follows`, and a `FaultCode` or 0.
    """
    return data.StructLayout(
        {
            "op": 1,
            "flow": 16,
            "wave": config.wave_width,
            "single": 1,
            "address": config.address_width,
            "size": config.address_width,
            "follows": 1,
            "before": 4,
            "code": 8,
        }
    )


def ahead_layout(config: Config) -> data.StructLayout:
    """A flit behind a head that was read: `turn` is the number of its message."""
    return data.StructLayout({"flit": flit_stream(config), "turn": TURN_WIDTH})


class HeadReader(wiring.Component):
    """Takes a message's first head, looks up where it goes, and lets what follows it pass.

    A message of a later collective, or one that arrives while nothing runs, waits in the link
    buffer, and all behind it. Anything the flow memory does not expect, or that came in this
    collective before, gets the code of a fault, which counts when it is the message's turn; so
    does an entry or a mark whose check bits are wrong. All other flits pass as they come, whatever
    is being looked up: heads of further packets, too, and those that belong to no message, which
    whoever gets them can tell by their `turn`. While `run.faulted` everything is taken and
    dropped, so that the links drain.

    One flit per cycle; a head every four cycles, and one more for each client of the flow memory
    that is before it. Latency from a head to its message: 4 cycles, 5 where there are waves; none
    from a flit behind it.

    Members
    -------
    port, flits, run, lookup : In, Out
        As of `HeaderCheck`.
    messages : Out(stream)
        Messages in order (`message_layout`).
    ahead : Out(stream)
        All other flits in order (`ahead_layout`).
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
                "messages": Out(stream.Signature(message_layout(config))),
                "ahead": Out(stream.Signature(ahead_layout(config))),
            }
        )

    def elaborate(self, platform):
        """One state machine: AWAIT a head, LOOK_UP its flow, READ and CHECK that."""
        m = Module()
        run, flit = self.run, self.flits.payload
        head = data.View(self._head, flit.payload[: self._head.size])
        hand, phase, size = Signal(message_layout(self.config)), Signal(), Signal.like(head.size)
        turn, found, free = Signal(TURN_WIDTH), Signal(), Signal()
        is_first = ((flit.kind == Kind.HEAD) & ~head.continued) | (flit.kind == Kind.SINGLE)
        early, due, stale = self._judge(head)
        late = Signal()
        m.d.comb += [
            self.ahead.payload.flit.eq(flit),
            self.ahead.payload.turn.eq(turn),
            self.ahead.valid.eq(self.flits.valid & ~is_first & run.running),
            self.flits.ready.eq(self.ahead.valid & self.ahead.ready),
            # Whoever takes a message is not looked at: it has two cycles before the next look-up.
            free.eq(~self.messages.valid),
            self.lookup.flow.eq(hand.flow),
        ]
        with m.FSM():
            with m.State("AWAIT"):
                m.d.sync += [hand.op.eq(head.op), hand.flow.eq(head.flow), hand.code.eq(early)]
                m.d.sync += [hand.single.eq(flit.kind == Kind.SINGLE), hand.wave.eq(head.wave)]
                m.d.sync += [phase.eq(head.sequence[0]), size.eq(head.size)]
                m.d.sync += late.eq(self.flits.valid & is_first & stale & ~late)
                with m.If(self.flits.valid & is_first & run.running & (due | late)):
                    m.d.comb += self.flits.ready.eq(1)
                    m.d.sync += turn.eq(turn + 1)
                    m.next = "LOOK_UP"
            with m.State("LOOK_UP"):
                # Only with a place for what is found, since the entry does not stay.
                m.d.comb += self.lookup.valid.eq(free & ~hand.code.any())
                with m.If(self.lookup.granted):
                    m.next = "READ"
                with m.Elif(hand.code.any() & free):
                    m.d.comb += found.eq(1)
                    m.next = "AWAIT"
            # The entry comes two cycles after the grant.
            with m.State("READ"):
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += found.eq(1)
                m.next = "AWAIT"
        self._find(m, hand, phase, size, found)
        with m.If(run.faulted):
            m.d.comb += [self.flits.ready.eq(1), self.ahead.valid.eq(0)]
        return m

    def _judge(self, head):
        """What is wrong with a head by itself; whether it is of this collective or of an earlier
        one.
        """
        run = self.run
        # A later collective's flows are not this one's: its message waits, whatever it is.
        # Within the nearer half of all numbers. Equality is known sooner: a head that is stale is
        # taken a cycle later.
        stale = (head.sequence - run.sequence)[len(run.sequence) - 1]
        unknown = (head.flow >= run.num_flows) | (head.wave > run.last_wave)
        code = Mux(unknown, FaultCode.UNEXPECTED_MESSAGE, 0)
        code = Mux(stale, FaultCode.STALE_SEQUENCE, code)
        return code, head.sequence == run.sequence, stale

    def _find(self, m, hand, phase, size, found):
        """Hold the message in hand against the entry, valid in this cycle; offer it behind that."""
        run, entry, message = self.run, self.lookup.entry, self.messages.payload
        m.submodules.expectation = expectation = Expectation()
        m.submodules.scoreboard = duplicates = self._duplicates(m, hand, phase)
        m.d.comb += [expectation.entry.eq(entry), expectation.op.eq(hand.op)]
        m.d.comb += [expectation.port.eq(self.port), expectation.single.eq(hand.single)]
        known, fresh = Signal(message_layout(self.config)), Signal()
        stale, wrong_size = phase != run.sequence[0], size != entry.size[: len(size)]
        code = refusal(m, self.lookup, expectation, duplicates, stale, wrong_size)
        last_child = last_child_of(m, entry)
        replaces = hand.op == OP_GATHER
        m.d.sync += fresh.eq(found)
        with m.If(self.messages.ready):
            m.d.sync += self.messages.valid.eq(0)
        with m.If(found):
            m.d.sync += [
                known.eq(hand),
                known.code.eq(Mux(hand.code.any(), hand.code, code)),
                known.address.eq(run.window_base + entry.base),
                known.size.eq(entry.size),
                known.follows.eq(Mux(replaces, last_child != NO_PORT, expectation.after)),
                known.before.eq(Mux(replaces, last_child, expectation.sibling)),
            ]
        # A mark is not asked for in this cycle: the next head is taken in it at the earliest.
        m.d.comb += [message.eq(known), duplicates.mark.eq(fresh & ~known.code.any())]
        with m.If(self._move(m, hand, known, found, fresh)):
            m.d.sync += self.messages.valid.eq(1)

    def _move(self, m, hand, known, found, fresh):
        """An address moves on to its wave's chunk, if there is such a place; when it has."""
        if not self.config.wave_width:
            return found
        m.submodules.offset = offset = WaveOffset(self.config)
        # The product is of the stride in CHECK, where alone the entry is valid.
        m.d.comb += [offset.wave.eq(hand.wave), offset.stride.eq(self.lookup.entry.stride)]
        m.d.comb += offset.base.eq(known.address)
        with m.If(fresh):
            m.d.sync += known.address.eq(offset.address)
            with m.If(offset.beyond & ~known.single & ~known.code.any()):
                m.d.sync += known.code.eq(FaultCode.OUT_OF_WINDOW)
        return fresh

    def _duplicates(self, m, hand, phase):
        duplicates = DuplicateFilter(self.config)
        m.d.comb += [
            duplicates.bank.eq(self.run.bank),
            duplicates.clear.eq(self.run.clear),
            duplicates.phase.eq(phase),
            duplicates.wave.eq(hand.wave),
            duplicates.op.eq(hand.op),
            duplicates.flow.eq(hand.flow),
        ]
        return duplicates
