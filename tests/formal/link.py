"""Properties of a credited link: both its ends and the wires between them."""

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring

from multitree.hw.link_receiver import LinkReceiver
from multitree.hw.link_session import LinkSession
from multitree.hw.link_transmitter import LinkTransmitter
from tests.formal.bench import Property, Watch, driven

__all__ = ["PROPERTIES"]

FORWARD = ("valid", "kind", "vc", "epoch", "sequence", "payload", "check")
RECEIVER_LATENCY_CYCLES = 3


def _wires(bench, sender, receiver, latency_cycles):
    """Delay lines of both directions; returns all credits on their way, the receiver's included."""
    m = bench.m
    stage = Cat(getattr(sender.link, name) for name in FORWARD)
    returning = [receiver.link.credit]
    for _ in range(latency_cycles):
        stage = bench.past(stage)
        returning.append(bench.past(returning[-1]))
    m.d.comb += [
        Cat(getattr(receiver.link, name) for name in FORWARD).eq(stage),
        sender.link.credit.eq(returning[-1]),
    ]
    return returning


def _without_crc(bench):
    """Wires that change nothing: both ends compute the same CRC, whatever it is."""
    bench.replace("multitree.hw.link_check.crc32_step", lambda state, content: state)


def _end(bench, name, credits):
    """A port's end of the link, with a reset that may come in any cycle; what a port wires."""
    m, inner = bench.m, Module()
    sizes = {"flit_bytes": 1, "submessage_flits": 2}
    inner.submodules.session = session = LinkSession(flit_bytes=1)
    inner.submodules.sender = sender = LinkTransmitter(credits=credits, **sizes)
    inner.submodules.receiver = receiver = LinkReceiver(depth=credits, **sizes)
    wiring.connect(inner, receiver.control, session.received)
    wiring.connect(inner, session.send, sender.control)
    inner.d.comb += [
        sender.open.eq(session.open),
        receiver.up.eq(session.up),
        receiver.epoch.eq(session.peer_epoch),
    ]
    reset = bench.free(f"reset_{name}")
    m.submodules[name] = ResetInserter(reset)(inner)
    driven(bench, f"{name}_i", sender.i)
    m.d.comb += receiver.o.ready.eq(bench.free(f"{name}_o_ready"))
    bench.assume(sender.i.payload.kind.as_value()[2] == 0)
    return session, sender, receiver, reset


def reset(bench, *, credits, latency_cycles, period_cycles, apart_cycles):
    """Resets of either end in any cycle: no error ever, both come up, all credits are there.

    An epoch is one bit: it tells apart what an end said before and after a reset, as long as it is
    not reset twice while a flit is on its way and answered.
    """
    m = bench.m
    settle_cycles = 3 * period_cycles + 3 * (latency_cycles + 4)
    _without_crc(bench)
    bench.replace("multitree.hw.link_session.PERIOD_CYCLES", period_cycles)
    left, right = (_end(bench, name, credits) for name in ("left", "right"))
    for (_, sender, _, _), (_, _, receiver, _) in ((left, right), (right, left)):
        _wires(bench, sender, receiver, latency_cycles)
    resets = left[3] | right[3]
    calm, still = (Signal(range(settle_cycles + 2), name=n) for n in ("calm", "still"))
    m.d.sync += calm.eq(Mux(resets, 0, Mux(calm > settle_cycles, calm, calm + 1)))
    for number, (_, _, _, reset_now) in enumerate((left, right)):
        since = Signal(range(apart_cycles + 1), init=apart_cycles, name=f"since_{number}")
        m.d.sync += since.eq(Mux(reset_now, 0, since + (since != apart_cycles)))
        bench.assume(~reset_now | (since == apart_cycles))
    both_open = left[0].open & right[0].open
    moves = []
    for _, sender, receiver, _ in (left, right):
        errors = (receiver.sequence_error, receiver.epoch_error, receiver.check_error)
        bench.check(~Cat(*errors, receiver.overflow, sender.fault_credit).any())
        moves += [sender.i.valid & sender.i.ready, receiver.o.valid]
    # Longer than a flit and its credit are on their way: nothing is left of what was sent.
    quiet_cycles = 2 * latency_cycles + 8
    busy = resets | ~both_open | Cat(moves).any()
    m.d.sync += still.eq(Mux(busy, 0, Mux(still > quiet_cycles, still, still + 1)))
    full = (left[1].available == credits) & (right[1].available == credits)
    bench.check((still <= quiet_cycles) | full)
    bench.check((calm <= settle_cycles) | both_open)
    sent = Signal()
    m.d.sync += sent.eq(~resets & (sent | (left[1].i.valid & left[1].i.ready)))
    again = Signal()
    m.d.sync += again.eq(again | (sent & right[3]))
    bench.cover("open", both_open)
    bench.cover("again", again & both_open & left[3])


def credited_link(bench, *, credits, depth, latency_cycles, bit):
    """Credits conserved, none below 0, room for every flit, order and payload preserved."""
    m = bench.m
    _without_crc(bench)
    sizes = {"flit_bytes": 1, "submessage_flits": 2}
    m.submodules.sender = sender = LinkTransmitter(credits=credits, **sizes)
    m.submodules.receiver = receiver = LinkReceiver(depth=depth, **sizes)
    epoch = bench.constant("epoch")
    m.d.comb += [sender.open.eq(1), receiver.up.eq(1)]
    m.d.comb += [sender.control.epoch.eq(epoch), receiver.epoch.eq(epoch)]
    bench.assume(sender.i.payload.kind.as_value()[2] == 0)
    driven(bench, "i", sender.i)
    m.d.comb += receiver.o.ready.eq(bench.free("o_ready"))
    returning = _wires(bench, sender, receiver, latency_cycles)
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
    bench.check(sender.i.ready == (available != 0))
    errors = (receiver.sequence_error, receiver.epoch_error, receiver.check_error)
    bench.check(~Cat(*errors, receiver.overflow, sender.fault_credit).any())
    limit_cycles = latency_cycles + RECEIVER_LATENCY_CYCLES
    silent = Signal(range(limit_cycles + 2))
    hidden = (watch.held != 0) & ~receiver.o.valid
    m.d.sync += silent.eq(Mux(hidden, silent + 1, 0))
    bench.check(silent <= limit_cycles)
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
        "a reset of either end in any cycle: no error, both ends open again, all credits back",
        reset,
        (
            {"credits": 3, "latency_cycles": 1, "period_cycles": 4, "apart_cycles": 24},
            {"credits": 3, "latency_cycles": 2, "period_cycles": 4, "apart_cycles": 32},
        ),
        depth=40,
        quick_depth=26,
    ),
)
