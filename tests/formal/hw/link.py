"""Properties of a credited link: both its ends and the wires between them."""

from types import SimpleNamespace

from amaranth import Array, Cat, Module, Mux, ResetInserter, Signal, Value

from multitree.hw.link.link import Kind
from multitree.hw.link.port import LinkSession, bring_up
from multitree.hw.link.receiver import LinkReceiver
from multitree.hw.link.transmitter import LinkTransmitter
from tests.formal.bench import Watch, holds
from tests.formal.hw.session import MARK_PLACE, marked
from tests.hw.link.one_channel import StreamReceiver, StreamTransmitter
from tests.hw.link.wires import FORWARD

RECEIVER_LATENCY_CYCLES = 3
FAULTS = ("sequence_error", "epoch_error", "check_error", "overflow")


def wires(bench, near, far, latency_cycles):
    """Delay lines both ways; returns the credits on their way, the receiving end's included."""
    stage = Cat(getattr(near, name) for name in FORWARD)
    returning = [far.credit]
    for _ in range(latency_cycles):
        stage = bench.past(stage)
        returning.append(bench.past(returning[-1]))
    bench.m.d.comb += [
        Cat(getattr(far, name) for name in FORWARD).eq(stage),
        near.credit.eq(returning[-1]),
    ]
    return returning


def without_crc(bench):
    """Wires that change nothing: both ends compute the same CRC, whatever it is."""
    bench.replace("multitree.hw.link.check.crc32_step", lambda state, content, sums: state)


def _of(signal, vc):
    return signal.bit_select(vc, 1)


def _content(flit):
    """What a flit carries: its payload, then its kind."""
    return Cat(flit.payload, flit.kind)


def _sends(bench, name, port, num_vcs):
    """Any flit of any channel that may be sent, in any cycle."""
    vc = bench.free(f"{name}_vc", range(num_vcs))
    bench.m.d.comb += [
        port.take.eq(bench.free(f"{name}_take") & (vc < num_vcs) & _of(port.may_send, vc)),
        port.flit.vc.eq(vc),
        port.flit.kind.eq(bench.free(f"{name}_kind", 2)),
    ]
    return vc


@holds(
    "link.channels",
    {"num_vcs": 2, "credits": 3, "depth": 3, "latency_cycles": 1, "bit": 0},
    {"num_vcs": 3, "credits": 3, "depth": 3, "latency_cycles": 0, "bit": 0},
    quick_depth=16,
    claim="per channel: credits conserved, flits once, in order, in time, whatever the others do",
)
@holds(
    "link.credits",
    {"num_vcs": 1, "credits": 3, "depth": 3, "latency_cycles": 1, "bit": 0},
    {"num_vcs": 1, "credits": 2, "depth": 4, "latency_cycles": 2, "bit": 1},
    {"num_vcs": 1, "credits": 3, "depth": 3, "latency_cycles": 3, "bit": 9},
    claim="private links: credits conserved, flits once, in order, unchanged, in time",
)
def channels(bench, *, num_vcs, credits, depth, latency_cycles, bit):
    """One arbitrary channel: credits, order, content and time, whatever the others do."""
    m = bench.m
    without_crc(bench)
    sizes = {"num_vcs": num_vcs, "flit_bytes": 1, "submessage_flits": 2}
    m.submodules.sender = sender = LinkTransmitter(credits=credits, **sizes)
    m.submodules.receiver = receiver = LinkReceiver(depth=depth, **sizes)
    epoch = bench.constant("epoch")
    m.d.comb += [sender.open.eq(1), receiver.up.eq(1)]
    m.d.comb += [sender.control.epoch.eq(epoch), receiver.epoch.eq(epoch)]
    channel = bench.constant("channel", range(num_vcs))
    bench.assume(channel < num_vcs)
    vc = _sends(bench, "i", sender, num_vcs)
    m.d.comb += sender.flit.payload.eq(bench.free("i_payload", 8))
    m.d.comb += [o.ready.eq(bench.free(f"o_{k}_ready")) for k, o in enumerate(receiver.o)]
    returning = wires(bench, sender.link, receiver.link, latency_cycles)
    offered = _of(Cat(o.valid for o in receiver.o), channel)
    sent = sender.take & (vc == channel)
    watch = Watch(
        bench,
        put=sent,
        take=_of(Cat(o.valid & o.ready for o in receiver.o), channel),
        value_in=_content(sender.flit)[bit],
        value_out=_of(Cat(_content(o.payload)[bit] for o in receiver.o), channel),
        capacity=credits,
    )
    available = Signal(range(credits + 1), init=credits)
    m.d.sync += available.eq(available + _of(sender.link.credit, channel) - sent)
    bench.check(available + watch.held + sum(_of(bits, channel) for bits in returning) == credits)
    # Nothing but its own credits decides whether a channel may send, from the cycle on that comes
    # after the transmitter is open.
    opened = Signal()
    m.d.sync += opened.eq(1)
    bench.check(_of(sender.may_send, channel) == (opened & (available != 0)))
    errors = Cat(getattr(receiver, name) for name in FAULTS)
    bench.check(~Cat(errors, sender.fault_credit).any())
    limit_cycles = latency_cycles + RECEIVER_LATENCY_CYCLES
    hidden = Signal(range(limit_cycles + 2))
    m.d.sync += hidden.eq(Mux((watch.held != 0) & ~offered, hidden + 1, 0))
    bench.check(hidden <= limit_cycles)
    bench.cover("no_credit", available == 0)
    bench.cover("credit_and_flit", sent & _of(sender.link.credit, channel))


