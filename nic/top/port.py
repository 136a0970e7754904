"""One link port: queue, sender, receiver, end of the link, guard of its memory."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked
from multitree.hw.link.link import Kind, LinkSignature, fault_record_width
from multitree.hw.link.port import LinkPort
from multitree.hw.memory_channel import ReadShare
from multitree.hw.stream import Fifo
from multitree.hw.twins import Twins
from multitree.nic.control.counters import ActivitySignature
from multitree.nic.driver.config import JOB_QUEUE_DEPTH, Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.forward.positions import (
    ForwardSignature,
    PositionsSignature,
    beginning_layout,
    kept_width,
)
from multitree.nic.layouts import job_layout
from multitree.nic.receive.receiver import ForwardingReceiver, Receiver
from multitree.nic.receive.shared_receiver import SharedReceiver
from multitree.nic.reduce.reducer import item_layout
from multitree.nic.send.sender import ForwardingSender, Sender
from multitree.nic.signatures import (
    ArrivalSignature,
    LookupSignature,
    MemoryReadSignature,
    MemorySignature,
    QuerySignature,
    ReportSignature,
    ReservationSignature,
    RunSignature,
    TurnSignature,
    WaitSignature,
)

__all__ = ["MemoryGuard", "Port"]

_CHANNELS = ("send", "fetch", "write")


class MemoryGuard(wiring.Component):
    """Stands between a port's blocks and memory, and holds back what is not in the window.

    Tables are checked before they run; this holds whatever a table, a head or a broken counter
    says. An access with an address outside the window is never offered to memory nor taken: it
    is a fault in the next cycle, and stays where it is until the reset that a fault needs. An error
    of memory is a fault in its own cycle. Everything else passes as it is, in the same cycle. The
    window's end is a register: a new window holds from the next cycle on.

    Members
    -------
    run : In(RunSignature)
        The collective that runs, with its window.
    inner, outer : In, Out(MemorySignature)
        Channels of the port's blocks and of the memory.
    fault : Out(8)
    awaited : Out(3)
        `Awaited`: whether a read or a write is at fault.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "run": In(RunSignature(config)),
                "inner": In(MemorySignature(config)),
                "outer": Out(MemorySignature(config)),
                "fault": Out(8),
                "awaited": Out(3),
            }
        )

    def elaborate(self, platform):
        """Two comparisons side by side per channel; the sum before them is a register."""
        m = Module()
        run = self.run
        # Which channels ask for what is outside is a register too: an access comes late in its
        # cycle, and whoever gathers faults of all ports is far away.
        # One bit more: the window may reach to the last address, and ends behind it.
        end = Signal(self.config.address_width + 1)
        m.d.sync += end.eq(run.window_base + run.window_flits)
        outside, errors = Signal(len(_CHANNELS)), []
        for number, name in enumerate(_CHANNELS):
            inner, outer = getattr(self.inner, name), getattr(self.outer, name)
            inside = Signal(name=f"{name}_inside")
            m.d.comb += [
                inside.eq((inner.address >= run.window_base) & (inner.address < end)),
                outer.valid.eq(inner.valid & inside),
                outer.address.eq(inner.address),
                inner.ready.eq(outer.ready & inside),
                inner.error.eq(outer.error),
            ]
            m.d.sync += outside[number].eq(inner.valid & ~inside)
            errors.append(outer.error)
            forth, back = (["data"], ["ack"]) if name == "write" else ([], ["data_valid", "data"])
            m.d.comb += [getattr(outer, label).eq(getattr(inner, label)) for label in forth]
            m.d.comb += [getattr(inner, label).eq(getattr(outer, label)) for label in back]
        # Later assignments win: an error of memory goes before an access that was held back.
        for strobes, code in (
            (outside, FaultCode.OUT_OF_WINDOW),
            (Cat(errors), FaultCode.MEMORY_ERROR),
        ):
            with m.If(strobes.any()):
                m.d.comb += [
                    self.fault.eq(code),
                    self.awaited.eq(Mux(strobes[-1], Awaited.MEMORY_WRITE, Awaited.MEMORY_READ)),
                ]
        return m


