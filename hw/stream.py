"""Elastic elements of streams: a two-entry register, queues, a count."""

from amaranth import Module, Mux, Signal, Value
from amaranth.hdl import Shape, ValueCastable
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import check_integer

__all__ = ["CutFifo", "Fifo", "QuickFifo", "Register", "counted_down", "next_place", "room_after"]


def _bits(payload):
    """The payload of a stream as a plain value, whatever its shape is."""
    return payload.as_value() if isinstance(payload, ValueCastable) else payload


def next_place(place, places: int):
    """The place behind one of so many in a ring."""
    return Mux(place == places - 1, 0, place + 1)


def room_after(room, count, places: int, put, left):
    """Whether there is room in the next cycle; only put in while there is `room`.

    Compared before the register, so that no comparison of `count` precedes a handshake.
    """
    return Mux(left, 1, Mux(put, count != places - 1, room))


class Register(wiring.Component):
    """A stream register that cuts every combinational path between its two ends.

    It holds up to two payloads: the one it offers, and one more that was taken in the cycle in
    which the consumer stopped. Order is kept and nothing is lost or doubled. After reset it is
    empty and ready.

    Latency 1 cycle; one payload per cycle. Backpressure reaches the producer one cycle later;
    `o.valid`, `o.payload` and `i.ready` are registers.

    Members
    -------
    i, o : In, Out(stream.Signature(shape))
        What comes in, and the same a cycle later.

    References
    ----------
    L. P. Carloni, K. L. McMillan, A. L. Sangiovanni-Vincentelli, "Theory of latency-insensitive
    design", IEEE TCAD 20(9), 2001: the relay station.
    """

    def __init__(self, *, shape):
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        ready = Signal(init=1)
        width = Shape.cast(self.shape).width
        # Data need no reset: they count only with `valid`, or while `ready` is low. The spare
        # entry is in use exactly while `ready` is low.
        spare = Signal(width, reset_less=True)
        offered = Signal(width, reset_less=True)
        valid = Signal()
        m.d.comb += [
            self.i.ready.eq(ready),
            self.o.valid.eq(valid),
            _bits(self.o.payload).eq(offered),
        ]
        with m.If(self.o.ready | ~valid):
            m.d.sync += ready.eq(1)
            with m.If(ready):
                m.d.sync += [valid.eq(self.i.valid), offered.eq(_bits(self.i.payload))]
            with m.Else():
                # `spare` is older than what `i` offers, which is not taken in this cycle.
                m.d.sync += [valid.eq(1), offered.eq(spare)]
        # The producer sees `ready`, so its payload counts as taken although the consumer stalls.
        with m.Elif(ready):
            m.d.sync += [ready.eq(~self.i.valid), spare.eq(_bits(self.i.payload))]
        return m


class Fifo(wiring.Component):
    """A queue of payloads in a synchronous memory, with both ends as streams.

    Order is kept and nothing is lost or doubled. After reset it is empty. The memory's read port is
    registered, so that a deep queue becomes block memory.

    Latency 2 cycles from an empty queue's `i` to `o`; one payload per cycle from depth 3 on, one in
    two cycles below. No combinational path leads from `i` to `o` or from `o.ready` to `i.ready`: a
    place that comes free is offered in the next cycle. `o.valid` and `i.ready` are registers,
    `o.payload` is what a memory reads.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    depth : int
        Payloads it holds, at least 2.

    Members
    -------
    i, o : In, Out(stream.Signature(shape))
        What comes in, and the same in order.
    level : Out(range(depth + 1))
        Payloads held; combinational on registers.
    empty : Out(1)
        None are; combinational on registers, and sooner known than the level.
    """

    def __init__(self, *, shape, depth: int):
        self.shape = shape
        self.depth = check_integer("Depth", depth, least=2)
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # The memory's output register holds one more payload: the one that is offered.
        places = self.depth - 1
        # No place is read while it is written, so the memory needs no logic for that case: the
        # addresses are equal only where it is empty (no `some`) or full (no `room`).
        m.submodules.storage = storage = Memory(
            shape=Shape.cast(self.shape).width,
            depth=places,
            init=[],
            attrs={"no_rw_check": 1},
        )
        write, read = storage.write_port(), storage.read_port()
        count = Signal(range(places + 1))
        room, some, valid, put, fetch = Signal(init=1), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            put.eq(self.i.valid & room),
            fetch.eq(some & (self.o.ready | ~valid)),
            write.en.eq(put),
            write.data.eq(_bits(self.i.payload)),
            # Without enable the read port keeps its data: what is offered stays until it is taken.
            read.en.eq(fetch),
            self.i.ready.eq(room),
            self.o.valid.eq(valid),
            _bits(self.o.payload).eq(read.data),
            self.level.eq(count + valid),
            self.empty.eq(~some & ~valid),
        ]
        with m.If(put):
            m.d.sync += write.addr.eq(next_place(write.addr, places))
        with m.If(fetch):
            m.d.sync += read.addr.eq(next_place(read.addr, places))
        # `fetch` depends on the consumer's ready and settles last: it only selects between results.
        # `some` and `room` are registers, so that no comparison of `count` precedes a handshake.
        m.d.sync += [
            valid.eq(some | (valid & ~self.o.ready)),
            count.eq(Mux(fetch, Mux(put, count, count - 1), Mux(put, count + 1, count))),
            some.eq(put | Mux(fetch, count != 1, some)),
            room.eq(room_after(room, count, places, put, fetch)),
        ]
        return m


