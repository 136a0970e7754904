"""Properties of how a chunk's flits are gathered: in order, none lost, none twice."""

from amaranth import Cat, Mux, Signal

from multitree.hw.check_bits import parity_of
from multitree.nic.forward.chunk_finder import ChunkFinder
from multitree.nic.forward.chunk_reader import ChunkReader, LocalReader, MergedQueue
from multitree.nic.forward.chunk_source import ChunkSource
from multitree.topology.collectives import Op
from tests.formal.bench import Watch, holds, plain, transfer
from tests.formal.path.forward import in_hand, small_config
from tests.formal.stand_ins import stand_in

SOURCE = "multitree.nic.forward.chunk_source"
_REGISTERED = 2
"""Payloads of a `Register`."""


def _config():
    config = small_config()
    # Fewer bits than a `Config` may have: blocks carry all alike.
    object.__setattr__(config, "flit_bytes", 1)
    return config


def _tagged(m, name, tag):
    """A flit of any content that says where it comes from."""
    return Cat(tag, m.free(name, 7))


@holds("merged_queue.order", {}, quick_depth=10)
def merged(m):
    """Flits leave once, unchanged, in the order in which they were asked for, however late."""
    config = _config()
    m.submodules.block = block = MergedQueue(config)
    most, asked, of_kept = config.memory_queue_flits, block.asked, block.of_kept
    kept_comes, read_comes = block.kept_valid, block.read_valid
    m.drive(asked, of_kept, kept_comes, read_comes, block.o)
    taken, out = transfer(block.o), block.o.payload
    inside = m.tally(asked, taken, most)
    m.assume(~asked | (inside != most))
    # What was asked for comes a cycle later at the earliest, whenever the solver likes.
    m.owed(asked & of_kept, kept_comes, most)
    m.owed(asked & ~of_kept, read_comes, most)
    kept, read = _tagged(m, "kept", 1), _tagged(m, "read", 0)
    m.d.comb += [block.kept.eq(Cat(kept, parity_of(kept))), block.read.eq(read)]
    Watch(m, (asked, of_kept), (taken, out[0]), capacity=most, name="order")
    Watch(m, (kept_comes, kept), (taken & out[0], out), capacity=most, name="keeps")
    Watch(m, (read_comes, read), (taken & ~out[0], out), capacity=most, name="reads")
    m.check(m.stays(block.o.valid, block.o.ready, out))
    m.check(block.empty == (inside == 0))
    m.check(~block.state_error)
    late = m.past(m.past(asked & of_kept) & kept_comes)
    m.cover("full", (inside == most) & late & block.o.valid & ~out[0])


@holds("local_reader.reads", {})
def local(m):
    """Each address of each chunk is read once, in order, with room for it; data once, in order."""
    config = _config()
    m.submodules.block = block = LocalReader(config)
    memory, chunk, most = block.memory, block.chunks.payload, config.memory_queue_flits
    m.drive(block.chunks, block.running, memory.ready, memory.data_valid, memory.data, block.o)
    came, asked = transfer(block.chunks), transfer(memory)
    m.owed(asked, memory.data_valid, most)
    new = {"base": (4, chunk.base), "left": (4, chunk.size)}
    held, first = in_hand(m, new, came & (chunk.size != 0), asked, moves="base")
    m.check(~asked | ((held != 0) & (memory.address == first.base)))
    # What waits in the register of addresses goes all the same once nothing runs any more.
    late = Signal(range(_REGISTERED + 2))
    m.d.sync += late.eq(Mux(block.running, 0, late + asked))
    m.check(late <= _REGISTERED)
    taken = transfer(block.o)
    inside = m.tally(asked, taken, most)
    m.check(inside <= most)
    Watch(m, (memory.data_valid, memory.data), (taken, block.o.payload), capacity=most)
    m.check(m.stays(memory.valid, memory.ready, memory.address))
    m.check(m.stays(block.o.valid, block.o.ready, block.o.payload))
    m.check(~block.state_error)
    m.cover("full", (inside == most) & block.o.valid)
    m.cover("next", asked & m.past(asked & (first.left == 1)) & (held != 0))


class _Turns:
    """Follows one arbitrary job to its flits: those of all jobs before it come first."""

    def __init__(self, m, came, size, is_local, taken, tag):
        pick = m.free("pick")
        self.total, ahead, left = (Signal(9) for _ in range(3))
        seen, kind = Signal(), Signal()
        m.d.sync += self.total.eq(self.total + came * size - taken)
        mine = (ahead == 0) & (left != 0) & taken
        with m.If(came & pick & ~seen):
            m.d.sync += [seen.eq(1), kind.eq(is_local), left.eq(size)]
            m.d.sync += ahead.eq(self.total - taken)
        with m.Elif(taken & seen):
            m.d.sync += [ahead.eq(ahead - (ahead != 0)), left.eq(left - mine)]
        m.check(~taken | (self.total != 0))
        m.check(~mine | (tag == kind))
        m.cover("last", mine & (left == 1) & m.past(mine))


@holds("chunk_source.turns", {"op": "any"}, {"op": "REDUCE"}, depth=12, quick_depth=8)
def turns(m, *, op):
    """Each job's flits come in its turn and from its own reader; it is released in order, with its
    chunk.
    """
    config = _config()
    parts = (ChunkFinder, ChunkReader, LocalReader)
    finder, reader, local = (stand_in(m, SOURCE, part, config) for part in parts)
    m.submodules.block = block = ChunkSource(config, op=None if op == "any" else Op[op])
    found, job = finder.found, block.jobs.payload
    # The other bits of a job, which queues carry alike, are 0.
    m.drive(block.jobs.valid, job.row[:2], job.op, job.base[:2], job.size[:2], job.needs)
    m.drive(block.run.running, block.begun, block.o)
    m.drive(finder.jobs.ready, found.valid, found.payload)
    m.drive(reader.chunks.ready, local.chunks.ready, reader.o.valid, local.o.valid)
    m.d.comb += reader.o.payload.eq(_tagged(m, "read", 0))
    m.d.comb += local.o.payload.eq(_tagged(m, "ahead", 1))

    def size_of(given):
        return given.size if op == "any" else given.size & (given.op == Op[op]).replicate(4)

    came, taken = transfer(block.jobs), transfer(block.o)
    size, out = size_of(job), block.o.payload
    at_local = transfer(local.chunks)
    m.check(at_local == (came & ~job.needs))
    m.check(~at_local | (plain(local.chunks.payload) == Cat(job.base, size)))
    released, goes = transfer(block.begun), transfer(finder.jobs)
    begun = Cat(block.begun.payload[name] for name, _ in job.shape())
    Watch(m, (came, plain(job)), (released, begun), capacity=5, name="released")
    searched = goes, plain(finder.jobs.payload)
    Watch(m, (came & job.needs, plain(job)), searched, capacity=5, name="searched")
    at_reader = transfer(reader.chunks)
    needs = block.begun.payload.needs
    m.check((released & needs) == at_reader)
    m.check(at_reader == transfer(found))
    m.check(~at_reader | (reader.chunks.payload.size == size_of(found.payload)))
    m.check(transfer(reader.o) == (taken & ~out[0]))
    m.check(transfer(local.o) == (taken & out[0]))
    m.check(~taken | (out == Mux(out[0], local.o.payload, reader.o.payload)))
    counted = _Turns(m, came, size, ~job.needs, taken, out[0])
    m.check(~block.idle | (counted.total == 0))
    m.check(~block.state_error)
