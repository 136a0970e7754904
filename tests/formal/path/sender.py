"""Properties of the sender: every message framed, its data once and in order."""

from amaranth import Cat, Signal
from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.layouts import head_layout
from multitree.nic.send.sender import Sender
from tests.formal.bench import Watch, holds, sets, transfer

_SIZES = sets("submessage_flits packets", (2, True), (2, False), (4, True))
QUEUE_FLITS = 4
BOUND_CYCLES = 13
"""Cycles searched: the whole sender is too much for a proof without bound."""


def _sender(m, submessage_flits, packets, wave_width=0):
    """The block with free jobs, and a memory that answers in order, whenever it likes."""
    sizes = {"submessage_flits": submessage_flits, "wave_width": wave_width}
    config = Config(memory_queue_flits=QUEUE_FLITS, address_width=4, flit_bytes=8, **sizes)
    m.submodules.block = block = Sender(config)
    memory = block.memory
    m.drive(block.jobs, block.query, block.flits, memory.ready, memory.data_valid, memory.data)
    m.fix(block.run.cut_through)
    m.d.comb += [block.run.running.eq(1), block.run.packets.eq(packets)]
    m.check(m.owed(transfer(memory), memory.data_valid, QUEUE_FLITS) <= QUEUE_FLITS)
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
def framing(m, *, submessage_flits, packets, wave_width=0):
    """One arbitrary job: a head that names it, then its flits, tails exactly where they belong."""
    block, config = _sender(m, submessage_flits, packets, wave_width)
    sent, kind = transfer(block.flits), block.flits.payload.kind
    layout = head_layout(config)
    head = data.View(layout, block.flits.payload.payload[: layout.size])
    is_head = (kind == Kind.HEAD) | (kind == Kind.SINGLE)
    begins, moves = sent & is_head & ~head.continued, sent & ~is_head
    job = block.jobs.payload
    put = transfer(block.jobs), Cat(job.size, job.flow[:2], job.op, job.wave)
    said = Cat(head.size[:4], head.flow[:2], head.op, head.wave[:wave_width])
    watch = Watch(m, put, (begins, said), capacity=8)
    if wave_width:
        wave = m.latch(begins, head.wave)
        m.check(~(sent & is_head & head.continued) | (head.wave == wave))
    left, place = Signal(config.address_width), Signal(range(submessage_flits))
    with m.If(begins):
        m.d.sync += [left.eq(head.size), place.eq(0)]
    with m.Elif(moves):
        m.d.sync += [left.eq(left - 1), place.eq(place + 1)]
    ends = (left == 1) | (place.all() & packets)
    m.check(~moves | ((left != 0) & ((kind == Kind.TAIL) == ends)))
    m.check(~begins | ((left == 0) & ((kind == Kind.SINGLE) == (head.size == 0))))
    m.check(~(sent & is_head & head.continued) | ((left != 0) & ~place.any() & packets))
    m.check(~block.idle | ((left == 0) & (watch.held == 0)))
    m.cover("tail", moves & (left == 1) & (place == 0))


@holds("sender.payload", *_SIZES, depth=BOUND_CYCLES, quick_depth=9)
def payload(m, *, submessage_flits, packets):
    """Data from memory go out once and in order; reads within the queue; idle means none left."""
    block, _ = _sender(m, submessage_flits, packets)
    kind = block.flits.payload.kind
    is_data = (kind == Kind.BODY) | (kind == Kind.TAIL)
    put = block.memory.data_valid, block.memory.data[0]
    take = transfer(block.flits) & is_data, block.flits.payload.payload[0]
    watch = Watch(m, put, take, capacity=QUEUE_FLITS)
    shown = block.flits.payload.as_value()[:4]
    m.check(m.stays(block.flits.valid, block.flits.ready, shown))
    m.check(~block.idle | (watch.held == 0))
    m.cover("full", watch.held == QUEUE_FLITS)