@holds("link.down", {"num_vcs": 2, "credits": 3}, {"num_vcs": 3, "credits": 4})
def down(bench, *, num_vcs, credits):
    """An end that went down begins with all credits, number 0 and empty buffers, in any cycle; a
    credit too many changes nothing and is a fault.

    Ends that go down and up in any cycle, and links that bring anything, begin anew.
    """
    m = bench.m
    without_crc(bench)
    sizes = {"num_vcs": num_vcs, "flit_bytes": 1, "submessage_flits": 2}
    m.submodules.sender = sender = LinkTransmitter(credits=credits, **sizes)
    m.submodules.receiver = receiver = LinkReceiver(depth=credits, **sizes)
    is_open, up = bench.free("open"), bench.free("up")
    m.d.comb += [sender.open.eq(is_open), receiver.up.eq(up)]
    vc = _sends(bench, "i", sender, num_vcs)
    m.d.comb += sender.link.credit.eq(bench.free("credit", num_vcs))
    was_open = bench.past(is_open)
    every = Cat(left == credits for left in sender.available).all()
    bench.check(was_open | (every & ~sender.may_send.any()))
    # A credit that no flit had spent changes nothing, and is a fault.
    unspent = Cat(left == credits for left in sender.available) & sender.link.credit
    bench.check(sender.fault_credit == bench.past(is_open & unspent.any()))
    for number, left in enumerate(sender.available):
        spent = bench.past(sender.take & (vc == number))
        bench.check(~bench.past(is_open & unspent[number]) | (left + spent == credits))
    number = Signal(3)
    m.d.sync += number.eq(Mux(is_open, number + sender.take, 0))
    bench.check(~bench.past(sender.take) | (sender.link.sequence == bench.past(number)))
    bench.cover("spent", is_open & ~every)
    # What comes while the end is up bears any bit for each time that it is.
    link, mark = receiver.link, Signal()
    m.d.sync += mark.eq(Mux(up, mark, bench.free("draw")))
    m.d.comb += [
        link.valid.eq(bench.free("link_valid") & up),
        link.vc.eq(bench.free("link_vc", range(num_vcs))),
        link.kind.eq(bench.free("link_kind", 2)),
        link.sequence.eq(bench.free("link_sequence", 3)),
        link.payload.eq(mark),
    ]
    m.d.comb += [o.ready.eq(bench.free(f"o_{k}_ready")) for k, o in enumerate(receiver.o)]
    for o in receiver.o:
        bench.check(~o.valid | (up & (o.payload.payload[0] == mark)))
    bench.check(bench.past(up) | ~link.credit.any())
    full, again = Signal(), Signal()
    m.d.sync += [full.eq(full | receiver.o[0].valid), again.eq(again | (full & ~up))]
    bench.cover("again", again & receiver.o[1].valid)


