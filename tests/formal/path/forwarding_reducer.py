"""Properties of kept writes: each flit at its position, none too early."""

from amaranth import Signal

from multitree.hw.check_bits import has_parity
from multitree.hw.lanes import LaneUnit
from multitree.nic.driver.config import Config
from multitree.nic.forward.chunk_source import ChunkSource
from multitree.nic.forward.positions import RecentWrites, position_width
from multitree.nic.layouts import lane_types
from multitree.nic.reduce.forwarding_reducer import ForwardingReducer, WriteOrder
from tests.formal.bench import Watch, driven, holds
from tests.formal.stand_ins import free_outputs, hand_out, hollow

_BLOCK = "multitree.nic.reduce.forwarding_reducer"
QUEUE_FLITS = 4
BOUND_CYCLES = 12
"""Cycles searched for the whole reducer, which is too much for a proof without bound."""


def _config():
    sizes = {"memory_queue_flits": QUEUE_FLITS, "address_width": 4, "submessage_flits": 2}
    return Config(**sizes, num_ports=2, flit_bytes=8, dtypes=("int32",), forward_flits=32)


@holds("recent_writes.kept", {"depth": 4})
def kept(bench, *, depth):
    """A flit is read at its position of this collective until so many others have followed."""
    m, config = bench.m, _config()
    # Fewer than a `Config` may have, so that few positions go round the ring.
    object.__setattr__(config, "forward_flits", depth)
    width = position_width(config)
    m.submodules.block = block = RecentWrites(config, num_readers=1)
    most = (1 << width - 1) - 1
    announced, put, acked = (Signal(width, name=name) for name in ("announced", "put", "acked"))
    coming, puts, acks = (Signal(name=name) for name in ("coming", "puts", "acks"))
    clear, payload = bench.free("clear"), bench.free("payload")
    m.d.comb += [
        coming.eq(bench.free("more") & (announced < most) & ~clear),
        # In the cycle in which it was announced, or in the next one.
        puts.eq((put != announced) | (coming & bench.free("puts"))),
        acks.eq(bench.free("acks") & (acked < put)),
        block.clear.eq(clear),
        block.coming.eq(coming),
        block.put.eq(puts),
        block.payload.eq(payload),
        block.ack.eq(acks),
        block.addresses[0].eq(bench.free("address", (depth - 1).bit_length())),
    ]
    # A collective is over when all that was written is acknowledged.
    bench.assume(~clear | ((put == announced) & (acked == put)))
    m.d.sync += [announced.eq(announced + coming), put.eq(put + puts), acked.eq(acked + acks)]
    with m.If(clear):
        m.d.sync += [announced.eq(0), put.eq(0), acked.eq(0)]
    bench.check(block.positions.written == announced)
    bench.check(block.positions.acknowledged == acked)
    position, stored = bench.constant("position", width), Signal()
    with m.If(puts & (put == position)):
        m.d.sync += stored.eq(payload)
    lead = Signal(width)
    m.d.comb += lead.eq(put - position)
    asked = (
        (put > position)
        & (lead < depth)
        & (block.addresses[0] == position[: depth.bit_length() - 1])
    )
    answered, found = bench.past(asked), block.kept[0]
    right = (found[:64] == bench.past(stored)) & has_parity(found[:64], found[64:])
    bench.check(~answered | right)
    again = Signal()
    m.d.sync += again.eq(again | (clear & (bench.past(put) == 3)))
    bench.cover("oldest", answered & again & bench.past(lead == depth - 1) & (position == 2))


def _reducer(bench, adder_cycles):
    """The block with free items; what it is made of drives what it likes, the adder too."""
    m, config = bench.m, _config()

    adder = hollow(LaneUnit)(flit_bytes=config.flit_bytes, dtypes=lane_types(config))
    adder.stages = adder_cycles
    hand_out(bench, "multitree.nic.reduce.reducer.LaneUnit", adder)
    m.d.comb += adder.o.eq(bench.free("sum"))
    source, order = hollow(ChunkSource)(config), hollow(WriteOrder)(config)
    recent = hollow(RecentWrites)(config, num_readers=2 * config.num_ports)
    for name, part in (("ChunkSource", source), ("WriteOrder", order), ("RecentWrites", recent)):
        hand_out(bench, f"{_BLOCK}.{name}", part)
    m.submodules.block = block = ForwardingReducer(config)
    driven(bench, "items", block.items)
    driven(bench, "jobs", block.jobs)
    free_outputs(bench, "source", source.o.valid, source.idle, source.begun.valid)
    free_outputs(bench, "begun", source.begun.payload)
    free_outputs(bench, "order", order.may, order.messages.ready)
    free_outputs(bench, "acknowledged", *block.forward.acknowledged)
    m.d.comb += [
        block.run.running.eq(bench.free("running")),
        block.write.ready.eq(bench.free("write_ready")),
        block.write.ack.eq(bench.free("ack")),
    ]
    return block, source, order, recent


@holds(
    "forwarding_reducer.writes",
    {"adder_cycles": 2},
    {"adder_cycles": 4},
    depth=BOUND_CYCLES,
    quick_depth=9,
)
def writes(bench, *, adder_cycles):
    """What is kept is what is written, announced a cycle ahead at most, written in its turn."""
    m = bench.m
    block, source, order, recent = _reducer(bench, adder_cycles)
    took, written = block.items.valid & block.items.ready, block.write.valid & block.write.ready
    missing = Signal(range(2 * QUEUE_FLITS + 2))
    m.d.sync += missing.eq(missing + took - block.write.ack)
    unacked = Signal(range(QUEUE_FLITS + 2))
    m.d.sync += unacked.eq(unacked + written - block.write.ack)
    bench.assume(~block.write.ack | (unacked != 0))
    # Announced, and not put yet: readers count a flit as written in the cycle behind.
    ahead = Signal()
    m.d.sync += ahead.eq(ahead + recent.coming - recent.put)
    bench.check(~ahead | recent.put)
    bench.check(~recent.put | ahead | recent.coming)
    bench.check(recent.ack == block.write.ack)
    bench.check(recent.clear == ~block.run.running)
    for name, value_in, value_out, put in (
        ("data", recent.payload[0], block.write.data[0], recent.put),
        ("last", block.items.payload.end & block.items.payload.mark.last, order.last, took),
    ):
        Watch(
            bench,
            put=put,
            take=written,
            value_in=value_in,
            value_out=value_out,
            capacity=QUEUE_FLITS,
            name=name,
        )
    # Which message writes, and which it follows.
    begun, message = source.begun, order.messages
    bench.check(~block.write.valid | order.may)
    bench.check(order.moved == written)
    bench.check(message.valid == (begun.valid & (begun.payload.size != 0)))
    bench.check(message.payload.as_value() == begun.payload.as_value())
    bench.check(begun.ready == message.ready)
    for mine, given in zip(order.acknowledged, block.forward.acknowledged, strict=True):
        bench.check(mine == given)
    bench.check(~block.idle | ((missing == 0) & source.idle & ~block.jobs.valid))
    bench.cover("idle", block.idle & bench.past(bench.past(bench.past(unacked == 2))))
