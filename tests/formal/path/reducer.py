"""Properties of what comes in: no arrival before its writes are acknowledged."""

from amaranth import Cat, Module, Signal

from multitree.hw.lanes import LaneOp, LaneUnit
from multitree.nic.driver.config import Config
from multitree.nic.reduce.reducer import Acknowledger, Reducer
from tests.formal.bench import Watch, holds, sets, transfer
from tests.formal.stand_ins import hollow

_SIZES = sets("memory_queue_flits adder_cycles", (4, 1), (4, 4))
BOUND_CYCLES = 12
"""Cycles searched for the whole reducer, which is too much for a proof without bound."""


class _Followed:
    """Follows one arbitrary sub-message, from its last flit's being taken to its arrival.

    The memory acknowledges in order: the flit and all before it are in when as many
    acknowledgements came as flits were outstanding. `mark` is what the arrival has to report,
    or None where that is not looked at.
    """

    def __init__(self, m, *, taken, end, ack, arrival, capacity, mark=None):
        self.missing = m.tally(taken, ack, capacity)
        unreported = m.tally(taken & end, arrival.valid, capacity)
        lacking, ahead = Signal.like(unreported), Signal.like(unreported)
        inside, seen = Signal(), Signal()
        picked = taken & end & m.free("pick") & ~seen
        mine = inside & arrival.valid & (ahead == 0)
        with m.If(picked):
            m.d.sync += [seen.eq(1), inside.eq(1), lacking.eq(self.missing + 1 - ack)]
            m.d.sync += ahead.eq(unreported - arrival.valid)
        with m.Elif(inside):
            m.d.sync += [lacking.eq(lacking - (ack & (lacking != 0))), inside.eq(~mine)]
            m.d.sync += ahead.eq(ahead - arrival.valid)
        m.check(self.missing <= capacity)
        m.check(~arrival.valid | (unreported != 0))
        m.check(~mine | (lacking == 0))
        if mark is not None:
            m.check(~mine | (_mark(arrival) == m.latch(picked, mark)))
        m.cover("arrival", mine)


def _mark(mark):
    """What of a mark is followed: op, last, and the low bits of flow and count."""
    return Cat(mark.op, mark.last, mark.flow[:2], mark.count[:2])


@holds("acknowledger.arrivals", {"memory_queue_flits": 4}, {"memory_queue_flits": 5})
def acknowledger(m, *, memory_queue_flits):
    """No arrival before all writes of its sub-message are acknowledged; queue never exceeded.

    Alone: writes, ends, marks and acknowledgements come as they like.
    """
    config = Config(memory_queue_flits=memory_queue_flits, address_width=4, submessage_flits=2)
    m.submodules.block = block = Acknowledger(config)
    strobes = {"taken": block.taken, "end": block.end, "ack": block.ack}
    m.drive(*strobes.values(), block.marks)
    m.assume(~block.taken | block.room)
    followed = _Followed(m, **strobes, arrival=block.arrival, capacity=memory_queue_flits)
    m.assume(~block.ack | (followed.missing != 0))
    m.cover("outstanding", followed.missing == memory_queue_flits)


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


def _block(m, memory_queue_flits, adder_cycles, tells=False):
    """The block with free items; an adder of so many cycles, which decides nothing."""
    sizes = {"memory_queue_flits": memory_queue_flits, "address_width": 4, "submessage_flits": 2}
    config = Config(**sizes, flit_bytes=8, dtypes=("int32",))

    def adder(**sizes):
        unit = (hollow(LaneUnit) if not tells else _Told)(**sizes)
        unit.stages = adder_cycles
        return unit

    m.replace("multitree.nic.reduce.reducer.LaneUnit", adder)
    m.submodules.block = block = Reducer(config)
    m.drive(block.items)
    return block


def _reducer(m, memory_queue_flits, adder_cycles, tells=False):
    """The block with free items, a memory that answers when it likes, and what it owes of writes.

    Never more reads are outstanding than there is room for.
    """
    block = _block(m, memory_queue_flits, adder_cycles, tells)
    fetch, write = block.fetch, block.write
    m.drive(write.ready, write.ack, fetch.ready, fetch.data_valid)
    m.check(m.owed(transfer(fetch), fetch.data_valid, memory_queue_flits) <= memory_queue_flits)
    return block, m.owed(transfer(write), write.ack, memory_queue_flits)


@holds(
    "reducer.writes",
    *sets("memory_queue_flits adder_cycles bit", (4, 1, 0), (4, 4, 3)),
    depth=BOUND_CYCLES,
    quick_depth=9,
)
def reducer_writes(m, *, memory_queue_flits, adder_cycles, bit):
    """Each flit written once, in order, at its address; reads and writes within the queue."""
    block, unacked = _reducer(m, memory_queue_flits, adder_cycles, tells=True)
    item, fetch, write = block.items.payload, block.fetch, block.write
    took, wrote = transfer(block.items), transfer(write)
    # What replaces says so itself, as the adder does.
    m.assume(item.payload[2] == item.replace)
    put = took, Cat(item.address[bit], item.payload[0], item.replace)
    take = wrote, Cat(write.address[bit], write.data[0], write.data[2])
    watch = Watch(m, put, take, capacity=memory_queue_flits)
    put, take = (took & ~item.replace, item.address[bit]), (transfer(fetch), fetch.address[bit])
    Watch(m, put, take, capacity=2, name="read")
    m.drive(fetch.data[:2])
    put, take = (fetch.data_valid, fetch.data[1]), (wrote & ~write.data[2], write.data[1])
    Watch(m, put, take, capacity=memory_queue_flits, name="added")
    m.check(unacked <= memory_queue_flits)
    m.cover("full", watch.held == memory_queue_flits)


@holds(
    "reducer.arrivals",
    *_SIZES,
    depth=BOUND_CYCLES,
    quick_depth=9,
)
def reducer_arrivals(m, *, memory_queue_flits, adder_cycles):
    """No arrival before every write of its sub-message is acknowledged; marks in order; idle means
    that all that was taken is reported.
    """
    block, _ = _reducer(m, memory_queue_flits, adder_cycles)
    item, ack = block.items.payload, block.write.ack
    # Twice the queue may be between a flit's being taken and its acknowledgement.
    followed = _Followed(
        m,
        taken=transfer(block.items),
        end=item.end,
        ack=ack,
        arrival=block.arrival,
        capacity=2 * memory_queue_flits,
        mark=_mark(item.mark),
    )
    # What waits for an idle reducer comes behind all that was taken, and alone (`receiver.joins`).
    m.check(~block.idle | (followed.missing == 0))
    m.check(~(block.idle | m.past(block.idle)) | ~block.arrival.valid)


@holds(
    "reducer.progress",
    *_SIZES,
    depth=18,
)
def reducer_progress(m, *, memory_queue_flits, adder_cycles):
    """With a memory that answers, something moves every adder + 5 cycles, or it is idle."""
    block = _block(m, memory_queue_flits, adder_cycles)
    fetches, writes = block.fetch.valid, block.write.valid
    m.d.comb += [
        block.fetch.ready.eq(1),
        block.fetch.data_valid.eq(m.past(fetches)),
        block.write.ready.eq(1),
        block.write.ack.eq(m.past(writes)),
    ]
    moves = Cat(transfer(block.items), fetches, writes, block.arrival.valid)
    stands = ~moves.any() & (~block.idle | (block.items.valid & ~block.items.ready))
    m.lasts(stands, adder_cycles + 5)
    m.cover("arrival", block.arrival.valid & block.arrival.last)
