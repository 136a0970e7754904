"""Properties of staging: what lies in a slot is read back and added once."""

from amaranth import Cat, Signal
from amaranth.lib import data

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.layouts import CONTRIBUTION, FLOW_ENTRY, SHARED_FLOW
from multitree.nic.reduce.reorder_buffer import ReorderBuffer
from tests.formal.bench import Watch, holds

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

    def __init__(self, bench, *, address_width):
        self.bench, m = bench, bench.m
        self.config = Config(
            num_classes=1, address_width=address_width, memory_queue_flits=QUEUE_FLITS
        )
        m.submodules.block = self.block = block = ReorderBuffer(self.config)
        self.entry_now = data.View(SHARED_FLOW, bench.free("entry", FLOW_ENTRY.size))
        m.d.comb += [
            block.jobs.valid.eq(bench.free("jobs_valid")),
            block.jobs.payload.flow.eq(bench.free("job_flow", 16)),
            block.jobs.payload.order.eq(bench.free("job_order", 2)),
            block.run.running.eq(bench.free("running")),
            block.run.window_base.eq(bench.constant("window_base", address_width)),
            block.lookup.granted.eq(block.lookup.valid & bench.free("granted")),
            block.lookup.intact.eq(bench.free("intact")),
            block.lookup.entry.eq(data.View(FLOW_ENTRY, self.entry_now.as_value())),
            block.read.ready.eq(bench.free("read_ready")),
            block.read.data_valid.eq(bench.free("data_valid")),
            block.read.data.eq(bench.free("data")),
            block.items.ready.eq(bench.free("items_ready")),
        ]
        self.job, self.entry = Signal(CONTRIBUTION), Signal(SHARED_FLOW)
        self.taken = block.jobs.valid & block.jobs.ready
        self.entry_came = bench.past(bench.past(block.lookup.granted))
        self.read_now = block.read.valid & block.read.ready
        self.moved_now = block.items.valid & block.items.ready
        with m.If(self.taken):
            m.d.sync += self.job.eq(block.jobs.payload)
        with m.If(self.entry_came):
            m.d.sync += self.entry.eq(self.entry_now)
        size = self.entry_now.size
        # What has no payload is in no slot; the rest is what the check of the flow lets pass.
        bench.assume(~self.entry_came | ((size != 0) & (size < 1 << address_width)))
        bench.assume(~self.entry_came | (self.entry_now.num_children <= self.config.max_children))
        unanswered = Signal(range(QUEUE_FLITS + 2))
        m.d.sync += unanswered.eq(unanswered + self.read_now - block.read.data_valid)
        bench.assume(~block.read.data_valid | (unanswered != 0))
        self.unanswered = unanswered


@holds("reorder_buffer.reads", {"address_width": 4}, depth=BOUND_CYCLES)
def reads(bench, *, address_width):
    """Each job reads its own slot and is added to its chunk, each flit once, in order; an entry of
    wrong parity is reported and nothing is read by it.
    """
    m = bench.m
    test = _Bench(bench, address_width=address_width)
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
    bench.check(block.jobs.ready == ~busy)
    bench.check(~block.lookup.valid | (busy & ~known & (block.lookup.flow == job.flow)))
    code = FaultCode.TABLE_PARITY.value
    bench.check((block.fault == code) == broken)
    bench.check((block.fault == 0) | broken)
    bench.check(~busy | (block.flow == job.flow))
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
    bench.check(~block.read.valid | (known & (unread != 0) & (block.read.address == slot)))
    bench.check(test.unanswered <= QUEUE_FLITS)
    said = Cat(
        item.address == place,
        ~item.replace,
        item.end == (left == 1),
        item.mark.op == 0,
        item.mark.flow == job.flow,
        item.mark.order == job.order,
        ~item.mark.staged,
        item.mark.final == (job.order == entry.num_children - 1),
        item.mark.count == 1,
        item.mark.last,
    ).all()
    bench.check(~block.items.valid | (known & (left != 0) & said & block.run.running))
    bench.check(~over | ((unread == 0) & (left == 1)))
    waits = bench.past(block.items.valid & ~block.items.ready) & block.run.running
    bench.check(~waits | block.items.valid)
    bench.cover("second", over & (entry.size == 2) & (job.order == 1))
    bench.cover("broken", broken)


@holds("reorder_buffer.payload", *_SIZES)
def payload(bench, *, address_width):
    """What memory gave is added once, in order; reads within the queue."""
    test = _Bench(bench, address_width=address_width)
    block = test.block
    watch = Watch(
        bench,
        put=block.read.data_valid,
        take=test.moved_now,
        value_in=block.read.data[:1],
        value_out=block.items.payload.payload[:1],
        capacity=QUEUE_FLITS,
    )
    bench.check((watch.held + test.unanswered) <= QUEUE_FLITS)
    bench.cover("full", watch.held == QUEUE_FLITS)


@holds("reorder_buffer.progress", {"address_width": 4}, quick_depth=20)
def progress(bench, *, address_width):
    """With a memory that answers, a job is over 8 cycles and one per flit later."""
    m = bench.m
    test = _Bench(bench, address_width=address_width)
    block = test.block
    bench.assume(block.run.running & block.items.ready & block.read.ready)
    bench.assume(~block.lookup.valid | block.lookup.granted)
    bench.assume(block.read.data_valid == bench.past(test.read_now))
    size, waited = Signal(address_width), Signal(address_width + 2)
    m.d.comb += size.eq(test.entry.size)
    with m.If(block.jobs.ready):
        m.d.sync += waited.eq(0)
    with m.Elif(~waited.all()):
        m.d.sync += waited.eq(waited + 1)
    known = test.moved_now & block.items.payload.end
    bench.check(~known | (waited <= size + JOB_CYCLES + 2))
    bench.check(waited <= (1 << address_width) + JOB_CYCLES + 2)
    bench.cover("long", known & (size == 7))
