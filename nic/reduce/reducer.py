"""A port's reduction datapath: read, combine, write, count what is acknowledged."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked
from multitree.hw.lanes import LaneOp, LaneUnit
from multitree.hw.stream import Fifo, QuickFifo, Register, room_after
from multitree.nic.driver.config import Config
from multitree.nic.layouts import lane_types, mark_layout
from multitree.nic.signatures import ArrivalSignature, MemoryReadSignature, MemoryWriteSignature

__all__ = ["Acknowledger", "Reducer", "item_layout"]


def item_layout(config: Config) -> data.StructLayout:
    """One payload flit that goes to memory: added, or written if `replace`; `end` marks a
    sub-message's last one, for which `mark` is what to report.
    """
    return data.StructLayout(
        {
            "payload": 8 * config.flit_bytes,
            "address": config.address_width,
            "replace": 1,
            "end": 1,
            "mark": mark_layout(config),
        }
    )


class Acknowledger(wiring.Component):
    """Reports a sub-message as arrived when the last of its writes is acknowledged.

    Writes are noted in the order they are taken, one bit each, and acknowledgements are counted,
    so that neither has to come at a known time. One acknowledgement per cycle; reports follow an
    acknowledgement by one cycle at the earliest. Never more than `memory_queue_flits` writes are
    outstanding: `room` is low when that many are.

    Members
    -------
    marks : In(stream)
        What each sub-message's end reports, in order.
    taken, end : In(1)
        A write was taken, only while `room`; it is a sub-message's last.
    ack : In(1)
        A write is in memory.
    room : Out(1)
        One more write may be taken.
    arrival : Out(ArrivalSignature)
    idle : Out(1)
        No write is outstanding.
    state_error : Out(1)
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "marks": In(stream.Signature(mark_layout(config))),
                "taken": In(1),
                "end": In(1),
                "ack": In(1),
                "room": Out(1, init=1),
                "arrival": Out(ArrivalSignature(config)),
                "idle": Out(1),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self.config.memory_queue_flits
        m.submodules.ends = ends = Checked(Fifo, shape=1, depth=depth)
        outstanding, acked = Signal(range(depth + 2)), Signal(range(depth + 2))
        # `ends` shows a write two cycles after it was taken. An acknowledgement that is sooner is
        # counted in `acked` until then.
        retire = ends.o.valid & ((acked != 0) | self.ack) & (~ends.o.payload | self.marks.valid)
        mark = self.marks.payload
        m.d.sync += [
            outstanding.eq(outstanding + self.taken - retire),
            acked.eq(acked + self.ack - retire),
            self.room.eq(room_after(self.room, outstanding, depth, self.taken, retire)),
        ]
        m.d.comb += [
            ends.i.valid.eq(self.taken),
            ends.i.payload.eq(self.end),
            ends.o.ready.eq(retire),
            self.marks.ready.eq(retire & ends.o.payload),
            self.idle.eq(outstanding == 0),
            self.state_error.eq(ends.state_error),
        ]
        m.d.sync += self.arrival.valid.eq(self.marks.ready)
        m.d.sync += [getattr(self.arrival, name).eq(mark[name]) for name, _ in mark.shape()]
        return m


