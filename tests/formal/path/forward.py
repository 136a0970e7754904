"""Properties of forwarding: nothing is read too early, no write overtakes another."""

from amaranth import Array, Cat, Mux, Signal
from amaranth.lib import data

from multitree.nic.driver.config import Config
from multitree.nic.forward.chunk_finder import ChunkFinder
from multitree.nic.forward.chunk_reader import ChunkReader, MergedQueue
from multitree.nic.forward.positions import beginning_layout, position_width
from multitree.nic.layouts import job_layout
from multitree.nic.reduce.forwarding_reducer import WriteOrder
from tests.formal.bench import Watch, holds, transfer
from tests.formal.stand_ins import stand_in

__all__ = ["in_hand", "small_config"]

READER = "multitree.nic.forward.chunk_reader"
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


@holds("chunk_finder.found", {"wave_width": 0}, {"wave_width": 2})
def found(m, *, wave_width):
    """No chunk before its message of this wave has begun or is whole, and its very position."""
    config = small_config(wave_width)
    m.submodules.block = block = ChunkFinder(config)
    m.drive(block.jobs, block.run.running, block.found, block.beginning, block.query)
    m.fix(block.run.cut_through)
    job, taken = Signal(job_layout(config)), transfer(block.jobs)
    begun, position, whole = Signal(), Signal(position_width(config)), Signal()
    with m.If(taken):
        m.d.sync += [job.eq(block.jobs.payload), begun.eq(0), whole.eq(0)]
    answer, stood = data.View(beginning_layout(config), block.beginning.count), []
    for query in (block.beginning, block.query):
        same = (query.port == job.need_port) & (query.op == job.need_op) & (query.flow == job.flow)
        stood.append(m.past(query.valid & same & ~taken) & query.answered)
    is_begun = stood[0] & answer.begun
    part = Mux(job.size == 0, 1, (job.size + 1) >> 1)
    is_whole = stood[1] & (block.query.count >= Cat(part[: config.part_width], job.wave))
    if wave_width:
        is_begun &= answer.wave == job.wave
    # A message begins at one position.
    m.assume(~(is_begun & begun) | (answer.position == position))
    now_begun, now_whole = begun | is_begun, whole | is_whole
    with m.If(~taken):
        m.d.sync += [begun.eq(now_begun), whole.eq(now_whole)]
        with m.If(is_begun):
            m.d.sync += position.eq(answer.position)
    chunk, offered = block.found.payload, block.found.valid
    at = Mux(is_begun, answer.position, position)
    m.check(~offered | block.run.running)
    m.check(~(offered & ~job.needs) | ~chunk.tracked)
    m.check(~(offered & job.needs & chunk.tracked) | (now_begun & block.run.cut_through))
    m.check(~(offered & job.needs & ~chunk.tracked) | now_whole)
    first = offered & ~m.past(offered)
    m.check(~(first & job.needs & chunk.tracked) | (chunk.position == at))
    m.check(~offered | (chunk.base == job.base) & (chunk.size == job.size))
    m.cover("tracked", offered & chunk.tracked & (chunk.position == 5))
    m.cover("whole", offered & job.needs & ~chunk.tracked & (job.size == 5))
    if wave_width:
        m.cover("lost", offered & ~chunk.tracked & job.needs & block.run.cut_through)


@holds("write_order.order", {"messages": 3})
def order(m, *, messages):
    """No write before the one at its address that it follows is acknowledged, and each in the cycle
    after that.
    """
    config = small_config()
    m.replace("multitree.nic.reduce.forwarding_reducer.QUEUED_WRITES", messages)
    m.submodules.block = block = WriteOrder(config)
    m.drive(block.messages)
    most = (1 << position_width(config) - 1) - 1
    counts = [Signal(position_width(config), name=f"count_{k}") for k in range(config.num_ports)]
    for number, count in enumerate(counts):
        m.d.sync += count.eq(count + (m.free(f"more_{number}") & (count < most)))
        m.d.comb += block.acknowledged[number].eq(count)
    moved, last = block.moved, block.last
    m.drive(moved, last)
    m.assume(~moved | block.may)
    offered, came, left = block.messages.payload, transfer(block.messages), moved & last
    new = {"tracked": (1, offered.tracked), "port": (1, offered.need_port)}
    new |= {"position": (position_width(config), offered.position)}
    queue = {"moves": "position", "last": last, "places": messages + 3}
    held, first = in_hand(m, new, came, moved, **queue)
    m.assume(~came | ((offered.position < most) & (offered.need_port < config.num_ports)))
    # No message is so long that positions would wrap.
    m.assume(~moved | (first.position < most))
    m.check(~block.may | (held != 0))
    is_there = ~first.tracked | (Array(counts)[first.port] > first.position)
    m.check(~block.may | is_there)
    # Where all is known a cycle before, nothing waits, but for messages on their way in the queue.
    known = ~first.tracked | (Array(map(m.past, counts))[first.port] > first.position)
    came_lately = Signal(QUEUED_CYCLES)
    m.d.sync += came_lately.eq(Cat(came, came_lately))
    m.check(block.may | (held == 0) | came_lately.any() | ~known)
    m.check(~block.empty | (held == 0))
    m.cover("second", moved & first.tracked & (first.position == 3) & m.past(left))


