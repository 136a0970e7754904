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
from tests.formal.bench import holds, steady
from tests.formal.stand_ins import free_outputs, hand_out, hollow


def _tell(bench, item, name):
    """An item that says so little that it is easily compared: payload and address."""
    content = bench.free(name, 4)
    bench.m.d.comb += [
        item.payload.eq(content),
        item.end.eq(content[2]),
        item.replace.eq(content[3]),
    ]


@holds("shared_header_check.turns", {"num_classes": 1}, {"num_classes": 2})
def turns(bench, *, num_classes):
    """What is offered stays until taken; no lane is passed over more than twice by each other; what
    is found wrong is reported.

    Any lanes that keep what they offer: one at a time has the reducer, each in its turn.
    """
    m = bench.m
    config = Config(num_classes=num_classes, address_width=4)
    with patch("multitree.nic.receive.shared_receiver.SharedLane", hollow(SharedLane)):
        m.submodules.block = block = SharedHeaderCheck(config, unwritten_width=3)
    header_lookup = hollow(HeaderLookup)(config)
    hand_out(bench, "multitree.nic.receive.shared_receiver.HeaderLookup", header_lookup)
    free_outputs(bench, "header_lookup", header_lookup.fault, header_lookup.flow)
    m.d.comb += block.items.ready.eq(bench.free("items_ready"))
    lanes, running = block._lanes, bench.free("running")
    free_outputs(bench, "opened", header_lookup.opened, header_lookup.place, block.unwritten)
    for vc, lane in enumerate(lanes):
        bench.check(lane.opened == header_lookup.opened[vc])
        bench.check(lane.place.as_value() == header_lookup.place.as_value())
        bench.check(lane.unwritten == block.unwritten)
    for vc, lane in enumerate(lanes):
        item, valid = lane.items, bench.free(f"lane_{vc}") & running
        _tell(bench, item.payload, f"item_{vc}")
        free_outputs(bench, f"of_lane_{vc}", lane.wrong_kind, lane.awaited, lane.flow, lane.op)
        m.d.comb += item.valid.eq(valid)
        shown = Cat(item.payload.payload[:2], item.payload.end, item.payload.replace)
        # What a lane offers stays (`lane.flits`), unless all of it stops for good.
        stood = bench.past(item.valid & ~item.ready)
        bench.assume(~(stood & running) | (valid & (shown == bench.past(shown))))
    stopped = Signal()
    m.d.sync += stopped.eq(stopped | ~running)
    bench.assume(~stopped | ~running)
    taken = Cat(lane.items.valid & lane.items.ready for lane in lanes)
    moved = block.items.valid & block.items.ready
    bench.check(taken.any() == moved)
    bench.check((taken & (taken - 1)[: len(taken)]) == 0)
    bench.check(block.items.valid == Cat(lane.items.valid for lane in lanes).any())
    for vc, lane in enumerate(lanes):
        same = block.items.payload.as_value() == lane.items.payload.as_value()
        bench.check(~taken[vc] | same)
    waits = bench.past(block.items.valid & ~block.items.ready) & running
    item = block.items.payload.as_value()
    bench.check(~waits | (block.items.valid & (item == bench.past(item))))
    _no_lane_starves(bench, config, taken, lanes)
    _faults(bench, block, header_lookup, lanes)


def _no_lane_starves(bench, config, taken, lanes):
    """A lane that offers a flit is passed over twice by each other lane at most."""
    m = bench.m
    waiter = bench.constant("waiter", range(config.num_vcs))
    stands = Array(lane.items.valid for lane in lanes)[waiter]
    mine = taken.bit_select(waiter, 1)
    most = 2 * (config.num_vcs - 1)
    passed = Signal(range(most + 2))
    with m.If(~stands | mine):
        m.d.sync += passed.eq(0)
    with m.Elif(taken.any()):
        m.d.sync += passed.eq(passed + 1)
    bench.check(passed <= most)
    bench.cover("passed", stands & (passed == config.num_vcs - 1))


