"""A queue that stores words with their parity, and checks what leaves it."""

from amaranth import Cat, Module, Signal, Value
from amaranth.hdl import Shape
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import parity_of, parity_width

__all__ = ["Checked"]


class Checked(wiring.Component):
    """A `Fifo`, `QuickFifo`, `CutFifo` or `Register` that stores each payload with its parity.

    The queue's contract and times stay as they are; nothing waits for the check. Flipped bits of an
    entry that `parity_of` finds, wherever in the queue that is held, are reported when it leaves,
    in the cycle behind. What was done with it by then has to be undone, or must not count: whoever
    uses it stops for good. An entry is held for as long as a flit waits; what is held for a whole
    collective has check bits that find more (`check_of`).

    Parameters
    ----------
    queue : type
        `Fifo`, `QuickFifo`, `CutFifo` or `Register`.
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
        Payloads held, as the queue reports them, if it does.
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
        self._queue = queue(shape=self._width + parity_width(self._width), **sizes)
        members = self._queue.signature.members
        level = {"level": Out(members["level"].shape)} if "level" in members else {}
        payloads = stream.Signature(shape)
        self.queue, self.shape, self.sizes = queue, shape, sizes
        super().__init__({"i": In(payloads), "o": Out(payloads), **level, "state_error": Out(1)})

    def elaborate(self, platform):
        """The parity goes in with the payload; what leaves is compared a cycle later."""
        m = Module()
        m.submodules.queue = queue = self._queue
        came, goes = Value.cast(self.i.payload), Value.cast(self.o.payload)
        word, parity = queue.o.payload[: self._width], queue.o.payload[self._width :]
        syndrome, left = Signal(parity_width(self._width), reset_less=True), Signal()
        m.d.comb += [
            queue.i.valid.eq(self.i.valid),
            queue.i.payload.eq(Cat(came, parity_of(came))),
            self.i.ready.eq(queue.i.ready),
            self.o.valid.eq(queue.o.valid),
            goes.eq(word),
            queue.o.ready.eq(self.o.ready),
            self.state_error.eq(left & syndrome.any()),
        ]
        if "level" in self.signature.members:
            m.d.comb += self.level.eq(queue.level)
        # The exclusive ors have this cycle and the OR over them the next: `o` waits for neither.
        m.d.sync += [syndrome.eq(parity_of(word) ^ parity), left.eq(self.o.valid & self.o.ready)]
        return m
