"""Header check that forwards: heads are read ahead, payload passes at once."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked
from multitree.hw.codes import AHEAD_FLITS, QUEUED_HEADS
from multitree.hw.link.link import Kind
from multitree.hw.stream import QuickFifo, counted_down
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.formats import OP_GATHER, UNKNOWN
from multitree.nic.forward.positions import beginning_layout, position_width
from multitree.nic.layouts import flit_stream, head_layout, job_layout
from multitree.nic.receive.head_reader import TURN_WIDTH, HeadReader, ahead_layout, message_layout
from multitree.nic.reduce.reducer import item_layout
from multitree.nic.signatures import (
    ArrivalSignature,
    LookupSignature,
    ReportSignature,
    RunSignature,
    WaitSignature,
)

__all__ = ["ForwardingHeaderCheck"]


class ForwardingHeaderCheck(wiring.Component):
    """Passes payload flits on at once, message by message, and says what each is added to.

    Heads are looked up ahead (`HeadReader`), so that no cycle is lost between messages but that of
    their head. Contributions need not wait here for the sibling before them: what they are added
    to comes flit by flit to the reducer. A message that is what it should be is reported, with the
    position of its first flit; one without payload once the siblings before it are in. A message
    that is not is a fault when it is its turn, and moves nothing to memory.

    One flit per cycle. Latency from a head to the report that its message has begun: 5 cycles, one
    more where there are waves; from a flit to the reducer: 1 cycle, behind that.

    Members
    -------
    port, flits, run, lookup, items, drained, empty, fault, wait : In, Out
        As of `HeaderCheck`.
    jobs : Out(stream)
        Of each message, in order, the one before it at its addresses (`job_layout`): for a
        contribution what it is added to, `base` a memory address, for a GATHER what it replaces.
    report : Out(ReportSignature)
    state_error : Out(1)
    """

    def __init__(self, config: Config):
        self.config = config
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
                "jobs": Out(stream.Signature(job_layout(config))),
                "report": Out(ReportSignature(beginning_layout(config).size)),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        """One state machine: IDLE, PASS flits, NEXT_HEAD, REPORT an empty message, FAULT."""
        m = Module()
        run, item, message = self.run, self.items.payload, message_layout(self.config)
        ahead, messages = self._read_heads(m)
        flit, turn, hand = ahead.payload.flit, Signal(TURN_WIDTH), Signal(message)
        head = data.View(head_layout(self.config), flit.payload[: head_layout(self.config).size])
        mine, load = ahead.payload.turn == turn, messages.valid & run.running
        is_before = (ahead.payload.turn + 1)[:TURN_WIDTH] == turn
        moved = self.items.valid & self.items.ready
        self._count(m, messages, hand, moved)
        may_pass = self._announce(m, messages, hand)
        m.d.sync += turn.eq(turn + messages.ready)
        self._name(m, ahead, messages, hand)
        with m.FSM():
            with m.State("IDLE"):
                # What belongs to no message bears the turn of the one before.
                with m.If(ahead.valid & mine & run.running):
                    self._blame(m, flit, head)
                with m.Elif(load):
                    self._begin(m, messages)
            with m.State("PASS"):
                last = item.mark.last | (item.end & run.packets)
                is_right = mine & Mux(last, flit.kind == Kind.TAIL, flit.kind == Kind.BODY)
                m.d.comb += self.items.valid.eq(ahead.valid & may_pass & is_right & run.running)
                m.d.comb += ahead.ready.eq(moved)
                self._await_flit(m, ahead)
                with m.If(moved & item.mark.last):
                    m.next = "IDLE"
                    with m.If(load):
                        self._begin(m, messages)
                with m.Elif(moved & last):
                    m.next = "NEXT_HEAD"
                with m.Elif(ahead.valid & ~is_right & run.running):
                    m.d.comb += self.fault.eq(FaultCode.FRAMING)
                    m.next = "FAULT"
            with m.State("NEXT_HEAD"):
                m.d.comb += ahead.ready.eq(run.running)
                self._await_flit(m, ahead)
                with m.If(ahead.valid & run.running):
                    m.next = "PASS"
                    with m.If(~mine | (flit.kind != Kind.HEAD) | ~self._is_same(head, hand)):
                        m.d.comb += self.fault.eq(FaultCode.FRAMING)
                        m.next = "FAULT"
            with m.State("REPORT"):
                # Its head was read ahead: what the message before it left is still in front.
                with m.If(ahead.valid & is_before & run.running):
                    self._blame(m, flit, head)
                with m.Else():
                    m.d.comb += self.empty.valid.eq(may_pass & self.drained & run.running)
                with m.If(self.empty.valid):
                    m.next = "IDLE"
            # Nothing more may pass until the fault holds, nor then.
            with m.State("FAULT"):
                pass
        return m

    def _read_heads(self, m):
        """Heads are looked up while what is behind them waits: that, and messages, as streams."""
        shape, message = ahead_layout(self.config), message_layout(self.config)
        m.submodules.reader = reader = HeadReader(self.config)
        m.submodules.ahead = ahead = Checked(QuickFifo, shape=shape, depth=AHEAD_FLITS)
        m.submodules.messages = queue = Checked(QuickFifo, shape=message, depth=QUEUED_HEADS)
        for name in ("flits", "run"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(reader, name))
        wiring.connect(m, reader.lookup, wiring.flipped(self.lookup))
        wiring.connect(m, reader.ahead, ahead.i)
        messages, read = stream.Signature(message).create(), reader.messages
        # A message that finds none before it passes the queue: its head waits for it at every hop.
        passes = queue.level == 0
        front = Mux(passes, read.payload.as_value(), queue.o.payload.as_value())
        m.d.comb += [
            reader.port.eq(self.port),
            messages.valid.eq(Mux(passes, read.valid, queue.o.valid)),
            messages.payload.eq(front),
            queue.o.ready.eq(messages.ready & ~passes),
            queue.i.payload.eq(read.payload),
            queue.i.valid.eq(read.valid & ~(passes & messages.ready)),
            # An empty queue has room: what passes it is taken, too.
            read.ready.eq(queue.i.ready),
            self.state_error.eq(queue.state_error | ahead.state_error),
        ]
        return ahead.o, messages

    def _await_flit(self, m, ahead):
        with m.If(~ahead.valid):
            m.d.comb += self.wait.awaited.eq(Awaited.FLIT)

    def _begin(self, m, messages):
        """Take the next message in hand, or report what is wrong with it."""
        message = messages.payload
        m.d.comb += messages.ready.eq(1)
        m.next = "PASS"
        with m.If(message.code.any()):
            m.d.comb += self.fault.eq(message.code)
            m.next = "FAULT"
        with m.Elif(message.single):
            m.next = "REPORT"

    def _blame(self, m, flit, head):
        """A flit that belongs to no message; only a head says of which flow it is."""
        m.d.comb += self.fault.eq(FaultCode.FRAMING)
        m.next = "FAULT"
        is_head = flit.kind == Kind.HEAD
        m.d.comb += self.wait.flow.eq(Mux(is_head, head.flow, UNKNOWN))
        if self.config.wave_width:
            m.d.comb += self.wait.wave.eq(Mux(is_head, head.wave, 0))

    def _is_same(self, head, hand):
        same = (head.op == hand.op) & (head.flow == hand.flow) & head.continued
        same &= head.sequence == self.run.sequence
        return same & (head.wave == hand.wave) if self.config.wave_width else same

    def _announce(self, m, messages, hand):
        """Offer the job of the message in hand, and report that it has begun, at the number of
        flits that passed before; whether its flits may pass, with the job or behind it.
        """
        passed, job = Signal(position_width(self.config)), self.jobs.payload
        pending, accepted, message = Signal(), Signal(), messages.payload
        m.d.comb += accepted.eq(messages.ready & ~message.single & ~message.code.any())
        m.d.sync += [
            passed.eq(passed + (self.items.valid & self.items.ready)),
            self.report.valid.eq(accepted | self.empty.valid),
        ]
        with m.If(messages.ready):
            m.d.sync += pending.eq(~message.code.any())
        with m.Elif(self.jobs.ready):
            m.d.sync += pending.eq(0)
        with m.If(~self.run.running):
            m.d.sync += [passed.eq(0), pending.eq(0)]
        m.d.comb += [
            self.jobs.valid.eq(pending & self.run.running),
            job.row.eq(UNKNOWN),
            job.flow.eq(hand.flow),
            # A message without payload writes nothing: it only waits for those before it.
            job.op.eq(hand.op & ~hand.single),
            job.base.eq(self.items.payload.address),
            job.size.eq(self._left),
            job.wave.eq(hand.wave),
            job.needs.eq(hand.follows),
            job.need_port.eq(hand.before),
            self.report.op.eq(hand.op),
            self.report.flow.eq(hand.flow),
            self.report.count.eq(Cat(passed, Const(1, 1), hand.wave)),
        ]
        return ~pending | self.jobs.ready

    def _count(self, m, messages, hand, moved):
        """Where the flit in front goes, and which sub-message it belongs to."""
        config, item = self.config, self.items.payload
        inside = config.submessage_flits.bit_length() - 1
        # The address inside the chunk decides where a sub-message ends: count from its start.
        place, message, load = Signal(inside), messages.payload, messages.ready
        next_count = Signal(config.count_width)
        self._left, _, last = counted_down(m, load=load, amount=message.size, step=moved)
        with m.If(load):
            m.d.sync += [
                hand.eq(message),
                item.address.eq(message.address),
                place.eq(0),
                next_count.eq(Cat(Const(1, config.part_width), message.wave)),
            ]
        with m.Elif(moved):
            m.d.sync += [
                item.address.eq(item.address + 1),
                place.eq(place + 1),
                next_count.eq(next_count + item.end),
            ]
        m.d.comb += [
            item.end.eq(last | place.all()),
            item.mark.count.eq(next_count),
            item.mark.last.eq(last),
            self.empty.count.eq(next_count),
        ]

    def _name(self, m, ahead, messages, hand):
        item = self.items.payload
        named = Mux(messages.ready, messages.payload.as_value(), hand.as_value())
        named = data.View(hand.shape(), named)
        m.d.comb += [
            item.payload.eq(ahead.payload.flit.payload),
            item.replace.eq(hand.op == OP_GATHER),
            item.mark.op.eq(hand.op),
            item.mark.flow.eq(hand.flow),
            self.empty.op.eq(hand.op),
            self.empty.flow.eq(hand.flow),
            self.empty.last.eq(1),
            self.wait.port.eq(self.port),
            self.wait.op.eq(hand.op),
            self.wait.flow.eq(named.flow),
        ]
        if self.config.wave_width:
            m.d.comb += self.wait.wave.eq(named.wave)