def _faults(bench, block, header_lookup, lanes):
    """What the header lookup or a lane finds wrong is reported, with its flow."""
    wrong = Cat(lane.wrong_kind for lane in lanes).any()
    bench.check(block.fault == Mux(wrong, FaultCode.FRAMING.value, header_lookup.fault))
    of_head = header_lookup.fault.any() & ~wrong
    bench.check(~of_head | (block.wait.flow == header_lookup.flow))
    of_lane = Cat(lane.wrong_kind & (block.wait.flow == lane.flow) for lane in lanes).any()
    bench.check(~wrong | of_lane)
    nothing = Awaited.NOTHING.value
    record = Cat(
        (block.wait.awaited == lane.awaited)
        & (block.wait.op == lane.op)
        & (wrong | (block.wait.flow == lane.flow))
        for lane in lanes
    ).any()
    bench.check((block.wait.awaited == nothing) | record)
    some = Cat(lane.awaited != nothing for lane in lanes).any()
    bench.check(~some | header_lookup.fault.any() | (block.wait.awaited != nothing))


@holds("shared_receiver.joins", {"memory_queue_flits": 4}, {"memory_queue_flits": 7})
def receiver(bench, *, memory_queue_flits):
    """Links before staging, each offer stays; a write not acknowledged is reported."""
    m = bench.m
    queue = memory_queue_flits
    config = Config(num_classes=1, address_width=4, memory_queue_flits=queue)
    width = (2 * queue).bit_length()
    with patch("multitree.nic.receive.shared_receiver.SharedLane", hollow(SharedLane)):
        header_check = hollow(SharedHeaderCheck)(config, unwritten_width=width)
    reducer = hollow(Reducer)(config)
    hand_out(bench, "multitree.nic.receive.shared_receiver.SharedHeaderCheck", header_check)
    hand_out(bench, "multitree.nic.receive.shared_receiver.Reducer", reducer)
    m.submodules.block = block = SharedReceiver(config)
    came, staged, items = header_check.items, block.staged, reducer.items
    free_outputs(
        bench, "header_check", header_check.fault, header_check.wait.flow, header_check.wait.awaited
    )
    running = bench.free("running")
    m.d.comb += [
        block.run.running.eq(running),
        block.write.ack.eq(bench.free("ack")),
        items.ready.eq(bench.free("reducer_ready")),
    ]
    for name, offered in (("came", came), ("staged", staged)):
        _tell(bench, offered.payload, f"{name}_item")
        free_outputs(bench, f"{name}_mark", offered.payload.mark.flow, offered.payload.mark.order)
        m.d.comb += offered.valid.eq(bench.free(f"{name}_valid"))
        shown = offered.payload.as_value()
        stood = bench.past(offered.valid & ~offered.ready)
        bench.assume(~stood | (offered.valid & (shown == bench.past(shown))))
    taken = [offered.valid & offered.ready for offered in (came, staged)]
    moved, item = items.valid & items.ready, items.payload
    bench.check(moved == (taken[0] ^ taken[1]))
    bench.check(~(taken[0] & taken[1]))
    for offered, goes in zip((came, staged), taken, strict=True):
        bench.check(~goes | (item.as_value() == offered.payload.as_value()))
    steady(bench, items.valid, items.ready, item.as_value())
    # A staged flit goes only into a gap, or stays where a gap was.
    began = taken[1] & ~bench.past(items.valid & ~items.ready)
    bench.check(~began | ~came.valid)
    bench.check(items.valid | ~(came.valid | staged.valid))
    unwritten = Signal(width + 1)
    m.d.sync += unwritten.eq(unwritten + moved - block.write.ack)
    # The reducer has no room for more (`reducer.arrivals`), and memory answers what it was asked.
    bench.assume(~block.write.ack | (unwritten != 0))
    bench.assume(~moved | (unwritten < 2 * queue))
    bench.check(header_check.unwritten == unwritten)
    free_outputs(bench, "how", block.run.dtype, block.run.maximum, block.port)
    bench.check((reducer.dtype == block.run.dtype) & (reducer.maximum == block.run.maximum))
    bench.check(header_check.port == block.port)
    _following(bench, header_check.following, moved, item, running)
    for name in ("flow", "awaited"):
        bench.check(getattr(block.wait, name) == bench.past(getattr(header_check.wait, name)))
    bench.check(block.fault == bench.past(header_check.fault))
    bench.cover("gap", taken[1] & came.valid)
    bench.cover("full", unwritten == 2 * queue)