def _carries(bench, flit, taken, vc, submessage_flits):
    """Whether a flit of an arbitrary channel has to carry its message's CRC."""
    kind, place = flit.kind, Signal(range(submessage_flits))
    head, body, tail, single = (kind == k.value for k in list(Kind)[:4])
    with bench.m.If(taken & (flit.vc == vc)):
        bench.m.d.sync += place.eq(Mux(head | single, 0, place + 1))
    return tail | single | (body & place.all())


@holds("link.wrong", {"num_vcs": 1, "depth": 3}, {"num_vcs": 3, "depth": 3}, quick_depth=12)
def wrong(bench, *, num_vcs, depth):
    """Whatever comes in: what is right leaves once, in order, all else is an error; nothing leaves
    with or behind a wrong CRC.
    """
    m = bench.m
    without_crc(bench)
    sizes = {"num_vcs": num_vcs, "flit_bytes": 1, "submessage_flits": 2}
    m.submodules.block = block = LinkReceiver(depth=depth, **sizes)
    link, vc = block.link, bench.constant("vc", range(num_vcs))
    bench.assume(vc < num_vcs)
    names = ("valid", "kind", "sequence", "epoch", "vc")
    for name in names:
        given = getattr(link, name)
        m.d.comb += given.eq(bench.free(f"link_{name}", len(Value.cast(given))))
    # All CRCs are 0 here: any other one is wrong.
    m.d.comb += [link.payload.eq(bench.free("link_payload")), link.check.eq(bench.free("check"))]
    m.d.comb += [block.up.eq(1), block.epoch.eq(bench.constant("epoch"))]
    m.d.comb += [o.ready.eq(bench.free(f"o_{k}_ready")) for k, o in enumerate(block.o)]
    flit = SimpleNamespace(**{name: bench.past(Value.cast(getattr(link, name))) for name in names})
    flit.payload, flit.check = bench.past(link.payload[0]), bench.past(link.check[0])
    number, bad = Signal(3), Signal()
    inside = [Signal(range(depth + 1), name=f"inside_{k}") for k in range(num_vcs)]
    is_control = flit.valid & flit.kind[2]
    data, current = flit.valid & ~flit.kind[2], flit.epoch == block.epoch
    right = current & (flit.sequence == number) & (flit.vc < num_vcs)
    taken = data & right & (Array(inside)[flit.vc] != depth)
    m.d.sync += number.eq(number + taken)
    for k, held in enumerate(inside):
        m.d.sync += held.eq(held + (taken & (flit.vc == k)) - link.credit[k])
    for error, due in (
        (block.sequence_error, data & current & ~right),
        (block.epoch_error, data & ~current),
        (block.overflow, data & right & ~taken),
    ):
        bench.check(error == bench.past(due))
    mine = taken & (flit.vc == vc)
    spoilt = flit.check & (is_control | (mine & _carries(bench, flit, taken, vc, 2)))
    m.d.sync += bad.eq(bad | spoilt)
    bench.check(~bench.past(bench.past(spoilt)) | block.check_error)
    offers = Cat(o.valid for o in block.o)
    bench.check(~bench.past(bad) | ~offers.any())
    Watch(
        bench,
        put=mine,
        take=_of(Cat(o.valid & o.ready for o in block.o), vc),
        value_in=Cat(flit.payload, flit.kind[:2]),
        value_out=Array(Cat(o.payload.payload[0], o.payload.kind.as_value()[:2]) for o in block.o)[
            vc
        ],
        capacity=depth,
    )
    bench.cover("second", bad & (number == 2))


