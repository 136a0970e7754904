"""Properties of the sender: every message framed, its data once and in order."""

from amaranth import Cat, Signal
from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.layouts import head_layout
from multitree.nic.send.sender import Sender
from tests.formal.bench import Watch, driven, holds, steady

_SIZES = (
    {"submessage_flits": 2, "packets": True},
    {"submessage_flits": 2, "packets": False},
    {"submessage_flits": 4, "packets": True},
)

QUEUE_FLITS = 4
BOUND_CYCLES = 13
"""Cycles searched: the whole sender is too much for a proof without bound."""


def _sender(bench, submessage_flits, packets, wave_width=0):
    """The block with free jobs, and a memory that answers in order, whenever it likes."""
    m = bench.m
    config = Config(
        memory_queue_flits=QUEUE_FLITS,
        address_width=4,
        submessage_flits=submessage_flits,
        flit_bytes=8,
        wave_width=wave_width,
    )
    m.submodules.block = block = Sender(config)
    driven(bench, "jobs", block.jobs)
    answers, unanswered = bench.free("data_valid"), Signal(range(QUEUE_FLITS + 2))
    m.d.comb += [
        block.run.running.eq(1),
        block.run.packets.eq(packets),
        block.run.cut_through.eq(bench.constant("cut_through")),
        block.query.answered.eq(bench.free("answered")),
        block.query.count.eq(bench.free("count", config.count_width)),
        block.memory.ready.eq(bench.free("memory_ready")),
        block.memory.data_valid.eq(answers),
        block.memory.data.eq(bench.free("data", 8 * config.flit_bytes)),
        block.flits.ready.eq(bench.free("flits_ready")),
    ]
    asked = block.memory.valid & block.memory.ready
    m.d.sync += unanswered.eq(unanswered + asked - answers)
    bench.assume(~answers | (unanswered != 0))
    bench.check(unanswered <= QUEUE_FLITS)
    return block, config


@holds(
    "sender.waves",
    *tuple(sizes | {"wave_width": 2} for sizes in _SIZES[:2]),
    depth=BOUND_CYCLES,
    quick_depth=9,
    claim="the same, and each head of a message names its job's wave",
)
@holds(
    "sender.framing",
    *_SIZES,
    depth=BOUND_CYCLES,
    quick_depth=9,
    claim="each job is one message: its head, as many flits as it has, tails where they belong",
)
def framing(bench, *, submessage_flits, packets, wave_width=0):
    """One arbitrary job: a head that names it, then its flits, tails exactly where they belong."""
    m = bench.m
    block, config = _sender(bench, submessage_flits, packets, wave_width)
    sent, kind = block.flits.valid & block.flits.ready, block.flits.payload.kind
    layout = head_layout(config)
    head = data.View(layout, block.flits.payload.payload[: layout.size])
    is_head = (kind == Kind.HEAD) | (kind == Kind.SINGLE)
    begins, moves = sent & is_head & ~head.continued, sent & ~is_head
    job = block.jobs.payload
    watch = Watch(
        bench,
        put=block.jobs.valid & block.jobs.ready,
        take=begins,
        value_in=Cat(job.size, job.flow[:2], job.op, job.wave),
        value_out=Cat(head.size[:4], head.flow[:2], head.op, head.wave[:wave_width]),
        capacity=8,
    )
    if wave_width:
        wave = Signal(16)
        with m.If(begins):
            m.d.sync += wave.eq(head.wave)
        bench.check(~(sent & is_head & head.continued) | (head.wave == wave))
    left, place = Signal(config.address_width), Signal(range(submessage_flits))
    with m.If(begins):
        m.d.sync += [left.eq(head.size), place.eq(0)]
    with m.Elif(moves):
        m.d.sync += [left.eq(left - 1), place.eq(place + 1)]
    ends = (left == 1) | (place.all() & packets)
    bench.check(~moves | ((left != 0) & ((kind == Kind.TAIL) == ends)))
    bench.check(~begins | ((left == 0) & ((kind == Kind.SINGLE) == (head.size == 0))))
    bench.check(~(sent & is_head & head.continued) | ((left != 0) & ~place.any() & packets))
    bench.check(~block.idle | ((left == 0) & (watch.held == 0)))
    bench.cover("tail", moves & (left == 1) & (place == 0))


@holds("sender.payload", *_SIZES, depth=BOUND_CYCLES, quick_depth=9)
def payload(bench, *, submessage_flits, packets):
    """Data from memory go out once and in order; reads within the queue; idle means none left."""
    block, _ = _sender(bench, submessage_flits, packets)
    kind = block.flits.payload.kind
    is_data = (kind == Kind.BODY) | (kind == Kind.TAIL)
    watch = Watch(
        bench,
        put=block.memory.data_valid,
        take=block.flits.valid & block.flits.ready & is_data,
        value_in=block.memory.data[0],
        value_out=block.flits.payload.payload[0],
        capacity=QUEUE_FLITS,
    )
    shown = block.flits.payload.as_value()[:4]
    steady(bench, block.flits.valid, block.flits.ready, shown)
    bench.check(~block.idle | (watch.held == 0))
    bench.cover("full", watch.held == QUEUE_FLITS)
