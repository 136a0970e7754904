"""A port's senders: dependency, head flit, and the chunk out of memory."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked
from multitree.hw.link.link import Kind
from multitree.hw.stream import QuickFifo, Register
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.forward.chunk_source import ChunkSource
from multitree.nic.forward.positions import ForwardSignature, beginning_layout
from multitree.nic.layouts import descriptor_layout, flit_stream, head_layout, job_layout
from multitree.nic.send.issuer import Issuer
from multitree.nic.signatures import (
    MemoryReadSignature,
    QuerySignature,
    RunSignature,
    WaitSignature,
)

__all__ = ["ForwardingSender", "Framer", "Sender"]


class Framer(wiring.Component):
    """Frames messages: one head flit, then payload flits, the last one marked as the tail.

    With `run.packets` every sub-message is a packet, with the head repeated and a tail of its
    own. A message without payload is one flit of kind SINGLE. One flit per cycle while data are in
    and the link takes them; stops at once on a fault.

    Members
    -------
    descriptors : In(stream)
        Each message (`descriptor_layout`).
    payload : In(stream)
        The data read for them, in order.
    run : In(RunSignature)
    flits : Out(stream)
    wait : Out(WaitSignature)
        What the message in hand waits for: a place on the link, or its data.
    idle : Out(1)
        No message in hand.
    vc : Out(range(num_vcs))
        Virtual channel of the flit that is offered; on shared links only.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "descriptors": In(stream.Signature(descriptor_layout(config))),
                "payload": In(stream.Signature(8 * config.flit_bytes)),
                "run": In(RunSignature(config)),
                "flits": Out(stream.Signature(flit_stream(config))),
                "wait": Out(WaitSignature(config)),
                "idle": Out(1),
                **({"vc": Out(range(config.num_vcs))} if config.shared else {}),
            }
        )

    def elaborate(self, platform):
        """One state machine: send the HEAD, then the BODY until the message's or packet's tail."""
        m = Module()
        left = Signal(self.config.address_width)
        place = Signal(self.config.submessage_flits.bit_length() - 1)
        held = Signal(descriptor_layout(self.config))
        # In hand: the one offered, until its head is sent.
        begun, message = Signal(), Signal(descriptor_layout(self.config))
        head, sent = Signal(head_layout(self.config)), self.flits.valid & self.flits.ready
        m.d.comb += [
            head.flow.eq(message.flow),
            head.op.eq(message.op),
            *([] if self.config.shared else [head.continued.eq(begun), head.wave.eq(message.wave)]),
            head.sequence.eq(self.run.sequence),
            head.size.eq(message.size),
            self.wait.port.eq(NO_PORT),
        ]
        if self.config.shared:
            self._route(m, head, message)
        with m.If(self.flits.valid & ~self.flits.ready):
            m.d.comb += self.wait.awaited.eq(Awaited.CREDIT)
        self._name(m, message)
        with m.FSM() as fsm:
            with m.State("HEAD"):
                empty = ~begun & (message.size == 0)
                m.d.comb += [
                    self.idle.eq(~begun & ~self.descriptors.valid),
                    self.flits.valid.eq((begun | self.descriptors.valid) & self.run.running),
                    self.flits.payload.kind.eq(Mux(empty, Kind.SINGLE, Kind.HEAD)),
                    self.flits.payload.payload.eq(head.as_value()),
                    self.descriptors.ready.eq(~begun & self.flits.ready & self.run.running),
                ]
                m.d.sync += [held.eq(message), place.eq(0)]
                # `left` goes on over all packets of a message.
                with m.If(~begun):
                    m.d.sync += left.eq(message.size)
                with m.If(sent & ~empty):
                    m.next = "BODY"
            with m.State("BODY"):
                last = (left == 1) | (place.all() & self.run.packets)
                m.d.comb += [
                    self.flits.valid.eq(self.payload.valid & self.run.running),
                    self.flits.payload.kind.eq(Mux(last, Kind.TAIL, Kind.BODY)),
                    self.flits.payload.payload.eq(self.payload.payload),
                    self.payload.ready.eq(self.flits.ready & self.run.running),
                ]
                with m.If(~self.payload.valid):
                    m.d.comb += self.wait.awaited.eq(Awaited.MEMORY_READ)
                with m.If(sent):
                    # Used in HEAD only: more packets of this message follow.
                    m.d.sync += [left.eq(left - 1), place.eq(place + 1), begun.eq(left != 1)]
                    with m.If(last):
                        m.next = "HEAD"
        in_hand = begun | fsm.ongoing("BODY")
        offered = self.descriptors.payload
        m.d.comb += message.eq(Mux(in_hand, held.as_value(), offered.as_value()))
        return m

    def _route(self, m, head, message):
        m.d.comb += [head[name].eq(message[name]) for name in ("order", "step", "route")]
        m.d.comb += self.vc.eq(Cat(self.run.sequence[0], message.vc_class))

    def _name(self, m, message):
        m.d.comb += [
            self.wait.row.eq(message.row),
            self.wait.flow.eq(message.flow),
            self.wait.op.eq(message.op),
        ]
        if self.config.wave_width:
            m.d.comb += self.wait.wave.eq(message.wave)


class Sender(wiring.Component):
    """Executes a port's rows in order: dependency, head flit, chunk out of memory.

    One flit per cycle, at most one cycle lost per message: the reads of the next message overlap
    the sending of this one. Latency from a satisfied dependency to the head at `flits`: 1 cycle;
    to the first payload flit: the memory's read latency and 2 cycles.

    Members
    -------
    jobs : In(stream)
        Checked rows (`job_layout`).
    run : In(RunSignature)
    query : Out(QuerySignature)
    memory : Out(MemoryReadSignature)
    flits : Out(stream)
    wait : Out(WaitSignature)
        What is awaited: a place on the link or data from memory by the message that is being
        sent, else a dependency by the next one.
    idle : Out(1)
        Nothing in hand: all rows taken are sent, all reads returned.
    state_error : Out(1)
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


class ForwardingSender(wiring.Component):
    """Executes a port's rows in order: head flit, then the chunk as it becomes known.

    A head leaves as soon as the message that its row waits for has begun to come in, each flit as
    soon as it is written. One flit per cycle; the next row is looked up while one is sent. Latency
    from the report of a beginning to the head at `flits`: 2 cycles; from a position to its flit: 3
    cycles, of memory its read latency and 3.

    Members
    -------
    jobs, run, query, memory, flits, idle, state_error : In, Out
        As of `Sender`.
    beginning : Out(QuerySignature)
        Question to the tracker of beginnings.
    forward : Out(ForwardSignature)
    forwarded : Out(1)
        Strobe: a flit is taken that was not read from memory.
    wait : Out(WaitSignature)
        As of `Sender`, and a flit that was not written yet by the message that is being sent.
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
