"""Properties of the issuer: nothing leaves early, no read outside its chunk."""

from amaranth import Cat, Mux, Signal
from amaranth.lib import data

from multitree.nic.control.checker import FlowCheck
from multitree.nic.driver.config import Config
from multitree.nic.layouts import job_layout
from multitree.nic.send.issuer import Issuer
from tests.formal.bench import driven, holds

_SIZES = ({"submessage_flits": 2}, {"submessage_flits": 4})
_WAVES = tuple(sizes | {"wave_width": width} for width, sizes in enumerate(_SIZES, start=1))


def _config(submessage_flits, wave_width=0, shared=False):
    sizes = {"submessage_flits": submessage_flits, "wave_width": wave_width}
    shared = {"num_classes": 1, "flit_bytes": 16} if shared else {}
    return Config(memory_queue_flits=4, address_width=4, **sizes, **shared)


def _issuer(bench, config):
    """The block with free jobs and handshakes; returns it, its job in hand and the reads made."""
    m = bench.m
    m.submodules.block = block = Issuer(config)
    driven(bench, "jobs", block.jobs)
    m.d.comb += [
        block.run.running.eq(bench.free("running")),
        block.run.cut_through.eq(bench.constant("cut_through")),
        block.run.window_base.eq(bench.constant("window_base", config.address_width)),
        block.descriptors.ready.eq(bench.free("descriptors_ready")),
        block.reads.ready.eq(bench.free("reads_ready")),
        block.returned.eq(bench.free("returned")),
    ]
    job = Signal(job_layout(config))
    place = Signal(config.address_width + 1)
    with m.If(block.jobs.valid & block.jobs.ready):
        m.d.sync += [job.eq(block.jobs.payload), place.eq(0)]
    with m.Elif(block.reads.valid & block.reads.ready):
        m.d.sync += place.eq(place + 1)
    return block, job, place


def _tracker(bench, block, job, config):
    """Sub-messages of the job's dependency that are in, as a tracker may tell: never too many."""
    m = bench.m
    count = Signal(config.count_width)
    more, asked = bench.free("more"), bench.past(block.query.valid)
    m.d.comb += [block.query.answered.eq(bench.free("answered"))]
    reported = bench.free("reported", config.count_width)
    m.d.comb += block.query.count.eq(reported)
    same = Cat(
        block.query.port == job.need_port,
        block.query.op == job.need_op,
        block.query.flow == job.flow,
    ).all()
    stood = bench.past(block.query.valid & same)
    bench.assume(~(block.query.answered & asked & stood) | (reported <= bench.past(count)))
    with m.If(block.jobs.valid & block.jobs.ready):
        m.d.sync += count.eq(bench.free("initial", config.count_width))
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
def dependency(bench, *, submessage_flits, wave_width=0, shared=False):
    """A descriptor, and with cut-through each read, only after the count it needs of its wave."""
    config = _config(submessage_flits, wave_width, shared)
    block, job, place = _issuer(bench, config)
    count = _tracker(bench, block, job, config)
    shift = submessage_flits.bit_length() - 1
    whole = (job.size + (submessage_flits - 1)) >> shift
    if shared:
        # One count tells of the whole sum or result; there is no cut-through.
        bench.assume(~block.run.cut_through)
        whole = 1
    first = Mux(block.run.cut_through | (job.size == 0), 1, whole)
    described = block.descriptors.valid
    reads = block.reads.valid
    wave, part = job.wave << config.part_width, place >> shift
    if wave_width:
        # A count is a wave's number above sub-messages: all of the one before is not enough.
        first, part = wave + first, wave + part
    bench.check(~(described & job.needs) | (count >= first))
    bench.check(~(reads & job.needs & block.run.cut_through) | (count > part))
    bench.check(~(described | reads) | block.run.running)
    bench.cover("descriptor", described & job.needs & (job.size > 2))
    bench.cover("second", reads & job.needs & (place >> shift == 1))
    if wave_width:
        bench.cover("later", described & job.needs & (job.wave == 1) & (job.size > 2))
        bench.check(~described | (block.descriptors.payload.wave == job.wave))


