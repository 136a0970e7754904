"""Finds chunks: whether a job's may be read, and from which position on."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited
from multitree.nic.forward.positions import beginning_layout, position_width
from multitree.nic.layouts import job_layout
from multitree.nic.signatures import QuerySignature, RunSignature, WaitSignature

__all__ = ["ChunkFinder", "found_layout"]


def found_layout(config: Config) -> data.StructLayout:
    """A chunk that may be read: its job, with `base` a memory address.

    It is being written by `need_port` from `position` on, if `tracked`; else it is in memory.
    """
    fields = {name: field.shape for name, field in job_layout(config)}
    return data.StructLayout(fields | {"tracked": 1, "position": position_width(config)})


class ChunkFinder(wiring.Component):
    """Takes jobs in order and waits until the chunk of each may be read.

    A chunk that needs no message lies in memory. Any other one is what a port writes for a message
    of a flow and wave: it may be read once that message has begun to come in, flit by flit as it is
    written; `beginning` says at which of the port's positions. Without `run.cut_through`, or where
    the flow's next wave has begun since, so that this position is known no more, it may be read
    once its last sub-message is acknowledged.

    Latency from a job to a chunk that needs nothing: 1 cycle; from the report of a beginning or of
    an arrival to its chunk: 1 cycle.

    Members
    -------
    run : In(RunSignature)
    jobs : In(stream)
        Chunks to find (`job_layout`); `base` is a memory address.
    query, beginning : Out(QuerySignature)
        What is acknowledged of the message; where it begins.
    found : Out(stream)
        Chunks that may be read (`found_layout`).
    wait : Out(WaitSignature)
        The message that is awaited.
    idle : Out(1)
        No job in hand.
    """

    def __init__(self, config: Config):
        self.config = config
        begins = beginning_layout(config).size
        super().__init__(
            {
                "run": In(RunSignature(config)),
                "jobs": In(stream.Signature(job_layout(config))),
                "query": Out(QuerySignature(config)),
                "beginning": Out(QuerySignature(config, width=begins)),
                "found": Out(stream.Signature(found_layout(config))),
                "wait": Out(WaitSignature(config)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        """One state machine: TAKE a job, ASK for its message, OFFER its chunk."""
        m = Module()
        run, found, offers = self.run, self.found, Signal()
        job, tracked = Signal(job_layout(self.config)), Signal()
        position, asks = Signal(position_width(self.config)), Signal()
        begun, begins, is_lost = self._find_beginning(m, job, asks)
        whole = self._find_end(m, job, asks) & (is_lost | ~run.cut_through)
        m.d.comb += found.valid.eq(offers & run.running)
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += [self.jobs.ready.eq(run.running), self.idle.eq(~self.jobs.valid)]
                m.d.sync += job.eq(self.jobs.payload)
                with m.If(self.jobs.valid & run.running):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += [asks.eq(job.needs), offers.eq(~job.needs | begun | whole)]
                m.d.comb += [found.payload.tracked.eq(begun), found.payload.position.eq(begins)]
                m.d.sync += [tracked.eq(begun), position.eq(begins)]
                with m.If(offers):
                    m.next = "OFFER"
                    with m.If(found.valid & found.ready):
                        m.next = "TAKE"
            with m.State("OFFER"):
                m.d.comb += [offers.eq(1), found.payload.tracked.eq(tracked)]
                m.d.comb += found.payload.position.eq(position)
                with m.If(found.valid & found.ready):
                    m.next = "TAKE"
        self._name(m, job, asks & ~offers)
        return m

    def _find_beginning(self, m, job, asks):
        """Whether the message's flits may be read as they come, from where; or that is lost."""
        asked, is_lost, beginning = Signal(), Signal(), self.beginning
        answer = data.View(beginning_layout(self.config), beginning.count)
        begun = beginning.answered & asked & answer.begun & self.run.cut_through & job.needs
        m.d.comb += beginning.valid.eq(asks)
        m.d.sync += asked.eq(beginning.valid)
        if self.config.wave_width:
            with m.If(begun & (answer.wave > job.wave)):
                m.d.sync += is_lost.eq(1)
            with m.If(self.jobs.ready):
                m.d.sync += is_lost.eq(0)
            begun &= answer.wave == job.wave
        return begun, answer.position, is_lost

    def _find_end(self, m, job, asks):
        """Whether all of the message is acknowledged, by the answer of this very cycle."""
        asked, query = Signal(), self.query
        shift = self.config.submessage_flits.bit_length() - 1
        submessages = (job.size + (self.config.submessage_flits - 1)) >> shift
        part = Signal(self.config.part_width)
        # A message without payload is reported as one sub-message.
        m.d.comb += [part.eq(Mux(job.size == 0, 1, submessages)), query.valid.eq(asks)]
        m.d.sync += asked.eq(query.valid)
        return query.answered & asked & (query.count >= Cat(part, job.wave)) & job.needs

    def _name(self, m, job, waits):
        m.d.comb += [getattr(self.found.payload, name).eq(job[name]) for name, _ in job.shape()]
        for query in (self.query, self.beginning):
            m.d.comb += [
                query.port.eq(job.need_port),
                query.op.eq(job.need_op),
                query.flow.eq(job.flow),
            ]
        m.d.comb += [
            self.wait.awaited.eq(Mux(waits, Awaited.DEPENDENCY, Awaited.NOTHING)),
            self.wait.row.eq(job.row),
            self.wait.flow.eq(job.flow),
            self.wait.port.eq(job.need_port),
            self.wait.op.eq(job.need_op),
        ]
        if self.config.wave_width:
            m.d.comb += self.wait.wave.eq(job.wave)
