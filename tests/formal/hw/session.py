"""Properties of a link's handshake: two ends, whose data and credits are bits."""

from amaranth import Module, Mux, ResetInserter, Signal

from multitree.hw.link.link import Kind
from multitree.hw.link.port import LinkSession
from tests.formal.bench import holds, sets

__all__ = ["MARK_PLACE", "marked"]

MARK_PLACE = 2
"""Bit of a control flit's payload that the handshake leaves free."""


def marked(m, name, session):
    """Any bit for each time that an end is not down: what is sent in different ones may differ."""
    answers, mark = Signal(name=f"{name}_answers"), Signal(name=f"{name}_mark")
    m.d.comb += answers.eq(session.send.kind != Kind.DOWN)
    over = m.past(answers) & ~answers
    m.d.sync += mark.eq(Mux(over, m.free(f"{name}_draw"), mark))
    return mark


class _End:
    """A session, reset in any cycle, that sends data and credits whenever it may."""

    def __init__(self, m, name):
        inner = Module()
        inner.submodules.session = self.session = session = LinkSession(flit_bytes=1)
        self.reset = m.free(f"{name}_reset")
        m.submodules[name] = ResetInserter(self.reset)(inner)
        self.mark = marked(m, name, session)
        self.brought = Signal(name=f"{name}_brought")
        self.data, self.credit = Signal(name=f"{name}_data"), Signal(name=f"{name}_credit")
        m.d.comb += [
            self.data.eq(m.free(f"{name}_sends") & session.open & ~session.send.valid),
            self.credit.eq(m.free(f"{name}_frees") & session.up),
        ]

    def connect(self, m, far, latency_cycles):
        """Hear the far end, some cycles later."""
        session, send = self.session, far.session.send
        said = (send.valid, send.kind.as_value(), send.epoch, send.payload[:MARK_PLACE])
        outputs = [*said, far.mark, far.brought, far.data, far.credit]
        # What an end's registers hold for the wires is lost when it is reset.
        *words, data, credit = (Mux(far.reset, 0, bits) for bits in outputs)
        delayed = [m.past(bits, latency_cycles) for bits in (*words, data, credit)]
        valid, kind, epoch, payload, mark, brought, data, credit = delayed
        received = session.received
        m.d.comb += [received.valid.eq(valid), received.kind.eq(kind)]
        m.d.comb += [received.epoch.eq(epoch), received.payload.eq(payload)]
        m.d.sync += self.brought.eq(Mux(~session.up & valid, mark, self.brought))
        self.comes_data, self.comes_credit = data & session.up, credit & session.open
        self.ours = (mark == self.brought) & (brought == self.mark)


def _line(m, latency_cycles, period_cycles):
    """Two ends, and wires of the same latency between them; whether both are open."""
    m.replace("multitree.hw.link.port.PERIOD_CYCLES", period_cycles)
    left, right = _End(m, "left"), _End(m, "right")
    left.connect(m, right, latency_cycles)
    right.connect(m, left, latency_cycles)
    return left, right, left.session.open & right.session.open


@holds("link.session", *sets("latency_cycles period_cycles", (2, 2), (1, 4), (3, 2)))
def pairs(m, *, latency_cycles, period_cycles):
    """Resets of either end in any cycle: no data and no credits of an earlier session count."""
    left, right, both_open = _line(m, latency_cycles, period_cycles)
    for near, far in ((left, right), (right, left)):
        # What counts was sent between those sessions of both ends that brought each other up.
        m.check(~(near.comes_data | near.comes_credit) | near.ours)
        m.cover(f"data_{len(m.covers)}", near.comes_data & near.brought & far.brought)
    m.cover("both_open", both_open)


@holds("link.comes_up", *sets("latency_cycles period_cycles", (1, 2), (1, 4)))
def comes_up(m, *, latency_cycles, period_cycles):
    """Four round trips and three periods after resets of either end in any cycle both are open."""
    left, right, both_open = _line(m, latency_cycles, period_cycles)
    settle_cycles = 3 * period_cycles + 8 * latency_cycles
    calm = Signal(range(settle_cycles + 2))
    resets = left.reset | right.reset
    m.d.sync += calm.eq(Mux(resets, 0, Mux(calm > settle_cycles, calm, calm + 1)))
    m.check((calm <= settle_cycles) | both_open)
    m.cover("calm", calm > settle_cycles)
