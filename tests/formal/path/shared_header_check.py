"""Properties of what joins lanes, reducer and link of a shared port."""

from unittest.mock import patch

from amaranth import Array, Cat, Const, Mux, Signal

from multitree.hw.link.port import LinkPort
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.receive.header_lookup import HeaderLookup
from multitree.nic.receive.receiver import Receiver
from multitree.nic.receive.shared_lane import SharedLane
from multitree.nic.receive.shared_receiver import SharedHeaderCheck, SharedReceiver
from multitree.nic.reduce.reducer import Reducer
from multitree.nic.send.sender import Sender
from multitree.nic.top.port import Port
from tests.formal.bench import holds, plain, transfer
from tests.formal.stand_ins import hollow, stand_in

RECEIVER, PORT = "multitree.nic.receive.shared_receiver", "multitree.nic.top.port"


def hollow_lanes():
    """While a block is made whose lanes only say what the bench likes."""
    return patch(f"{RECEIVER}.SharedLane", hollow(SharedLane))


@holds("shared_header_check.turns", {"num_classes": 1}, {"num_classes": 2})
def turns(m, *, num_classes):
    """What is offered stays until taken; no lane is passed over more than twice by each other; what
    is found wrong is reported.

    Any lanes that keep what they offer: one at a time has the reducer, each in its turn.
    """
    config = Config(num_classes=num_classes, address_width=4)
    with hollow_lanes():
        m.submodules.block = block = SharedHeaderCheck(config, unwritten_width=3)
    header_lookup = stand_in(m, RECEIVER, HeaderLookup, config)
    m.drive(header_lookup.fault, header_lookup.flow, header_lookup.opened, header_lookup.place)
    m.drive(block.items, block.unwritten)
    lanes, running = block._lanes, m.free("running")
    for vc, lane in enumerate(lanes):
        m.check(lane.opened == header_lookup.opened[vc])
        m.check(lane.place.as_value() == header_lookup.place.as_value())
        m.check(lane.unwritten == block.unwritten)
    for vc, lane in enumerate(lanes):
        item, valid = lane.items, m.free(f"lane_{vc}") & running
        m.drive(item.payload, lane.wrong_kind, lane.awaited, lane.flow, lane.op)
        m.d.comb += item.valid.eq(valid)
        # What a lane offers stays (`lane.flits`), unless all of it stops for good.
        m.assume(m.stays(valid, item.ready, plain(item.payload), during=running))
    m.assume(~m.ever(~running) | ~running)
    taken = Cat(transfer(lane.items) for lane in lanes)
    m.check(taken.any() == transfer(block.items))
    m.check((taken & (taken - 1)[: len(taken)]) == 0)
    m.check(block.items.valid == Cat(lane.items.valid for lane in lanes).any())
    for vc, lane in enumerate(lanes):
        m.check(~taken[vc] | (plain(block.items.payload) == plain(lane.items.payload)))
    item = plain(block.items.payload)
    m.check(m.stays(block.items.valid, block.items.ready, item, during=running))
    _no_lane_starves(m, config, taken, lanes)
    _faults(m, block, header_lookup, lanes)


def _no_lane_starves(m, config, taken, lanes):
    """A lane that offers a flit is passed over twice by each other lane at most."""
    waiter = m.constant("waiter", range(config.num_vcs))
    stands = Array(lane.items.valid for lane in lanes)[waiter]
    mine = taken.bit_select(waiter, 1)
    most = 2 * (config.num_vcs - 1)
    passed = Signal(range(most + 2))
    with m.If(~stands | mine):
        m.d.sync += passed.eq(0)
    with m.Elif(taken.any()):
        m.d.sync += passed.eq(passed + 1)
    m.check(passed <= most)
    m.cover("passed", stands & (passed == config.num_vcs - 1))


def _faults(m, block, header_lookup, lanes):
    """What the header lookup or a lane finds wrong is reported, with its flow."""
    wrong = Cat(lane.wrong_kind for lane in lanes).any()
    m.check(block.fault == Mux(wrong, FaultCode.FRAMING.value, header_lookup.fault))
    of_head = header_lookup.fault.any() & ~wrong
    m.check(~of_head | (block.wait.flow == header_lookup.flow))
    of_lane = Cat(lane.wrong_kind & (block.wait.flow == lane.flow) for lane in lanes).any()
    m.check(~wrong | of_lane)
    nothing = Awaited.NOTHING.value
    record = Cat(
        (block.wait.awaited == lane.awaited)
        & (block.wait.op == lane.op)
        & (wrong | (block.wait.flow == lane.flow))
        for lane in lanes
    ).any()
    m.check((block.wait.awaited == nothing) | record)
    some = Cat(lane.awaited != nothing for lane in lanes).any()
    m.check(~some | header_lookup.fault.any() | (block.wait.awaited != nothing))


