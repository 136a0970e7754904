"""Properties of the elastic elements and of the arbiter."""

from amaranth import Mux, Signal

from multitree.hw.arbiter import RoundRobin
from multitree.hw.stream import CutFifo, Fifo, QuickFifo, Register
from tests.formal.bench import Watch, driven, holds, steady


def _queue(bench, block, *, capacity, hidden_cycles):
    """Order, no loss, no duplication; what is inside is offered, and stays offered."""
    m = bench.m
    m.submodules.block = block
    driven(bench, "i", block.i)
    m.d.comb += block.o.ready.eq(bench.free("o_ready"))
    watch = Watch(
        bench,
        put=block.i.valid & block.i.ready,
        take=block.o.valid & block.o.ready,
        value_in=block.i.payload,
        value_out=block.o.payload,
        capacity=capacity,
    )
    hidden_for = Signal(range(hidden_cycles + 2))
    hidden = (watch.held != 0) & ~block.o.valid
    m.d.sync += hidden_for.eq(Mux(hidden, hidden_for + 1, 0))
    bench.check(hidden_for <= hidden_cycles)
    steady(bench, block.o.valid, block.o.ready, block.o.payload)
    bench.cover("full", watch.held == capacity)
    return watch


@holds("stream.register", {"width": 2}, {"width": 16})
def register(bench, *, width):
    """Order, no loss, no duplication; refuses only when full."""
    block = Register(shape=width)
    watch = _queue(bench, block, capacity=2, hidden_cycles=0)
    bench.check(block.i.ready == (watch.held != 2))


@holds("stream.fifo", {"width": 2, "depth": 3}, {"width": 4, "depth": 2}, {"width": 4, "depth": 5})
def fifo(bench, *, width, depth):
    """Order, no loss, no duplication, level; refuses only when full."""
    block = Fifo(shape=width, depth=depth)
    watch = _queue(bench, block, capacity=depth, hidden_cycles=1)
    bench.check(block.level == watch.held)
    bench.check(block.empty == (watch.held == 0))
    if depth > 2:
        bench.check(block.i.ready == (watch.held != depth))


@holds(
    "stream.quick_fifo",
    {"width": 2, "depth": 3},
    {"width": 8, "depth": 3},
    {"width": 4, "depth": 5},
)
def quick_fifo(bench, *, width, depth):
    """Order, no loss, no duplication, level; a payload passes an empty queue in one cycle."""
    block = QuickFifo(shape=width, depth=depth)
    watch = _queue(bench, block, capacity=depth + 1, hidden_cycles=1)
    bench.check(block.level == watch.held)
    bench.check(block.i.ready | (watch.held >= depth))
    passes = bench.past((watch.held == 0) & block.i.valid)
    bench.check(~passes | block.o.valid)
    bench.cover("passes", passes & watch.left)


@holds(
    "stream.cut_fifo", {"width": 2, "depth": 3}, {"width": 8, "depth": 3}, {"width": 4, "depth": 5}
)
def cut_fifo(bench, *, width, depth):
    """Order, no loss, no duplication; a payload passes an empty queue in one cycle."""
    block = CutFifo(shape=width, depth=depth)
    watch = _queue(bench, block, capacity=depth + 2, hidden_cycles=1)
    bench.check(block.i.ready | (watch.held >= depth))
    passes = bench.past((watch.held == 0) & block.i.valid)
    bench.check(~passes | block.o.valid)
    bench.cover("passes", passes & watch.left)


@holds("arbiter.round_robin", {"count": 2}, {"count": 1}, {"count": 5}, {"count": 9})
def round_robin(bench, *, count):
    """One grant, to a requester; a standing request within count advances."""
    m = bench.m
    m.submodules.block = block = RoundRobin(count=count)
    requests, advance = bench.free("requests", count), bench.free("advance")
    waiter = bench.constant("waiter", range(count))
    m.d.comb += [block.requests.eq(requests), block.advance.eq(advance)]
    bench.assume(waiter < count)
    bench.check(block.valid == requests.any())
    bench.check(block.grant < count)
    bench.check(block.granted == block.valid << block.grant)
    bench.check(Mux(block.valid, requests.bit_select(block.grant, 1), block.grant == 0))
    stands = requests.bit_select(waiter, 1)
    passed, others = Signal(count), Signal(range(count + 1))
    other = block.valid & advance & (block.grant != waiter)
    with m.If(~stands | (block.valid & advance & (block.grant == waiter))):
        m.d.sync += [passed.eq(0), others.eq(0)]
    with m.Elif(other):
        m.d.sync += [passed.eq(passed | (1 << block.grant)), others.eq(others + 1)]
    bench.check(~(stands & other) | ~passed.bit_select(block.grant, 1))
    bench.check(others < count)
    bench.cover("last", others == count - 1)
