"""Properties of forwarding: nothing is read too early, no write overtakes another."""

from amaranth import Array, Cat, Mux, Signal
from amaranth.lib import data

from multitree.nic.driver.config import Config
from multitree.nic.forward.chunk_finder import ChunkFinder
from multitree.nic.forward.chunk_reader import ChunkReader, MergedQueue
from multitree.nic.forward.positions import beginning_layout, position_width
from multitree.nic.layouts import job_layout
from multitree.nic.reduce.forwarding_reducer import WriteOrder
from tests.formal.bench import Watch, driven, holds
from tests.formal.stand_ins import free_outputs, hand_out, hollow

__all__ = ["in_hand", "small_config"]

KEPT_FLITS, STALE_FLITS = 8, 2
"""Flits that a port keeps here, so that positions go beyond, and those left as room of them."""
QUEUED_CYCLES = 3
"""Cycles that a message may be on its way in a queue although none is in front of it."""
READ_CYCLES = 12
"""Cycles searched for reads, which are too much for a proof: a full queue takes 8."""


def small_config(wave_width=0):
    """Interfaces that forward, with queues and chunks of a few flits."""
    sizes = {"memory_queue_flits": 4, "address_width": 4, "submessage_flits": 2, "num_ports": 2}
    return Config(**sizes, forward_flits=32, wave_width=wave_width)


def _same(query, job):
    return (query.port == job.need_port) & (query.op == job.need_op) & (query.flow == job.flow)


@holds("chunk_finder.found", {"wave_width": 0}, {"wave_width": 2})
def found(bench, *, wave_width):
    """No chunk before its message of this wave has begun or is whole, and its very position."""
    m, config = bench.m, small_config(wave_width)
    m.submodules.block = block = ChunkFinder(config)
    driven(bench, "jobs", block.jobs)
    cut_through = bench.constant("cut_through")
    m.d.comb += [
        block.run.running.eq(bench.free("running")),
        block.run.cut_through.eq(cut_through),
        block.found.ready.eq(bench.free("ready")),
    ]
    job, taken = Signal(job_layout(config)), block.jobs.valid & block.jobs.ready
    begun, position, whole = Signal(), Signal(position_width(config)), Signal()
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
    bench.check(~offered | block.run.running)
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


@holds("write_order.order", {"messages": 3})
def order(bench, *, messages):
    """No write before the one at its address that it follows is acknowledged, and each in the cycle
    after that.
    """
    m, config = bench.m, small_config()
    bench.replace("multitree.nic.reduce.forwarding_reducer.QUEUED_WRITES", messages)
    m.submodules.block = block = WriteOrder(config)
    driven(bench, "messages", block.messages)
    most = (1 << position_width(config) - 1) - 1
    counts = [Signal(position_width(config), name=f"count_{k}") for k in range(config.num_ports)]
    for number, count in enumerate(counts):
        m.d.sync += count.eq(count + (bench.free(f"more_{number}") & (count < most)))
        m.d.comb += block.acknowledged[number].eq(count)
    moved, last = bench.free("moved"), bench.free("last")
    m.d.comb += [block.moved.eq(moved), block.last.eq(last)]
    bench.assume(~moved | block.may)
    # A queue of the bench's own, whose first entry moves on with each flit.
    entry = data.StructLayout({"tracked": 1, "port": 1, "position": position_width(config)})
    queued = Signal(data.ArrayLayout(entry, messages + 3))
    held, offered = Signal(range(messages + 4)), block.messages.payload
    came, left = block.messages.valid & block.messages.ready, moved & last
    bench.assume(~came | ((offered.position < most) & (offered.need_port < config.num_ports)))
    # No message is so long that positions would wrap.
    first = queued[0]
    bench.assume(~moved | (first.position < most))
    m.d.sync += held.eq(held + came - left)
    with m.If(left):
        m.d.sync += [queued[k].eq(queued[k + 1]) for k in range(messages + 2)]
    with m.Elif(moved):
        m.d.sync += first.position.eq(first.position + 1)
    with m.If(came):
        new = queued[(held - left)[: len(held)]]
        m.d.sync += [new.tracked.eq(offered.tracked), new.port.eq(offered.need_port)]
        m.d.sync += new.position.eq(offered.position)
    bench.check(~block.may | (held != 0))
    is_there = ~first.tracked | (Array(counts)[first.port] > first.position)
    bench.check(~block.may | is_there)
    # Where all is known a cycle before, nothing waits, but for messages on their way in the queue.
    known = ~first.tracked | (Array(map(bench.past, counts))[first.port] > first.position)
    came_lately = Signal(QUEUED_CYCLES)
    m.d.sync += came_lately.eq(Cat(came, came_lately))
    bench.check(block.may | (held == 0) | came_lately.any() | ~known)
    bench.check(~block.empty | (held == 0))
    bench.cover("second", moved & first.tracked & (first.position == 3) & bench.past(left))


class _Ports:
    """What ports have written: announced, put a cycle later at most, acknowledged behind that."""

    def __init__(self, bench, config):
        m, width = bench.m, position_width(config)
        self.most = (1 << width - 1) - 1
        self.written, self.put, self.acknowledged = (
            Array(Signal(width, name=f"{name}_{k}") for k in range(config.num_ports))
            for name in ("written", "put", "acknowledged")
        )
        for k in range(config.num_ports):
            written, put, acknowledged = self.written[k], self.put[k], self.acknowledged[k]
            more, puts, acks = (bench.free(f"{name}_{k}") for name in ("more", "puts", "acks"))
            coming = more & (written < self.most)
            m.d.sync += [
                written.eq(written + coming),
                put.eq(put + ((put != written) | (coming & puts))),
                acknowledged.eq(acknowledged + (acks & (acknowledged < put))),
            ]


