"""One link port: job queue, sender, receiver and both ends of the link."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.checked_queue import Checked
from multitree.hw.link.link import Kind, LinkSignature, fault_record_width
from multitree.hw.link.receiver import LinkReceiver
from multitree.hw.link.session import LinkSession, bring_up
from multitree.hw.link.transmitter import LinkTransmitter
from multitree.hw.stream import Fifo
from multitree.nic.config import JOB_QUEUE_DEPTH, Config
from multitree.nic.control.counters import ActivitySignature
from multitree.nic.faults import Awaited, FaultCode
from multitree.nic.layouts import job_layout
from multitree.nic.receive.receiver import Receiver
from multitree.nic.send.sender import Sender
from multitree.nic.signatures import (
    ArrivalSignature,
    LookupSignature,
    MemorySignature,
    QuerySignature,
    RunSignature,
    WaitSignature,
)
from multitree.nic.top.memory_guard import MemoryGuard

__all__ = ["Port", "is_payload", "name_faults"]


def name_faults(m, port, receiver, link, fault_credit, lost, queues):
    """A port's fault: of several that hold, the one nearest to the cause.

    Parameters
    ----------
    m : Module
    port : Component
        Gets `fault`; has `run` and `fault_received`.
    receiver : Component
        Its receiver, with a `fault` of its own.
    link : Component
        What finds flits wrong, see `LinkReceiver`.
    fault_credit, lost : Value
        A credit that no flit had spent; the other end went down.
    queues : list of Component
        What reports flipped bits of its state, in addition to the link; passed on a cycle later.
    """
    flipped = Signal()
    errors = Cat(block.state_error for block in (link, *queues))
    m.d.sync += flipped.eq(errors.any())
    m.d.comb += port.fault.eq(receiver.fault)
    # Outranked by any fault of this port itself, the ones below included.
    with m.If(port.fault_received & ~receiver.fault.any()):
        m.d.comb += port.fault.eq(FaultCode.PEER_FAULT)
    for strobe, code in (
        (fault_credit, FaultCode.CREDIT_OVERFLOW),
        (link.overflow, FaultCode.BUFFER_OVERFLOW),
        (link.check_error, FaultCode.LINK_CHECK),
        (link.sequence_error, FaultCode.LINK_SEQUENCE),
        (link.epoch_error, FaultCode.LINK_EPOCH),
        (lost & port.run.running, FaultCode.PEER_RESET),
        (flipped, FaultCode.STATE_PARITY),
    ):
        with m.If(strobe):
            m.d.comb += port.fault.eq(code)


def is_payload(flits):
    """A flit between head and tail, or the tail: what carries the buffer."""
    kind = flits.payload.kind
    return (kind == Kind.BODY) | (kind == Kind.TAIL)


class Port(wiring.Component):
    """Everything of one link port; sending and receiving are independent of each other.

    While the link is not up, rows wait and nothing comes in. An other end that goes down while a
    collective runs is a fault.

    Parameters
    ----------
    config : Config

    Members
    -------
    port : In(4)
        Number of the port.
    run : In(RunSignature)
        The collective that runs.
    jobs : In(stream)
        Checked rows (`job_layout`).
    tx : Out(LinkSignature)
        Outgoing link.
    rx : In(LinkSignature)
        Incoming link.
    memory : Out(MemorySignature)
        Memory channels.
    lookup : Out(LookupSignature)
        Receiver's question to the flow memory.
    send_query, receive_query : Out(QuerySignature)
        Questions to the dependency tracker.
    arrival : Out(ArrivalSignature)
        A sub-message is in memory.
    sender_wait, receiver_wait : Out(WaitSignature)
        What is awaited.
    activity : Out(ActivitySignature)
        What it does, to be counted.
    up : Out(1)
        The link carries data in both directions.
    send_fault : In(1)
        Send a FAULT flit.
    fault_record : In
        What it reports.
    fault_sent, fault_received : Out(1)
        Strobe: it is sent; one came in.
    received_fault : Out
        What that one reports.
    idle : Out(1)
        Nothing left to send.
    delivered : Out(1)
        Nor is anything on the link or in the other end's buffer: all credits are back.
    progress : Out(1)
        A flit moved.
    fault : Out(8)
        `FaultCode`, a strobe.
    fault_awaited : Out(3)
        `Awaited`, with a fault of a read or a write.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "port": In(4),
                "run": In(RunSignature(config)),
                "jobs": In(stream.Signature(job_layout(config))),
                "tx": Out(LinkSignature(flit_bytes=config.flit_bytes)),
                "rx": In(LinkSignature(flit_bytes=config.flit_bytes)),
                "memory": Out(MemorySignature(config)),
                "lookup": Out(LookupSignature()),
                "send_query": Out(QuerySignature(config)),
                "receive_query": Out(QuerySignature(config)),
                "arrival": Out(ArrivalSignature(config)),
                "sender_wait": Out(WaitSignature(config)),
                "receiver_wait": Out(WaitSignature(config)),
                "activity": Out(ActivitySignature(config)),
                "up": Out(1),
                "send_fault": In(1),
                "fault_record": In(fault_record_width(config.flit_bytes)),
                "fault_sent": Out(1),
                "fault_received": Out(1),
                "received_fault": Out(fault_record_width(config.flit_bytes)),
                "idle": Out(1),
                "delivered": Out(1),
                "progress": Out(1),
                "fault": Out(8),
                "fault_awaited": Out(3),
            }
        )

    def elaborate(self, platform):
        """Wire the blocks."""
        m = Module()
        config = self.config
        m.submodules.queue = queue = Checked(Fifo, shape=job_layout(config), depth=JOB_QUEUE_DEPTH)
        m.submodules.sender = sender = Sender(config)
        m.submodules.receiver = receiver = Receiver(config)
        m.submodules.guard = guard = MemoryGuard(config)
        flits = {"flit_bytes": config.flit_bytes, "submessage_flits": config.submessage_flits}
        transmitter = LinkTransmitter(credits=config.buffer_flits, **flits)
        link = LinkReceiver(depth=config.buffer_flits, **flits)
        m.submodules.transmitter, m.submodules.link = transmitter, link
        m.submodules.session = session = LinkSession(flit_bytes=config.flit_bytes)
        m.d.comb += receiver.port.eq(self.port)
        wiring.connect(m, wiring.flipped(self.jobs), queue.i)
        wiring.connect(m, queue.o, sender.jobs)
        wiring.connect(m, sender.flits, transmitter.i)
        wiring.connect(m, transmitter.link, wiring.flipped(self.tx))
        wiring.connect(m, wiring.flipped(self.rx), link.link)
        wiring.connect(m, link.o, receiver.flits)
        for end in (sender, receiver, guard):
            wiring.connect(m, wiring.flipped(self.run), end.run)
        for inner, outer in (
            (sender.query, self.send_query),
            (guard.outer, self.memory),
            (receiver.query, self.receive_query),
            (receiver.lookup, self.lookup),
            (receiver.arrival, self.arrival),
            (receiver.wait, self.receiver_wait),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))
        for channel, guarded in (
            (sender.memory, guard.inner.send),
            (receiver.fetch, guard.inner.fetch),
            (receiver.write, guard.inner.write),
        ):
            wiring.connect(m, channel, guarded)
        bring_up(m, self, session, transmitter, link)
        self._report(m, queue, sender, receiver, transmitter, link)
        queues = [queue, sender, receiver]
        name_faults(m, self, receiver, link, transmitter.fault_credit, session.lost, queues)
        with m.If(guard.fault.any()):
            m.d.comb += [self.fault.eq(guard.fault), self.fault_awaited.eq(guard.awaited)]
        return m

    def _report(self, m, queue, sender, receiver, transmitter, link):
        """Waits, activity and progress of the blocks together."""
        wait = sender.wait
        sent = transmitter.i.valid & transmitter.i.ready
        taken = link.o.valid & link.o.ready
        m.d.comb += [
            self.sender_wait.awaited.eq(wait.awaited),
            self.sender_wait.row.eq(wait.row),
            self.sender_wait.flow.eq(wait.flow),
            self.sender_wait.port.eq(Mux(wait.awaited == Awaited.DEPENDENCY, wait.port, self.port)),
            self.sender_wait.op.eq(wait.op),
            *([self.sender_wait.wave.eq(wait.wave)] if self.config.wave_width else []),
            self.activity.sent.eq(sent & is_payload(transmitter.i)),
            self.activity.received.eq(taken & is_payload(link.o)),
            self.activity.dependency.eq(wait.awaited == Awaited.DEPENDENCY),
            self.activity.memory.eq(wait.awaited == Awaited.MEMORY_READ),
            self.activity.credit.eq(wait.awaited == Awaited.CREDIT),
            self.activity.sibling.eq(receiver.wait.awaited == Awaited.SIBLING),
            self.activity.credits.eq(transmitter.available),
            self.idle.eq(sender.idle & (queue.level == 0)),
            self.delivered.eq(self.idle & (transmitter.available == self.config.buffer_flits)),
            self.progress.eq(Cat(sent, taken, self.arrival.valid).any()),
        ]
