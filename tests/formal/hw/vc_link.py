"""Properties of a credited link with virtual channels: ends and wires."""

from amaranth import Cat, Mux, Signal

from multitree.hw.link.receiver import LinkReceiver
from multitree.hw.link.transmitter import LinkTransmitter
from tests.formal.bench import Property, Watch
from tests.hw.link.vc_streams import FORWARD

__all__ = ["PROPERTIES", "RECEIVER_LATENCY_CYCLES", "wires", "without_crc"]

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
    bench.replace("multitree.hw.link.check.crc32_step", lambda state, content: state)


def _of(signal, vc):
    return signal.bit_select(vc, 1)


def _sends(bench, name, port, num_vcs):
    """Any flit of any channel that may be sent, in any cycle."""
    vc = bench.free(f"{name}_vc", range(num_vcs))
    bench.m.d.comb += [
        port.take.eq(bench.free(f"{name}_take") & (vc < num_vcs) & _of(port.may_send, vc)),
        port.flit.vc.eq(vc),
        port.flit.kind.eq(bench.free(f"{name}_kind", 2)),
    ]
    return vc


def channels(bench, *, num_vcs, credits, latency_cycles):
    """One arbitrary channel: credits, order, content and time, whatever the others do."""
    m = bench.m
    without_crc(bench)
    sizes = {"num_vcs": num_vcs, "flit_bytes": 1, "submessage_flits": 2}
    m.submodules.sender = sender = LinkTransmitter(credits=credits, **sizes)
    m.submodules.receiver = receiver = LinkReceiver(depth=credits, **sizes)
    m.d.comb += [sender.open.eq(1), receiver.up.eq(1)]
    channel = bench.constant("channel", range(num_vcs))
    bench.assume(channel < num_vcs)
    vc = _sends(bench, "i", sender, num_vcs)
    m.d.comb += sender.flit.payload.eq(bench.free("i_payload"))
    m.d.comb += [o.ready.eq(bench.free(f"o_{k}_ready")) for k, o in enumerate(receiver.o)]
    returning = wires(bench, sender.link, receiver.link, latency_cycles)
    offered = _of(Cat(o.valid for o in receiver.o), channel)
    sent = sender.take & (vc == channel)
    watch = Watch(
        bench,
        put=sent,
        take=_of(Cat(o.valid & o.ready for o in receiver.o), channel),
        value_in=sender.flit.payload[:1],
        value_out=_of(Cat(o.payload.payload[0] for o in receiver.o), channel),
        capacity=credits,
    )
    available = Signal(range(credits + 1), init=credits)
    m.d.sync += available.eq(available + _of(sender.link.credit, channel) - sent)
    bench.check(available + watch.held + sum(_of(bits, channel) for bits in returning) == credits)
    # Nothing but its own credits decides whether a channel may send.
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


def down(bench, *, num_vcs, credits):
    """Ends that go down and up in any cycle, and links that bring anything, begin anew."""
    m = bench.m
    without_crc(bench)
    sizes = {"num_vcs": num_vcs, "flit_bytes": 1, "submessage_flits": 2}
    m.submodules.sender = sender = LinkTransmitter(credits=credits, **sizes)
    m.submodules.receiver = receiver = LinkReceiver(depth=credits, **sizes)
    is_open, up = bench.free("open"), bench.free("up")
    m.d.comb += [sender.open.eq(is_open), receiver.up.eq(up)]
    _sends(bench, "i", sender, num_vcs)
    m.d.comb += sender.link.credit.eq(bench.free("credit", num_vcs))
    was_open = bench.past(is_open)
    every = Cat(left == credits for left in sender.available).all()
    bench.check(was_open | (every & ~sender.may_send.any()))
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


PROPERTIES = (
    Property(
        "vc.channels",
        "per channel: credits conserved, flits once, in order, in time, whatever the others do",
        channels,
        (
            {"num_vcs": 2, "credits": 3, "latency_cycles": 1},
            {"num_vcs": 3, "credits": 3, "latency_cycles": 0},
        ),
        quick_depth=16,
    ),
    Property(
        "vc.down",
        "an end that went down begins with all credits, number 0 and empty buffers, in any cycle",
        down,
        ({"num_vcs": 2, "credits": 3}, {"num_vcs": 3, "credits": 4}),
    ),
)
