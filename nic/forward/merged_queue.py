"""Flits from two sources in the order in which they were asked for."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import has_parity, parity_of
from multitree.hw.checked_queue import Checked
from multitree.hw.stream import QuickFifo
from multitree.nic.config import Config
from multitree.nic.forward.positions import kept_width

__all__ = ["MergedQueue"]


class MergedQueue(wiring.Component):
    """Puts flits that are kept and flits that memory reads back in order.

    At most `memory_queue_flits` may be asked for and not yet taken; whoever asks counts them.
    Both sources deliver in order, a cycle behind what asks for them at the earliest, and always
    have room then. Latency 1 cycle from a flit.

    Parameters
    ----------
    config : Config

    Members
    -------
    asked : In(1)
        A flit is asked for.
    of_kept : In(1)
        It is one that is kept, else one of memory.
    kept_valid, kept : In
        A kept flit with its parity.
    read_valid, read : In
        A flit of memory.
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
        """A queue for each source and one that says whose turn it is."""
        m = Module()
        depth, width = self.config.memory_queue_flits, 8 * self.config.flit_bytes
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
