"""Properties of a credited link: both its ends and the wires between them."""

from types import SimpleNamespace

from amaranth import Cat, Module, Mux, ResetInserter, Signal

from multitree.hw.link.session import LinkSession, bring_up
from tests.formal.bench import Property, Watch, driven
from tests.formal.hw.session import MARK_PLACE, marked
from tests.formal.hw.vc_link import RECEIVER_LATENCY_CYCLES, wires, without_crc
from tests.hw.link.one_channel import StreamReceiver, StreamTransmitter

__all__ = ["PROPERTIES"]


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


def reset(bench, *, credits, latency_cycles, period_cycles):
    """Resets of either end in any cycle: no error ever, nothing old, all credits are there."""
    m = bench.m
    without_crc(bench)
    bench.replace("multitree.hw.link.session.PERIOD_CYCLES", period_cycles)
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


def credited_link(bench, *, credits, depth, latency_cycles, bit):
    """Credits conserved, none below 0, room for every flit, order and payload preserved."""
    m = bench.m
    without_crc(bench)
    sizes = {"flit_bytes": 1, "submessage_flits": 2}
    m.submodules.sender = sender = StreamTransmitter(credits=credits, **sizes)
    m.submodules.receiver = receiver = StreamReceiver(depth=depth, **sizes)
    epoch = bench.constant("epoch")
    m.d.comb += [sender.open.eq(1), receiver.up.eq(1)]
    m.d.comb += [sender.control.epoch.eq(epoch), receiver.epoch.eq(epoch)]
    bench.assume(sender.i.payload.kind.as_value()[2] == 0)
    driven(bench, "i", sender.i)
    m.d.comb += receiver.o.ready.eq(bench.free("o_ready"))
    returning = wires(bench, sender.link, receiver.link, latency_cycles)
    sent = sender.i.valid & sender.i.ready
    watch = Watch(
        bench,
        put=sent,
        take=receiver.o.valid & receiver.o.ready,
        value_in=sender.i.payload.as_value()[bit],
        value_out=receiver.o.payload.as_value()[bit],
        capacity=credits,
    )
    available = Signal(range(credits + 1), init=credits)
    m.d.sync += available.eq(available + sender.link.credit - sent)
    bench.check(available + watch.held + sum(returning) == credits)
    # The transmitter is ready from the cycle on that comes after it is open.
    opened = Signal()
    m.d.sync += opened.eq(1)
    bench.check(sender.i.ready == (opened & (available != 0)))
    errors = (receiver.sequence_error, receiver.epoch_error, receiver.check_error)
    bench.check(~Cat(*errors, receiver.overflow, sender.fault_credit).any())
    limit_cycles = latency_cycles + RECEIVER_LATENCY_CYCLES
    hidden_cycles = Signal(range(limit_cycles + 2))
    hidden = (watch.held != 0) & ~receiver.o.valid
    m.d.sync += hidden_cycles.eq(Mux(hidden, hidden_cycles + 1, 0))
    bench.check(hidden_cycles <= limit_cycles)
    bench.cover("no_credit", available == 0)
    bench.cover("credit_and_flit", sent & sender.link.credit)


PROPERTIES = (
    Property(
        "link.credits",
        "credits conserved, no over- or underflow, flits in order, unchanged, delivered in time",
        credited_link,
        (
            {"credits": 3, "depth": 3, "latency_cycles": 1, "bit": 0},
            {"credits": 2, "depth": 4, "latency_cycles": 2, "bit": 1},
            {"credits": 3, "depth": 3, "latency_cycles": 3, "bit": 9},
        ),
    ),
    Property(
        "link.reset",
        "resets of either end in any cycle: no error, nothing old counts, all credits back",
        reset,
        (
            {"credits": 3, "latency_cycles": 1, "period_cycles": 4},
            {"credits": 3, "latency_cycles": 2, "period_cycles": 4},
        ),
        depth=40,
        quick_depth=26,
    ),
)
