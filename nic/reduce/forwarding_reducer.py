"""Reduction datapath that forwards: operands read ahead, sums kept for others."""

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.driver.faults import Awaited
from multitree.nic.forward.chunk_source import ChunkSource
from multitree.nic.forward.positions import (
    ForwardSignature,
    PositionsSignature,
    RecentWrites,
    beginning_layout,
    kept_width,
)
from multitree.nic.forward.write_order import WriteOrder
from multitree.nic.layouts import job_layout
from multitree.nic.reduce.reducer import Reducer
from multitree.nic.signatures import QuerySignature, RunSignature, WaitSignature
from multitree.topology.collectives import Op

__all__ = ["ForwardingReducer"]


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
