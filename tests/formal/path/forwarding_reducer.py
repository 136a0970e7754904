"""Properties of kept writes: each flit at its position, none too early."""

from amaranth import Signal

from multitree.hw.check_bits import has_parity
from multitree.hw.lanes import LaneUnit
from multitree.nic.driver.config import Config
from multitree.nic.forward.chunk_source import ChunkSource
from multitree.nic.forward.positions import RecentWrites, position_width
from multitree.nic.layouts import lane_types
from multitree.nic.reduce.forwarding_reducer import ForwardingReducer, WriteOrder
from tests.formal.bench import Watch, holds, transfer
from tests.formal.stand_ins import hand_out, hollow, stand_in

_BLOCK = "multitree.nic.reduce.forwarding_reducer"
QUEUE_FLITS = 4
BOUND_CYCLES = 12
"""Cycles searched for the whole reducer, which is too much for a proof without bound."""


def _config():
    sizes = {"memory_queue_flits": QUEUE_FLITS, "address_width": 4, "submessage_flits": 2}
    return Config(**sizes, num_ports=2, flit_bytes=8, dtypes=("int32",), forward_flits=32)


@holds("recent_writes.kept", {"depth": 4})
def kept(m, *, depth):
    """A flit is read at its position of this collective until so many others have followed."""
    config = _config()
    # Fewer than a `Config` may have, so that few positions go round the ring.
    object.__setattr__(config, "forward_flits", depth)
    width = position_width(config)
    m.submodules.block = block = RecentWrites(config, num_readers=1)
    most = (1 << width - 1) - 1
    announced, put, acked = (Signal(width, name=name) for name in ("announced", "put", "acked"))
    coming, puts, acks = block.coming, block.put, block.ack
    clear, payload = block.clear, block.payload[:1]
    m.drive(clear, payload, block.addresses[0])
    m.d.comb += [
        coming.eq(m.free("more") & (announced < most) & ~clear),
        # In the cycle in which it was announced, or in the next one.
        puts.eq((put != announced) | (coming & m.free("puts"))),
        acks.eq(m.free("acks") & (acked < put)),
    ]
    # A collective is over when all that was written is acknowledged.
    m.assume(~clear | ((put == announced) & (acked == put)))
    m.d.sync += [announced.eq(announced + coming), put.eq(put + puts), acked.eq(acked + acks)]
    with m.If(clear):
        m.d.sync += [announced.eq(0), put.eq(0), acked.eq(0)]
    m.check(block.positions.written == announced)
    m.check(block.positions.acknowledged == acked)
    position = m.constant("position", width)
    stored = m.latch(puts & (put == position), payload)
    lead = Signal(width)
    m.d.comb += lead.eq(put - position)
    is_at = block.addresses[0] == position[: depth.bit_length() - 1]
    asked = (put > position) & (lead < depth) & is_at
    answered, found = m.past(asked), block.kept[0]
    right = (found[:64] == m.past(stored)) & has_parity(found[:64], found[64:])
    m.check(~answered | right)
    again = m.ever(clear & (m.past(put) == 3))
    m.cover("oldest", answered & again & m.past(lead == depth - 1) & (position == 2))


def _reducer(m, adder_cycles):
    """The block with free items; what it is made of drives what it likes, the adder too."""
    config = _config()

    adder = hollow(LaneUnit)(flit_bytes=config.flit_bytes, dtypes=lane_types(config))
    adder.stages = adder_cycles
    hand_out(m, "multitree.nic.reduce.reducer.LaneUnit", adder)
    m.drive(adder.o[:1])
    source, order = (stand_in(m, _BLOCK, part, config) for part in (ChunkSource, WriteOrder))
    recent = stand_in(m, _BLOCK, RecentWrites, config, num_readers=2 * config.num_ports)
    m.submodules.block = block = ForwardingReducer(config)
    m.drive(block.items, block.jobs, *block.forward.acknowledged, order.may, order.messages.ready)
    m.drive(source.o.valid, source.idle, source.begun.valid, source.begun.payload)
    m.drive(block.run.running, block.write.ready, block.write.ack)
    return block, source, order, recent


@holds(
    "forwarding_reducer.writes",
    {"adder_cycles": 2},
    {"adder_cycles": 4},
    depth=BOUND_CYCLES,
    quick_depth=9,
)
def writes(m, *, adder_cycles):
    """What is kept is what is written, announced a cycle ahead at most, written in its turn."""
    block, source, order, recent = _reducer(m, adder_cycles)
    took, written = transfer(block.items), transfer(block.write)
    missing = m.tally(took, block.write.ack, 2 * QUEUE_FLITS)
    unacked = m.owed(written, block.write.ack, QUEUE_FLITS)
    # Announced, and not put yet: readers count a flit as written in the cycle behind.
    ahead = Signal()
    m.d.sync += ahead.eq(ahead + recent.coming - recent.put)
    m.check(~ahead | recent.put)
    m.check(~recent.put | ahead | recent.coming)
    m.check(recent.ack == block.write.ack)
    m.check(recent.clear == ~block.run.running)
    item, data = block.items.payload, block.write.data[0]
    last, queue = item.end & item.mark.last, {"capacity": QUEUE_FLITS}
    Watch(m, (recent.put, recent.payload[0]), (written, data), **queue, name="data")
    Watch(m, (took, last), (written, order.last), **queue, name="last")
    # Which message writes, and which it follows.
    begun, message = source.begun, order.messages
    m.check(~block.write.valid | order.may)
    m.check(order.moved == written)
    m.check(message.valid == (begun.valid & (begun.payload.size != 0)))
    m.check(message.payload.as_value() == begun.payload.as_value())
    m.check(begun.ready == message.ready)
    for mine, given in zip(order.acknowledged, block.forward.acknowledged, strict=True):
        m.check(mine == given)
    m.check(~block.idle | ((missing == 0) & source.idle & ~block.jobs.valid))
    m.cover("idle", block.idle & m.past(unacked == 2, 3))