@holds("issuer.reads", *_SIZES)
def reads(bench, *, submessage_flits):
    """One descriptor per job, reads base..base+size once and in order, within the queue."""
    m = bench.m
    config = _config(submessage_flits)
    block, job, place = _issuer(bench, config)
    described, first = Signal(), Signal(init=1)
    taken = block.jobs.valid & block.jobs.ready
    fires = block.descriptors.valid & block.descriptors.ready
    with m.If(taken):
        m.d.sync += [described.eq(0), first.eq(0)]
    with m.Elif(fires):
        m.d.sync += described.eq(1)
    expected = (block.run.window_base + job.base + place)[: config.address_width]
    bench.check(~block.reads.valid | ((described | fires) & (place < job.size)))
    bench.check(~block.reads.valid | (block.reads.payload == expected))
    bench.check(~fires | (~described & ~first & _describes(block.descriptors.payload, job)))
    bench.check(~(taken | block.idle) | first | (described & (place == job.size)))
    outstanding = Signal(range(6))
    read = block.reads.valid & block.reads.ready
    m.d.sync += outstanding.eq(outstanding + read - block.returned)
    bench.assume(~block.returned | (outstanding != 0))
    bench.check(outstanding <= config.memory_queue_flits)
    bench.cover("last", read & (job.size == 5) & (place == 4))


def _describes(descriptor, job):
    names = ("flow", "op", "size", "row")
    return Cat(getattr(descriptor, name) == getattr(job, name) for name in names).all()


@holds("issuer.progress", *_SIZES)
def progress(bench, *, submessage_flits):
    """With an open framer, memory and dependency a job ends within its size and 4 cycles."""
    m = bench.m
    config = _config(submessage_flits)
    m.submodules.block = block = Issuer(config)
    driven(bench, "jobs", block.jobs)
    asked = bench.past(block.query.valid)
    whole, waited = Signal(config.count_width), Signal(config.address_width + 2)
    m.d.comb += [
        block.run.running.eq(1),
        block.run.cut_through.eq(bench.constant("cut_through")),
        block.descriptors.ready.eq(1),
        block.reads.ready.eq(1),
        # Two cycles of memory are less than the room for four flits.
        block.returned.eq(bench.past(bench.past(block.reads.valid))),
        block.query.answered.eq(asked),
        block.query.count.eq(Mux(waited < 3, 1, whole)),
    ]
    size = Signal(config.address_width)
    # No more than the last flit needs, and that only when the first ones may go.
    m.d.comb += whole.eq(Mux(size == 0, 1, (size + submessage_flits - 1) // submessage_flits))
    with m.If(block.jobs.valid & block.jobs.ready):
        m.d.sync += [size.eq(block.jobs.payload.size), waited.eq(0)]
    with m.Elif(~block.jobs.ready):
        m.d.sync += waited.eq(waited + 1)
    bench.check(block.jobs.ready | (waited <= size + 6))
    bench.cover("long", block.jobs.ready & (waited > 8))


@holds("issuer.window", *_SIZES, quick_depth=9)
def window(bench, *, submessage_flits):
    """No read outside the window, whatever the entry.

    Whatever a flow's entry says: if the check lets it pass, no read is outside the window.
    """
    m = bench.m
    config = _config(submessage_flits)
    block, _, _ = _issuer(bench, config)
    m.submodules.flow_check = check = FlowCheck(config)
    entry = bench.free("entry", check.entry.shape().size)
    window_flits = bench.constant("window_flits", config.address_width)
    m.d.comb += [
        check.entry.eq(data.View(check.entry.shape(), entry)),
        check.window_flits.eq(window_flits),
    ]
    taken, job = block.jobs.valid & block.jobs.ready, block.jobs.payload
    lowered = (job.base == check.entry.base[:4]) & (job.size == check.entry.size[:4])
    bench.assume(~taken | ((check.code == 0) & lowered))
    end = block.run.window_base + window_flits
    bench.assume(end <= 1 << config.address_width)
    address = block.reads.payload
    inside = (address >= block.run.window_base) & (address < end)
    bench.check(~block.reads.valid | inside)
    bench.cover("read", block.reads.valid & (address == end - 1))
