"""Properties of staging: what lies in a slot is read back and added once."""

from amaranth import Cat, Signal
from amaranth.lib import data

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.layouts import SHARED_FLOW
from multitree.nic.reduce.reorder_buffer import ReorderBuffer
from tests.formal.bench import Watch, alike, holds, transfer

_SIZES = ({"address_width": 4}, {"address_width": 5})

QUEUE_FLITS = 4
BOUND_CYCLES = 16
"""Cycles searched where slots are numbered by a product, which is too much for a proof."""
JOB_CYCLES = 6
"""Cycles from taking a job to its first read, with a flow memory that grants at once."""


class _Bench:
    """The block with free jobs, a flow memory that tells anything, and a memory in order.

    Members: `job`, the one in hand, and what is known of it: `entry`, `intact`; `entry_came`, the
    flow memory answers in this cycle; `taken`, a job is; `read_now`, a flit is read; `moved_now`,
    one is added.
    """

    def __init__(self, m, *, address_width):
        sizes = {"address_width": address_width, "memory_queue_flits": QUEUE_FLITS}
        config = Config(num_classes=1, **sizes)
        m.submodules.block = self.block = block = ReorderBuffer(config)
        self.entry_now = data.View(SHARED_FLOW, block.lookup.entry.as_value())
        job = block.jobs.payload
        m.drive(block.jobs.valid, job.flow, job.order[:2], block.run.running, block.items.ready)
        m.drive(block.read.ready, block.read.data_valid, block.read.data[:1])
        m.drive(self.entry_now, block.lookup.intact)
        m.fix(block.run.window_base)
        m.d.comb += block.lookup.granted.eq(block.lookup.valid & m.free("granted"))
        self.taken = transfer(block.jobs)
        self.entry_came = m.past(block.lookup.granted, 2)
        self.read_now = transfer(block.read)
        self.moved_now = transfer(block.items)
        self.job = m.latch(self.taken, job)
        self.entry = m.latch(self.entry_came, self.entry_now)
        size = self.entry_now.size
        # What has no payload is in no slot; the rest is what the check of the flow lets pass.
        m.assume(~self.entry_came | ((size != 0) & (size < 1 << address_width)))
        m.assume(~self.entry_came | (self.entry_now.num_children <= config.max_children))
        self.unanswered = m.owed(self.read_now, block.read.data_valid, QUEUE_FLITS)


@holds("reorder_buffer.reads", {"address_width": 4}, depth=BOUND_CYCLES)
def reads(m, *, address_width):
    """Each job reads its own slot and is added to its chunk, each flit once, in order; an entry of
    wrong parity is reported and nothing is read by it.
    """
    test = _Bench(m, address_width=address_width)
    block, job, entry, item = test.block, test.job, test.entry, test.block.items.payload
    busy, known = Signal(), Signal()
    broken = test.entry_came & ~block.lookup.intact
    over = test.moved_now & block.items.payload.end
    with m.If(test.taken):
        m.d.sync += [busy.eq(1), known.eq(0)]
    with m.Elif(over | broken):
        m.d.sync += [busy.eq(0), known.eq(0)]
    with m.Elif(test.entry_came):
        m.d.sync += known.eq(1)
    m.check(block.jobs.ready == ~busy)
    m.check(~block.lookup.valid | (busy & ~known & (block.lookup.flow == job.flow)))
    code = FaultCode.TABLE_PARITY.value
    m.check((block.fault == code) == broken)
    m.check((block.fault == 0) | broken)
    m.check(~busy | (block.flow == job.flow))
    # Counted on flit by flit, as the block does: the solver need not know what sums are.
    slot, place, unread, left = (Signal(address_width, name=f"due_{k}") for k in range(4))
    base, size = block.run.window_base, test.entry_now.size[:address_width]
    with m.If(test.entry_came):
        m.d.sync += slot.eq(base + test.entry_now.staging + job.order * size)
        m.d.sync += [place.eq(base + test.entry_now.base), unread.eq(size), left.eq(size)]
    with m.If(test.read_now):
        m.d.sync += [slot.eq(slot + 1), unread.eq(unread - 1)]
    with m.If(test.moved_now):
        m.d.sync += [place.eq(place + 1), left.eq(left - 1)]
    m.check(~block.read.valid | (known & (unread != 0) & (block.read.address == slot)))
    m.check(test.unanswered <= QUEUE_FLITS)
    said = Cat(
        item.address == place,
        ~item.replace,
        item.end == (left == 1),
        item.mark.op == 0,
        alike(item.mark, job, "flow order"),
        ~item.mark.staged,
        item.mark.final == (job.order == entry.num_children - 1),
        item.mark.count == 1,
        item.mark.last,
    ).all()
    m.check(~block.items.valid | (known & (left != 0) & said & block.run.running))
    m.check(~over | ((unread == 0) & (left == 1)))
    waits = m.past(block.items.valid & ~block.items.ready) & block.run.running
    m.check(~waits | block.items.valid)
    m.cover("second", over & (entry.size == 2) & (job.order == 1))
    m.cover("broken", broken)


@holds("reorder_buffer.payload", *_SIZES)
def payload(m, *, address_width):
    """What memory gave is added once, in order; reads within the queue."""
    test = _Bench(m, address_width=address_width)
    block = test.block
    added = block.items.payload.payload[:1]
    came = block.read.data_valid, block.read.data[:1]
    watch = Watch(m, came, (test.moved_now, added), capacity=QUEUE_FLITS)
    m.check((watch.held + test.unanswered) <= QUEUE_FLITS)
    m.cover("full", watch.held == QUEUE_FLITS)


@holds("reorder_buffer.progress", {"address_width": 4}, quick_depth=20)
def progress(m, *, address_width):
    """With a memory that answers, a job is over 8 cycles and one per flit later."""
    test = _Bench(m, address_width=address_width)
    block = test.block
    m.assume(block.run.running & block.items.ready & block.read.ready)
    m.assume(~block.lookup.valid | block.lookup.granted)
    m.assume(block.read.data_valid == m.past(test.read_now))
    size, waited = Signal(address_width), Signal(address_width + 2)
    m.d.comb += size.eq(test.entry.size)
    with m.If(block.jobs.ready):
        m.d.sync += waited.eq(0)
    with m.Elif(~waited.all()):
        m.d.sync += waited.eq(waited + 1)
    known = test.moved_now & block.items.payload.end
    m.check(~known | (waited <= size + JOB_CYCLES + 2))
    m.check(waited <= (1 << address_width) + JOB_CYCLES + 2)
    m.cover("long", known & (size == 7))