def _following(bench, following, moved, item, running):
    """What follows the last contribution that was taken as a whole, while a collective runs."""
    m = bench.m
    known, flow, order = Signal(), Signal(16), Signal(6)
    with m.If(~running):
        m.d.sync += known.eq(0)
    with m.Elif(moved & item.end & ~item.replace):
        m.d.sync += [known.eq(1), flow.eq(item.mark.flow), order.eq(item.mark.order + 1)]
    bench.check(following.valid == known)
    bench.check(~known | ((following.flow == flow) & (following.order == order)))
    bench.cover("following", known & (following.order == 3))


@holds("port.channels", {"num_classes": 1}, {"num_classes": 2}, {"num_classes": 0})
def port(bench, *, num_classes):
    """A flit goes with a credit of its own channel, arrivals to their lane; faults are reported."""
    m = bench.m
    config = Config(num_classes=num_classes, address_width=4, memory_queue_flits=4, buffer_flits=4)
    sizes = {"num_vcs": config.num_vcs, "flit_bytes": config.flit_bytes}
    link = hollow(LinkPort)(depth=4, submessage_flits=2, **sizes)
    sender, kind = hollow(Sender)(config), SharedReceiver if config.shared else Receiver
    with patch("multitree.nic.receive.shared_receiver.SharedLane", hollow(SharedLane)):
        receiver_ = hollow(kind)(config)
    for name, stand_in in (("LinkPort", link), ("Sender", sender), (kind.__name__, receiver_)):
        hand_out(bench, f"multitree.nic.top.port.{name}", stand_in)
    m.submodules.block = block = Port(config)
    incoming = receiver_.flits if config.shared else [receiver_.flits]
    channel = sender.vc if config.shared else Const(0)
    m.d.comb += block.port.eq(1)
    flits = sender.flits
    free_outputs(bench, "sender", flits.valid, flits.payload.payload[:2], sender.idle)
    if config.shared:
        free_outputs(bench, "channel", channel)
    free_outputs(bench, "kind", flits.payload.kind.as_value())
    free_outputs(bench, "link", link.may_send, link.lost, link.fault_credit, link.check_error)
    free_outputs(bench, "receiver", receiver_.fault, receiver_.arrival.valid)
    m.d.comb += [block.jobs.valid.eq(bench.free("jobs")), sender.jobs.ready.eq(bench.free("takes"))]
    running = bench.free("running")
    m.d.comb += block.run.running.eq(running)
    for vc, (came, lane) in enumerate(zip(link.o, incoming, strict=True)):
        free_outputs(bench, f"came_{vc}", came.valid, came.payload.payload[:2])
        free_outputs(bench, f"came_kind_{vc}", came.payload.kind.as_value())
        m.d.comb += lane.ready.eq(bench.free(f"lane_ready_{vc}"))
        bench.check(lane.valid == came.valid)
        bench.check(came.ready == lane.ready)
        bench.check(lane.payload.as_value() == came.payload.as_value())
    sent, vc = flits.valid & flits.ready, channel
    bench.check(link.take == sent)
    bench.check(~sent | link.may_send.bit_select(vc, 1))
    bench.check(~(flits.valid & link.may_send.bit_select(vc, 1)) | sent)
    said = Cat(link.flit.kind, link.flit.payload) == Cat(flits.payload.kind, flits.payload.payload)
    bench.check(~sent | ((link.flit.vc == vc) & said))
    jobs, held = block.jobs, Signal(range(20))
    gone = sender.jobs.valid & sender.jobs.ready
    m.d.sync += held.eq(held + (jobs.valid & jobs.ready) - gone)
    bench.check(block.idle == (sender.idle & (held == 0)))
    taken = Cat(came.valid & came.ready for came in link.o).any()
    moves = sent | taken | receiver_.arrival.valid
    bench.check(~moves | block.progress)
    added = receiver_.staged.valid & receiver_.staged.ready if config.shared else 0
    bench.check(~block.progress | moves | added)
    wrong = receiver_.fault.any() | link.fault_credit | link.check_error | (link.lost & running)
    bench.check(~wrong | block.fault.any())
    if config.shared:
        bench.cover("no_credit", flits.valid & ~sent & (link.may_send != 0))
    bench.cover("queued", held == 2)