def _is_payload(flits):
    """A flit between head and tail, or the tail: what carries the buffer."""
    kind = flits.payload.kind
    return (kind == Kind.BODY) | (kind == Kind.TAIL)


class Port(wiring.Component):
    """Everything of one link port; sending and receiving are independent of each other.

    On a private link its sender may send a message as its parts arrive, and its receiver holds
    contributions back until it is their turn. On a shared link the receiver takes whatever comes,
    staged contributions go into the gaps, and the sender sends whole messages, each on the virtual
    channel of its class and of its collective. While the link is not up, rows wait and nothing
    comes in. An other end that goes down while a collective runs is a fault.

    Members
    -------
    port : In(4)
        Number of the port.
    run : In(RunSignature)
    jobs : In(stream)
        Checked rows (`job_layout`).
    tx : Out(LinkSignature)
    rx : In(LinkSignature)
    memory : Out(MemorySignature)
    lookup, send_query, receive_query : Out(LookupSignature), Out(QuerySignature)
        Questions to flow memory and dependency tracker; `receive_query` on private links.
    reservation, turn, staged : Out, In, In
        As of `SharedReceiver`; on shared links, as the next one.
    read : In(MemoryReadSignature)
        Reads of staged contributions, which share the sender's channel.
    arrival : Out(ArrivalSignature)
        A sub-message is in memory; on shared links, a message.
    send_beginning, receive_beginning : Out(QuerySignature)
        Sender's and receiver's questions to the tracker of beginnings; where flits are forwarded,
        as the next ones.
    report : Out(ReportSignature)
        A message has begun to come in.
    send_forward, receive_forward : Out(ForwardSignature)
        What ports have written, for the sender and for the receiver.
    positions, addresses, kept : Out, In, Out
        As of `RecentWrites`; senders of all ports read with even numbers, receivers with odd ones.
    sender_wait, receiver_wait : Out(WaitSignature)
    activity : Out(ActivitySignature)
    up, send_fault, fault_record, fault_sent, fault_received, received_fault : In, Out
        As of `LinkPort`.
    idle, delivered : Out(1)
        Nothing left to send; nor is anything on the link or in the other end's buffer: all credits
        are back.
    progress : Out(1)
        A flit moved, perhaps a staged one.
    fault, fault_awaited : Out(8), Out(3)
        `FaultCode`, a strobe; `Awaited`, in the cycle of a fault that is a read's or a write's.
    """

    def __init__(self, config: Config):
        self.config = config
        self._twins: list = []
        link = LinkSignature(flit_bytes=config.flit_bytes, num_vcs=config.num_vcs)
        super().__init__(
            {
                "port": In(4),
                "run": In(RunSignature(config)),
                "jobs": In(stream.Signature(job_layout(config))),
                "tx": Out(link),
                "rx": In(link),
                "memory": Out(MemorySignature(config)),
                "lookup": Out(LookupSignature()),
                "send_query": Out(QuerySignature(config)),
                **self._receiving(config),
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

    @staticmethod
    def _receiving(config):
        """Members of what receives, which differ with the kind of links."""
        if config.shared:
            return {
                "reservation": Out(ReservationSignature()),
                "turn": In(TurnSignature()),
                "staged": In(stream.Signature(item_layout(config))),
                "read": In(MemoryReadSignature(config)),
            }
        receiving = {"receive_query": Out(QuerySignature(config))}
        if not config.forward_flits:
            return receiving
        readers, begins = 2 * config.num_ports, beginning_layout(config).size
        return receiving | {
            "send_beginning": Out(QuerySignature(config, width=begins)),
            "receive_beginning": Out(QuerySignature(config, width=begins)),
            "report": Out(ReportSignature(begins)),
            "send_forward": Out(ForwardSignature(config)),
            "receive_forward": Out(ForwardSignature(config)),
            "positions": Out(PositionsSignature(config)),
            "addresses": In(range(config.forward_flits)).array(readers),
            "kept": Out(kept_width(config)).array(readers),
        }

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.queue = queue = Checked(Fifo, shape=job_layout(config), depth=JOB_QUEUE_DEPTH)
        forwards = config.forward_flits > 0
        sender = (ForwardingSender if forwards else Sender)(config)
        receiving = ForwardingReceiver if forwards else Receiver
        receiver = (SharedReceiver if config.shared else receiving)(config)
        if forwards:
            self._forward(m, sender, receiver)
        guard = MemoryGuard(config)
        # What a fault is to say is needed once there is one.
        shown = [
            receiver.fault,
            *(getattr(receiver.wait, n) for n in receiver.wait.signature.members),
        ]
        for name, block in (("sender", sender), ("receiver", receiver), ("guard", guard)):
            m.submodules[name] = twins = Twins(block, but=shown)
            self._twins.append(twins)
        m.submodules.link = link = LinkPort(
            num_vcs=config.num_vcs,
            flit_bytes=config.flit_bytes,
            depth=config.buffer_flits,
            submessage_flits=config.submessage_flits,
        )
        wiring.connect(m, wiring.flipped(self.jobs), queue.i)
        wiring.connect(m, queue.o, sender.jobs)
        wiring.connect(m, wiring.flipped(self.rx), link.rx)
        for end in (sender, receiver, guard):
            wiring.connect(m, wiring.flipped(self.run), end.run)
        for inner, outer in (
            (link.tx, self.tx),
            (sender.query, self.send_query),
            (guard.outer, self.memory),
            (receiver.lookup, self.lookup),
            (receiver.arrival, self.arrival),
            (receiver.wait, self.receiver_wait),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))
        wiring.connect(m, receiver.fetch, guard.inner.fetch)
        wiring.connect(m, receiver.write, guard.inner.write)
        moved = self._move_flits(m, sender, receiver, link)
        added = self._receive(m, sender, receiver, guard)
        self._report(m, queue, sender, receiver, link, (*moved, added))
        self._name_faults(m, queue, sender, receiver, link)
        with m.If(guard.fault.any()):
            m.d.comb += [self.fault.eq(guard.fault), self.fault_awaited.eq(guard.awaited)]
        return m

    def _forward(self, m, sender, receiver):
        """What others take from this port, and what its sender and receiver take from others."""
        for inner, outer in (
            (sender.beginning, self.send_beginning),
            (receiver.beginning, self.receive_beginning),
            (sender.forward, self.send_forward),
            (receiver.forward, self.receive_forward),
            (receiver.report, self.report),
            (receiver.positions, self.positions),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))
        for number, address in enumerate(self.addresses):
            m.d.comb += [
                receiver.addresses[number].eq(address),
                self.kept[number].eq(receiver.kept[number]),
            ]

    def _move_flits(self, m, sender, receiver, link):
        """Flits out on their channel when that has a credit; flits in, channel by channel."""
        out = sender.flits
        vc = sender.vc if self.config.shared else 0
        sent = out.valid & out.ready
        m.d.comb += [
            out.ready.eq(link.may_send.bit_select(vc, 1)),
            link.take.eq(sent),
            link.flit.kind.eq(out.payload.kind),
            link.flit.payload.eq(out.payload.payload),
            link.flit.vc.eq(vc),
        ]
        incoming = receiver.flits if self.config.shared else [receiver.flits]
        for came, flits in zip(link.o, incoming, strict=True):
            wiring.connect(m, came, flits)
        return sent, [came.valid & came.ready for came in link.o]

    def _receive(self, m, sender, receiver, guard):
        """The receiver's questions, and who shares the sender's reads; a staged flit moves."""
        m.d.comb += receiver.port.eq(self.port)
        if not self.config.shared:
            wiring.connect(m, receiver.query, wiring.flipped(self.receive_query))
            wiring.connect(m, sender.memory, guard.inner.send)
            return 0
        config = self.config
        # Sender and reorder buffer each reserve `memory_queue_flits` places for what they read.
        share = ReadShare(
            address_width=config.address_width,
            flit_bytes=config.flit_bytes,
            depth=config.most_reads,
        )
        m.submodules.share = twins = Twins(share)
        self._twins += [twins, share]
        wiring.connect(m, receiver.reservation, wiring.flipped(self.reservation))
        wiring.connect(m, wiring.flipped(self.turn), receiver.turn)
        wiring.connect(m, wiring.flipped(self.staged), receiver.staged)
        wiring.connect(m, wiring.flipped(self.read), share.second)
        wiring.connect(m, sender.memory, share.first)
        wiring.connect(m, share.channel, guard.inner.send)
        return receiver.staged.valid & receiver.staged.ready

    def _report(self, m, queue, sender, receiver, link, moved):
        """Waits, activity and progress of the blocks together."""
        sent, taken, added = moved
        wait = sender.wait
        payload = [bit & _is_payload(came) for bit, came in zip(taken, link.o, strict=True)]
        credits = Array(link.available)[sender.vc] if self.config.shared else link.available[0]
        for name in ("up", "fault_sent", "fault_received", "received_fault"):
            m.d.comb += getattr(self, name).eq(getattr(link, name))
        m.d.comb += [link.send_fault.eq(self.send_fault), link.fault_record.eq(self.fault_record)]
        m.d.comb += [
            *(getattr(self.sender_wait, n).eq(getattr(wait, n)) for n in wait.signature.members),
            self.activity.sent.eq(sent & _is_payload(sender.flits)),
            # Several channels may be taken from in one cycle, but only one of them has payload.
            self.activity.received.eq(Cat(payload).any()),
            self.activity.dependency.eq(wait.awaited == Awaited.DEPENDENCY),
            self.activity.memory.eq(wait.awaited == Awaited.MEMORY_READ),
            self.activity.credit.eq(wait.awaited == Awaited.CREDIT),
            self.activity.credits.eq(credits),
            self.activity.forwarded.eq(sender.forwarded if self.config.forward_flits else 0),
            self.idle.eq(sender.idle & (queue.level == 0)),
            self.delivered.eq(
                self.idle & Cat(left == self.config.buffer_flits for left in link.available).all()
            ),
            self.progress.eq(Cat(sent, *taken, added, self.arrival.valid).any()),
        ]
        if self.config.shared:
            m.d.comb += self.sender_wait.port.eq(self.port)
        else:
            # A dependency is on what another port receives.
            awaits = wait.awaited == Awaited.DEPENDENCY
            m.d.comb += self.sender_wait.port.eq(Mux(awaits, wait.port, self.port))
            m.d.comb += self.activity.sibling.eq(receiver.wait.awaited == Awaited.SIBLING)

    def _name_faults(self, m, queue, sender, receiver, link):
        """The port's fault: of several that hold, the one nearest to the cause."""
        flipped = Signal()
        blocks = [link, queue, sender, receiver, *self._twins]
        errors = Cat(block.state_error for block in blocks)
        # Registered, since the parities of all queues together make a long path.
        m.d.sync += flipped.eq(errors.any())
        m.d.comb += self.fault.eq(receiver.fault)
        # Outranked by any fault of this port itself, the ones below included.
        with m.If(self.fault_received & ~receiver.fault.any()):
            m.d.comb += self.fault.eq(FaultCode.PEER_FAULT)
        # A later one wins.
        for strobe, code in (
            (link.fault_credit, FaultCode.CREDIT_OVERFLOW),
            (link.overflow, FaultCode.BUFFER_OVERFLOW),
            (link.check_error, FaultCode.LINK_CHECK),
            (link.sequence_error, FaultCode.LINK_SEQUENCE),
            (link.epoch_error, FaultCode.LINK_EPOCH),
            (link.lost & self.run.running, FaultCode.PEER_RESET),
            (flipped, FaultCode.STATE_PARITY),
        ):
            with m.If(strobe):
                m.d.comb += self.fault.eq(code)
