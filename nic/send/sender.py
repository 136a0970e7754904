"""A port's sender: dependency, head flit, and the chunk out of memory."""

from amaranth import Cat, Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.checked_queue import Checked
from multitree.hw.stream import QuickFifo, Register
from multitree.nic.config import Config, descriptor_layout, flit_stream, job_layout
from multitree.nic.faults import Awaited
from multitree.nic.send.framer import Framer
from multitree.nic.send.issuer import Issuer
from multitree.nic.signatures import (
    MemoryReadSignature,
    QuerySignature,
    RunSignature,
    WaitSignature,
)

__all__ = ["Sender"]


class Sender(wiring.Component):
    """Executes a port's rows in order: dependency, head flit, chunk out of memory.

    One flit per cycle, at most one cycle lost per message: the reads of the next message overlap
    the sending of this one. Latency from a satisfied dependency to the head at `flits`: 1 cycle;
    to the first payload flit: the memory's read latency and 2 cycles.

    Parameters
    ----------
    config : Config

    Members
    -------
    jobs : In(stream)
        Checked rows (`job_layout`).
    run : In(RunSignature)
        The collective that runs.
    query : Out(QuerySignature)
        Question to the dependency tracker.
    memory : Out(MemoryReadSignature)
        Read channel.
    flits : Out(stream)
        Flits for the link transmitter.
    wait : Out(WaitSignature)
        What is awaited: a place on the link or data from memory by the message that is being
        sent, else a dependency by the next one.
    idle : Out(1)
        Nothing in hand: all rows taken are sent, all reads returned.
    state_error : Out(1)
        Strobe: bits of what it queues have flipped.
    vc : Out(range(num_vcs))
        Virtual channel of the flit that is offered; on shared links only.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "jobs": In(stream.Signature(job_layout(config))),
                "run": In(RunSignature(config)),
                "query": Out(QuerySignature(config)),
                "memory": Out(MemoryReadSignature(config)),
                "flits": Out(stream.Signature(flit_stream(config))),
                "wait": Out(WaitSignature(config)),
                "idle": Out(1),
                "state_error": Out(1),
                **({"vc": Out(range(config.num_vcs))} if config.shared else {}),
            }
        )

    def elaborate(self, platform):
        """Wire issuer, read queue, data queue and framer."""
        m = Module()
        config = self.config
        width = 8 * config.flit_bytes
        m.submodules.issuer = issuer = Issuer(config)
        m.submodules.framer = framer = Framer(config)
        queued = descriptor_layout(config)
        m.submodules.descriptors = descriptors = Checked(QuickFifo, shape=queued, depth=4)
        m.submodules.reads = reads = Checked(Register, shape=config.address_width)
        depth = config.memory_queue_flits
        m.submodules.payload = payload = Checked(QuickFifo, shape=width, depth=depth)
        wiring.connect(m, wiring.flipped(self.jobs), issuer.jobs)
        wiring.connect(m, issuer.descriptors, descriptors.i)
        wiring.connect(m, descriptors.o, framer.descriptors)
        wiring.connect(m, issuer.reads, reads.i)
        wiring.connect(m, payload.o, framer.payload)
        wiring.connect(m, framer.flits, wiring.flipped(self.flits))
        wiring.connect(m, issuer.query, wiring.flipped(self.query))
        wiring.connect(m, wiring.flipped(self.run), issuer.run)
        wiring.connect(m, wiring.flipped(self.run), framer.run)
        m.d.comb += [
            self.memory.valid.eq(reads.o.valid),
            self.memory.address.eq(reads.o.payload),
            reads.o.ready.eq(self.memory.ready),
            payload.i.valid.eq(self.memory.data_valid),
            payload.i.payload.eq(self.memory.data),
            issuer.returned.eq(payload.o.valid & payload.o.ready),
            # Reads in flight need no term: their message is in the framer or its queue.
            self.idle.eq(issuer.idle & framer.idle & (descriptors.level == 0)),
            self.state_error.eq(Cat(q.state_error for q in (descriptors, reads, payload)).any()),
        ]
        if config.shared:
            m.d.comb += self.vc.eq(framer.vc)
        # Data that the issuer has not asked for yet are not memory's fault.
        framer_waits = (framer.wait.awaited != Awaited.NOTHING) & ~issuer.held
        for name in self.wait.signature.members:
            framing, issuing = getattr(framer.wait, name), getattr(issuer.wait, name)
            m.d.comb += getattr(self.wait, name).eq(Mux(framer_waits, framing, issuing))
        return m
