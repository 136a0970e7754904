"""Properties of a credited link: both its ends and the wires between them."""

from types import SimpleNamespace

from amaranth import Array, Cat, Module, Mux, ResetInserter, Signal

from multitree.hw.link.link import Kind
from multitree.hw.link.port import LinkSession, bring_up
from multitree.hw.link.receiver import LinkReceiver
from multitree.hw.link.transmitter import LinkTransmitter
from tests.formal.bench import Watch, holds, plain, sets, transfer
from tests.formal.hw.session import MARK_PLACE, marked
from tests.hw.link.one_channel import StreamReceiver, StreamTransmitter
from tests.hw.link.wires import FORWARD

RECEIVER_LATENCY_CYCLES = 3
FAULTS = ("sequence_error", "epoch_error", "check_error", "overflow")


def wires(m, near, far, latency_cycles):
    """Delay lines both ways; returns the credits on their way, the receiving end's included."""
    stage = Cat(getattr(near, name) for name in FORWARD)
    returning = [far.credit]
    for _ in range(latency_cycles):
        stage = m.past(stage)
        returning.append(m.past(returning[-1]))
    m.d.comb += Cat(getattr(far, name) for name in FORWARD).eq(stage)
    m.d.comb += near.credit.eq(returning[-1])
    return returning


def without_crc(m):
    """Wires that change nothing: both ends compute the same CRC, whatever it is."""
    m.replace("multitree.hw.link.check.crc32_step", lambda state, content, sums: state)


def _of(signal, vc):
    return signal.bit_select(vc, 1)


def _content(flit):
    """What a flit carries: its payload, then its kind."""
    return Cat(flit.payload, flit.kind)


def _sends(m, name, port, num_vcs):
    """Any flit of any channel that may be sent, in any cycle."""
    vc = m.free(f"{name}_vc", range(num_vcs))
    m.d.comb += port.take.eq(m.free(f"{name}_take") & (vc < num_vcs) & _of(port.may_send, vc))
    m.d.comb += port.flit.vc.eq(vc)
    m.drive(plain(port.flit.kind)[:2])
    return vc


def _ends(m, num_vcs, credits, depth):
    """A transmitter of any flits and a receiver whose channels may stop; and the flits' channel."""
    without_crc(m)
    sizes = {"num_vcs": num_vcs, "flit_bytes": 1, "submessage_flits": 2}
    m.submodules.sender = sender = LinkTransmitter(credits=credits, **sizes)
    m.submodules.receiver = receiver = LinkReceiver(depth=depth, **sizes)
    m.drive(*receiver.o)
    return sender, receiver, _sends(m, "i", sender, num_vcs)


_NAMES = "num_vcs credits depth latency_cycles bit"


@holds(
    "link.channels",
    *sets(_NAMES, (2, 3, 3, 1, 0), (3, 3, 3, 0, 0)),
    quick_depth=16,
    claim="per channel: credits conserved, flits once, in order, in time, whatever the others do",
)
@holds(
    "link.credits",
    *sets(_NAMES, (1, 3, 3, 1, 0), (1, 2, 4, 2, 1), (1, 3, 3, 3, 9)),
    claim="private links: credits conserved, flits once, in order, unchanged, in time",
)
def channels(m, *, num_vcs, credits, depth, latency_cycles, bit):
    """One arbitrary channel: credits, order, content and time, whatever the others do."""
    sender, receiver, vc = _ends(m, num_vcs, credits, depth)
    epoch, channel = m.constant("epoch"), m.one_of(num_vcs, "channel")
    m.d.comb += [sender.open.eq(1), receiver.up.eq(1)]
    m.d.comb += [sender.control.epoch.eq(epoch), receiver.epoch.eq(epoch)]
    m.drive(sender.flit.payload)
    returning = wires(m, sender.link, receiver.link, latency_cycles)
    offered = _of(Cat(o.valid for o in receiver.o), channel)
    sent = sender.take & (vc == channel)
    left = Array(Cat(transfer(o), _content(o.payload)[bit]) for o in receiver.o)[channel]
    watch = Watch(m, (sent, _content(sender.flit)[bit]), (left[0], left[1]), capacity=credits)
    available = Signal(range(credits + 1), init=credits)
    m.d.sync += available.eq(available + _of(sender.link.credit, channel) - sent)
    m.check(available + watch.held + sum(_of(bits, channel) for bits in returning) == credits)
    # Nothing but its own credits decides whether a channel may send, from the cycle on that comes
    # after the transmitter is open.
    m.check(_of(sender.may_send, channel) == (m.past(1) & (available != 0)))
    m.check(~Cat(*(getattr(receiver, name) for name in FAULTS), sender.fault_credit).any())
    m.lasts((watch.held != 0) & ~offered, latency_cycles + RECEIVER_LATENCY_CYCLES)
    m.cover("no_credit", available == 0)
    m.cover("credit_and_flit", sent & _of(sender.link.credit, channel))


