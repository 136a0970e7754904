"""The flits of chunks in order, whether they lie in memory or are being written."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked
from multitree.hw.codes import QUEUED_JOBS
from multitree.hw.memory_channel import ReadShare
from multitree.hw.stream import QuickFifo, counted_down
from multitree.nic.driver.config import Config
from multitree.nic.forward.chunk_finder import ChunkFinder, found_layout
from multitree.nic.forward.chunk_reader import ChunkReader, LocalReader
from multitree.nic.forward.positions import ForwardSignature, beginning_layout
from multitree.nic.layouts import job_layout
from multitree.nic.signatures import (
    MemoryReadSignature,
    QuerySignature,
    RunSignature,
    WaitSignature,
)
from multitree.topology.collectives import Op

__all__ = ["ChunkSource"]


class ChunkSource(wiring.Component):
    """Gets the chunks of jobs, flit by flit and in order, each flit as soon as it is to be had.

    A chunk that needs no message is read from memory ahead of its turn, whatever the jobs before
    it wait for. Any other one is found and read as its message comes in.

    Parameters
    ----------
    op : Op, optional
        Only jobs of this op have flits read for them; by default all.

    Members
    -------
    run : In(RunSignature)
    jobs : In(stream)
        Chunks in order (`job_layout`); `base` is a memory address.
    begun : Out(stream)
        The same jobs in order, each as soon as its chunk may be read (`found_layout`).
    o : Out(stream)
    query, beginning : Out(QuerySignature)
        Questions to the dependency tracker, and to that of beginnings.
    forward : Out(ForwardSignature)
    memory : Out(MemoryReadSignature)
    forwarded : Out(1)
        Strobe: a flit is taken that was not read from memory.
    wait, held : Out(WaitSignature), Out(1)
        The message that is awaited, by the chunk that is read (`held`), else by the next one.
    idle : Out(1)
        No job in hand, and all flits taken.
    state_error : Out(1)
    """

    def __init__(self, config: Config, *, op: Op | None = None):
        self.config = config
        self.op = op
        super().__init__(
            {
                "run": In(RunSignature(config)),
                "jobs": In(stream.Signature(job_layout(config))),
                "begun": Out(stream.Signature(found_layout(config))),
                "o": Out(stream.Signature(8 * config.flit_bytes)),
                "query": Out(QuerySignature(config)),
                "beginning": Out(QuerySignature(config, width=beginning_layout(config).size)),
                "forward": Out(ForwardSignature(config)),
                "memory": Out(MemoryReadSignature(config)),
                "forwarded": Out(1),
                "wait": Out(WaitSignature(config)),
                "held": Out(1),
                "idle": Out(1),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        """Jobs in three queues: all, those to be found, and what to take flits from."""
        m = Module()
        config = self.config
        jobs, depth = job_layout(config), QUEUED_JOBS
        parts = data.StructLayout({"is_local": 1, "size": config.address_width})
        m.submodules.all = order = Checked(QuickFifo, shape=jobs, depth=depth)
        m.submodules.searched = searched = Checked(QuickFifo, shape=jobs, depth=depth)
        m.submodules.sequence = sequence = Checked(QuickFifo, shape=parts, depth=2 * depth)
        m.submodules.finder = finder = ChunkFinder(config)
        m.submodules.reader = reader = ChunkReader(config)
        m.submodules.local = local = LocalReader(config)
        wiring.connect(m, wiring.flipped(self.run), finder.run)
        wiring.connect(m, searched.o, finder.jobs)
        for name in ("query", "beginning"):
            wiring.connect(m, getattr(finder, name), wiring.flipped(getattr(self, name)))
        wiring.connect(m, reader.forward, wiring.flipped(self.forward))
        self._split(m, order, searched, sequence, local)
        self._release(m, order, finder, reader)
        share = self._share(m, reader, local)
        some = self._join(m, sequence, reader, local)
        held = reader.wait.awaited.any()
        queues = (order, searched, sequence)
        m.d.comb += [
            *(block.running.eq(self.run.running) for block in (reader, local)),
            self.forwarded.eq(reader.forwarded),
            self.held.eq(held),
            self.idle.eq(Cat(queue.level == 0 for queue in queues).all() & ~some),
            self.state_error.eq(Cat(b.state_error for b in (*queues, reader, local, share)).any()),
        ]
        for name in self.wait.signature.members:
            value = Mux(held, getattr(reader.wait, name), getattr(finder.wait, name))
            m.d.comb += getattr(self.wait, name).eq(value)
        return m

    def _split(self, m, order, searched, sequence, local):
        """A job goes into all queues that it concerns, or waits."""
        job = self.jobs.payload
        room = order.i.ready & sequence.i.ready
        to_local, to_finder = room & ~job.needs, room & job.needs
        m.d.comb += [
            local.chunks.valid.eq(self.jobs.valid & to_local),
            searched.i.valid.eq(self.jobs.valid & to_finder),
            self.jobs.ready.eq(
                Mux(job.needs, to_finder & searched.i.ready, to_local & local.chunks.ready)
            ),
            *(queue.i.valid.eq(self.jobs.valid & self.jobs.ready) for queue in (order, sequence)),
            *(queue.i.payload.eq(job) for queue in (order, searched)),
            local.chunks.payload.base.eq(job.base),
            local.chunks.payload.size.eq(self._size_of(job)),
            sequence.i.payload.is_local.eq(~job.needs),
            sequence.i.payload.size.eq(self._size_of(job)),
        ]

    def _size_of(self, job):
        return job.size if self.op is None else Mux(job.op == int(self.op), job.size, 0)

    def _release(self, m, order, finder, reader):
        """Jobs leave in order: a local one at once, any other one when it is found."""
        job, found = order.o.payload, finder.found
        is_next = order.o.valid & job.needs
        m.d.comb += [
            *(self.begun.payload[name].eq(job[name]) for name, _ in job.shape()),
            self.begun.payload.tracked.eq(job.needs & found.payload.tracked),
            # What is offered stays as it is, even where it means nothing.
            self.begun.payload.position.eq(Mux(job.needs, found.payload.position, 0)),
            self.begun.valid.eq(order.o.valid & (~job.needs | (found.valid & reader.chunks.ready))),
            order.o.ready.eq(self.begun.valid & self.begun.ready),
            reader.chunks.payload.eq(found.payload),
            reader.chunks.payload.size.eq(self._size_of(found.payload)),
            reader.chunks.valid.eq(found.valid & is_next & self.begun.ready),
            found.ready.eq(reader.chunks.ready & is_next & self.begun.ready),
        ]

    def _share(self, m, reader, local):
        """One read channel; what is being written is read first, since it is awaited."""
        config = self.config
        m.submodules.share = share = ReadShare(
            address_width=config.address_width,
            flit_bytes=config.flit_bytes,
            depth=config.most_reads,
        )
        wiring.connect(m, reader.memory, share.first)
        wiring.connect(m, local.memory, share.second)
        wiring.connect(m, share.channel, wiring.flipped(self.memory))
        return share

    def _join(self, m, sequence, reader, local):
        """Flits of one chunk after the other; whether some of the one in hand are left."""
        is_local, load, moved = Signal(), Signal(), Signal()
        part = sequence.o.payload
        _, some, last = counted_down(m, load=load, amount=part.size, step=moved)
        m.d.comb += [
            self.o.valid.eq(Mux(is_local, local.o.valid, reader.o.valid) & some),
            self.o.payload.eq(Mux(is_local, local.o.payload, reader.o.payload)),
            moved.eq(self.o.valid & self.o.ready),
            local.o.ready.eq(moved & is_local),
            reader.o.ready.eq(moved & ~is_local),
            sequence.o.ready.eq(~some | (moved & last)),
            load.eq(sequence.o.valid & sequence.o.ready),
        ]
        with m.If(load):
            m.d.sync += is_local.eq(part.is_local)
        return some
