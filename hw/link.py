"""Credited links: flits, their sideband, and the two ends of a link."""

from amaranth import Module, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arguments import check_integer
from multitree.hw.stream import Fifo

__all__ = ["Kind", "LinkReceiver", "LinkSignature", "LinkTransmitter", "flit_layout"]

SEQUENCE_WIDTH = 3
"""Bits of the number that counts flits on a link."""


class Kind(enum.Enum, shape=2):
    """Place of a flit in its message."""

    HEAD = 0
    BODY = 1
    TAIL = 2
    SINGLE = 3


def flit_layout(*, flit_bytes: int) -> data.StructLayout:
    """Everything that travels with a flit: `kind`, `vc`, `sequence` and `payload`.

    Parameters
    ----------
    flit_bytes : int
        Bytes of the payload.
    """
    return data.StructLayout(
        {"kind": Kind, "vc": 1, "sequence": SEQUENCE_WIDTH, "payload": 8 * flit_bytes}
    )


def _unit_layout(flit_bytes: int) -> data.StructLayout:
    """A flit as the blocks at the ends of a link see it."""
    return data.StructLayout({"kind": Kind, "payload": 8 * flit_bytes})


class LinkSignature(wiring.Signature):
    """One direction of a link between two interfaces, seen from the transmitting side.

    A flit is on the link in every cycle in which `valid` is high; there is no ready. Instead the
    receiver grants credits: one cycle of `credit` for each flit that has left its buffer.

    Parameters
    ----------
    flit_bytes : int
        Bytes of a flit's payload.

    Members
    -------
    valid : Out(1)
        A flit is on the link.
    kind : Out(Kind)
        Its place in its message.
    vc : Out(1)
        Its virtual channel.
    sequence : Out(3)
        Number of the flit on this link, modulo 8.
    payload : Out(8 * flit_bytes)
        Its data.
    credit : In(1)
        One place of the receiver's buffer came free.

    Raises
    ------
    TypeError
        If `flit_bytes` is not an integer.
    ValueError
        If `flit_bytes` is less than 1.
    """

    def __init__(self, *, flit_bytes: int):
        check_integer("Flit bytes", flit_bytes, least=1)
        super().__init__(
            {
                "valid": Out(1),
                "kind": Out(Kind),
                "vc": Out(1),
                "sequence": Out(SEQUENCE_WIDTH),
                "payload": Out(8 * flit_bytes),
                "credit": In(1),
            }
        )


class LinkTransmitter(wiring.Component):
    """Puts a stream of flits on a link, never more than the receiver has room for.

    It starts with `credits` credits, spends one per flit and gets one back with each `credit`.
    Every flit is stamped with the number of flits sent since reset, modulo 8, and virtual
    channel 0. A credit that would make more than `credits` changes nothing but is a fault.

    Latency 1 cycle from `i` to `link`; one flit per cycle while there are credits. `i.ready` is
    low exactly while there is none. The outputs to the link are registers.

    Parameters
    ----------
    flit_bytes : int
        Bytes of a flit's payload.
    credits : int
        Places in the receiver's buffer, at least 1.

    Members
    -------
    i : In(stream.Signature(StructLayout))
        Flits: `kind` and `payload`.
    link : Out(LinkSignature)
        The link.
    stalled : Out(1)
        A flit waits for a credit; combinational.
    available : Out(range(credits + 1))
        Credits left.
    fault_credit : Out(1)
        In the cycle before, a credit came that no flit had spent.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If an argument is less than 1.

    References
    ----------
    W. J. Dally, B. Towles, "Principles and Practices of Interconnection Networks", 2004,
    section 13.3: credit-based flow control.
    """

    def __init__(self, *, flit_bytes: int, credits: int):
        self._flit_bytes = flit_bytes
        self._credits = check_integer("Credits", credits, least=1)
        super().__init__(
            {
                "link": Out(LinkSignature(flit_bytes=flit_bytes)),
                "i": In(stream.Signature(_unit_layout(flit_bytes))),
                "stalled": Out(1),
                "available": Out(range(credits + 1), init=credits),
                "fault_credit": Out(1),
            }
        )

    def elaborate(self, platform):
        """Count credits; stamp and register the flit that is taken."""
        m = Module()
        link = self.link
        available = self.available
        number = Signal(SEQUENCE_WIDTH)
        flit = Signal(flit_layout(flit_bytes=self._flit_bytes), reset_less=True)
        sent, unspent = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(available != 0),
            self.stalled.eq(self.i.valid & ~self.i.ready),
            sent.eq(self.i.valid & self.i.ready),
            unspent.eq(link.credit & (available == self._credits)),
        ]
        m.d.sync += [
            available.eq(available + (link.credit & ~unspent) - sent),
            self.fault_credit.eq(unspent),
            link.valid.eq(sent),
        ]
        with m.If(sent):
            m.d.sync += [
                number.eq(number + 1),
                flit.sequence.eq(number),
                flit.kind.eq(self.i.payload.kind),
                flit.payload.eq(self.i.payload.payload),
            ]
        m.d.comb += [getattr(link, name).eq(flit[name]) for name, _ in flit.shape()]
        return m


