"""A port's sender that forwards: what comes in leaves again before memory has it."""

from amaranth import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.checked_queue import Checked
from multitree.hw.stream import QuickFifo
from multitree.nic.config import (
    Config,
    descriptor_layout,
    flit_stream,
    job_layout,
)
from multitree.nic.faults import Awaited
from multitree.nic.forward.chunk_source import ChunkSource
from multitree.nic.forward.positions import ForwardSignature, beginning_layout
from multitree.nic.send.framer import Framer
from multitree.nic.signatures import (
    MemoryReadSignature,
    QuerySignature,
    RunSignature,
    WaitSignature,
)

__all__ = ["ForwardingSender"]


class ForwardingSender(wiring.Component):
    """Executes a port's rows in order: head flit, then the chunk as it becomes known.

    A head leaves as soon as the message that its row waits for has begun to come in, each flit as
    soon as it is written. One flit per cycle; the next row is looked up while one is sent.
    Latency from the report of a beginning to the head at `flits`: 2 cycles; from a position to its
    flit: 3 cycles, of memory its read latency and 3.

    Parameters
    ----------
    config : Config

    Members
    -------
    jobs : In(stream)
        Checked rows (`job_layout`).
    run : In(RunSignature)
        The collective that runs.
    query, beginning : Out(QuerySignature)
        Questions to the dependency tracker, and to that of beginnings.
    forward : Out(ForwardSignature)
        What ports have written.
    memory : Out(MemoryReadSignature)
        Read channel.
    flits : Out(stream)
        Flits for the link transmitter.
    forwarded : Out(1)
        Strobe: a flit is taken that was not read from memory.
    wait : Out(WaitSignature)
        What is awaited: a place on the link, data from memory, or a flit that was not written yet
        by the message that is being sent, else a dependency by the next one.
    idle : Out(1)
        Nothing in hand: all rows taken are sent, all reads returned.
    state_error : Out(1)
        Strobe: bits of what it queues have flipped.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "jobs": In(stream.Signature(job_layout(config))),
                "run": In(RunSignature(config)),
                "query": Out(QuerySignature(config)),
                "beginning": Out(QuerySignature(config, width=beginning_layout(config).size)),
                "forward": Out(ForwardSignature(config)),
                "memory": Out(MemoryReadSignature(config)),
                "flits": Out(stream.Signature(flit_stream(config))),
                "forwarded": Out(1),
                "wait": Out(WaitSignature(config)),
                "idle": Out(1),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        """Wire source and framer."""
        m = Module()
        config = self.config
        m.submodules.source = source = ChunkSource(config)
        m.submodules.framer = framer = Framer(config)
        queued = descriptor_layout(config)
        m.submodules.descriptors = descriptors = Checked(QuickFifo, shape=queued, depth=4)
        for block in (source, framer):
            wiring.connect(m, wiring.flipped(self.run), block.run)
        for name in ("query", "beginning", "forward", "memory"):
            wiring.connect(m, getattr(source, name), wiring.flipped(getattr(self, name)))
        wiring.connect(m, source.o, framer.payload)
        wiring.connect(m, descriptors.o, framer.descriptors)
        wiring.connect(m, framer.flits, wiring.flipped(self.flits))
        job, begun = source.jobs.payload, source.begun
        m.d.comb += [
            job.eq(self.jobs.payload),
            job.base.eq(self.run.window_base + self.jobs.payload.base),
            source.jobs.valid.eq(self.jobs.valid & self.run.running),
            self.jobs.ready.eq(source.jobs.ready & self.run.running),
            *(descriptors.i.payload[name].eq(begun.payload[name]) for name, _ in queued),
            descriptors.i.valid.eq(begun.valid),
            begun.ready.eq(descriptors.i.ready),
            self.forwarded.eq(source.forwarded),
            self.idle.eq(~self.jobs.valid & source.idle & framer.idle & (descriptors.level == 0)),
            self.state_error.eq(descriptors.state_error | source.state_error),
        ]
        # Flits of its row that were not written yet are not memory's fault.
        awaits_memory = framer.wait.awaited == Awaited.MEMORY_READ
        held = source.held & (source.wait.row == framer.wait.row)
        framing = (framer.wait.awaited != Awaited.NOTHING) & ~(awaits_memory & held)
        for name in self.wait.signature.members:
            value = Mux(framing, getattr(framer.wait, name), getattr(source.wait, name))
            m.d.comb += getattr(self.wait, name).eq(value)
        return m
