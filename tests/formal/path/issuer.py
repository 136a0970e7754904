"""Properties of the issuer: nothing leaves early, no read outside its chunk."""

from amaranth import Mux, Signal

from multitree.nic.control.checker import FlowCheck
from multitree.nic.driver.config import Config
from multitree.nic.layouts import job_layout
from multitree.nic.send.issuer import Issuer
from tests.formal.bench import alike, holds, transfer

_SIZES = ({"submessage_flits": 2}, {"submessage_flits": 4})
_WAVES = tuple(sizes | {"wave_width": width} for width, sizes in enumerate(_SIZES, start=1))


def _config(submessage_flits, wave_width=0, shared=False):
    sizes = {"submessage_flits": submessage_flits, "wave_width": wave_width}
    shared = {"num_classes": 1, "flit_bytes": 16} if shared else {}
    return Config(memory_queue_flits=4, address_width=4, **sizes, **shared)


def _issuer(m, config):
    """The block with free jobs and handshakes; returns it, its job in hand and the reads made."""
    m.submodules.block = block = Issuer(config)
    m.drive(block.jobs, block.run.running, block.descriptors, block.reads, block.returned)
    m.fix(block.run.cut_through, block.run.window_base)
    job = Signal(job_layout(config))
    place = Signal(config.address_width + 1)
    with m.If(transfer(block.jobs)):
        m.d.sync += [job.eq(block.jobs.payload), place.eq(0)]
    with m.Elif(transfer(block.reads)):
        m.d.sync += place.eq(place + 1)
    return block, job, place


def _tracker(m, block, job, config):
    """Sub-messages of the job's dependency that are in, as a tracker may tell: never too many."""
    query, count, more = block.query, Signal(config.count_width), m.free("more")
    m.drive(query)
    same = (query.port == job.need_port) & (query.op == job.need_op) & (query.flow == job.flow)
    stood = m.past(query.valid) & m.past(query.valid & same)
    m.assume(~(query.answered & stood) | (query.count <= m.past(count)))
    with m.If(transfer(block.jobs)):
        m.d.sync += count.eq(m.free("initial", config.count_width))
    with m.Elif(more & ~count.all()):
        m.d.sync += count.eq(count + 1)
    return count


@holds(
    "issuer.waves",
    *_WAVES,
    claim="the same of the count of the job's own wave, which its descriptor names",
)
@holds(
    "issuer.dependency",
    *_SIZES,
    {"submessage_flits": 2, "shared": True},
    claim="no descriptor, and with cut-through no read, before its dependency's count",
)
def dependency(m, *, submessage_flits, wave_width=0, shared=False):
    """A descriptor, and with cut-through each read, only after the count it needs of its wave."""
    config = _config(submessage_flits, wave_width, shared)
    block, job, place = _issuer(m, config)
    count = _tracker(m, block, job, config)
    shift = submessage_flits.bit_length() - 1
    whole = (job.size + (submessage_flits - 1)) >> shift
    if shared:
        # One count tells of the whole sum or result; there is no cut-through.
        m.assume(~block.run.cut_through)
        whole = 1
    first = Mux(block.run.cut_through | (job.size == 0), 1, whole)
    described, reads = block.descriptors.valid, block.reads.valid
    wave, part = job.wave << config.part_width, place >> shift
    if wave_width:
        # A count is a wave's number above sub-messages: all of the one before is not enough.
        first, part = wave + first, wave + part
    m.check(~(described & job.needs) | (count >= first))
    m.check(~(reads & job.needs & block.run.cut_through) | (count > part))
    m.check(~(described | reads) | block.run.running)
    m.cover("descriptor", described & job.needs & (job.size > 2))
    m.cover("second", reads & job.needs & (place >> shift == 1))
    if wave_width:
        m.cover("later", described & job.needs & (job.wave == 1) & (job.size > 2))
        m.check(~described | (block.descriptors.payload.wave == job.wave))


@holds("issuer.reads", *_SIZES)
def reads(m, *, submessage_flits):
    """One descriptor per job, reads base..base+size once and in order, within the queue."""
    config = _config(submessage_flits)
    block, job, place = _issuer(m, config)
    described, first = Signal(), Signal(init=1)
    taken, fires = transfer(block.jobs), transfer(block.descriptors)
    with m.If(taken):
        m.d.sync += [described.eq(0), first.eq(0)]
    with m.Elif(fires):
        m.d.sync += described.eq(1)
    expected = (block.run.window_base + job.base + place)[: config.address_width]
    m.check(~block.reads.valid | ((described | fires) & (place < job.size)))
    m.check(~block.reads.valid | (block.reads.payload == expected))
    m.check(
        ~fires | (~described & ~first & alike(block.descriptors.payload, job, "flow op size row"))
    )
    m.check(~(taken | block.idle) | first | (described & (place == job.size)))
    read = transfer(block.reads)
    outstanding = m.owed(read, block.returned, config.memory_queue_flits)
    m.check(outstanding <= config.memory_queue_flits)
    m.cover("last", read & (job.size == 5) & (place == 4))


@holds("issuer.progress", *_SIZES)
def progress(m, *, submessage_flits):
    """With an open framer, memory and dependency a job ends within its size and 4 cycles."""
    config = _config(submessage_flits)
    m.submodules.block = block = Issuer(config)
    m.drive(block.jobs)
    m.fix(block.run.cut_through)
    whole, waited = Signal(config.count_width), Signal(config.address_width + 2)
    m.d.comb += [
        block.run.running.eq(1),
        block.descriptors.ready.eq(1),
        block.reads.ready.eq(1),
        # Two cycles of memory are less than the room for four flits.
        block.returned.eq(m.past(block.reads.valid, 2)),
        block.query.answered.eq(m.past(block.query.valid)),
        block.query.count.eq(Mux(waited < 3, 1, whole)),
    ]
    size = Signal(config.address_width)
    # No more than the last flit needs, and that only when the first ones may go.
    m.d.comb += whole.eq(Mux(size == 0, 1, (size + submessage_flits - 1) // submessage_flits))
    with m.If(transfer(block.jobs)):
        m.d.sync += [size.eq(block.jobs.payload.size), waited.eq(0)]
    with m.Elif(~block.jobs.ready):
        m.d.sync += waited.eq(waited + 1)
    m.check(block.jobs.ready | (waited <= size + 6))
    m.cover("long", block.jobs.ready & (waited > 8))


@holds("issuer.window", *_SIZES, quick_depth=9)
def window(m, *, submessage_flits):
    """No read outside the window, whatever the entry."""
    config = _config(submessage_flits)
    block, _, _ = _issuer(m, config)
    m.submodules.flow_check = check = FlowCheck(config)
    m.drive(check.entry)
    m.fix(check.window_flits)
    taken, job = transfer(block.jobs), block.jobs.payload
    lowered = (job.base == check.entry.base[:4]) & (job.size == check.entry.size[:4])
    m.assume(~taken | ((check.code == 0) & lowered))
    end = block.run.window_base + check.window_flits
    m.assume(end <= 1 << config.address_width)
    address = block.reads.payload
    inside = (address >= block.run.window_base) & (address < end)
    m.check(~block.reads.valid | inside)
    m.cover("read", block.reads.valid & (address == end - 1))
