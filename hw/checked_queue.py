"""Check bits for stored words, and a queue that checks what leaves it."""

from functools import cache
from itertools import combinations
from math import comb

from amaranth import Cat, Const, Module, Signal, Value
from amaranth.hdl import Shape
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arguments import check_integer

__all__ = [
    "Checked",
    "check_columns",
    "check_of",
    "check_width",
    "is_intact",
]

_WEIGHT = 3
"""Check bits that each bit of a word goes into; odd, the least with which any two differ."""


def check_width(width: int) -> int:
    """Check bits of a word: as few as give each of its bits another three of them.

    Parameters
    ----------
    width : int
        Bits of the word.

    Returns
    -------
    int
        7 for 32 bits, 11 for 131 bits.

    Raises
    ------
    TypeError
        If it is not an integer.
    ValueError
        If it is less than 1.
    """
    check_integer("Width", width, least=1)
    bits = _WEIGHT
    while comb(bits, _WEIGHT) < width:
        bits += 1
    return bits


@cache
def check_columns(width: int) -> tuple[int, ...]:
    """Columns of the check matrix: for each bit of a word the check bits that it goes into.

    All columns, those of the check bits included, are different and have an odd number of ones.
    So the sum of one, two or three of them is never zero: the code has distance 4 (Hsiao). Which
    columns are taken is chosen such that each check bit has about as many bits to add.

    Parameters
    ----------
    width : int
        Bits of the word.

    Returns
    -------
    tuple of int
        A mask of check bits for each bit of the word.

    References
    ----------
    M. Y. Hsiao, "A Class of Optimal Minimum Odd-weight-column SEC-DED Codes", IBM Journal of
    Research and Development 14(4), 1970.
    """
    left = list(combinations(range(check_width(width)), _WEIGHT))
    loads = [0] * check_width(width)
    columns = []
    for _ in range(width):
        chosen = min(left, key=lambda rows: (sorted((loads[k] for k in rows), reverse=True), rows))
        left.remove(chosen)
        for row in chosen:
            loads[row] += 1
        columns.append(sum(1 << row for row in chosen))
    return tuple(columns)


def check_of(word: Value) -> Value:
    """The check bits of a word, a network of exclusive ors; those of zeros are zeros."""
    word = Value.cast(word)
    columns = check_columns(len(word))
    rows = range(check_width(len(word)))
    return Cat(Cat(word[k] for k, c in enumerate(columns) if c >> row & 1).xor() for row in rows)


def is_intact(word: Value, check: Value) -> Value:
    """Whether a word and its check bits are as they were stored, if at most three bits flipped."""
    return (check_of(word) ^ check) == Const(0, check_width(len(Value.cast(word))))


class Checked(wiring.Component):
    """A `Fifo`, `QuickFifo` or `Register` that stores each payload with check bits.

    The queue's contract and times stay as they are; nothing waits for the check. Up to three bits
    of an entry that flip, wherever in the queue that is held, are reported when it leaves, in the
    cycle behind. What was done with it by then has to be undone, or must not count: whoever uses it
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
        Payloads held, as the queue reports them; a `Register` does not.
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
        members = self._queue.signature.members
        level = {"level": Out(members["level"].shape)} if "level" in members else {}
        payloads = stream.Signature(shape)
        self.queue, self.shape, self.sizes = queue, shape, sizes
        super().__init__({"i": In(payloads), "o": Out(payloads), **level, "state_error": Out(1)})

    def elaborate(self, platform):
        """Check bits go in with the payload; what leaves is compared a cycle later."""
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
        # The exclusive ors have this cycle and the OR over them the next: `o` waits for neither.
        m.d.sync += [syndrome.eq(check_of(word) ^ check), left.eq(self.o.valid & self.o.ready)]
        return m
