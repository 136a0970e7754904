"""One port on a shared link: queue, sender, receiver, and virtual channels."""

from amaranth import Array, Cat, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.checked_queue import Checked
from multitree.hw.link.link import LinkSignature, fault_record_width
from multitree.hw.link.vc_port import VcPort
from multitree.hw.memory_channel import ReadShare
from multitree.hw.stream import Fifo
from multitree.nic.config import JOB_QUEUE_DEPTH, Config
from multitree.nic.control.counters import ActivitySignature
from multitree.nic.faults import Awaited
from multitree.nic.layouts import job_layout
from multitree.nic.receive.shared_receiver import SharedReceiver
from multitree.nic.reduce.reducer import item_layout
from multitree.nic.send.sender import Sender
from multitree.nic.signatures import (
    ArrivalSignature,
    LookupSignature,
    MemoryReadSignature,
    MemorySignature,
    QuerySignature,
    ReservationSignature,
    RunSignature,
    TurnSignature,
    WaitSignature,
)
from multitree.nic.top.memory_guard import MemoryGuard
from multitree.nic.top.port import is_payload, name_faults

__all__ = ["SharedPort"]


class SharedPort(wiring.Component):
    """Everything of one port whose link carries others' messages, too.

    Its receiver takes whatever comes, staged contributions go into the gaps, and its sender
    sends whole messages, each on the virtual channel of its class and of its collective. While
    the link is not up, rows wait and nothing comes in. An other end that goes down while a
    collective runs is a fault.

    Parameters
    ----------
    config : Config
        Of an interface on shared links.

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
    reservation : Out(ReservationSignature)
        Receiver's question to the sequencer.
    turn : In(TurnSignature)
        Strobe: all contributions before this one are in memory.
    staged : In(stream)
        Flits of staged contributions (`item_layout`).
    read : In(MemoryReadSignature)
        Reads of staged contributions, which share the sender's channel.
    send_query : Out(QuerySignature)
        Question to the dependency tracker.
    arrival : Out(ArrivalSignature)
        A message is in memory.
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
        A flit moved, perhaps a staged one.
    fault : Out(8)
        `FaultCode`, a strobe.
    fault_awaited : Out(3)
        `Awaited`, with a fault of a read or a write.
    """

    def __init__(self, config: Config):
        self.config = config
        link = LinkSignature(flit_bytes=config.flit_bytes, num_vcs=config.num_vcs)
        received_fault = fault_record_width(config.flit_bytes)
        super().__init__(
            {
                "port": In(4),
                "run": In(RunSignature(config)),
                "jobs": In(stream.Signature(job_layout(config))),
                "tx": Out(link),
                "rx": In(link),
                "memory": Out(MemorySignature(config)),
                "lookup": Out(LookupSignature()),
                "reservation": Out(ReservationSignature()),
                "turn": In(TurnSignature()),
                "staged": In(stream.Signature(item_layout(config))),
                "read": In(MemoryReadSignature(config)),
                "send_query": Out(QuerySignature(config)),
                "arrival": Out(ArrivalSignature(config)),
                "sender_wait": Out(WaitSignature(config)),
                "receiver_wait": Out(WaitSignature(config)),
                "activity": Out(ActivitySignature(config)),
                "up": Out(1),
                "send_fault": In(1),
                "fault_record": In(received_fault),
                "fault_sent": Out(1),
                "fault_received": Out(1),
                "received_fault": Out(received_fault),
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
        m.submodules.receiver = receiver = SharedReceiver(config)
        m.d.comb += receiver.port.eq(self.port)
        m.submodules.guard = guard = MemoryGuard(config)
        m.submodules.link = link = VcPort(
            num_vcs=config.num_vcs,
            flit_bytes=config.flit_bytes,
            depth=config.buffer_flits,
            submessage_flits=config.submessage_flits,
        )
        # Sender and reorder buffer each reserve `memory_queue_flits` places for what they read.
        m.submodules.share = share = ReadShare(
            address_width=config.address_width,
            flit_bytes=config.flit_bytes,
            depth=config.most_reads,
        )
        wiring.connect(m, wiring.flipped(self.jobs), queue.i)
        wiring.connect(m, queue.o, sender.jobs)
        for end in (sender, receiver, guard):
            wiring.connect(m, wiring.flipped(self.run), end.run)
        for inner, outer in (
            (link.tx, self.tx),
            (sender.query, self.send_query),
            (guard.outer, self.memory),
            (receiver.reservation, self.reservation),
            (receiver.lookup, self.lookup),
            (receiver.arrival, self.arrival),
            (receiver.wait, self.receiver_wait),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))
        for outer, inner in (
            (self.rx, link.rx),
            (self.turn, receiver.turn),
            (self.staged, receiver.staged),
            (self.read, share.second),
        ):
            wiring.connect(m, wiring.flipped(outer), inner)
        wiring.connect(m, sender.memory, share.first)
        for channel, guarded in (
            (share.channel, guard.inner.send),
            (receiver.fetch, guard.inner.fetch),
            (receiver.write, guard.inner.write),
        ):
            wiring.connect(m, channel, guarded)
        sent, taken = self._join(m, sender, receiver, link)
        self._report(m, queue, sender, receiver, link, (sent, taken))
        queues = [queue, sender, receiver]
        name_faults(m, self, receiver, link, link.fault_credit, link.lost, queues)
        with m.If(guard.fault.any()):
            m.d.comb += [self.fault.eq(guard.fault), self.fault_awaited.eq(guard.awaited)]
        return m

    def _join(self, m, sender, receiver, link):
        """Flits out on their channel when that has a credit; flits in, channel by channel."""
        sent = sender.flits.valid & sender.flits.ready
        m.d.comb += [
            sender.flits.ready.eq(link.may_send.bit_select(sender.vc, 1)),
            link.take.eq(sent),
            link.flit.kind.eq(sender.flits.payload.kind),
            link.flit.payload.eq(sender.flits.payload.payload),
            link.flit.vc.eq(sender.vc),
        ]
        taken = []
        for came, flits in zip(link.o, receiver.flits, strict=True):
            wiring.connect(m, came, flits)
            taken.append(came.valid & came.ready)
        return sent, taken

    def _report(self, m, queue, sender, receiver, link, moved):
        """Waits, activity and progress of the blocks together."""
        sent, taken = moved
        wait = sender.wait
        added = receiver.staged.valid & receiver.staged.ready
        payload = [bit & is_payload(came) for bit, came in zip(taken, link.o, strict=True)]
        for name in ("up", "fault_sent", "fault_received", "received_fault"):
            m.d.comb += getattr(self, name).eq(getattr(link, name))
        m.d.comb += [link.send_fault.eq(self.send_fault), link.fault_record.eq(self.fault_record)]
        m.d.comb += [
            self.sender_wait.awaited.eq(wait.awaited),
            self.sender_wait.row.eq(wait.row),
            self.sender_wait.flow.eq(wait.flow),
            self.sender_wait.port.eq(self.port),
            self.sender_wait.op.eq(wait.op),
            self.activity.sent.eq(sent & is_payload(sender.flits)),
            # Several channels may be taken from in one cycle, but only one of them has payload.
            self.activity.received.eq(Cat(payload).any()),
            self.activity.dependency.eq(wait.awaited == Awaited.DEPENDENCY),
            self.activity.memory.eq(wait.awaited == Awaited.MEMORY_READ),
            self.activity.credit.eq(wait.awaited == Awaited.CREDIT),
            self.activity.credits.eq(Array(link.available)[sender.vc]),
            self.idle.eq(sender.idle & (queue.level == 0)),
            self.delivered.eq(
                self.idle & Cat(left == self.config.buffer_flits for left in link.available).all()
            ),
            self.progress.eq(Cat(sent, *taken, added, self.arrival.valid).any()),
        ]
