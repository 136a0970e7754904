"""Properties of a link's handshake: two ends, whose data and credits are bits."""

from amaranth import Module, Mux, ResetInserter, Signal

from multitree.hw.link.link import Kind
from multitree.hw.link.port import LinkSession
from tests.formal.bench import holds

__all__ = ["MARK_PLACE", "marked"]

MARK_PLACE = 2
"""Bit of a control flit's payload that the handshake leaves free."""


def marked(bench, name, session):
    """Any bit for each time that an end is not down: what is sent in different ones may differ."""
    answers, mark = Signal(name=f"{name}_answers"), Signal(name=f"{name}_mark")
    bench.m.d.comb += answers.eq(session.send.kind != Kind.DOWN)
    over = bench.past(answers) & ~answers
    bench.m.d.sync += mark.eq(Mux(over, bench.free(f"{name}_draw"), mark))
    return mark


class _End:
    """A session, reset in any cycle, that sends data and credits whenever it may."""

    def __init__(self, bench, name):
        m, inner = bench.m, Module()
        inner.submodules.session = self.session = session = LinkSession(flit_bytes=1)
        self.reset = bench.free(f"{name}_reset")
        m.submodules[name] = ResetInserter(self.reset)(inner)
        self.mark = marked(bench, name, session)
        self.brought = Signal(name=f"{name}_brought")
        self.data, self.credit = Signal(name=f"{name}_data"), Signal(name=f"{name}_credit")
        m.d.comb += [
            self.data.eq(bench.free(f"{name}_sends") & session.open & ~session.send.valid),
            self.credit.eq(bench.free(f"{name}_frees") & session.up),
        ]

    def connect(self, bench, far, latency_cycles):
        """Hear the far end, some cycles later."""
        m, session, send = bench.m, self.session, far.session.send
        said = (send.valid, send.kind.as_value(), send.epoch, send.payload[:MARK_PLACE])
        outputs = [*said, far.mark, far.brought, far.data, far.credit]
        # What an end's registers hold for the wires is lost when it is reset.
        *words, data, credit = (Mux(far.reset, 0, bits) for bits in outputs)
        delayed = [*words, data, credit]
        for _ in range(latency_cycles):
            delayed = [bench.past(bits) for bits in delayed]
        valid, kind, epoch, payload, mark, brought, data, credit = delayed
        received = session.received
        m.d.comb += [
            received.valid.eq(valid),
            received.kind.eq(kind),
            received.epoch.eq(epoch),
            received.payload.eq(payload),
        ]
        m.d.sync += self.brought.eq(Mux(~session.up & valid, mark, self.brought))
        self.comes_data, self.comes_credit = data & session.up, credit & session.open
        self.ours = (mark == self.brought) & (brought == self.mark)

    def check(self, bench):
        """What counts was sent between those sessions of both ends that brought each other up."""
        bench.check(~(self.comes_data | self.comes_credit) | self.ours)


def _line(bench, latency_cycles, period_cycles):
    """Two ends, and wires of the same latency between them; whether both are open."""
    bench.replace("multitree.hw.link.port.PERIOD_CYCLES", period_cycles)
    left, right = _End(bench, "left"), _End(bench, "right")
    left.connect(bench, right, latency_cycles)
    right.connect(bench, left, latency_cycles)
    return left, right, left.session.open & right.session.open


@holds(
    "link.session",
    {"latency_cycles": 2, "period_cycles": 2},
    {"latency_cycles": 1, "period_cycles": 4},
    {"latency_cycles": 3, "period_cycles": 2},
)
def pairs(bench, *, latency_cycles, period_cycles):
    """Resets of either end in any cycle: no data and no credits of an earlier session count."""
    left, right, both_open = _line(bench, latency_cycles, period_cycles)
    for near, far in ((left, right), (right, left)):
        near.check(bench)
        bench.cover(f"data_{len(bench.covers)}", near.comes_data & near.brought & far.brought)
    bench.cover("both_open", both_open)


@holds(
    "link.comes_up",
    {"latency_cycles": 1, "period_cycles": 2},
    {"latency_cycles": 1, "period_cycles": 4},
)
def comes_up(bench, *, latency_cycles, period_cycles):
    """Four round trips and three periods after resets of either end in any cycle both are open."""
    left, right, both_open = _line(bench, latency_cycles, period_cycles)
    settle_cycles = 3 * period_cycles + 8 * latency_cycles
    calm = Signal(range(settle_cycles + 2))
    resets = left.reset | right.reset
    bench.m.d.sync += calm.eq(Mux(resets, 0, Mux(calm > settle_cycles, calm, calm + 1)))
    bench.check((calm <= settle_cycles) | both_open)
    bench.cover("calm", calm > settle_cycles)