class Reducer(wiring.Component):
    """Adds payload flits to memory, or writes them over it, in order and at line rate.

    A flit to be added is read, combined lane by lane (memory's value plus the contribution, or
    the larger of the two) and written back; a flit to replace is not read and passes by an empty
    adder. Writes stay in order. Room for all that is in flight is reserved when a flit is taken:
    neither the adder nor a read ever waits for the write channel. The same address must not come
    again before its arrival was reported: the receiver sees to it by waiting for the siblings
    before it.

    Latency from a flit to its write request: the memory's read latency + adder + 3 cycles, 2 for
    a flit to replace while nothing is being added; one flit per cycle as long as that, with the
    write's acknowledgement, is at most `memory_queue_flits`.

    Members
    -------
    items : In(stream)
        Flits (`item_layout`).
    dtype, maximum : In(2), In(1)
        `hw.lanes.DType` of the lanes; keep the larger one instead of the sum.
    fetch : Out(MemoryReadSignature)
    write : Out(MemoryWriteSignature)
    arrival : Out(ArrivalSignature)
    idle : Out(1)
        Nothing is in flight.
    state_error : Out(1)
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "items": In(stream.Signature(item_layout(config))),
                "dtype": In(2),
                "maximum": In(1),
                "fetch": Out(MemoryReadSignature(config)),
                "write": Out(MemoryWriteSignature(config)),
                "arrival": Out(ArrivalSignature(config)),
                "idle": Out(1),
                "state_error": Out(1),
                **self._more(config),
            }
        )

    @staticmethod
    def _more(config):
        """Members of a reducer that forwards."""
        return {}

    def elaborate(self, platform):
        m = Module()
        config = self.config
        width, depth = 8 * config.flit_bytes, config.memory_queue_flits
        item = self.items.payload
        place = {"payload": width, "address": config.address_width, "end": 1}
        place |= {"last": 1} if config.forward_flits else {}
        operand = data.StructLayout({**place, "replace": 1})
        m.submodules.operands = operands = Checked(QuickFifo, shape=operand, depth=depth)
        place = data.StructLayout(place)
        m.submodules.writes = writes = Checked(QuickFifo, shape=place, depth=depth)
        m.submodules.marks = marks = Checked(Fifo, shape=mark_layout(config), depth=depth)
        m.submodules.adder = adder = LaneUnit(
            flit_bytes=config.flit_bytes, dtypes=lane_types(config), stages=config.adder_stages
        )
        m.submodules.acknowledger = acknowledger = Acknowledger(config)

        # From `items` to the write request: as many as every queue below has room for.
        inflight, has_place = Signal(range(depth + 1)), Signal(init=1)
        take, written = Signal(), Signal()
        m.d.sync += inflight.eq(inflight + take - written)
        m.d.sync += has_place.eq(room_after(has_place, inflight, depth, take, written))
        room = has_place & marks.i.ready & operands.i.ready
        may_take, source, errors = self._read_memory(m, take)
        m.d.comb += [
            self.items.ready.eq(room & may_take),
            take.eq(self.items.valid & self.items.ready),
            operands.i.valid.eq(take),
            operands.i.payload.payload.eq(item.payload),
            operands.i.payload.address.eq(item.address),
            operands.i.payload.end.eq(item.end),
            operands.i.payload.replace.eq(item.replace),
            marks.i.valid.eq(take & item.end),
            marks.i.payload.eq(item.mark),
        ]
        self._add(m, operands, source, adder, writes)
        may_write = acknowledger.room & self._may_write(m, operands, writes)
        queues = (operands, writes, marks, acknowledger)
        m.d.comb += [
            self.write.valid.eq(writes.o.valid & may_write),
            self.write.address.eq(writes.o.payload.address),
            self.write.data.eq(writes.o.payload.payload),
            written.eq(self.write.valid & self.write.ready),
            writes.o.ready.eq(may_write & self.write.ready),
            acknowledger.taken.eq(written),
            acknowledger.end.eq(writes.o.payload.end),
            acknowledger.ack.eq(self.write.ack),
            self.idle.eq((inflight == 0) & acknowledger.idle & ~self.arrival.valid),
            self.state_error.eq(Cat(*(block.state_error for block in queues), *errors).any()),
        ]
        wiring.connect(m, marks.o, acknowledger.marks)
        wiring.connect(m, acknowledger.arrival, wiring.flipped(self.arrival))
        return m

    def _may_write(self, m, operands, writes):
        """Whether the next write may go: receivers have waited for all at its address."""
        return 1

    def _read_memory(self, m, take):
        """Read what flits are added to: whether one may be taken, the data, what is wrong."""
        config, item = self.config, self.items.payload
        width, depth = 8 * config.flit_bytes, config.memory_queue_flits
        m.submodules.responses = responses = Checked(QuickFifo, shape=width, depth=depth)
        m.submodules.reads = reads = Checked(Register, shape=config.address_width)
        m.d.comb += [
            reads.i.valid.eq(take & ~item.replace),
            reads.i.payload.eq(item.address),
            self.fetch.valid.eq(reads.o.valid),
            self.fetch.address.eq(reads.o.payload),
            reads.o.ready.eq(self.fetch.ready),
            responses.i.valid.eq(self.fetch.data_valid),
            responses.i.payload.eq(self.fetch.data),
        ]
        # A flit to replace needs no read, and does not wait for the read channel.
        may_take = item.replace | reads.i.ready
        return may_take, responses.o, (responses.state_error, reads.state_error)

    def _add(self, m, operands, source, adder, writes):
        """Pair operands with responses; the address is delayed like the adder."""
        operand = operands.o.payload
        pair = operands.o.valid & (operand.replace | source.valid)
        added, passes = Signal(), Signal()
        # A flit to replace passes by the adder while that is empty. Behind a flit that is being
        # added it goes through as the second operand as it is, so that writes stay in order.
        # A write is in the queue in the next cycle: of what is added it is known a cycle earlier.
        self._coming = Signal()
        # What goes with the payload of a write.
        fields = [name for name, _ in writes.i.payload.shape() if name != "payload"]
        stage, busy = Cat(added, *(operand[name] for name in fields)), []
        for index in range(adder.stages):
            delayed = Signal(len(stage), name=f"delayed_{index}")
            m.d.sync += delayed.eq(stage)
            stage = delayed
            busy.append(delayed[0])
        place = Mux(passes, Cat(operand[name] for name in fields), stage[1:])
        m.d.comb += [
            passes.eq(operands.o.valid & operand.replace & ~Cat(busy).any()),
            added.eq(pair & ~passes),
            operands.o.ready.eq(pair),
            source.ready.eq(pair & ~operand.replace),
            adder.a.eq(source.payload),
            adder.b.eq(operand.payload),
            adder.dtype.eq(self.dtype),
            adder.op.eq(
                Mux(
                    operand.replace,
                    LaneOp.SECOND,
                    Mux(self.maximum, LaneOp.MAXIMUM, LaneOp.SUM),
                )
            ),
            # Ready is not looked at: `inflight` keeps room, since the adder cannot wait.
            writes.i.valid.eq(stage[0] | passes),
            self._coming.eq(Cat(added, *busy)[-2] | passes),
            Cat(writes.i.payload[name] for name in fields).eq(place),
            writes.i.payload.payload.eq(Mux(passes, operand.payload, adder.o)),
        ]
