"""Properties of what comes in: no arrival before its writes are acknowledged."""

from amaranth import Cat, Module, Mux, Signal

from multitree.hw.lanes import LaneOp, LaneUnit
from multitree.nic.driver.config import Config
from multitree.nic.reduce.reducer import Acknowledger, Reducer
from tests.formal.bench import Watch, driven, holds
from tests.formal.stand_ins import hollow

BOUND_CYCLES = 12
"""Cycles searched for the whole reducer, which is too much for a proof without bound."""


class _Followed:
    """Follows one arbitrary sub-message, from its last flit's being taken to its arrival.

    The memory acknowledges in order: the flit and all before it are in when as many
    acknowledgements came as flits were outstanding. `mark` is what the arrival has to report,
    or None where that is not looked at.
    """

    def __init__(self, bench, *, taken, end, ack, arrival, capacity, mark=None):
        m = bench.m
        counts = range(capacity + 2)
        self.missing, lacking = Signal(counts), Signal(counts)
        unreported, ahead = Signal(counts), Signal(counts)
        inside, seen = Signal(), Signal()
        picked = taken & end & bench.free("pick") & ~seen
        mine = inside & arrival.valid & (ahead == 0)
        m.d.sync += [
            self.missing.eq(self.missing + taken - ack),
            unreported.eq(unreported + (taken & end) - arrival.valid),
        ]
        with m.If(picked):
            m.d.sync += [seen.eq(1), inside.eq(1), lacking.eq(self.missing + 1 - ack)]
            m.d.sync += ahead.eq(unreported - arrival.valid)
        with m.Elif(inside):
            m.d.sync += [lacking.eq(lacking - (ack & (lacking != 0))), inside.eq(~mine)]
            m.d.sync += ahead.eq(ahead - arrival.valid)
        bench.check(self.missing <= capacity)
        bench.check(~arrival.valid | (unreported != 0))
        bench.check(~mine | (lacking == 0))
        if mark is not None:
            expected = Signal(len(mark))
            with m.If(picked):
                m.d.sync += expected.eq(mark)
            bench.check(~mine | (_mark(arrival) == expected))
        bench.cover("arrival", mine)


def _mark(mark):
    """What of a mark is followed: op, last, and the low bits of flow and count."""
    return Cat(mark.op, mark.last, mark.flow[:2], mark.count[:2])


@holds("acknowledger.arrivals", {"memory_queue_flits": 4}, {"memory_queue_flits": 5})
def acknowledger(bench, *, memory_queue_flits):
    """No arrival before all writes of its sub-message are acknowledged; queue never exceeded.

    Alone: writes, ends, marks and acknowledgements come as they like.
    """
    m = bench.m
    config = Config(memory_queue_flits=memory_queue_flits, address_width=4, submessage_flits=2)
    m.submodules.block = block = Acknowledger(config)
    taken, end, ack = bench.free("taken"), bench.free("end"), bench.free("ack")
    m.d.comb += [block.taken.eq(taken), block.end.eq(end), block.ack.eq(ack)]
    driven(bench, "marks", block.marks)
    bench.assume(~taken | block.room)
    followed = _Followed(
        bench, taken=taken, end=end, ack=ack, arrival=block.arrival, capacity=memory_queue_flits
    )
    bench.assume(~ack | (followed.missing != 0))
    bench.cover("outstanding", followed.missing == memory_queue_flits)


def _memory_reads(bench, block, depth):
    """A memory that answers reads in order, whenever it likes; never more are outstanding."""
    m = bench.m
    answered = bench.free("fetch_data_valid")
    unanswered = Signal(range(depth + 2))
    m.d.comb += [
        block.fetch.ready.eq(bench.free("fetch_ready")),
        block.fetch.data_valid.eq(answered),
    ]
    m.d.sync += unanswered.eq(unanswered + (block.fetch.valid & block.fetch.ready) - answered)
    bench.assume(~answered | (unanswered != 0))
    bench.check(unanswered <= depth)


class _Told(LaneUnit):
    """Tells of both operands and of what is done with them, as late as a sum would be."""

    def elaborate(self, platform):
        """A bit of each, delayed."""
        m = Module()
        told = Cat(self.b[0], self.a[1], self.op == LaneOp.SECOND)
        for index in range(self.stages):
            delayed = Signal(3, name=f"told_{index}")
            m.d.sync += delayed.eq(told)
            told = delayed
        m.d.comb += self.o.eq(told)
        return m


def _block(bench, memory_queue_flits, adder_cycles, tells=False):
    """The block with free items; an adder of so many cycles, which decides nothing."""
    config = Config(
        memory_queue_flits=memory_queue_flits,
        address_width=4,
        submessage_flits=2,
        flit_bytes=8,
        dtypes=("int32",),
    )

    def adder(**sizes):
        unit = (hollow(LaneUnit) if not tells else _Told)(**sizes)
        unit.stages = adder_cycles
        return unit

    bench.replace("multitree.nic.reduce.reducer.LaneUnit", adder)
    bench.m.submodules.block = block = Reducer(config)
    driven(bench, "items", block.items)
    return block


