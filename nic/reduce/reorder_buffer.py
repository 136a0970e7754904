"""Reorder buffer: contributions that wait in memory until it is their turn."""

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked
from multitree.hw.stream import QuickFifo, Register
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import ORDER_WIDTH
from multitree.nic.layouts import CONTRIBUTION, SHARED_FLOW
from multitree.nic.reduce.reducer import item_layout
from multitree.nic.signatures import LookupSignature, MemoryReadSignature, RunSignature

__all__ = ["ReorderBuffer"]


class ReorderBuffer(wiring.Component):
    """Reads staged contributions back and hands them to a reducer, one after the other.

    The slot of contribution k of a flow begins at the flow's `staging` plus k times its size. Its
    flits go to the reducer as if they came from a link, in cycles in which nothing from a link
    does: there is no line-rate promise here. An entry whose check bits are wrong is a fault.

    Six cycles per contribution, what flow memory and memory take, and one per flit.

    Members
    -------
    jobs : In(stream)
        Contributions to add (`CONTRIBUTION`).
    run : In(RunSignature)
    lookup : Out(LookupSignature)
    read : Out(MemoryReadSignature)
    items : Out(stream)
        Flits for the reducer (`item_layout`).
    flow : Out(16)
        Of the contribution in hand.
    fault : Out(8)
    state_error : Out(1)
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "jobs": In(stream.Signature(CONTRIBUTION)),
                "run": In(RunSignature(config)),
                "lookup": Out(LookupSignature()),
                "read": Out(MemoryReadSignature(config)),
                "items": Out(stream.Signature(item_layout(config))),
                "flow": Out(16),
                "fault": Out(8),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        """One state machine: TAKE a job, LOOK_UP its flow, READ and KEEP that, PLACE, MOVE."""
        m = Module()
        job = Signal(CONTRIBUTION)
        slot, unread, left = (Signal(self.config.address_width) for _ in range(3))
        last = Signal(ORDER_WIDTH + 1)
        entry = data.View(SHARED_FLOW, self.lookup.entry.as_value())
        item = self.items.payload
        m.d.comb += [
            self.flow.eq(job.flow),
            self.lookup.flow.eq(job.flow),
            item.mark.final.eq(job.order == last),
        ]
        issued = self._read(m, slot, unread)
        moved = self.items.valid & self.items.ready
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.jobs.ready.eq(1)
                m.d.sync += job.eq(self.jobs.payload)
                with m.If(self.jobs.valid):
                    m.next = "LOOK_UP"
            with m.State("LOOK_UP"):
                m.d.comb += self.lookup.valid.eq(1)
                with m.If(self.lookup.granted):
                    m.next = "READ"
            # The entry comes two cycles after the grant.
            with m.State("READ"):
                m.next = "KEEP"
            with m.State("KEEP"):
                m.d.sync += [
                    item.address.eq(self.run.window_base + entry.base),
                    slot.eq(self.run.window_base + entry.staging),
                    left.eq(entry.size),
                    last.eq(entry.num_children - 1),
                ]
                m.next = "PLACE"
                with m.If(~self.lookup.intact):
                    m.d.comb += self.fault.eq(FaultCode.TABLE_PARITY)
                    m.next = "TAKE"
            with m.State("PLACE"):
                # A cycle for the product; until now `unread` is 0, so that nothing is read before.
                m.d.sync += [slot.eq(slot + job.order * left), unread.eq(left)]
                m.next = "MOVE"
            with m.State("MOVE"):
                m.d.comb += item.end.eq(left == 1)
                with m.If(issued):
                    m.d.sync += [slot.eq(slot + 1), unread.eq(unread - 1)]
                with m.If(moved):
                    m.d.sync += [item.address.eq(item.address + 1), left.eq(left - 1)]
                    with m.If(item.end):
                        m.next = "TAKE"
        m.d.comb += [
            item.mark.flow.eq(job.flow),
            item.mark.order.eq(job.order),
            item.mark.count.eq(1),
            item.mark.last.eq(1),
        ]
        return m

    def _read(self, m, slot, unread):
        """Issue the reads that are left, as many as there is room for, and queue what returns."""
        depth = self.config.memory_queue_flits
        m.submodules.reads = reads = Checked(Register, shape=self.config.address_width)
        width = 8 * self.config.flit_bytes
        m.submodules.payload = payload = Checked(QuickFifo, shape=width, depth=depth)
        room, issued = Signal(range(depth + 1), init=depth), Signal()
        moved = self.items.valid & self.items.ready
        # A place is reserved from the read on, since memory's data cannot be refused.
        m.d.sync += room.eq(room + moved - issued)
        m.d.comb += [
            reads.i.valid.eq((unread != 0) & (room != 0) & self.run.running),
            reads.i.payload.eq(slot),
            issued.eq(reads.i.valid & reads.i.ready),
            self.read.valid.eq(reads.o.valid),
            self.read.address.eq(reads.o.payload),
            reads.o.ready.eq(self.read.ready),
            payload.i.valid.eq(self.read.data_valid),
            payload.i.payload.eq(self.read.data),
            self.items.valid.eq(payload.o.valid & self.run.running),
            self.items.payload.payload.eq(payload.o.payload),
            payload.o.ready.eq(self.items.ready & self.run.running),
            self.state_error.eq(reads.state_error | payload.state_error),
        ]
        return issued
