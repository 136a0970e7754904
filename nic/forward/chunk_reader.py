"""Reads chunks: in memory, or as they are written."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked, has_parity, parity_of
from multitree.hw.codes import FOUND_CHUNKS, STALE_FLITS
from multitree.hw.stream import QuickFifo, Register, counted_down, room_after
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited
from multitree.nic.forward.chunk_finder import found_layout
from multitree.nic.forward.positions import ForwardSignature, kept_width, lead, position_width
from multitree.nic.signatures import MemoryReadSignature, WaitSignature

__all__ = ["ChunkReader", "LocalReader", "MergedQueue", "place_layout"]


def place_layout(config: Config) -> data.StructLayout:
    """Where a chunk lies: its first flit in memory and its flits."""
    return data.StructLayout({"base": config.address_width, "size": config.address_width})


class LocalReader(wiring.Component):
    """Reads chunks in order, up to `memory_queue_flits` flits ahead of what is taken.

    One flit per cycle, and no cycle between two chunks. Latency from a chunk to its first flit:
    the memory's read latency and 3 cycles.

    Members
    -------
    running : In(1)
        A collective runs; nothing is read otherwise.
    chunks : In(stream)
        What to read (`place_layout`); a chunk of size 0 is nothing.
    memory : Out(MemoryReadSignature)
    o : Out(stream)
    state_error : Out(1)
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "running": In(1),
                "chunks": In(stream.Signature(place_layout(config))),
                "memory": Out(MemoryReadSignature(config)),
                "o": Out(stream.Signature(8 * config.flit_bytes)),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, memory, chunk = self.config, self.memory, self.chunks.payload
        depth, width = config.memory_queue_flits, 8 * config.flit_bytes
        m.submodules.reads = reads = Checked(Register, shape=config.address_width)
        m.submodules.queue = queue = Checked(QuickFifo, shape=width, depth=depth)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        address, issue, load = Signal(config.address_width), Signal(), Signal()
        _, some, last = counted_down(m, load=load, amount=chunk.size, step=issue)
        reserved, room, taken = Signal(range(depth + 1)), Signal(init=1), Signal()
        # A place is reserved from the question on, since memory's data cannot be refused.
        m.d.sync += [
            reserved.eq(reserved + issue - taken),
            room.eq(room_after(room, reserved, depth, issue, taken)),
        ]
        m.d.comb += [
            taken.eq(self.o.valid & self.o.ready),
            reads.i.valid.eq(some & room & self.running),
            reads.i.payload.eq(address),
            issue.eq(reads.i.valid & reads.i.ready),
            self.chunks.ready.eq(~some | (issue & last)),
            load.eq(self.chunks.valid & self.chunks.ready),
            memory.valid.eq(reads.o.valid),
            memory.address.eq(reads.o.payload),
            reads.o.ready.eq(memory.ready),
            queue.i.valid.eq(memory.data_valid),
            queue.i.payload.eq(memory.data),
            self.state_error.eq(reads.state_error | queue.state_error),
        ]
        with m.If(load):
            m.d.sync += address.eq(chunk.base)
        with m.Elif(issue):
            m.d.sync += address.eq(address + 1)
        return m