def _end(bench, name, credits):
    """A port's end of the link, as a port wires it, with a reset that may come in any cycle.

    What it sends bears the mark of its session: any bit, drawn anew when one is over.
    """
    m, inner = bench.m, Module()
    sizes = {"flit_bytes": 1, "submessage_flits": 2}
    inner.submodules.session = session = LinkSession(flit_bytes=1)
    inner.submodules.sender = sender = StreamTransmitter(credits=credits, **sizes)
    inner.submodules.receiver = receiver = StreamReceiver(depth=credits, **sizes)
    outside = SimpleNamespace(
        **{n: Signal(name=f"{name}_{n}") for n in ("fault_sent", "fault_received", "up")}
    )
    outside.received_fault, outside.fault_record = Signal(8, name=f"{name}_news"), 0
    outside.send_fault, outside.reset = bench.free(f"{name}_tell"), bench.free(f"{name}_reset")
    bring_up(inner, outside, session, sender, receiver)
    mark = marked(bench, name, session)
    inner.d.comb += sender.control.payload[MARK_PLACE].eq(mark)
    m.submodules[name] = ResetInserter(outside.reset)(inner)
    outside.session, outside.sender, outside.receiver = session, sender, receiver
    m.d.comb += [
        sender.i.valid.eq(bench.free(f"{name}_i_valid")),
        sender.i.payload.kind.eq(bench.free(f"{name}_i_kind", 2)),
        sender.i.payload.payload.eq(mark << MARK_PLACE),
        receiver.o.ready.eq(bench.free(f"{name}_o_ready")),
    ]
    return outside


def _check_end(bench, end, credits):
    """No error ever; what counts was sent in the session in which what brought this end up was."""
    session, sender, receiver = end.session, end.sender, end.receiver
    brought = Signal()
    with bench.m.If(~session.up & receiver.control.valid):
        bench.m.d.sync += brought.eq(receiver.control.payload[MARK_PLACE])
    errors = (receiver.sequence_error, receiver.epoch_error, receiver.check_error)
    bench.check(~Cat(*errors, receiver.overflow, sender.fault_credit).any())
    opens = session.open & ~bench.past(session.open)
    bench.check(~opens | (sender.available == credits))
    bench.check(~end.fault_received | (end.received_fault[MARK_PLACE] == brought))
    bench.check(~receiver.o.valid | (receiver.o.payload.payload[MARK_PLACE] == brought))


@holds(
    "link.reset",
    {"credits": 3, "latency_cycles": 1, "period_cycles": 4},
    {"credits": 3, "latency_cycles": 2, "period_cycles": 4},
    depth=40,
    quick_depth=26,
)
def reset(bench, *, credits, latency_cycles, period_cycles):
    """Resets of either end in any cycle: no error, nothing old counts, all credits back."""
    m = bench.m
    without_crc(bench)
    bench.replace("multitree.hw.link.port.PERIOD_CYCLES", period_cycles)
    left, right = ends = [_end(bench, name, credits) for name in ("left", "right")]
    wires(bench, left.sender.link, right.receiver.link, latency_cycles)
    wires(bench, right.sender.link, left.receiver.link, latency_cycles)
    resets = left.reset | right.reset
    both_open = left.session.open & right.session.open
    moves = []
    for end in ends:
        _check_end(bench, end, credits)
        moves += [end.sender.i.valid & end.sender.i.ready, end.receiver.o.valid]
    # Longer than a flit and its credit are on their way: nothing is left of what was sent.
    quiet_cycles = 2 * latency_cycles + 8
    still = Signal(range(quiet_cycles + 2))
    busy = resets | ~both_open | Cat(moves).any()
    m.d.sync += still.eq(Mux(busy, 0, Mux(still > quiet_cycles, still, still + 1)))
    full = (left.sender.available == credits) & (right.sender.available == credits)
    bench.check((still <= quiet_cycles) | full)
    sent = Signal()
    m.d.sync += sent.eq(~resets & (sent | (left.sender.i.valid & left.sender.i.ready)))
    again = Signal()
    m.d.sync += again.eq(again | (sent & right.reset))
    bench.cover("open", both_open)
    bench.cover("again", again & both_open & left.reset)
    bench.cover("fault_received", again & left.fault_received)
