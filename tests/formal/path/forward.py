"""Properties of forwarding: nothing is read too early, no write overtakes another."""

from amaranth import Array, Cat, Mux, Signal
from amaranth.lib import data

from multitree.nic.config import Config, beginning_layout, job_layout
from multitree.nic.forward.chunk_finder import ChunkFinder
from multitree.nic.forward.write_order import WriteOrder
from tests.formal.bench import Property, driven

__all__ = ["PROPERTIES"]


def _config(wave_width=0):
    sizes = {"memory_queue_flits": 4, "address_width": 4, "submessage_flits": 2, "num_ports": 2}
    return Config(**sizes, forward_flits=32, wave_width=wave_width)


def _same(query, job):
    return (query.port == job.need_port) & (query.op == job.need_op) & (query.flow == job.flow)


def found(bench, *, wave_width):
    """A chunk is found once its message has begun, or is whole, and with its position."""
    m, config = bench.m, _config(wave_width)
    m.submodules.block = block = ChunkFinder(config)
    driven(bench, "jobs", block.jobs)
    cut_through = bench.constant("cut_through")
    m.d.comb += [
        block.run.running.eq(bench.free("running")),
        block.run.cut_through.eq(cut_through),
        block.found.ready.eq(bench.free("ready")),
    ]
    job, taken = Signal(job_layout(config)), block.jobs.valid & block.jobs.ready
    begun, position, whole = Signal(), Signal(config.position_width), Signal()
    with m.If(taken):
        m.d.sync += [job.eq(block.jobs.payload), begun.eq(0), whole.eq(0)]
    layout = beginning_layout(config)
    answer = data.View(layout, bench.free("beginning", layout.size))
    count = bench.free("count", config.count_width)
    pairs = ((block.beginning, answer.as_value()), (block.query, count))
    stood = []
    for number, (query, reported) in enumerate(pairs):
        m.d.comb += [query.answered.eq(bench.free(f"answered_{number}")), query.count.eq(reported)]
        asked = bench.past(query.valid & _same(query, job) & ~taken)
        stood.append(asked & query.answered)
    is_begun = stood[0] & answer.begun
    part = Mux(job.size == 0, 1, (job.size + 1) >> 1)
    is_whole = stood[1] & (count >= Cat(part[: config.part_width], job.wave))
    if wave_width:
        is_begun &= answer.wave == job.wave
    # A message begins at one position.
    bench.assume(~(is_begun & begun) | (answer.position == position))
    now_begun, now_whole = begun | is_begun, whole | is_whole
    with m.If(~taken):
        m.d.sync += [begun.eq(now_begun), whole.eq(now_whole)]
        with m.If(is_begun):
            m.d.sync += position.eq(answer.position)
    chunk = block.found.payload
    offered = block.found.valid
    at = Mux(is_begun, answer.position, position)
    bench.check(~(offered & ~job.needs) | ~chunk.tracked)
    bench.check(~(offered & job.needs & chunk.tracked) | (now_begun & cut_through))
    bench.check(~(offered & job.needs & ~chunk.tracked) | now_whole)
    first = offered & ~bench.past(offered)
    bench.check(~(first & job.needs & chunk.tracked) | (chunk.position == at))
    bench.check(~offered | (chunk.base == job.base) & (chunk.size == job.size))
    bench.cover("tracked", offered & chunk.tracked & (chunk.position == 5))
    bench.cover("whole", offered & job.needs & ~chunk.tracked & (job.size == 5))
    if wave_width:
        bench.cover("lost", offered & ~chunk.tracked & job.needs & cut_through)


def order(bench):
    """No flit may go before the one that it follows is acknowledged."""
    m, config = bench.m, _config()
    m.submodules.block = block = WriteOrder(config)
    driven(bench, "messages", block.messages)
    counts = [Signal(config.position_width, name=f"count_{k}") for k in range(config.num_ports)]
    for number, count in enumerate(counts):
        more = bench.free(f"more_{number}")
        m.d.sync += count.eq(count + (more & (count < 1 << config.address_width + 1)))
        m.d.comb += block.acknowledged[number].eq(count)
    moved, last = bench.free("moved"), bench.free("last")
    m.d.comb += [block.moved.eq(moved), block.last.eq(last)]
    bench.assume(~moved | block.may)
    # One message of all, any one: the flits that were moved before it are counted away.
    watched, place = bench.free("watched"), Signal(range(40))
    before, chosen = Signal(range(40)), Signal()
    tracked, port, position = Signal(), Signal(4), Signal(config.position_width)
    came, ended = block.messages.valid & block.messages.ready, moved & last
    offered = block.messages.payload
    bench.assume(~came | (offered.position < 1 << config.address_width + 1))
    bench.assume(~came | (offered.need_port < config.num_ports))
    is_first = watched & came & ~chosen
    with m.If(is_first):
        m.d.sync += [chosen.eq(1), tracked.eq(offered.tracked), port.eq(offered.need_port)]
        m.d.sync += position.eq(offered.position)
    with m.If(chosen & (before == 0)):
        m.d.sync += place.eq(place + moved)
    with m.If(~chosen):
        m.d.sync += before.eq(before + came - ended - is_first)
    with m.Elif(before != 0):
        m.d.sync += before.eq(before - ended)
    over = Signal()
    with m.If(chosen & (before == 0) & ended):
        m.d.sync += over.eq(1)
    known = Array(counts)[port]
    mine = chosen & (before == 0) & ~over & block.may
    bench.assume(place < 15)
    bench.check(~(mine & tracked) | (known > position + place))
    bench.cover("second", mine & tracked & moved & (place == 1) & (position == 3))


PROPERTIES = (
    Property(
        "chunk_finder.found",
        "no chunk before its message of this wave has begun or is whole, and its very position",
        found,
        ({"wave_width": 0}, {"wave_width": 2}),
    ),
    Property(
        "write_order.order",
        "no write before the one at its address that it follows is acknowledged",
        order,
        ({},),
    ),
)
