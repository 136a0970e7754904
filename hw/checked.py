"""A queue whose entries are checked as they leave: flipped bits are told."""

from amaranth import Cat, Module, Signal
from amaranth.hdl import Shape, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import check_of, check_width

__all__ = ["Checked"]


class Checked(wiring.Component):
    """A `Fifo`, `QuickFifo` or `Register` that stores each payload with check bits.

    The queue's contract and times stay as they are; nothing waits for the check. Up to three bits
    of an entry that flip, wherever in the queue that is held, are told when it leaves, in the cycle
    behind. What was done with it by then has to be undone, or must not count: whoever uses it
    stops for good.

    Parameters
    ----------
    queue : type
        `Fifo`, `QuickFifo` or `Register`.
    shape : ShapeLike
        Shape of the payload, at least one bit.
    **sizes
        What else the queue takes.

    Members
    -------
    i : In(stream.Signature(shape))
        What comes in.
    o : Out(stream.Signature(shape))
        The same, in order.
    level : Out(range(depth + 2))
        Payloads held, as the queue tells; a `Register` does not.
    state_error : Out(1)
        Strobe: the payload that left in the cycle before is not the one that came in. Combinational
        on registers.

    Raises
    ------
    TypeError, ValueError
        As the queue.
    """

    def __init__(self, queue: type, *, shape, **sizes: int):
        self._width = Shape.cast(shape).width
        self._queue = queue(shape=self._width + check_width(self._width), **sizes)
        told = self._queue.signature.members
        level = {"level": Out(told["level"].shape)} if "level" in told else {}
        payloads = stream.Signature(shape)
        super().__init__({"i": In(payloads), "o": Out(payloads), **level, "state_error": Out(1)})

    def elaborate(self, platform):
        """Check bits go in beside the payload; what leaves is compared a cycle later."""
        m = Module()
        m.submodules.queue = queue = self._queue
        came, goes = Value.cast(self.i.payload), Value.cast(self.o.payload)
        word, check = queue.o.payload[: self._width], queue.o.payload[self._width :]
        syndrome, left = Signal(check_width(self._width), reset_less=True), Signal()
        m.d.comb += [
            queue.i.valid.eq(self.i.valid),
            queue.i.payload.eq(Cat(came, check_of(came))),
            self.i.ready.eq(queue.i.ready),
            self.o.valid.eq(queue.o.valid),
            goes.eq(word),
            queue.o.ready.eq(self.o.ready),
            self.state_error.eq(left & syndrome.any()),
        ]
        if "level" in self.signature.members:
            m.d.comb += self.level.eq(queue.level)
        m.d.sync += [syndrome.eq(check_of(word) ^ check), left.eq(self.o.valid & self.o.ready)]
        return m
