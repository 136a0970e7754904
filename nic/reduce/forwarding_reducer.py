"""Reduction datapath that forwards: operands read ahead, writes in order."""

from amaranth import Array, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked
from multitree.hw.codes import QUEUED_WRITES
from multitree.hw.stream import QuickFifo
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited
from multitree.nic.forward.chunk_finder import found_layout
from multitree.nic.forward.chunk_source import ChunkSource
from multitree.nic.forward.positions import (
    ForwardSignature,
    PositionsSignature,
    RecentWrites,
    beginning_layout,
    kept_width,
    lead,
    position_width,
)
from multitree.nic.layouts import job_layout
from multitree.nic.reduce.reducer import Reducer
from multitree.nic.signatures import QuerySignature, RunSignature, WaitSignature
from multitree.topology.collectives import Op

__all__ = ["ForwardingReducer", "WriteOrder"]


class WriteOrder(wiring.Component):
    """Says whether a port's next write may go, where another port writes the same addresses first.

    A sum is forwarded before memory has acknowledged it, so that the next one, or the result, may
    come to the write channel of another port sooner than it is in memory; memory keeps no order
    between channels. A flit therefore waits until the flit of the message before it in its flow,
    which `need_port` writes from `position` on, is acknowledged. One write per cycle, across
    messages, too.

    Members
    -------
    messages : In(stream)
        What is written, in order (`found_layout`): each message with payload, with the message
        before it if `tracked`.
    acknowledged : In(position_width), one per port
        Flits that ports have written, acknowledged.
    may : Out(1)
        The next flit may be written.
    moved, last : In(1)
        It is, only with `may`; it is its message's last one.
    empty : Out(1)
        No message is in hand.
    state_error : Out(1)
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "messages": In(stream.Signature(found_layout(config))),
                "acknowledged": In(position_width(config)).array(config.num_ports),
                "may": Out(1),
                "moved": In(1),
                "last": In(1),
                "empty": Out(1),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        fields = ("tracked", "need_port", "position")
        layout = found_layout(config)
        shape = data.StructLayout({name: layout[name].shape for name in fields})
        m.submodules.queue = queue = Checked(QuickFifo, shape=shape, depth=QUEUED_WRITES)
        has, tracked, port = Signal(), Signal(), Signal(4)
        position = Signal(position_width(config))
        left, load, offered = Signal(position_width(config)), Signal(), queue.o.payload
        m.d.comb += [
            queue.i.valid.eq(self.messages.valid),
            self.messages.ready.eq(queue.i.ready),
            *(queue.i.payload[name].eq(self.messages.payload[name]) for name in fields),
            load.eq(queue.o.valid & (~has | (self.moved & self.last))),
            queue.o.ready.eq(load),
            # In memory up to and with the flit at `position`: the difference is above 0.
            self.may.eq(has & (~tracked | ((left != 0) & ~left[-1]))),
            self.empty.eq(~has & (queue.level == 0)),
            self.state_error.eq(queue.state_error),
        ]
        ports = Array(self.acknowledged)
        # For the message in hand and for the next one: which it is, is the last thing to be known.
        m.d.sync += position.eq(position + self.moved)
        m.d.sync += left.eq(lead(ports[port], position, self.moved))
        with m.If(load):
            m.d.sync += [has.eq(1), tracked.eq(offered.tracked), port.eq(offered.need_port)]
            m.d.sync += position.eq(offered.position)
            m.d.sync += left.eq(ports[offered.need_port] - offered.position)
        with m.Elif(self.moved & self.last):
            m.d.sync += has.eq(0)
        return m


class ForwardingReducer(Reducer):
    """A `Reducer` that reads what it adds to as soon as the head of a contribution is known.

    What a contribution is added to is this rank's own chunk in memory, or what the sibling before
    it makes of it, flit by flit. What is written is kept for whoever goes on with it, before memory
    has it; so writes wait here until what other ports have written to the same addresses, by the
    sibling before or for a result by the last child, is in memory.

    Latency from a flit to its position: adder + 1 cycles while operands are there, 2 for a flit to
    replace while nothing is being added.

    Members
    -------
    items, dtype, maximum, fetch, write, arrival, idle, state_error : In, Out
        As of `Reducer`.
    run : In(RunSignature)
    jobs : In(stream)
        Of each message, in order, what it is added to, or for a GATHER what it replaces
        (`job_layout`).
    query, beginning : Out(QuerySignature)
        Questions to the dependency tracker, and to that of beginnings.
    forward : Out(ForwardSignature)
    positions, addresses, kept : Out, In, Out
        As of `RecentWrites`: how far this port has come, and what others read here.
    wait : Out(WaitSignature)
        The sibling that contributions in hand wait for.
    """

    @staticmethod
    def _more(config):
        readers = 2 * config.num_ports
        return {
            "run": In(RunSignature(config)),
            "jobs": In(stream.Signature(job_layout(config))),
            "query": Out(QuerySignature(config)),
            "beginning": Out(QuerySignature(config, width=beginning_layout(config).size)),
            "forward": Out(ForwardSignature(config)),
            "positions": Out(PositionsSignature(config)),
            "addresses": In(range(config.forward_flits)).array(readers),
            "kept": Out(kept_width(config)).array(readers),
            "wait": Out(WaitSignature(config)),
        }

    def elaborate(self, platform):
        m = super().elaborate(platform)
        writes = m.submodules.writes.i
        m.submodules.recent = recent = RecentWrites(self.config, num_readers=len(self.addresses))
        m.d.comb += [
            recent.clear.eq(~self.run.running),
            recent.coming.eq(self._coming),
            recent.put.eq(writes.valid),
            recent.payload.eq(writes.payload.payload),
            recent.ack.eq(self.write.ack),
        ]
        wiring.connect(m, recent.positions, wiring.flipped(self.positions))
        # The later assignment wins: a message without payload waits for those before it, too.
        with m.If(~m.submodules.source.idle | self.jobs.valid):
            m.d.comb += self.idle.eq(0)
        for number, address in enumerate(self.addresses):
            m.d.comb += [
                recent.addresses[number].eq(address),
                self.kept[number].eq(recent.kept[number]),
            ]
        return m

    def _read_memory(self, m, take):
        """Get what contributions are added to, ahead of these."""
        # A GATHER's job has nothing to read, but a message to follow.
        m.submodules.source = source = ChunkSource(self.config, op=Op.REDUCE)
        for name in ("run", "jobs"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(source, name))
        for name in ("query", "beginning", "forward"):
            wiring.connect(m, getattr(source, name), wiring.flipped(getattr(self, name)))
        wiring.connect(m, source.memory, wiring.flipped(self.fetch))
        for name in self.wait.signature.members:
            m.d.comb += getattr(self.wait, name).eq(getattr(source.wait, name))
        # Siblings follow each other flit by flit even where rows wait for whole chunks.
        m.d.comb += source.run.cut_through.eq(1)
        with m.If(source.wait.awaited.any()):
            m.d.comb += self.wait.awaited.eq(Awaited.SIBLING)
        m.submodules.write_order = write_order = WriteOrder(self.config)
        has_payload = source.begun.payload.size != 0
        m.d.comb += [
            write_order.messages.payload.eq(source.begun.payload),
            write_order.messages.valid.eq(source.begun.valid & has_payload),
            source.begun.ready.eq(write_order.messages.ready),
        ]
        return 1, source.o, (source.state_error, write_order.state_error)

    def _may_write(self, m, operands, writes):
        """Whether the next write may go: what is before it at its address is in memory."""
        order = m.submodules.write_order
        for mine, given in zip(order.acknowledged, self.forward.acknowledged, strict=True):
            m.d.comb += mine.eq(given)
        m.d.comb += [
            operands.i.payload.last.eq(self.items.payload.end & self.items.payload.mark.last),
            order.moved.eq(self.write.valid & self.write.ready),
            order.last.eq(writes.o.payload.last),
        ]
        return order.may
