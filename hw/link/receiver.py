"""The receiving end of a credited link."""

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked, parity_of, parity_width
from multitree.hw.codes import SEQUENCE_WIDTH, check_integer
from multitree.hw.link.check import RunningCheck, compare
from multitree.hw.link.link import (
    ControlSignature,
    LinkSignature,
    check_num_vcs,
    flit_layout,
    unit_layout,
)
from multitree.hw.stream import CutFifo

__all__ = ["LinkReceiver"]


class LinkReceiver(wiring.Component):
    """Takes flits off a link into a buffer per virtual channel and grants a credit for each.

    While `up`, the flits of each virtual channel are delivered in order on a stream of its own,
    each exactly once, whether the other streams are taken or not. A flit whose number on the link
    is not the next one, whose virtual channel does not exist or whose epoch is another is an
    error and is not delivered, nor is any after it until the expected number comes; a flit that
    finds its buffer full is an overflow and is treated likewise. Where a CRC is wrong,
    neither the flit that carries it nor any of any channel after it ever leaves. No credit is
    granted for what is not delivered: a link with an error has to go down at both ends. While not
    `up`, data are dropped, the buffers are emptied without a credit, and the next flit expected is
    the first of a message with number 0.

    A control flit whose CRC is right is shown, whether `up` or not; while `up`, one whose CRC is
    wrong is an error.

    Latency 3 cycles from `link` to `o` when the channel's buffer is empty, 3 cycles to `control`,
    1 cycle from a flit's leaving to its credit; one flit per cycle in, and one out of each buffer.
    What is offered is a register. A credit is back at the transmitter 6 cycles after its flit was
    taken there, plus the wires' latency in both directions: a channel with fewer places than that
    cannot keep the link busy alone.

    Parameters
    ----------
    flit_bytes, num_vcs : int
        As of `LinkSignature`.
    depth : int
        Places in each buffer, at least 3; the transmitter's `credits` must not be more.
    submessage_flits : int
        Payload flits of a sub-message, a power of two; the same at the transmitter.

    Members
    -------
    link : In(LinkSignature)
    up, epoch : In(1)
        Take data; the other end's epoch.
    o : Out(stream.Signature(StructLayout)), one per virtual channel
        Flits: `kind` and `payload`.
    control : Out(ControlSignature)
    sequence_error, epoch_error, check_error : Out(1)
        Strobe: a flit out of sequence came, one of another epoch, one with a wrong CRC.
    overflow : Out(1)
        Strobe: a flit came and there was no room.
    state_error : Out(1)
        Strobe: a flit that left had flipped bits.
    """

    def __init__(self, *, flit_bytes: int, depth: int, submessage_flits: int, num_vcs: int = 1):
        self._sizes = {"flit_bytes": flit_bytes, "num_vcs": check_num_vcs(num_vcs)}
        self.depth = check_integer("Depth", depth, least=3)
        self._check = RunningCheck(submessage_flits=submessage_flits, **self._sizes)
        self._unit = unit_layout(flit_bytes=flit_bytes)
        self.num_vcs, self.flit_bytes, self.submessage_flits = num_vcs, flit_bytes, submessage_flits
        super().__init__(
            {
                "link": In(LinkSignature(**self._sizes)),
                "up": In(1),
                "epoch": In(1),
                "o": Out(stream.Signature(self._unit)).array(num_vcs),
                "control": Out(ControlSignature(flit_bytes=flit_bytes)),
                "sequence_error": Out(1),
                "epoch_error": Out(1),
                "check_error": Out(1),
                "overflow": Out(1),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.check = self._check
        layout, num_vcs = flit_layout(**self._sizes), len(self.o)
        valid, is_control, data, right = Signal(), Signal(), Signal(), Signal()
        taken, has_room, chosen, queued = Signal(), Signal(), Signal(num_vcs), Signal(num_vcs)
        room = Signal(num_vcs, init=-1)
        expected = Signal(SEQUENCE_WIDTH)
        flit, entry = Signal(layout, reset_less=True), Signal(self._unit, reset_less=True)
        # As old as the CRC's check: no bit is without either.
        came = Cat(flit.kind, flit.payload)
        parity = Signal(parity_width(len(came)), reset_less=True)
        m.d.sync += valid.eq(self.link.valid)
        with m.If(self.link.valid):
            m.d.sync += [flit[name].eq(getattr(self.link, name)) for name, _ in layout]
        numbered = (flit.sequence == expected) & (flit.epoch == self.epoch)
        m.d.comb += [
            chosen.eq(Cat(flit.vc == vc for vc in range(num_vcs))),
            is_control.eq(valid & flit.kind.as_value()[2]),
            data.eq(valid & ~is_control & self.up),
            # A channel that does not exist selects no buffer, and counts as out of sequence.
            right.eq(numbered & chosen.any()),
            # Only the flit's own buffer counts: a full one must not block the other channels.
            has_room.eq((chosen & room).any()),
            taken.eq(data & right & has_room),
        ]
        m.d.sync += [
            expected.eq(expected + taken),
            # A flit of another epoch is reported as that alone: its number says nothing.
            self.sequence_error.eq(data & ~right & (flit.epoch == self.epoch)),
            self.epoch_error.eq(data & (flit.epoch != self.epoch)),
            self.overflow.eq(data & right & ~has_room),
            queued.eq(Mux(taken, chosen, 0)),
            entry.kind.eq(flit.kind),
            entry.payload.eq(flit.payload),
            parity.eq(parity_of(came)),
        ]
        with m.If(~self.up):
            m.d.sync += expected.eq(0)
        sound = compare(m, self, self._check, flit, entry, taken, is_control)
        for vc in range(num_vcs):
            self._buffer(m, vc, queued[vc], entry, parity, sound)
            self._count(m, vc, taken & chosen[vc], room[vc])
        return m

    def _count(self, m, vc, taken, room):
        """Whether one channel's buffer has a place for a flit more; room is 1 to begin with."""
        inside = Signal(range(self.depth + 1))
        after = Signal.like(inside)
        # A place is in use until its credit has left, not only its flit: a flit that comes earlier
        # was sent without a credit and is an overflow, even where the buffer has room.
        m.d.comb += after.eq(inside + taken - self.link.credit[vc])
        m.d.sync += [inside.eq(after), room.eq(after != self.depth)]
        with m.If(~self.up):
            m.d.sync += [inside.eq(0), room.eq(1)]

    def _buffer(self, m, vc, queued, entry, parity, sound):
        """The queue of one channel; nothing leaves it behind a wrong CRC."""
        buffer = Checked(CutFifo, shape=self._unit, has_parity=True, depth=self.depth)
        # What a session leaves behind is dropped without a credit: the other end begins with all.
        m.submodules[f"buffer_{vc}"] = ResetInserter(~self.up)(buffer)
        # Behind a wrong CRC no channel is trusted; in the first cycle of `~up` the buffer still
        # holds flits. What leaves the buffer then is lost with the rest of the session, so that
        # its ready need not wait for either.
        o, whole = self.o[vc], sound & self.up
        m.d.comb += [
            buffer.i.valid.eq(queued & self.up),
            buffer.i.payload.eq(entry),
            buffer.parity.eq(parity),
            o.payload.eq(buffer.o.payload),
            o.valid.eq(buffer.o.valid & whole),
            buffer.o.ready.eq(o.ready),
        ]
        m.d.sync += self.link.credit[vc].eq(o.valid & o.ready)
        with m.If(buffer.state_error):
            m.d.comb += self.state_error.eq(1)