def _reducer(bench, memory_queue_flits, adder_cycles, tells=False):
    """The block with free items and memory."""
    m = bench.m
    block = _block(bench, memory_queue_flits, adder_cycles, tells)
    ack = bench.free("ack")
    m.d.comb += [block.write.ready.eq(bench.free("write_ready")), block.write.ack.eq(ack)]
    _memory_reads(bench, block, memory_queue_flits)
    return block


@holds(
    "reducer.writes",
    {"memory_queue_flits": 4, "adder_cycles": 1, "bit": 0},
    {"memory_queue_flits": 4, "adder_cycles": 4, "bit": 3},
    depth=BOUND_CYCLES,
    quick_depth=9,
)
def reducer_writes(bench, *, memory_queue_flits, adder_cycles, bit):
    """Each flit written once, in order, at its address; reads and writes within the queue."""
    block = _reducer(bench, memory_queue_flits, adder_cycles, tells=True)
    item, wrote = block.items.payload, block.write.valid & block.write.ready
    took = block.items.valid & block.items.ready
    # What replaces says so itself, as the adder does.
    bench.assume(item.payload[2] == item.replace)
    watch = Watch(
        bench,
        put=took,
        take=wrote,
        value_in=Cat(item.address[bit], item.payload[0], item.replace),
        value_out=Cat(block.write.address[bit], block.write.data[0], block.write.data[2]),
        capacity=memory_queue_flits,
    )
    Watch(
        bench,
        put=took & ~item.replace,
        take=block.fetch.valid & block.fetch.ready,
        value_in=item.address[bit],
        value_out=block.fetch.address[bit],
        capacity=2,
        name="read",
    )
    bench.m.d.comb += block.fetch.data.eq(bench.free("fetch_data", 2))
    Watch(
        bench,
        put=block.fetch.data_valid,
        take=wrote & ~block.write.data[2],
        value_in=block.fetch.data[1],
        value_out=block.write.data[1],
        capacity=memory_queue_flits,
        name="added",
    )
    unacked = Signal(range(memory_queue_flits + 2))
    written = block.write.valid & block.write.ready
    bench.m.d.sync += unacked.eq(unacked + written - block.write.ack)
    bench.assume(~block.write.ack | (unacked != 0))
    bench.check(unacked <= memory_queue_flits)
    bench.cover("full", watch.held == memory_queue_flits)


@holds(
    "reducer.arrivals",
    {"memory_queue_flits": 4, "adder_cycles": 1},
    {"memory_queue_flits": 4, "adder_cycles": 4},
    depth=BOUND_CYCLES,
    quick_depth=9,
)
def reducer_arrivals(bench, *, memory_queue_flits, adder_cycles):
    """No arrival before every write of its sub-message is acknowledged; marks in order; idle means
    that all that was taken is reported.
    """
    block = _reducer(bench, memory_queue_flits, adder_cycles)
    item, ack = block.items.payload, block.write.ack
    unacked = Signal(range(memory_queue_flits + 2))
    written = block.write.valid & block.write.ready
    bench.m.d.sync += unacked.eq(unacked + written - ack)
    bench.assume(~ack | (unacked != 0))
    # Twice the queue may be between a flit's being taken and its acknowledgement.
    followed = _Followed(
        bench,
        taken=block.items.valid & block.items.ready,
        end=item.end,
        ack=ack,
        arrival=block.arrival,
        capacity=2 * memory_queue_flits,
        mark=_mark(item.mark),
    )
    # What waits for an idle reducer comes behind all that was taken, and alone (`receiver.joins`).
    bench.check(~block.idle | (followed.missing == 0))
    bench.check(~(block.idle | bench.past(block.idle)) | ~block.arrival.valid)


@holds(
    "reducer.progress",
    {"memory_queue_flits": 4, "adder_cycles": 1},
    {"memory_queue_flits": 4, "adder_cycles": 4},
    depth=18,
)
def reducer_progress(bench, *, memory_queue_flits, adder_cycles):
    """With a memory that answers, something moves every adder + 5 cycles, or it is idle."""
    m = bench.m
    block = _block(bench, memory_queue_flits, adder_cycles)
    fetches, writes = block.fetch.valid, block.write.valid
    m.d.comb += [
        block.fetch.ready.eq(1),
        block.fetch.data_valid.eq(bench.past(fetches)),
        block.write.ready.eq(1),
        block.write.ack.eq(bench.past(writes)),
    ]
    limit_cycles = adder_cycles + 5
    moves = Cat(block.items.valid & block.items.ready, fetches, writes, block.arrival.valid)
    stands = ~moves.any() & (~block.idle | (block.items.valid & ~block.items.ready))
    still = Signal(range(limit_cycles + 2))
    m.d.sync += still.eq(Mux(stands, still + 1, 0))
    bench.check(still <= limit_cycles)
    bench.cover("arrival", block.arrival.valid & block.arrival.last)
