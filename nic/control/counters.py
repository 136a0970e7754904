"""Counters of a port: payload flits, stalls by cause, the least credits seen."""

from amaranth import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.driver.config import Config
from multitree.nic.driver.registers import PORT_COUNTERS

__all__ = ["ActivitySignature", "PortCounters", "count_activity"]

_EVENTS = {
    "FLITS_SENT": "sent",
    "FLITS_RECEIVED": "received",
    "STALL_DEPENDENCY": "dependency",
    "STALL_CREDIT": "credit",
    "STALL_MEMORY": "memory",
    "STALL_SIBLING": "sibling",
    "FLITS_FORWARDED": "forwarded",
}
"""What each counter counts, by its register; the other one keeps the least credits."""


class ActivitySignature(wiring.Signature):
    """What a port does in this cycle.

    Members
    -------
    sent, received : Out(1)
        A payload flit goes on the link; one is taken out of the link's buffer.
    dependency, credit, memory, sibling : Out(1)
        A row waits for its dependency, a flit for a credit, a payload flit for memory, a
        contribution for a sibling.
    forwarded : Out(1)
        The sender takes a flit that a port keeps.
    credits : Out
        Credits that are left.
    """

    def __init__(self, config: Config):
        events = {name: Out(1) for name in _EVENTS.values()}
        super().__init__({**events, "credits": Out(range(config.buffer_flits + 1))})


class PortCounters(wiring.Component):
    """Counts what a port does while a collective runs; starts anew with each.

    Counts follow an event by two cycles and wrap at 2^32. The least credits are those of the whole
    buffer until fewer are seen.

    Members
    -------
    start, running : In(1)
        A collective starts: begin anew; count.
    activity : In(ActivitySignature)
    counts : Out(32), one per counter
        In the order of `registers.PORT_COUNTERS`.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "running": In(1),
                "activity": In(ActivitySignature(config)),
                "counts": Out(32).array(len(PORT_COUNTERS)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        running, credits = Signal(), Signal.like(self.activity.credits)
        least = Signal.like(credits, init=self.config.buffer_flits)
        # Delayed as the events are, so that each is counted in the collective in which it happened.
        m.d.sync += [running.eq(self.running), credits.eq(self.activity.credits)]
        with m.If(self.start):
            m.d.sync += least.eq(self.config.buffer_flits)
        with m.Elif(running & (credits < least)):
            m.d.sync += least.eq(credits)
        for name, count in zip(PORT_COUNTERS, self.counts, strict=True):
            if name not in _EVENTS:
                m.d.comb += count.eq(least)
                continue
            happened = Signal(name=_EVENTS[name])
            m.d.sync += happened.eq(getattr(self.activity, _EVENTS[name]))
            with m.If(self.start):
                m.d.sync += count.eq(0)
            with m.Elif(running & happened):
                m.d.sync += count.eq(count + 1)
        return m


def count_activity(m, config, ports, control):
    """Build counters for each port as submodules named after its number; returns each port's
    counts.
    """
    words = []
    for number, port in enumerate(ports):
        m.submodules[f"counters_{number}"] = counters = PortCounters(config)
        wiring.connect(m, port.activity, counters.activity)
        m.d.comb += [counters.start.eq(control.launch), counters.running.eq(control.running)]
        words.append(Array(counters.counts))
    return words