@holds("link.down", {"num_vcs": 2, "credits": 3}, {"num_vcs": 3, "credits": 4})
def down(m, *, num_vcs, credits):
    """An end that went down begins with all credits, number 0 and empty buffers, in any cycle; a
    credit too many changes nothing and is a fault.

    Ends that go down and up in any cycle, and links that bring anything, begin anew.
    """
    sender, receiver, vc = _ends(m, num_vcs, credits, credits)
    is_open, up = sender.open, receiver.up
    m.drive(is_open, up, sender.link.credit)
    is_full = Cat(left == credits for left in sender.available)
    every = is_full.all()
    m.check(m.past(is_open) | (every & ~sender.may_send.any()))
    # A credit that no flit had spent changes nothing, and is a fault.
    unspent = is_full & sender.link.credit
    m.check(sender.fault_credit == m.past(is_open & unspent.any()))
    for number, left in enumerate(sender.available):
        spent = m.past(sender.take & (vc == number))
        m.check(~m.past(is_open & unspent[number]) | (left + spent == credits))
    number = Signal(3)
    m.d.sync += number.eq(Mux(is_open, number + sender.take, 0))
    m.check(~m.past(sender.take) | (sender.link.sequence == m.past(number)))
    m.cover("spent", is_open & ~every)
    # What comes while the end is up bears any bit for each time that it is.
    link, mark = receiver.link, Signal()
    m.d.sync += mark.eq(Mux(up, mark, m.free("draw")))
    m.drive(link.vc, link.sequence, plain(link.kind)[:2])
    m.d.comb += [link.valid.eq(m.free("link_valid") & up), link.payload.eq(mark)]
    for o in receiver.o:
        m.check(~o.valid | (up & (o.payload.payload[0] == mark)))
    m.check(m.past(up) | ~link.credit.any())
    m.cover("again", m.ever(m.ever(receiver.o[0].valid) & ~up) & receiver.o[1].valid)


def _carries(m, flit, taken, vc, submessage_flits):
    """Whether a flit of an arbitrary channel has to carry its message's CRC."""
    kind, place = flit.kind, Signal(range(submessage_flits))
    head, body, tail, single = (kind == k.value for k in list(Kind)[:4])
    with m.If(taken & (flit.vc == vc)):
        m.d.sync += place.eq(Mux(head | single, 0, place + 1))
    return tail | single | (body & place.all())


@holds("link.wrong", {"num_vcs": 1, "depth": 3}, {"num_vcs": 3, "depth": 3}, quick_depth=12)
def wrong(m, *, num_vcs, depth):
    """Whatever comes in: what is right leaves once, in order, all else is an error; nothing leaves
    with or behind a wrong CRC.
    """
    without_crc(m)
    sizes = {"num_vcs": num_vcs, "flit_bytes": 1, "submessage_flits": 2}
    m.submodules.block = block = LinkReceiver(depth=depth, **sizes)
    link, vc = block.link, m.one_of(num_vcs, "vc")
    # All CRCs are 0 here: any other one is wrong.
    bits = {"payload": link.payload[:1], "check": link.check[:1]}
    bits |= {n: plain(getattr(link, n)) for n in ("valid", "kind", "sequence", "epoch", "vc")}
    m.drive(*bits.values(), *block.o)
    m.fix(block.epoch)
    m.d.comb += block.up.eq(1)
    flit = SimpleNamespace(**{name: m.past(value) for name, value in bits.items()})
    number = Signal(3)
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
        m.check(error == m.past(due))
    mine = taken & (flit.vc == vc)
    spoilt = flit.check & (is_control | (mine & _carries(m, flit, taken, vc, 2)))
    bad = m.ever(spoilt)
    m.check(~m.past(spoilt, 2) | block.check_error)
    m.check(~m.past(bad) | ~Cat(o.valid for o in block.o).any())
    carried = Array(Cat(o.payload.payload[0], plain(o.payload.kind)[:2]) for o in block.o)[vc]
    took = _of(Cat(transfer(o) for o in block.o), vc)
    Watch(m, (mine, Cat(flit.payload, flit.kind[:2])), (took, carried), capacity=depth)
    m.cover("second", bad & (number == 2))