class QuickFifo(wiring.Component):
    """A `Fifo` that an empty queue's payload passes in one cycle.

    An output register stands behind a `Fifo`; what comes while that is empty and the register free
    goes straight into the register. Worth its width in registers where a latency counts at every
    hop.

    Latency 1 cycle from an empty queue's `i` to `o`; one payload per cycle while nothing stalls,
    and again one cycle after a stall. No combinational path leads from `i` to `o` or from `o.ready`
    to `i.ready`.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    depth : int
        Payloads it holds at least, at least 3.

    Members
    -------
    i, o : In, Out(stream.Signature(shape))
        What comes in, and the same in order.
    level : Out(range(depth + 2))
        Payloads held; combinational on registers.
    """

    def __init__(self, *, shape, depth: int):
        self.shape = shape
        # A `Fifo` of fewer places moves a payload only in every second cycle.
        self.depth = check_integer("Depth", depth, least=3)
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 2)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.rest = rest = Fifo(shape=self.shape, depth=self.depth)
        offered = Signal(Shape.cast(self.shape).width, reset_less=True)
        valid, free, passes = Signal(), Signal(), Signal()
        m.d.comb += [
            free.eq(self.o.ready | ~valid),
            # Not `~rest.o.valid`: a payload is two cycles in the queue and must not be overtaken.
            passes.eq(free & rest.empty),
            self.i.ready.eq(rest.i.ready),
            rest.i.valid.eq(self.i.valid & ~passes),
            _bits(rest.i.payload).eq(_bits(self.i.payload)),
            rest.o.ready.eq(free),
            self.o.valid.eq(valid),
            _bits(self.o.payload).eq(offered),
            self.level.eq(rest.level + valid),
        ]
        with m.If(free):
            m.d.sync += [
                valid.eq(rest.o.valid | (passes & self.i.valid)),
                offered.eq(Mux(rest.o.valid, _bits(rest.o.payload), _bits(self.i.payload))),
            ]
        return m


class CutFifo(wiring.Component):
    """A `QuickFifo` whose memory does not wait for the consumer's ready in the same cycle.

    A `Register` stands behind a `Fifo`, so that whether the memory is read follows from registers
    alone: worth the register's second entry where the ready comes late and the memory is large.

    Latency and throughput are those of `QuickFifo`. No combinational path leads from `i` to `o`, or
    from `o.ready` to `i.ready` or to the `Fifo`.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    depth : int
        Payloads it holds at least, at least 3; two more where they came behind a stall.

    Members
    -------
    i, o : In, Out(stream.Signature(shape))
        What comes in, and the same in order.
    """

    def __init__(self, *, shape, depth: int):
        self.shape = shape
        # A `Fifo` of fewer places moves a payload only in every second cycle.
        self.depth = check_integer("Depth", depth, least=3)
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.rest = rest = Fifo(shape=self.shape, depth=self.depth)
        m.submodules.register = register = Register(shape=self.shape)
        passes, came = Signal(), _bits(self.i.payload)
        m.d.comb += [
            # Not `~rest.o.valid`: a payload is two cycles in the queue and must not be overtaken.
            passes.eq(register.i.ready & rest.empty),
            self.i.ready.eq(rest.i.ready),
            rest.i.valid.eq(self.i.valid & ~passes),
            _bits(rest.i.payload).eq(came),
            rest.o.ready.eq(register.i.ready),
            register.i.valid.eq(rest.o.valid | (passes & self.i.valid)),
            _bits(register.i.payload).eq(Mux(rest.o.valid, _bits(rest.o.payload), came)),
        ]
        wiring.connect(m, wiring.flipped(self.o), register.o)
        return m


def counted_down(
    m: Module, *, load: Value, amount: Value, step: Value
) -> tuple[Signal, Signal, Signal]:
    """Count down from `amount`, loaded by the strobe `load`, by one per `step`: how many are left,
    whether some are, whether exactly one is; all three are registers, 0 at first. No step while
    none is left.
    """
    # The next count is compared: a comparison of a wide count with 0 or 1 takes some levels of
    # logic, and a handshake waits for it where a queue's end depends on it.
    left, some, last = Signal(len(amount)), Signal(), Signal()
    with m.If(load):
        m.d.sync += [left.eq(amount), some.eq(amount != 0), last.eq(amount == 1)]
    with m.Elif(step):
        m.d.sync += [left.eq(left - 1), some.eq(~last), last.eq(left == 2)]
    return left, some, last
