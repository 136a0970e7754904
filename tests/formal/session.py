"""Properties of a link's handshake: two ends, whose data and credits are bits."""

from amaranth import Module, Mux, ResetInserter, Signal

from multitree.hw.link import Kind
from multitree.hw.link_session import LinkSession
from tests.formal.bench import Property

__all__ = ["MARK_PLACE", "PROPERTIES", "marked"]

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
        self.data, self.credit = Signal(name=f"{name}_data"), Signal(name=f"{name}_credit")
        m.d.comb += [
            self.data.eq(bench.free(f"{name}_sends") & session.open & ~session.send.valid),
            self.credit.eq(bench.free(f"{name}_frees") & session.up),
        ]

    def connect(self, bench, far, latency_cycles):
        """Hear the far end, some cycles later; what counts is of one session."""
        m, session, send = bench.m, self.session, far.session.send
        said = (send.valid, send.kind.as_value(), send.epoch, send.news[:MARK_PLACE])
        outputs = [*said, far.mark, far.data, far.credit]
        # What an end's registers hold for the wires is lost when it is reset.
        *words, data, credit = (Mux(far.reset, 0, bits) for bits in outputs)
        delayed = [*words, data, credit]
        for _ in range(latency_cycles):
            delayed = [bench.past(bits) for bits in delayed]
        valid, kind, epoch, news, mark, data, credit = delayed
        received = session.received
        m.d.comb += [
            received.valid.eq(valid),
            received.kind.eq(kind),
            received.epoch.eq(epoch),
            received.news.eq(news),
        ]
        brought = Signal()
        m.d.sync += brought.eq(Mux(~session.up & valid, mark, brought))
        bench.check(~(data & session.up) | (mark == brought))
        bench.check(~(credit & session.open) | (mark == brought))
        bench.cover(f"data_{len(bench.covers)}", data & session.up & brought)


def handshake(bench, *, latency_cycles, back_cycles, period_cycles):
    """Resets of either end in any cycle: old data and old credits never count.

    Both come up again within `settle_cycles` of the last reset.
    """
    bench.replace("multitree.hw.link_session.PERIOD_CYCLES", period_cycles)
    left, right = _End(bench, "left"), _End(bench, "right")
    left.connect(bench, right, back_cycles)
    right.connect(bench, left, latency_cycles)
    settle_cycles = 3 * period_cycles + 4 * (latency_cycles + back_cycles)
    calm = Signal(range(settle_cycles + 2))
    resets = left.reset | right.reset
    bench.m.d.sync += calm.eq(Mux(resets, 0, Mux(calm > settle_cycles, calm, calm + 1)))
    bench.check((calm <= settle_cycles) | (left.session.open & right.session.open))


PROPERTIES = (
    Property(
        "link.session",
        "resets of either end in any cycle: old data and credits never count, both ends come up",
        handshake,
        (
            {"latency_cycles": 1, "back_cycles": 1, "period_cycles": 2},
            {"latency_cycles": 1, "back_cycles": 2, "period_cycles": 2},
            {"latency_cycles": 1, "back_cycles": 1, "period_cycles": 4},
        ),
    ),
)