def in_hand(m, new, came, asked, *, moves):
    """A queue of the bench's own, whose first entry moves on with each flit: its level, and that.

    Of each field of an entry its width, and what it is of a chunk that comes.
    """
    entry = data.StructLayout({name: width for name, (width, _) in new.items()})
    queued, held = Signal(data.ArrayLayout(entry, 6)), Signal(range(7))
    first = queued[0]
    left = asked & (first.left == 1)
    m.d.sync += held.eq(held + came - left)
    with m.If(left):
        m.d.sync += [queued[k].eq(queued[k + 1]) for k in range(5)]
    with m.Elif(asked):
        m.d.sync += [first[moves].eq(first[moves] + 1), first.left.eq(first.left - 1)]
    with m.If(came):
        last = queued[(held - left)[: len(held)]]
        m.d.sync += [last[name].eq(value) for name, (_, value) in new.items()]
    return held, first


@holds("chunk_reader.flits", {})
def flits(bench):
    """A flit is taken that is put and not yet overwritten, or read once it is acknowledged."""
    m = bench.m
    config = small_config()
    bench.replace("multitree.nic.forward.chunk_reader.STALE_FLITS", STALE_FLITS)
    # Fewer than a `Config` may have, so that few positions go beyond.
    object.__setattr__(config, "forward_flits", KEPT_FLITS)
    queue = hollow(MergedQueue)(config)
    hand_out(bench, "multitree.nic.forward.chunk_reader.MergedQueue", queue)
    m.submodules.block = block = ChunkReader(config)
    ports, place = _Ports(bench, config), bench.free("chunk", block.chunks.payload.shape().size)
    chunk = data.View(block.chunks.payload.shape(), place)
    m.d.comb += [
        block.chunks.payload.eq(chunk),
        block.chunks.valid.eq(bench.free("valid")),
        block.running.eq(bench.free("running")),
        block.memory.ready.eq(bench.free("ready")),
        block.o.ready.eq(1),
        queue.o.valid.eq(bench.free("leaves")),
    ]
    for k in range(config.num_ports):
        m.d.comb += [
            block.forward.written[k].eq(ports.written[k]),
            block.forward.acknowledged[k].eq(ports.acknowledged[k]),
        ]
    came = block.chunks.valid & block.chunks.ready
    bench.assume(chunk.position + chunk.size <= ports.most)
    bench.assume((chunk.need_port < config.num_ports) & (chunk.size != 0))
    new = {"tracked": (1, chunk.tracked), "port": (1, chunk.need_port)}
    new |= {"position": (position_width(config), chunk.position), "left": (4, chunk.size)}
    held, first = in_hand(m, new, came, queue.asked, moves="position")
    put, is_kept = ports.put[first.port], queue.asked & queue.of_kept
    bench.check(~queue.asked | (held != 0))
    bench.check(~is_kept | first.tracked)
    bench.check(~is_kept | ((first.position < put) & (put - first.position < KEPT_FLITS)))
    bench.check(~is_kept | (block.forward.address == first.position[: len(block.forward.address)]))
    in_memory = first.position < ports.acknowledged[first.port]
    bench.check(~queue.asked | queue.of_kept | ~first.tracked | in_memory)
    bench.cover("kept", is_kept & (first.position == 3) & (ports.acknowledged[first.port] == 0))
    bench.cover("behind", queue.asked & ~is_kept & first.tracked & (put == KEPT_FLITS))


@holds("chunk_reader.reads", {}, depth=READ_CYCLES, quick_depth=9)
def reads(bench):
    """Each flit is read once, in order, at its address or its port; reads within the queue."""
    m, config = bench.m, small_config()
    queue = hollow(MergedQueue)(config)
    hand_out(bench, "multitree.nic.forward.chunk_reader.MergedQueue", queue)
    m.submodules.block = block = ChunkReader(config)
    chunk, forward = block.chunks.payload, block.forward
    # Wherever ports are: what is read does not depend on it, only when.
    free_outputs(bench, "chunk", block.chunks.valid, chunk.base, chunk.size, chunk.position)
    free_outputs(bench, "of", chunk.tracked, chunk.need_port[:1], block.running, block.o.ready)
    free_outputs(bench, "port", *forward.written, *forward.acknowledged)
    free_outputs(bench, "memory", block.memory.ready, block.memory.data_valid)
    m.d.comb += [each.eq(bench.free(f"kept_{k}")) for k, each in enumerate(forward.kept)]
    m.d.comb += block.memory.data.eq(bench.free("data"))
    inside, most = Signal(range(config.memory_queue_flits + 2)), config.memory_queue_flits
    m.d.comb += queue.o.valid.eq(bench.free("leaves") & (inside != 0))
    m.d.sync += inside.eq(inside + queue.asked - (block.o.valid & block.o.ready))
    bench.check(inside <= most)
    came = block.chunks.valid & block.chunks.ready & (chunk.size != 0)
    new = {"base": (4, chunk.base), "port": (1, chunk.need_port), "left": (4, chunk.size)}
    held, first = in_hand(m, new, came, queue.asked, moves="base")
    bench.check(~queue.asked | ((held != 0) & block.running))
    Watch(
        bench,
        put=queue.asked & ~queue.of_kept,
        take=block.memory.valid & block.memory.ready,
        value_in=first.base,
        value_out=block.memory.address,
        capacity=2,
    )
    bench.check(queue.kept_valid == bench.past(queue.asked & queue.of_kept))
    bench.check(~queue.kept_valid | (queue.kept == Array(forward.kept)[bench.past(first.port)]))
    bench.check(queue.read_valid == block.memory.data_valid)
    bench.check(queue.read == block.memory.data)
    bench.cover("full", (inside == most) & queue.kept_valid)
