"""Issuer: takes rows in order, waits for their dependency, issues their reads."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited
from multitree.nic.layouts import descriptor_layout, job_layout
from multitree.nic.signatures import QuerySignature, RunSignature, WaitSignature

__all__ = ["Issuer"]


class Issuer(wiring.Component):
    """Takes jobs in order, waits for the dependency of each, and issues the reads of its chunk.

    A job's descriptor goes to the framer as soon as its dependency is in, so that the head is on
    the link while the first reads are in flight. Reads are issued one per cycle while the
    framer has room for their data. Outputs: all registered but the handshakes.

    Members
    -------
    jobs : In(stream)
        Checked rows (`job_layout`).
    run : In(RunSignature)
    query : Out(QuerySignature)
    descriptors : Out(stream)
        Each message to frame (`descriptor_layout`).
    reads : Out(stream)
        Addresses to read.
    returned : In(1)
        One flit of read data was taken by the framer: its room is free again.
    wait : Out(WaitSignature)
        The dependency that is awaited.
    held, idle : Out(1)
        The job in hand waits for its next sub-message to come in; no job in hand.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "jobs": In(stream.Signature(job_layout(config))),
                "run": In(RunSignature(config)),
                "query": Out(QuerySignature(config)),
                "descriptors": Out(stream.Signature(descriptor_layout(config))),
                "reads": Out(stream.Signature(config.address_width)),
                "returned": In(1),
                "wait": Out(WaitSignature(config)),
                "held": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        """One state machine: TAKE a job, AWAIT its dependency, READ its chunk."""
        m = Module()
        config = self.config
        job = Signal(job_layout(config))
        # The count that the next flit needs.
        needed = Signal(config.count_width)
        gate = self._gate(m, job, needed)
        room = Signal(range(config.memory_queue_flits + 1), init=config.memory_queue_flits)
        issued = self.reads.valid & self.reads.ready
        # A place is reserved from the read on, since memory's data cannot be refused.
        m.d.sync += room.eq(room + self.returned - issued)
        address, left = Signal(config.address_width), Signal(config.address_width)
        place = Signal(config.submessage_flits.bit_length() - 1)
        readable = gate & (left != 0) & (room != 0) & self.run.running
        done = (left == 0) | (issued & (left == 1))
        self._name(m, job, address)
        with m.FSM():
            with m.State("TAKE"):
                offered = self.jobs.payload
                m.d.comb += [self.jobs.ready.eq(self.run.running), self.idle.eq(~self.jobs.valid)]
                m.d.sync += [
                    job.eq(offered),
                    place.eq(0),
                    needed.eq(self._first_needed(m, offered)),
                ]
                m.d.sync += [address.eq(self.run.window_base + offered.base), left.eq(offered.size)]
                with m.If(self.jobs.valid & self.run.running):
                    m.next = "AWAIT"
            with m.State("AWAIT"):
                m.d.comb += [
                    self.query.valid.eq(job.needs),
                    self.wait.awaited.eq(Mux(gate, Awaited.NOTHING, Awaited.DEPENDENCY)),
                    self.descriptors.valid.eq(gate & self.run.running),
                    # The first read goes with the descriptor or after it, never before.
                    self.reads.valid.eq(readable & self.descriptors.ready),
                ]
                with m.If(self.descriptors.valid & self.descriptors.ready):
                    m.next = "READ"
                    # No flits, or a single one that is read in this cycle.
                    with m.If(done):
                        m.next = "TAKE"
            with m.State("READ"):
                m.d.comb += [
                    self.held.eq(~gate & (left != 0)),
                    # Asked ahead, so that counts are known before the reads get there.
                    self.query.valid.eq(job.needs & self.run.cut_through),
                    self.wait.awaited.eq(Mux(self.held, Awaited.DEPENDENCY, Awaited.NOTHING)),
                    self.reads.valid.eq(readable),
                ]
                with m.If(done):
                    m.next = "TAKE"
        with m.If(issued):
            m.d.sync += [address.eq(address + 1), left.eq(left - 1), place.eq(place + 1)]
            # Sub-messages begin at the chunk's first flit here as in the receiver's count.
            with m.If(place.all() & self.run.cut_through):
                m.d.sync += needed.eq(needed + 1)
        return m

    def _gate(self, m, job, needed):
        """Whether as much as is needed came in, by the answer of this very cycle too."""
        known, asked, gate = Signal(self.config.count_width), Signal(), Signal()
        fresh = self.query.answered & asked
        m.d.sync += asked.eq(self.query.valid)
        with m.If(fresh):
            m.d.sync += known.eq(self.query.count)
        # The later assignment wins: an answer to the last job's question may still come in TAKE.
        with m.If(self.jobs.ready):
            m.d.sync += known.eq(0)
        m.d.comb += gate.eq(~job.needs | (known >= needed) | (fresh & (self.query.count >= needed)))
        return gate

    def _first_needed(self, m, job):
        """The count that the first flit needs: one sub-message, or all of the chunk's."""
        if self.config.shared:
            # The sequencer reports whole sums and results.
            return Const(1)
        shift = self.config.submessage_flits.bit_length() - 1
        submessages = (job.size + (self.config.submessage_flits - 1)) >> shift
        # A message without payload is reported as one sub-message.
        first = Mux(self.run.cut_through | (job.size == 0), 1, submessages)
        if not self.config.wave_width:
            return first
        part = Signal(self.config.part_width)
        m.d.comb += part.eq(first)
        return Cat(part, job.wave)

    def _name(self, m, job, address):
        m.d.comb += [
            *(
                self.descriptors.payload[name].eq(job[name])
                for name, _ in descriptor_layout(self.config)
            ),
            self.reads.payload.eq(address),
            self.query.port.eq(job.need_port),
            self.query.op.eq(job.need_op),
            self.query.flow.eq(job.flow),
            self.wait.row.eq(job.row),
            self.wait.flow.eq(job.flow),
            self.wait.port.eq(job.need_port),
            self.wait.op.eq(job.need_op),
        ]
        if self.config.wave_width:
            m.d.comb += self.wait.wave.eq(job.wave)