class LinkReceiver(wiring.Component):
    """Takes flits off a link into a buffer and grants a credit for each that leaves it.

    Flits are delivered in order, each exactly once. A flit whose number is not the next one, or
    whose virtual channel is not 0, is an error and is not delivered, nor is any after it until
    the expected number comes; a flit that finds the buffer full is an overflow and is treated in
    the same way. No credit is granted for what is not delivered: a link with an error has to be
    reset at both ends.

    Latency 3 cycles from `link` to `o` when the buffer is empty, 1 cycle from a flit's leaving
    to its credit; one flit per cycle. `o` may stall for as long as it likes. A credit is back at
    the transmitter 6 cycles after its flit was taken there, plus the wires' latency both ways:
    fewer places than that cost throughput, even where `o` never stalls.

    Parameters
    ----------
    flit_bytes : int
        Bytes of a flit's payload.
    depth : int
        Places in the buffer, at least 3; the transmitter's `credits` must not be more.

    Members
    -------
    link : In(LinkSignature)
        The link.
    o : Out(stream.Signature(StructLayout))
        Flits: `kind` and `payload`.
    sequence_error : Out(1)
        Strobe: a flit out of sequence came.
    overflow : Out(1)
        Strobe: a flit came and there was no room.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If `flit_bytes` is less than 1 or `depth` less than 3.
    """

    def __init__(self, *, flit_bytes: int, depth: int):
        self._flit_bytes = flit_bytes
        # A buffer of 2 would refuse a flit although there is room: see Fifo's throughput.
        self._depth = check_integer("Depth", depth, least=3)
        super().__init__(
            {
                "link": In(LinkSignature(flit_bytes=flit_bytes)),
                "o": Out(stream.Signature(_unit_layout(flit_bytes))),
                "sequence_error": Out(1),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform):
        """Register the link, check the number, queue what is right."""
        m = Module()
        layout = flit_layout(flit_bytes=self._flit_bytes)
        m.submodules.buffer = buffer = Fifo(shape=_unit_layout(self._flit_bytes), depth=self._depth)
        valid, right = Signal(), Signal()
        expected = Signal(SEQUENCE_WIDTH)
        flit = Signal(layout, reset_less=True)
        m.d.sync += valid.eq(self.link.valid)
        with m.If(self.link.valid):
            m.d.sync += [flit[name].eq(getattr(self.link, name)) for name, _ in layout]
        m.d.comb += [
            right.eq((flit.sequence == expected) & (flit.vc == 0)),
            buffer.i.valid.eq(valid & right),
            buffer.i.payload.kind.eq(flit.kind),
            buffer.i.payload.payload.eq(flit.payload),
        ]
        with m.If(buffer.i.valid & buffer.i.ready):
            m.d.sync += expected.eq(expected + 1)
        m.d.sync += [
            self.sequence_error.eq(valid & ~right),
            self.overflow.eq(buffer.i.valid & ~buffer.i.ready),
            self.link.credit.eq(self.o.valid & self.o.ready),
        ]
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        return m
