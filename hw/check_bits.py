"""Check bits and parities of stored words, and queues that carry them."""

from collections.abc import Iterable
from functools import reduce
from operator import xor

from amaranth import Cat, Const, Module, Signal, Value
from amaranth.hdl import Shape
from amaranth.hdl._ast import Concat, Slice
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import check_columns, check_integer, check_width
from multitree.hw.stream import next_place

__all__ = [
    "TABLE_INPUTS",
    "Checked",
    "bits_of",
    "check_of",
    "has_parity",
    "is_intact",
    "numbers_of",
    "parity_of",
    "parity_width",
    "sum_of",
]

TABLE_INPUTS = 4
"""Inputs of a look-up table: what is added at once."""
_MOST_NUMBER_BITS = 4
_GROUPS = 8
"""Groups of a parity, of which neighbouring bits of a word are in different ones."""


def sum_of(terms: Iterable[Value]) -> Value:
    """Exclusive or of bits or of words, as a tree of sums of `TABLE_INPUTS`; nothing adds up to
    zero.
    """
    terms = list(terms) or [Const(0, 1)]
    while len(terms) > 1:
        groups = range(0, len(terms), TABLE_INPUTS)
        terms = [reduce(xor, terms[k : k + TABLE_INPUTS]) for k in groups]
    return terms[0]


def bits_of(word: Value) -> list[Value]:
    """Bits of a word, lowest first, each a slice of the signal that has it.

    A slice of a concatenation is elaborated with all parts of it: those of all bits of wide words
    took half a minute.
    """
    if isinstance(word, Concat):
        return [bit for part in word.parts for bit in bits_of(part)]
    if isinstance(word, Slice):
        return bits_of(word.value)[word.start : word.stop]
    return list(word)


def check_of(word: Value) -> Value:
    """The check bits of a word, a network of exclusive ors; those of zeros are zeros."""
    bits = bits_of(Value.cast(word))
    columns = check_columns(len(bits))
    rows = range(check_width(len(bits)))
    return Cat(sum_of(bits[k] for k, c in enumerate(columns) if c >> row & 1) for row in rows)


def is_intact(word: Value, check: Value) -> Value:
    """Whether a word and its check bits are as they were stored, if at most three bits flipped."""
    return (check_of(word) ^ check) == Const(0, check_width(len(Value.cast(word))))


def parity_width(width: int) -> int:
    """Bits of a word's interleaved parity: 8, or as many as the word has if it has fewer, at least
    2.
    """
    return max(2, min(_GROUPS, check_integer("Width", width, least=1)))


def parity_of(word: Value) -> Value:
    """A word's interleaved parity (BIP-n of ITU-T G.707), to be stored behind it; that of zeros is
    zeros.

    Any odd number of flipped bits is found, and any of two groups or more within a run of
    `parity_width` bits, such as one particle strikes. Each bit is added once, three times by
    `check_of`, which finds any two and three.
    """
    bits = bits_of(Value.cast(word))
    groups = parity_width(len(bits))
    # A group: bits whose places in the stored word differ by a multiple of `groups`.
    return Cat(sum_of(bits[(len(bits) + k) % groups :: groups]) for k in range(groups))


def has_parity(word: Value, parity: Value) -> Value:
    """Whether a word and its parity are as stored, for flipped bits that `parity_of` finds."""
    return parity_of(word) == parity


def numbers_of(places: int, width: int) -> int:
    """How many numbers a queue's entries bear in turn, in `width` bits: of what one flipped bit of
    a queue's addresses or counts does to the order, the fewest cases look right. They are an entry
    missing or doubled, or one of `places` entries ago, and any distance by a power of two.
    """
    steps = [1 << k for k in range(places.bit_length())]
    shifts = [*steps, places, *(places - step for step in steps if step != places)]

    def rank(count: int) -> tuple[int, int]:
        return sum(shift % count == 0 for shift in shifts), count

    return min(range(3, (1 << min(width, _MOST_NUMBER_BITS)) + 1), key=rank)


class Checked(wiring.Component):
    """A `Fifo`, `QuickFifo`, `CutFifo` or `Register` that stores each payload with its parity.

    The queue's contract and times stay as they are; nothing waits for the check. Flipped bits of an
    entry that `parity_of` finds, wherever in the queue that is held, are reported when it leaves,
    in the cycle behind. So is an entry that is not the next one, where the queue has lost or
    doubled one since its addresses or handshakes flipped: parities are stored with the entry's
    number added. What was done with it by then has to be undone, or must not count: whoever uses it
    stops for good. What is held for a whole collective, not only for as long as a flit waits, has
    check bits that find more (`check_of`).

    Parameters
    ----------
    queue : type
        `Fifo`, `QuickFifo`, `CutFifo` or `Register`.
    shape : ShapeLike
        Shape of the payload, at least one bit.
    has_parity : bool
        Whoever puts payloads in gives their parities: they may be older than that.
    **sizes
        What else the queue takes.

    Members
    -------
    i, o : In, Out(stream.Signature(shape))
        What comes in, and the same in order.
    parity : In(parity_width(width of shape))
        With `has_parity`, that of what comes in.
    level : Out(range(depth + 2))
        Payloads held, as the queue reports them, if it does.
    state_error : Out(1)
        Strobe: the payload that left in the cycle before has flipped bits.
    """

    def __init__(self, queue: type, *, shape, has_parity: bool = False, **sizes: int):
        self._width = Shape.cast(shape).width
        self._queue = queue(shape=self._width + parity_width(self._width), **sizes)
        members = self._queue.signature.members
        level = {"level": Out(members["level"].shape)} if "level" in members else {}
        payloads = stream.Signature(shape)
        given = {"parity": In(parity_width(self._width))} if has_parity else {}
        self.queue, self.shape, self.has_parity, self.sizes = queue, shape, has_parity, sizes
        super().__init__(
            {"i": In(payloads), **given, "o": Out(payloads), **level, "state_error": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = self._queue
        came, goes = Value.cast(self.i.payload), Value.cast(self.o.payload)
        word, parity = queue.o.payload[: self._width], queue.o.payload[self._width :]
        syndrome, left = Signal(parity_width(self._width), reset_less=True), Signal()
        number, expected = self._count(m, self.i), self._count(m, self.o)
        given = self.parity if self.has_parity else parity_of(came)
        m.d.comb += [
            queue.i.valid.eq(self.i.valid),
            queue.i.payload.eq(Cat(came, given ^ number)),
            self.i.ready.eq(queue.i.ready),
            self.o.valid.eq(queue.o.valid),
            goes.eq(word),
            queue.o.ready.eq(self.o.ready),
            self.state_error.eq(left & syndrome.any()),
        ]
        if "level" in self.signature.members:
            m.d.comb += self.level.eq(queue.level)
        # The exclusive ors have this cycle and the OR over them the next: `o` waits for neither.
        m.d.sync += [
            syndrome.eq(parity_of(word) ^ parity ^ expected),
            left.eq(self.o.valid & self.o.ready),
        ]
        return m

    def _count(self, m, payloads):
        """The number of the payload at one end, a register."""
        numbers = numbers_of(self.sizes.get("depth", 2) - 1, parity_width(self._width))
        number = Signal(range(numbers))
        with m.If(payloads.valid & payloads.ready):
            m.d.sync += number.eq(next_place(number, numbers))
        return number
