"""A lane: one virtual channel's messages, from link buffer to reducer."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked
from multitree.hw.codes import AHEAD_FLITS
from multitree.hw.link.link import Kind
from multitree.hw.stream import QuickFifo
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited
from multitree.nic.layouts import flit_stream
from multitree.nic.receive.header_lookup import place_layout
from multitree.nic.reduce.reducer import item_layout
from multitree.nic.signatures import RunSignature, TurnSignature

__all__ = ["SharedLane"]


class SharedLane(wiring.Component):
    """Follows the messages of one virtual channel, one after the other, into memory.

    A head goes to the header lookup, the payload behind it into a queue, so that the next head is
    looked up while payload moves. A message has its place in memory from `opened` on. One that has
    to wait for its turn keeps its payload here and, once the queue is full, in the link's buffer:
    it waits for contributions that have begun to come in only, and these never for it.

    One flit per cycle, also from message to message while the queue holds what a head's look-up
    takes; a message's payload moves two cycles after `opened` at the earliest.

    Parameters
    ----------
    unwritten_width : int
        Bits of `unwritten`.

    Members
    -------
    flits : In(stream)
    run : In(RunSignature)
        The collective that runs. While it is faulted, everything is taken and dropped.
    head : Out(stream)
        What has to be a head, while there is room for one more place.
    opened, place : In(1), In
        Strobe: the payload behind the head that was taken has this place (`place_layout`).
    turn, following : In(TurnSignature)
        A contribution whose turn has come, since those before it are in memory, or in this port's
        reducer.
    unwritten : In(unwritten_width)
        Flits that this port's reducer has taken and memory has not acknowledged.
    items : Out(stream)
        Flits for the reducer (`item_layout`).
    wrong_kind : Out(1)
        The flit in front is out of place: its message is shorter or longer than its chunk.
    awaited, flow, op : Out
        What the message in hand waits for (`Awaited`); its flow and op.
    state_error : Out(1)
    """

    def __init__(self, config: Config, *, unwritten_width: int):
        self.config = config
        flits = stream.Signature(flit_stream(config))
        self.unwritten_width = unwritten_width
        super().__init__(
            {
                "flits": In(flits),
                "run": In(RunSignature(config)),
                "head": Out(flits),
                "opened": In(1),
                "place": In(place_layout(config)),
                "turn": In(TurnSignature()),
                "following": In(TurnSignature()),
                "unwritten": In(unwritten_width),
                "items": Out(stream.Signature(item_layout(config))),
                "wrong_kind": Out(1),
                "awaited": Out(3),
                "flow": Out(16),
                "op": Out(1),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        """Heads aside, payload into the queue, and from there to the place in hand."""
        m = Module()
        next_place = Signal(place_layout(self.config))
        pending = Signal()
        payload = self._part(m, pending)
        place, busy, chained = Signal(next_place.shape()), Signal(), Signal()
        distance = Signal(len(self.unwritten))
        last = place.size == 1
        tail, body = (payload.payload.kind == kind for kind in (Kind.TAIL, Kind.BODY))
        right_kind = Mux(last, tail, body)
        offered = payload.valid & busy & self.run.running
        moved = self.items.valid & self.items.ready
        # What is offered stays: the flit that it is added to was in memory when it was offered.
        kept = Signal()
        m.d.sync += kept.eq(self.items.valid & ~self.items.ready)
        may_add = ~chained | kept | (self.unwritten < distance)
        m.d.comb += [
            self.items.valid.eq(offered & right_kind & may_add),
            self.wrong_kind.eq(offered & ~right_kind),
            payload.ready.eq(moved | self.run.faulted),
        ]
        with m.If(moved):
            m.d.sync += [
                place.address.eq(place.address + 1),
                place.size.eq(place.size - 1),
                busy.eq(~last),
            ]
        goes, behind = self._await_turn(m, next_place, pending, place, moved & last)
        most = (1 << len(distance)) - 1
        # In the cycle of the last flit already: messages follow each other without a gap.
        with m.If(goes & (~busy | (moved & last))):
            m.d.sync += [
                place.eq(next_place),
                # A contribution that follows the one before it in the reducer must not read a flit
                # that this one has not written. Each of its flits comes a chunk behind that flit at
                # least, so it waits while as many as a chunk are unwritten.
                # Not truncated: a size of 2^n would be a distance of 0, which nothing ever passes.
                distance.eq(Mux(next_place.size > most, most, next_place.size)),
                chained.eq(behind),
                busy.eq(1),
                pending.eq(0),
            ]
        # No turn gets lost: the sequencer gives a place and a turn in different cycles.
        with m.If(self.opened):
            m.d.sync += [next_place.eq(self.place), pending.eq(1)]
        with m.If(self.run.faulted):
            m.d.sync += [busy.eq(0), pending.eq(0)]
        self._name_item(m, place, payload.payload, last)
        self._report(m, busy, pending, place, next_place, payload)
        return m

    def _part(self, m, pending):
        """Heads to the header lookup, what follows them into the queue; returns the queue's end."""
        flits = flit_stream(self.config)
        m.submodules.ahead = ahead = Checked(QuickFifo, shape=flits, depth=AHEAD_FLITS)
        inside, kind = Signal(), self.flits.payload.kind
        m.d.comb += [
            # `pending` rises in the cycle after `opened`, the first in which a next head is taken.
            self.head.valid.eq(self.flits.valid & ~inside & ~pending),
            self.head.payload.eq(self.flits.payload),
            ahead.i.valid.eq(self.flits.valid & inside),
            ahead.i.payload.eq(self.flits.payload),
            self.state_error.eq(ahead.state_error),
            self.flits.ready.eq(
                Mux(inside, ahead.i.ready, self.head.ready & ~pending) | self.run.faulted
            ),
        ]
        with m.If(self.head.valid & self.head.ready):
            m.d.sync += inside.eq(kind == Kind.HEAD)
        with m.If(ahead.i.valid & ahead.i.ready & (kind == Kind.TAIL)):
            m.d.sync += inside.eq(0)
        with m.If(self.run.faulted):
            m.d.sync += inside.eq(0)
        return ahead.o

    def _await_turn(self, m, next_place, pending, place, ends):
        """Whether the next place may be taken in hand, and that it is behind one not in memory."""
        waits, behind = Signal(), Signal()
        here = (next_place.flow == self.following.flow) & (next_place.order == self.following.order)
        before = (place.flow == next_place.flow) & (place.order + 1 == next_place.order)
        comes = (next_place.flow == self.turn.flow) & (next_place.order == self.turn.order)
        m.d.comb += [
            waits.eq(next_place.waits),
            # `following` comes a cycle after the end of the contribution before it. Where that ends
            # in this lane, the second term saves the cycle.
            behind.eq(waits & ((self.following.valid & here) | (ends & before & place.adds))),
        ]
        with m.If(self.turn.valid & comes):
            m.d.sync += next_place.waits.eq(0)
        return pending & (~waits | behind), behind

    def _name_item(self, m, place, flit, last):
        item = self.items.payload
        m.d.comb += [
            item.payload.eq(flit.payload),
            item.address.eq(place.address),
            item.replace.eq(~place.adds),
            item.end.eq(last),
            item.mark.op.eq(place.op),
            item.mark.flow.eq(place.flow),
            item.mark.count.eq(1),
            item.mark.last.eq(1),
            item.mark.order.eq(place.order),
            item.mark.staged.eq(place.staged),
            item.mark.final.eq(place.final),
        ]

    def _report(self, m, busy, pending, place, next_place, payload):
        """What is missing: a flit of the message in hand, or the turn of the next one."""
        in_hand = Mux(payload.valid, Awaited.NOTHING, Awaited.FLIT)
        to_come = Mux(pending, Awaited.SIBLING, Awaited.NOTHING)
        m.d.comb += [
            self.awaited.eq(Mux(busy, in_hand, to_come)),
            self.flow.eq(Mux(busy, place.flow, next_place.flow)),
            self.op.eq(Mux(busy, place.op, next_place.op)),
        ]