def _end(m, name, credits):
    """A port's end of the link, as a port wires it, with a reset that may come in any cycle.

    What it sends bears the mark of its session: any bit, drawn anew when one is over.
    """
    inner = Module()
    sizes = {"flit_bytes": 1, "submessage_flits": 2}
    inner.submodules.session = session = LinkSession(flit_bytes=1)
    inner.submodules.sender = sender = StreamTransmitter(credits=credits, **sizes)
    inner.submodules.receiver = receiver = StreamReceiver(depth=credits, **sizes)
    outside = SimpleNamespace(
        **{n: Signal(name=f"{name}_{n}") for n in ("fault_sent", "fault_received", "up")}
    )
    outside.received_fault, outside.fault_record = Signal(8, name=f"{name}_news"), 0
    outside.send_fault, outside.reset = m.free(f"{name}_tell"), m.free(f"{name}_reset")
    bring_up(inner, outside, session, sender, receiver)
    mark = marked(m, name, session)
    inner.d.comb += sender.control.payload[MARK_PLACE].eq(mark)
    m.submodules[name] = ResetInserter(outside.reset)(inner)
    outside.session, outside.sender, outside.receiver = session, sender, receiver
    m.drive(sender.i.valid, plain(sender.i.payload.kind)[:2], receiver.o.ready)
    m.d.comb += sender.i.payload.payload.eq(mark << MARK_PLACE)
    return outside


def _check_end(m, end, credits):
    """No error ever; what counts was sent in the session in which what brought this end up was."""
    session, sender, receiver = end.session, end.sender, end.receiver
    came = receiver.control
    brought = m.latch(~session.up & came.valid, came.payload[MARK_PLACE])
    m.check(~Cat(*(getattr(receiver, name) for name in FAULTS), sender.fault_credit).any())
    opens = session.open & ~m.past(session.open)
    m.check(~opens | (sender.available == credits))
    m.check(~end.fault_received | (end.received_fault[MARK_PLACE] == brought))
    m.check(~receiver.o.valid | (receiver.o.payload.payload[MARK_PLACE] == brought))


@holds(
    "link.reset",
    *sets("credits latency_cycles period_cycles", (3, 1, 4), (3, 2, 4)),
    depth=40,
    quick_depth=26,
)
def reset(m, *, credits, latency_cycles, period_cycles):
    """Resets of either end in any cycle: no error, nothing old counts, all credits back."""
    without_crc(m)
    m.replace("multitree.hw.link.port.PERIOD_CYCLES", period_cycles)
    left, right = ends = [_end(m, name, credits) for name in ("left", "right")]
    wires(m, left.sender.link, right.receiver.link, latency_cycles)
    wires(m, right.sender.link, left.receiver.link, latency_cycles)
    resets = left.reset | right.reset
    both_open = left.session.open & right.session.open
    moves = []
    for end in ends:
        _check_end(m, end, credits)
        moves += [transfer(end.sender.i), end.receiver.o.valid]
    # Longer than a flit and its credit are on their way: nothing is left of what was sent.
    quiet_cycles = 2 * latency_cycles + 8
    still = Signal(range(quiet_cycles + 2))
    busy = resets | ~both_open | Cat(moves).any()
    m.d.sync += still.eq(Mux(busy, 0, Mux(still > quiet_cycles, still, still + 1)))
    full = (left.sender.available == credits) & (right.sender.available == credits)
    m.check((still <= quiet_cycles) | full)
    sent = Signal()
    m.d.sync += sent.eq(~resets & (sent | transfer(left.sender.i)))
    again = m.ever(sent & right.reset)
    m.cover("open", both_open)
    m.cover("again", again & both_open & left.reset)
    m.cover("fault_received", again & left.fault_received)