@holds("shared_receiver.joins", {"memory_queue_flits": 4}, {"memory_queue_flits": 7})
def receiver(m, *, memory_queue_flits):
    """Links before staging, each offer stays; a write not acknowledged is reported."""
    queue = memory_queue_flits
    config = Config(num_classes=1, address_width=4, memory_queue_flits=queue)
    width = (2 * queue).bit_length()
    with hollow_lanes():
        header_check = stand_in(m, RECEIVER, SharedHeaderCheck, config, unwritten_width=width)
    reducer = stand_in(m, RECEIVER, Reducer, config)
    m.submodules.block = block = SharedReceiver(config)
    came, staged, items = header_check.items, block.staged, reducer.items
    m.drive(header_check.fault, header_check.wait.flow, header_check.wait.awaited)
    running = block.run.running
    m.drive(running, block.write.ack, items.ready)
    for offered in (came, staged):
        m.drive(offered.payload, offered.valid)
        m.patient(offered)
    taken = [transfer(offered) for offered in (came, staged)]
    moved, item = transfer(items), items.payload
    m.check(moved == (taken[0] ^ taken[1]))
    m.check(~(taken[0] & taken[1]))
    for offered, goes in zip((came, staged), taken, strict=True):
        m.check(~goes | (item.as_value() == offered.payload.as_value()))
    m.check(m.stays(items.valid, items.ready, item.as_value()))
    # A staged flit goes only into a gap, or stays where a gap was.
    began = taken[1] & ~m.past(items.valid & ~items.ready)
    m.check(~began | ~came.valid)
    m.check(items.valid | ~(came.valid | staged.valid))
    # The reducer has no room for more (`reducer.arrivals`), and memory answers what it was asked.
    unwritten = m.owed(moved, block.write.ack, 2 * queue)
    m.assume(~moved | (unwritten < 2 * queue))
    m.check(header_check.unwritten == unwritten)
    m.drive(block.run.dtype, block.run.maximum, block.port)
    m.check((reducer.dtype == block.run.dtype) & (reducer.maximum == block.run.maximum))
    m.check(header_check.port == block.port)
    _following(m, header_check.following, moved, item, running)
    for name in ("flow", "awaited"):
        m.check(getattr(block.wait, name) == m.past(getattr(header_check.wait, name)))
    m.check(block.fault == m.past(header_check.fault))
    m.cover("gap", taken[1] & came.valid)
    m.cover("full", unwritten == 2 * queue)


def _following(m, following, moved, item, running):
    """What follows the last contribution that was taken as a whole, while a collective runs."""
    known, flow, order = Signal(), Signal(16), Signal(6)
    with m.If(~running):
        m.d.sync += known.eq(0)
    with m.Elif(moved & item.end & ~item.replace):
        m.d.sync += [known.eq(1), flow.eq(item.mark.flow), order.eq(item.mark.order + 1)]
    m.check(following.valid == known)
    m.check(~known | ((following.flow == flow) & (following.order == order)))
    m.cover("following", known & (following.order == 3))


@holds("port.channels", {"num_classes": 1}, {"num_classes": 2}, {"num_classes": 0})
def port(m, *, num_classes):
    """A flit goes with a credit of its own channel, arrivals to their lane; faults are reported."""
    config = Config(num_classes=num_classes, address_width=4, memory_queue_flits=4, buffer_flits=4)
    sizes = {"num_vcs": config.num_vcs, "flit_bytes": config.flit_bytes}
    link = stand_in(m, PORT, LinkPort, depth=4, submessage_flits=2, **sizes)
    sender = stand_in(m, PORT, Sender, config)
    kind = SharedReceiver if config.shared else Receiver
    with hollow_lanes():
        receiver_ = stand_in(m, PORT, kind, config)
    m.submodules.block = block = Port(config)
    incoming = receiver_.flits if config.shared else [receiver_.flits]
    channel = sender.vc if config.shared else Const(0)
    m.d.comb += block.port.eq(1)
    flits, running = sender.flits, block.run.running
    m.drive(flits.valid, flits.payload.payload[:2], flits.payload.kind, sender.idle)
    if config.shared:
        m.drive(channel)
    m.drive(link.may_send, link.lost, link.fault_credit, link.check_error)
    m.drive(receiver_.fault, receiver_.arrival.valid)
    m.drive(block.jobs.valid, sender.jobs.ready, running)
    for came, lane in zip(link.o, incoming, strict=True):
        m.drive(came.valid, came.payload.payload[:2], came.payload.kind, lane.ready)
        m.check(lane.valid == came.valid)
        m.check(came.ready == lane.ready)
        m.check(lane.payload.as_value() == came.payload.as_value())
    sent, vc = transfer(flits), channel
    m.check(link.take == sent)
    m.check(~sent | link.may_send.bit_select(vc, 1))
    m.check(~(flits.valid & link.may_send.bit_select(vc, 1)) | sent)
    said = Cat(link.flit.kind, link.flit.payload) == Cat(flits.payload.kind, flits.payload.payload)
    m.check(~sent | ((link.flit.vc == vc) & said))
    held = Signal(range(20))
    m.d.sync += held.eq(held + transfer(block.jobs) - transfer(sender.jobs))
    m.check(block.idle == (sender.idle & (held == 0)))
    taken = Cat(transfer(came) for came in link.o).any()
    moves = sent | taken | receiver_.arrival.valid
    m.check(~moves | block.progress)
    added = transfer(receiver_.staged) if config.shared else 0
    m.check(~block.progress | moves | added)
    wrong = receiver_.fault.any() | link.fault_credit | link.check_error | (link.lost & running)
    m.check(~wrong | block.fault.any())
    if config.shared:
        m.cover("no_credit", flits.valid & ~sent & (link.may_send != 0))
    m.cover("queued", held == 2)