class _Ports:
    """What ports have written: announced, put a cycle later at most, acknowledged behind that."""

    def __init__(self, m, config):
        width = position_width(config)
        self.most = (1 << width - 1) - 1
        self.written, self.put, self.acknowledged = (
            Array(Signal(width, name=f"{name}_{k}") for k in range(config.num_ports))
            for name in ("written", "put", "acknowledged")
        )
        for k in range(config.num_ports):
            written, put, acknowledged = self.written[k], self.put[k], self.acknowledged[k]
            more, puts, acks = (m.free(f"{name}_{k}") for name in ("more", "puts", "acks"))
            coming = more & (written < self.most)
            m.d.sync += [
                written.eq(written + coming),
                put.eq(put + ((put != written) | (coming & puts))),
                acknowledged.eq(acknowledged + (acks & (acknowledged < put))),
            ]


def in_hand(m, new, came, asked, *, moves, last=None, places=6):
    """A queue of the bench's own, whose first entry moves on with each flit: its level, and that.

    Of each field of an entry its width, and what it is of a chunk that comes. An entry is over
    when nothing is left of it, or with the flit that is its last.
    """
    entry = data.StructLayout({name: width for name, (width, _) in new.items()})
    queued, held = Signal(data.ArrayLayout(entry, places)), Signal(range(places + 1))
    first = queued[0]
    left = asked & (first.left == 1 if last is None else last)
    m.d.sync += held.eq(held + came - left)
    with m.If(left):
        m.d.sync += [queued[k].eq(queued[k + 1]) for k in range(places - 1)]
    with m.Elif(asked):
        m.d.sync += first[moves].eq(first[moves] + 1)
        if last is None:
            m.d.sync += first.left.eq(first.left - 1)
    with m.If(came):
        behind = queued[(held - left)[: len(held)]]
        m.d.sync += [behind[name].eq(value) for name, (_, value) in new.items()]
    return held, first


@holds("chunk_reader.flits", {})
def flits(m):
    """A flit is taken that is put and not yet overwritten, or read once it is acknowledged."""
    config = small_config()
    m.replace(f"{READER}.STALE_FLITS", STALE_FLITS)
    # Fewer than a `Config` may have, so that few positions go beyond.
    object.__setattr__(config, "forward_flits", KEPT_FLITS)
    queue = stand_in(m, READER, MergedQueue, config)
    m.submodules.block = block = ChunkReader(config)
    ports, chunk = _Ports(m, config), block.chunks.payload
    m.drive(block.chunks, block.running, block.memory.ready, queue.o.valid)
    m.d.comb += block.o.ready.eq(1)
    for k in range(config.num_ports):
        m.d.comb += [
            block.forward.written[k].eq(ports.written[k]),
            block.forward.acknowledged[k].eq(ports.acknowledged[k]),
        ]
    came = transfer(block.chunks)
    m.assume(chunk.position + chunk.size <= ports.most)
    m.assume((chunk.need_port < config.num_ports) & (chunk.size != 0))
    new = {"tracked": (1, chunk.tracked), "port": (1, chunk.need_port)}
    new |= {"position": (position_width(config), chunk.position), "left": (4, chunk.size)}
    held, first = in_hand(m, new, came, queue.asked, moves="position")
    put, is_kept = ports.put[first.port], queue.asked & queue.of_kept
    m.check(~queue.asked | (held != 0))
    m.check(~is_kept | first.tracked)
    m.check(~is_kept | ((first.position < put) & (put - first.position < KEPT_FLITS)))
    m.check(~is_kept | (block.forward.address == first.position[: len(block.forward.address)]))
    in_memory = first.position < ports.acknowledged[first.port]
    m.check(~queue.asked | queue.of_kept | ~first.tracked | in_memory)
    m.cover("kept", is_kept & (first.position == 3) & (ports.acknowledged[first.port] == 0))
    m.cover("behind", queue.asked & ~is_kept & first.tracked & (put == KEPT_FLITS))


@holds("chunk_reader.reads", {}, depth=READ_CYCLES, quick_depth=9)
def reads(m):
    """Each flit is read once, in order, at its address or its port; reads within the queue."""
    config = small_config()
    queue = stand_in(m, READER, MergedQueue, config)
    m.submodules.block = block = ChunkReader(config)
    chunk, forward = block.chunks.payload, block.forward
    # Wherever ports are: what is read does not depend on it, only when.
    m.drive(block.chunks.valid, chunk.base, chunk.size, chunk.position)
    m.drive(chunk.tracked, chunk.need_port[:1], block.running, block.o.ready)
    m.drive(*forward.written, *forward.acknowledged, *(each[:1] for each in forward.kept))
    m.drive(block.memory.ready, block.memory.data_valid, block.memory.data[:1])
    most = config.memory_queue_flits
    inside = m.tally(queue.asked, transfer(block.o), most)
    m.d.comb += queue.o.valid.eq(m.free("leaves") & (inside != 0))
    m.check(inside <= most)
    came = transfer(block.chunks) & (chunk.size != 0)
    new = {"base": (4, chunk.base), "port": (1, chunk.need_port), "left": (4, chunk.size)}
    held, first = in_hand(m, new, came, queue.asked, moves="base")
    m.check(~queue.asked | ((held != 0) & block.running))
    wanted = queue.asked & ~queue.of_kept, first.base
    Watch(m, wanted, (transfer(block.memory), block.memory.address), capacity=2)
    m.check(queue.kept_valid == m.past(queue.asked & queue.of_kept))
    m.check(~queue.kept_valid | (queue.kept == Array(forward.kept)[m.past(first.port)]))
    m.check(queue.read_valid == block.memory.data_valid)
    m.check(queue.read == block.memory.data)
    m.cover("full", (inside == most) & queue.kept_valid)
