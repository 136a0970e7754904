"""The receiving end of a credited link."""

from amaranth import Module, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arguments import check_integer
from multitree.hw.checked_queue import Checked
from multitree.hw.link.check import RunningCheck, compare
from multitree.hw.link.link import (
    SEQUENCE_WIDTH,
    ControlSignature,
    LinkSignature,
    flit_layout,
    unit_layout,
)
from multitree.hw.stream import QuickFifo

__all__ = ["LinkReceiver", "count_places"]


def count_places(m, *, depth, up, taken, credit, room):
    """Keep `room`: there is a place for a flit more; a credit is counted when it leaves.

    Parameters
    ----------
    m : Module
    depth : int
        Places of the buffer.
    up, taken, credit : Value
        The link is up; a flit is taken; its credit goes.
    room : Value
        What is kept, a register; 1 to begin with.
    """
    inside = Signal(range(depth + 1))
    after = Signal.like(inside)
    # A place is in use until its credit has left, not only its flit: a flit that comes earlier was
    # sent without a credit and is an overflow, even where the buffer has room.
    m.d.comb += after.eq(inside + taken - credit)
    m.d.sync += [inside.eq(after), room.eq(after != depth)]
    with m.If(~up):
        m.d.sync += [inside.eq(0), room.eq(1)]


class LinkReceiver(wiring.Component):
    """Takes flits off a link into a buffer and grants a credit for each that leaves it.

    While `up`, flits are delivered in order, each exactly once. A flit whose number is not the
    next one, whose virtual channel is not 0 or whose epoch is another is an error and is not
    delivered, nor is any after it until the expected number comes; a flit that finds the buffer
    full is an overflow and is treated likewise. Where a CRC is wrong, neither the flit
    that carries it nor any after it ever leaves the buffer. No credit is granted for what is not
    delivered: a link with an error has to go down at both ends. While not `up`, data are dropped,
    the buffer is emptied without a credit, and the next flit expected is the first of a message
    with number 0.

    A control flit whose CRC is right is shown, whether `up` or not; while `up`, one whose CRC is
    wrong is an error.

    Latency 3 cycles from `link` to `o` when the buffer is empty, 3 cycles to `control`, 1 cycle
    from a flit's leaving to its credit; one flit per cycle. What is offered is a register, for
    heads are looked at in the cycle in which they leave. `o` may stall for as long as it
    likes. A credit is back at the transmitter 6 cycles after its flit was taken there, plus the
    wires' latency in both directions: fewer places than that cost throughput, even where `o` never
    stalls.

    Parameters
    ----------
    flit_bytes : int
        Bytes of a flit's payload.
    depth : int
        Places in the buffer, at least 3; the transmitter's `credits` must not be more.
    submessage_flits : int
        Payload flits of a sub-message, a power of two; the same at the transmitter.

    Members
    -------
    link : In(LinkSignature)
        The link.
    up, epoch : In(1)
        Take data; the other end's epoch.
    o : Out(stream.Signature(StructLayout))
        Flits: `kind` and `payload`.
    control : Out(ControlSignature)
        A control flit came in.
    sequence_error, epoch_error, check_error : Out(1)
        Strobe: a flit out of sequence came, one of another epoch, one with a wrong CRC.
    overflow : Out(1)
        Strobe: a flit came and there was no room.
    state_error : Out(1)
        Strobe: a flit that left had flipped bits.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If `flit_bytes` is less than 1, `depth` less than 3, or `submessage_flits` no power of two.
    """

    def __init__(self, *, flit_bytes: int, depth: int, submessage_flits: int):
        self.flit_bytes = flit_bytes
        self.depth = check_integer("Depth", depth, least=3)
        self._check = RunningCheck(flit_bytes=flit_bytes, submessage_flits=submessage_flits)
        self.submessage_flits = submessage_flits
        super().__init__(
            {
                "link": In(LinkSignature(flit_bytes=flit_bytes)),
                "up": In(1),
                "epoch": In(1),
                "o": Out(stream.Signature(unit_layout(flit_bytes=flit_bytes))),
                "control": Out(ControlSignature(flit_bytes=flit_bytes)),
                "sequence_error": Out(1),
                "epoch_error": Out(1),
                "check_error": Out(1),
                "overflow": Out(1),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        """Register the link, check the number, queue what is right; compare CRCs a cycle later."""
        m = Module()
        layout, unit = (shape(flit_bytes=self.flit_bytes) for shape in (flit_layout, unit_layout))
        buffer = Checked(QuickFifo, shape=unit, depth=self.depth)
        # What a session leaves behind is dropped without a credit: the other end begins with all.
        m.submodules.buffer = ResetInserter(~self.up)(buffer)
        m.submodules.check = self._check
        valid, is_control, data, right = Signal(), Signal(), Signal(), Signal()
        room, queued, entry = Signal(init=1), Signal(), Signal(unit, reset_less=True)
        expected = Signal(SEQUENCE_WIDTH)
        flit = Signal(layout, reset_less=True)
        m.d.sync += valid.eq(self.link.valid)
        with m.If(self.link.valid):
            m.d.sync += [flit[name].eq(getattr(self.link, name)) for name, _ in layout]
        taken = data & right & room
        m.d.comb += [
            is_control.eq(valid & flit.kind.as_value()[2]),
            data.eq(valid & ~is_control & self.up),
            right.eq((flit.sequence == expected) & (flit.vc == 0) & (flit.epoch == self.epoch)),
            buffer.i.valid.eq(queued & self.up),
            buffer.i.payload.eq(entry),
        ]
        m.d.sync += [
            expected.eq(expected + taken),
            # A flit of another epoch is reported as that alone: its number says nothing.
            self.sequence_error.eq(data & ~right & (flit.epoch == self.epoch)),
            self.epoch_error.eq(data & (flit.epoch != self.epoch)),
            self.overflow.eq(data & right & ~room),
            queued.eq(taken),
            entry.kind.eq(flit.kind),
            entry.payload.eq(flit.payload),
        ]
        credit = self.link.credit
        count_places(m, depth=self.depth, up=self.up, taken=taken, credit=credit, room=room)
        with m.If(~self.up):
            m.d.sync += expected.eq(0)
        sound = compare(m, self, self._check, flit, entry, taken, is_control)
        m.d.comb += [
            self.o.payload.eq(buffer.o.payload),
            self.o.valid.eq(buffer.o.valid & sound),
            buffer.o.ready.eq(self.o.ready & sound),
            self.state_error.eq(buffer.state_error),
        ]
        # In the first cycle of `~up` the buffer still offers a flit; its credit must not go out.
        m.d.sync += self.link.credit.eq(self.o.valid & self.o.ready & self.up)
        return m
