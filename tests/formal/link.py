"""Properties of a credited link: both its ends and the wires between them."""

from amaranth import Cat, Mux, Signal

from multitree.hw.link_receiver import LinkReceiver
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
)
