"""Reads chunks as they become known: what was written last, or memory behind it."""

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.checked_queue import Checked
from multitree.hw.countdown import counted_down
from multitree.hw.stream import QuickFifo, Register
from multitree.nic.config import Config
from multitree.nic.faults import Awaited
from multitree.nic.forward.chunk_finder import found_layout
from multitree.nic.forward.merged_queue import MergedQueue
from multitree.nic.forward.positions import ForwardSignature, lead, position_width
from multitree.nic.signatures import (
    MemoryReadSignature,
    WaitSignature,
)

__all__ = ["ChunkReader"]

_STALE_FLITS = 8
"""Flits that may be put between a position that is looked at and the read that it permits."""
_FOUND_CHUNKS = 3


class ChunkReader(wiring.Component):
    """Reads chunks in order, each flit as soon as it is to be had.

    A flit of a chunk that is being written comes from the port that writes it while that keeps it,
    and else from memory, which has acknowledged it by then. What is neither kept any more nor
    acknowledged is waited for.

    One flit per cycle, and no cycle between two chunks. Latency from a position to its flit: 3
    cycles.

    Parameters
    ----------
    config : Config

    Members
    -------
    running : In(1)
        A collective runs; nothing is read otherwise.
    chunks : In(stream)
        What to read (`found_layout`).
    forward : Out(ForwardSignature)
        What ports have written.
    memory : Out(MemoryReadSignature)
        Read channel.
    o : Out(stream)
        Flits of the chunks in order.
    forwarded : Out(1)
        Strobe: a flit is taken that a port still keeps.
    wait : Out(WaitSignature)
        The message that the chunk in hand waits for, whose next flit was not written yet.
    idle : Out(1)
        No chunk in hand, and all flits taken.
    state_error : Out(1)
        Strobe: bits of what it queues have flipped.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "running": In(1),
                "chunks": In(stream.Signature(found_layout(config))),
                "forward": Out(ForwardSignature(config)),
                "memory": Out(MemoryReadSignature(config)),
                "o": Out(stream.Signature(8 * config.flit_bytes)),
                "forwarded": Out(1),
                "wait": Out(WaitSignature(config)),
                "idle": Out(1),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        """A queue of chunks, the place in the one that is read, and what comes of it in order."""
        m = Module()
        config = self.config
        shape = found_layout(config)
        m.submodules.chunks = chunks = Checked(QuickFifo, shape=shape, depth=_FOUND_CHUNKS)
        m.submodules.queue = queue = MergedQueue(config)
        m.submodules.reads = reads = Checked(Register, shape=config.address_width)
        wiring.connect(m, wiring.flipped(self.chunks), chunks.i)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        load, issue, of_kept = Signal(), Signal(), Signal()
        address = Signal(config.address_width)
        position, hand = Signal(position_width(config)), Signal(shape)
        room = Signal(range(config.memory_queue_flits + 1), init=config.memory_queue_flits)
        chunk = chunks.o.payload
        # A place is reserved from the question on, since memory's data cannot be refused.
        m.d.sync += room.eq(room + (self.o.valid & self.o.ready) - issue)
        m.d.sync += position.eq(Mux(load, chunk.position, position + issue))
        _, some, last = counted_down(m, load=load, amount=chunk.size, step=issue)
        with m.If(load):
            m.d.sync += [address.eq(chunk.base), hand.eq(chunk)]
        with m.Elif(issue):
            m.d.sync += address.eq(address + 1)
        is_kept, is_read = self._find(m, hand.need_port, position, issue, load, chunk)
        may = some & (room != 0) & self.running
        m.d.comb += [
            of_kept.eq(hand.tracked & is_kept),
            reads.i.valid.eq(may & ~of_kept & (~hand.tracked | is_read)),
            reads.i.payload.eq(address),
            issue.eq((may & of_kept) | (reads.i.valid & reads.i.ready)),
            load.eq(chunks.o.valid & (~some | (issue & last))),
            chunks.o.ready.eq(load),
            self.forwarded.eq(may & of_kept),
            self.idle.eq((chunks.level == 0) & ~some & queue.empty),
            self.state_error.eq(chunks.state_error | queue.state_error | reads.state_error),
        ]
        self._fill(m, queue, reads, issue, of_kept, hand.need_port)
        m.d.comb += self.forward.address.eq(position)
        self._name(m, hand, some & hand.tracked & ~is_kept & ~is_read)
        return m

    def _find(self, m, port, position, issue, load, chunk):
        """Whether the next flit is kept, and whether memory has it, in the next cycle."""
        written, read = Signal.like(position), Signal.like(position)
        for left, of in ((written, self.forward.written), (read, self.forward.acknowledged)):
            # Whether it is of the chunk in hand is the last thing to be known.
            in_next = Array(of)[chunk.need_port] - chunk.position
            m.d.sync += left.eq(Mux(load, in_next, lead(Array(of)[port], position, issue)))
        # Differences of positions that are not there yet are negative: their highest bit is set.
        most = self.config.forward_flits - _STALE_FLITS
        return (written != 0) & (written <= most), (read != 0) & ~read[-1]

    def _fill(self, m, queue, reads, issue, of_kept, port):
        """Ask for flits; kept ones come a cycle later from the port they were asked of."""
        from_port = Signal.like(port)
        m.d.sync += [queue.kept_valid.eq(issue & of_kept), from_port.eq(port)]
        m.d.comb += [
            queue.asked.eq(issue),
            queue.of_kept.eq(of_kept),
            queue.kept.eq(Array(self.forward.kept)[from_port]),
            queue.read_valid.eq(self.memory.data_valid),
            queue.read.eq(self.memory.data),
            self.memory.valid.eq(reads.o.valid),
            self.memory.address.eq(reads.o.payload),
            reads.o.ready.eq(self.memory.ready),
        ]

    def _name(self, m, hand, held):
        """What the chunk in hand waits for."""
        m.d.comb += [
            self.wait.awaited.eq(Mux(held, Awaited.DEPENDENCY, Awaited.NOTHING)),
            self.wait.row.eq(hand.row),
            self.wait.flow.eq(hand.flow),
            self.wait.port.eq(hand.need_port),
            self.wait.op.eq(hand.need_op),
        ]
        if self.config.wave_width:
            m.d.comb += self.wait.wave.eq(hand.wave)
