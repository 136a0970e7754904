"""Reads chunks that lie in memory, ahead of their use."""

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.checked_queue import Checked
from multitree.hw.countdown import counted_down
from multitree.hw.stream import QuickFifo, Register, room_after
from multitree.nic.config import Config
from multitree.nic.signatures import MemoryReadSignature

__all__ = ["LocalReader", "place_layout"]


def place_layout(config: Config) -> data.StructLayout:
    """Where a chunk lies: its first flit in memory and its flits."""
    return data.StructLayout({"base": config.address_width, "size": config.address_width})


class LocalReader(wiring.Component):
    """Reads chunks in order, up to `memory_queue_flits` flits ahead of what is taken.

    One flit per cycle, and no cycle between two chunks. Latency from a chunk to its first flit:
    the memory's read latency and 3 cycles.

    Parameters
    ----------
    config : Config

    Members
    -------
    running : In(1)
        A collective runs; nothing is read otherwise.
    chunks : In(stream)
        What to read (`place_layout`); a chunk of size 0 is nothing.
    memory : Out(MemoryReadSignature)
        Read channel.
    o : Out(stream)
        Flits of the chunks in order.
    state_error : Out(1)
        Strobe: bits of what it queues have flipped.
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
        """A register of addresses and a queue of what memory returns."""
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