class MergedQueue(wiring.Component):
    """Puts flits that are kept and flits that memory reads back in order.

    At most `memory_queue_flits` may be asked for and not yet taken; whoever asks counts them.
    Both sources deliver in order, a cycle behind what asks for them at the earliest, and always
    have room then. Latency 1 cycle from a flit.

    Members
    -------
    asked, of_kept : In(1)
        A flit is asked for; it is one that is kept, else one of memory.
    kept_valid, kept, read_valid, read : In
        A kept flit with its parity; a flit of memory.
    o : Out(stream)
        Flits in order.
    empty : Out(1)
        None is asked for that was not taken.
    state_error : Out(1)
        Strobe: bits of a flit that was taken in the cycle before have flipped.
    """

    def __init__(self, config: Config):
        self.config = config
        width = 8 * config.flit_bytes
        super().__init__(
            {
                "asked": In(1),
                "of_kept": In(1),
                "kept_valid": In(1),
                "kept": In(kept_width(config)),
                "read_valid": In(1),
                "read": In(width),
                "o": Out(stream.Signature(width)),
                "empty": Out(1),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth, width = self.config.memory_queue_flits, 8 * self.config.flit_bytes
        # One bit per flit says from which of two queues the next one comes.
        m.submodules.order = order = Checked(QuickFifo, shape=1, depth=depth)
        # A kept flit's parity is as old as the flit: it is looked at here and not made anew.
        stored = kept_width(self.config)
        m.submodules.reads_queue = reads = QuickFifo(shape=stored, depth=depth)
        m.submodules.kept_queue = kept = QuickFifo(shape=stored, depth=depth)
        of_kept = order.o.payload
        goes = Mux(of_kept, kept.o.payload, reads.o.payload)
        arrived = Mux(of_kept, kept.o.valid, reads.o.valid)
        taken = self.o.valid & self.o.ready
        left, intact = Signal(), Signal(reset_less=True)
        # A cycle later, as a kept flit comes: what stood in its queue for that cycle would let
        # those behind it wait for two.
        asked, of_late = Signal(), Signal()
        m.d.sync += [asked.eq(self.asked), of_late.eq(self.of_kept)]
        m.d.comb += [
            order.i.valid.eq(asked),
            order.i.payload.eq(of_late),
            kept.i.valid.eq(self.kept_valid),
            kept.i.payload.eq(self.kept),
            reads.i.valid.eq(self.read_valid),
            reads.i.payload.eq(Cat(self.read, parity_of(self.read))),
            self.o.valid.eq(order.o.valid & arrived),
            self.o.payload.eq(goes[:width]),
            order.o.ready.eq(taken),
            kept.o.ready.eq(taken & of_kept),
            reads.o.ready.eq(taken & ~of_kept),
            self.empty.eq((order.level == 0) & ~asked),
            self.state_error.eq(order.state_error | (left & ~intact)),
        ]
        m.d.sync += [
            left.eq(taken),
            intact.eq(has_parity(goes[:width], goes[width:])),
        ]
        return m


class ChunkReader(wiring.Component):
    """Reads chunks in order, each flit as soon as it is to be had.

    A flit of a chunk that is being written comes from the port that writes it while that keeps it,
    and else from memory, which has acknowledged it by then. What is neither kept any more nor
    acknowledged is waited for.

    One flit per cycle, and no cycle between two chunks. Latency from a position to its flit: 3
    cycles.

    Members
    -------
    running : In(1)
        A collective runs; nothing is read otherwise.
    chunks : In(stream)
        What to read (`found_layout`).
    forward : Out(ForwardSignature)
    memory : Out(MemoryReadSignature)
    o : Out(stream)
    forwarded : Out(1)
        Strobe: a flit is taken that a port still keeps.
    wait : Out(WaitSignature)
        The message that the chunk in hand waits for, whose next flit was not written yet.
    idle : Out(1)
        No chunk in hand, and all flits taken.
    state_error : Out(1)
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
        m = Module()
        config = self.config
        shape = found_layout(config)
        m.submodules.chunks = chunks = Checked(QuickFifo, shape=shape, depth=FOUND_CHUNKS)
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
        most = self.config.forward_flits - STALE_FLITS
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
        m.d.comb += [
            self.wait.awaited.eq(Mux(held, Awaited.DEPENDENCY, Awaited.NOTHING)),
            self.wait.row.eq(hand.row),
            self.wait.flow.eq(hand.flow),
            self.wait.port.eq(hand.need_port),
            self.wait.op.eq(hand.need_op),
        ]
        if self.config.wave_width:
            m.d.comb += self.wait.wave.eq(hand.wave)
