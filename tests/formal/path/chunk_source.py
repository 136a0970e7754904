"""Properties of how a chunk's flits are gathered: in order, none lost, none twice."""

from amaranth import Cat, Mux, Signal

from multitree.hw.check_bits import parity_of
from multitree.nic.forward.chunk_finder import ChunkFinder
from multitree.nic.forward.chunk_reader import ChunkReader, LocalReader, MergedQueue
from multitree.nic.forward.chunk_source import ChunkSource
from multitree.topology.collectives import Op
from tests.formal.bench import Watch, driven, holds, plain, steady
from tests.formal.path.forward import in_hand, small_config
from tests.formal.stand_ins import free_outputs, hand_out, hollow

SOURCE = "multitree.nic.forward.chunk_source"
_REGISTERED = 2
"""Payloads of a `Register`."""


def _config():
    config = small_config()
    # Fewer bits than a `Config` may have: blocks carry all alike.
    object.__setattr__(config, "flit_bytes", 1)
    return config


def _tagged(bench, name, tag):
    """A flit of any content that says where it comes from."""
    return Cat(tag, bench.free(name, 7))


class _Due:
    """What was asked for comes a cycle later at the earliest, whenever the solver likes."""

    def __init__(self, bench, name, asked, most):
        due = Signal(range(most + 2), name=f"{name}_due")
        self.comes = bench.free(f"{name}_comes")
        bench.assume(~self.comes | (due != 0))
        bench.m.d.sync += due.eq(due + asked - self.comes)


@holds("merged_queue.order", {}, quick_depth=10)
def merged(bench):
    """Flits leave once, unchanged, in the order in which they were asked for, however late."""
    m, config = bench.m, _config()
    m.submodules.block = block = MergedQueue(config)
    most, asked, of_kept = config.memory_queue_flits, bench.free("asked"), bench.free("of_kept")
    inside, taken = Signal(range(most + 2)), block.o.valid & block.o.ready
    bench.assume(~asked | (inside != most))
    m.d.sync += inside.eq(inside + asked - taken)
    kept_comes = _Due(bench, "kept", asked & of_kept, most).comes
    read_comes = _Due(bench, "read", asked & ~of_kept, most).comes
    kept, read = _tagged(bench, "kept", 1), _tagged(bench, "read", 0)
    m.d.comb += [
        block.asked.eq(asked),
        block.of_kept.eq(of_kept),
        block.kept_valid.eq(kept_comes),
        block.kept.eq(Cat(kept, parity_of(kept))),
        block.read_valid.eq(read_comes),
        block.read.eq(read),
        block.o.ready.eq(bench.free("ready")),
    ]
    out = block.o.payload
    sources = (
        ("order", asked, taken, of_kept, out[0]),
        ("keeps", kept_comes, taken & out[0], kept, out),
        ("reads", read_comes, taken & ~out[0], read, out),
    )
    for name, put, take, value_in, value_out in sources:
        values = {"value_in": value_in, "value_out": value_out}
        Watch(bench, put=put, take=take, **values, capacity=most, name=name)
    steady(bench, block.o.valid, block.o.ready, out)
    bench.check(block.empty == (inside == 0))
    bench.check(~block.state_error)
    late = bench.past(bench.past(asked & of_kept) & kept_comes)
    bench.cover("full", (inside == most) & late & block.o.valid & ~out[0])


@holds("local_reader.reads", {})
def local(bench):
    """Each address of each chunk is read once, in order, with room for it; data once, in order."""
    m, config = bench.m, _config()
    m.submodules.block = block = LocalReader(config)
    memory, chunk, most = block.memory, block.chunks.payload, config.memory_queue_flits
    driven(bench, "chunks", block.chunks)
    free_outputs(bench, "free", block.running, memory.ready, memory.data, block.o.ready)
    came, asked = block.chunks.valid & block.chunks.ready, memory.valid & memory.ready
    m.d.comb += memory.data_valid.eq(_Due(bench, "data", asked, most).comes)
    new = {"base": (4, chunk.base), "left": (4, chunk.size)}
    held, first = in_hand(m, new, came & (chunk.size != 0), asked, moves="base")
    bench.check(~asked | ((held != 0) & (memory.address == first.base)))
    # What waits in the register of addresses goes all the same once nothing runs any more.
    late = Signal(range(_REGISTERED + 2))
    m.d.sync += late.eq(Mux(block.running, 0, late + asked))
    bench.check(late <= _REGISTERED)
    inside, taken = Signal(range(most + 2)), block.o.valid & block.o.ready
    m.d.sync += inside.eq(inside + asked - taken)
    bench.check(inside <= most)
    values = {"value_in": memory.data, "value_out": block.o.payload}
    Watch(bench, put=memory.data_valid, take=taken, **values, capacity=most)
    steady(bench, memory.valid, memory.ready, memory.address)
    steady(bench, block.o.valid, block.o.ready, block.o.payload)
    bench.check(~block.state_error)
    bench.cover("full", (inside == most) & block.o.valid)
    bench.cover("next", asked & bench.past(asked & (first.left == 1)) & (held != 0))


