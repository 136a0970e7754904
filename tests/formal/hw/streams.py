"""Properties of the elastic elements and of the arbiter."""

from amaranth import Mux, Signal

from multitree.hw.arbiter import RoundRobin
from multitree.hw.stream import CutFifo, Fifo, QuickFifo, Register
from tests.formal.bench import Watch, holds, sets, transfer


def _queue(m, block, *, capacity, hidden_cycles):
    """Order, no loss, no duplication; what is inside is offered, and stays offered."""
    m.submodules.block = block
    m.drive(block)
    i, o = block.i, block.o
    watch = Watch(m, (transfer(i), i.payload), (transfer(o), o.payload), capacity=capacity)
    m.lasts((watch.held != 0) & ~o.valid, hidden_cycles)
    m.check(m.stays(o.valid, o.ready, o.payload))
    m.cover("full", watch.held == capacity)
    return watch


@holds("stream.register", {"width": 2}, {"width": 16})
def register(m, *, width):
    """Order, no loss, no duplication; refuses only when full."""
    watch = _queue(m, block := Register(shape=width), capacity=2, hidden_cycles=0)
    m.check(block.i.ready == (watch.held != 2))


@holds("stream.fifo", *sets("width depth", (2, 3), (4, 2), (4, 5)))
def fifo(m, *, width, depth):
    """Order, no loss, no duplication, level; refuses only when full."""
    block = Fifo(shape=width, depth=depth)
    watch = _queue(m, block, capacity=depth, hidden_cycles=1)
    m.check(block.level == watch.held)
    m.check(block.empty == (watch.held == 0))
    if depth > 2:
        m.check(block.i.ready == (watch.held != depth))


def _passes(m, block, watch, depth):
    """A payload passes an empty queue in one cycle."""
    m.check(block.i.ready | (watch.held >= depth))
    passes = m.past((watch.held == 0) & block.i.valid)
    m.check(~passes | block.o.valid)
    m.cover("passes", passes & watch.left)


@holds("stream.quick_fifo", *sets("width depth", (2, 3), (8, 3), (4, 5)))
def quick_fifo(m, *, width, depth):
    """Order, no loss, no duplication, level; a payload passes an empty queue in one cycle."""
    block = QuickFifo(shape=width, depth=depth)
    watch = _queue(m, block, capacity=depth + 1, hidden_cycles=1)
    m.check(block.level == watch.held)
    _passes(m, block, watch, depth)


@holds("stream.cut_fifo", *sets("width depth", (2, 3), (8, 3), (4, 5)))
def cut_fifo(m, *, width, depth):
    """Order, no loss, no duplication; a payload passes an empty queue in one cycle."""
    block = CutFifo(shape=width, depth=depth)
    watch = _queue(m, block, capacity=depth + 2, hidden_cycles=1)
    _passes(m, block, watch, depth)


@holds("arbiter.round_robin", {"count": 2}, {"count": 1}, {"count": 5}, {"count": 9})
def round_robin(m, *, count):
    """One grant, to a requester; a standing request within count advances."""
    m.submodules.block = block = RoundRobin(count=count)
    m.drive(block)
    requests, advance, waiter = block.requests, block.advance, m.one_of(count, "waiter")
    m.check(block.valid == requests.any())
    m.check(block.grant < count)
    m.check(block.granted == block.valid << block.grant)
    m.check(Mux(block.valid, requests.bit_select(block.grant, 1), block.grant == 0))
    stands = requests.bit_select(waiter, 1)
    passed, others = Signal(count), Signal(range(count + 1))
    other = block.valid & advance & (block.grant != waiter)
    with m.If(~stands | (block.valid & advance & (block.grant == waiter))):
        m.d.sync += [passed.eq(0), others.eq(0)]
    with m.Elif(other):
        m.d.sync += [passed.eq(passed | (1 << block.grant)), others.eq(others + 1)]
    m.check(~(stands & other) | ~passed.bit_select(block.grant, 1))
    m.check(others < count)
    m.cover("last", others == count - 1)