class _Turns:
    """Follows one arbitrary job to its flits: those of all jobs before it come first."""

    def __init__(self, bench, came, size, is_local, taken, tag):
        m, pick = bench.m, bench.free("pick")
        self.total, ahead, left = (Signal(9) for _ in range(3))
        seen, kind = Signal(), Signal()
        m.d.sync += self.total.eq(self.total + came * size - taken)
        mine = (ahead == 0) & (left != 0) & taken
        with m.If(came & pick & ~seen):
            m.d.sync += [seen.eq(1), kind.eq(is_local), left.eq(size)]
            m.d.sync += ahead.eq(self.total - taken)
        with m.Elif(taken & seen):
            m.d.sync += [ahead.eq(ahead - (ahead != 0)), left.eq(left - mine)]
        bench.check(~taken | (self.total != 0))
        bench.check(~mine | (tag == kind))
        bench.cover("last", mine & (left == 1) & bench.past(mine))


@holds("chunk_source.turns", {"op": "any"}, {"op": "REDUCE"}, depth=12, quick_depth=8)
def turns(bench, *, op):
    """Each job's flits come in its turn and from its own reader; it is released in order, with its
    chunk.
    """
    m, config = bench.m, _config()
    finder, reader, local = (hollow(b)(config) for b in (ChunkFinder, ChunkReader, LocalReader))
    for name, block in (("ChunkFinder", finder), ("ChunkReader", reader), ("LocalReader", local)):
        hand_out(bench, f"{SOURCE}.{name}", block)
    m.submodules.block = block = ChunkSource(config, op=None if op == "any" else Op[op])
    found, job = finder.found, block.jobs.payload
    # The other bits of a job, which queues carry alike, are 0.
    driven_bits = job.row[:2], job.op, job.base[:2], job.size[:2], job.needs
    free_outputs(bench, "job", block.jobs.valid, *driven_bits)
    free_outputs(bench, "of", block.run.running, block.begun.ready, block.o.ready)
    free_outputs(bench, "in", finder.jobs.ready, found.valid, found.payload)
    free_outputs(bench, "to", reader.chunks.ready, local.chunks.ready)
    free_outputs(bench, "some", reader.o.valid, local.o.valid)
    m.d.comb += reader.o.payload.eq(_tagged(bench, "read", 0))
    m.d.comb += local.o.payload.eq(_tagged(bench, "ahead", 1))

    def size_of(given):
        return given.size if op == "any" else given.size & (given.op == Op[op]).replicate(4)

    came, taken = block.jobs.valid & block.jobs.ready, block.o.valid & block.o.ready
    size, out = size_of(job), block.o.payload
    at_local = local.chunks.valid & local.chunks.ready
    bench.check(at_local == (came & ~job.needs))
    bench.check(~at_local | (plain(local.chunks.payload) == Cat(job.base, size)))
    released, goes = block.begun.valid & block.begun.ready, finder.jobs.valid & finder.jobs.ready
    begun = Cat(block.begun.payload[name] for name, _ in job.shape())
    for name, put, take, value_out in (
        ("released", came, released, begun),
        ("searched", came & job.needs, goes, plain(finder.jobs.payload)),
    ):
        values = {"value_in": plain(job), "value_out": value_out}
        Watch(bench, put=put, take=take, **values, capacity=5, name=name)
    at_reader = reader.chunks.valid & reader.chunks.ready
    needs = block.begun.payload.needs
    bench.check((released & needs) == at_reader)
    bench.check(at_reader == (found.valid & found.ready))
    bench.check(~at_reader | (reader.chunks.payload.size == size_of(found.payload)))
    bench.check((reader.o.valid & reader.o.ready) == (taken & ~out[0]))
    bench.check((local.o.valid & local.o.ready) == (taken & out[0]))
    bench.check(~taken | (out == Mux(out[0], local.o.payload, reader.o.payload)))
    counted = _Turns(bench, came, size, ~job.needs, taken, out[0])
    bench.check(~block.idle | (counted.total == 0))
    bench.check(~block.state_error)
