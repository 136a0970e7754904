"""Property of the sequencer's queues: no message that is in is lost."""

from types import SimpleNamespace

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.stream import Fifo
from multitree.nic.driver.config import Config
from multitree.nic.layouts import mark_layout
from multitree.nic.reduce.sequencer import ReductionSequencer
from multitree.nic.signatures import Verdict
from tests.formal.bench import holds
from tests.formal.stand_ins import free_outputs

SPARED = 5
"""Places that queues of arrivals lack in the bench, and messages that ports then have fewer."""
SPARED_LATE = 6
"""Places they lack besides, which so few messages leave empty: one more, and some are lost."""
STATE_BITS = 64
"""More than the state of a flow has."""


class _Counted(wiring.Component):
    """A queue that is some places shorter than it would be, and tells when it refuses something.

    It holds as many fewer as the ports then have, and has no place to spare.
    """

    def __init__(self, config):
        self._layout, self.depth = mark_layout(config), None
        incoming = stream.Signature(self._layout)
        super().__init__(
            {"i": In(incoming), "o": Out(incoming), "lost": Out(1), "state_error": Out(1)}
        )

    def of(self, depth):
        """This queue, of that length."""
        self.depth = depth - SPARED - SPARED_LATE
        return self

    def elaborate(self, platform):
        """A queue."""
        m = Module()
        m.submodules.queue = queue = Fifo(shape=self._layout, depth=self.depth)
        wiring.connect(m, wiring.flipped(self.i), queue.i)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        m.d.comb += self.lost.eq(queue.i.valid & ~queue.i.ready)
        return m


class _AnyState(Elaboratable):
    """In the place of the memory of flows: any word, whatever is asked for."""

    def __init__(self, bench):
        self._reported = bench.free("state", STATE_BITS)

    def of(self, *, shape, depth, init):
        """This memory, of words of that width."""
        del depth, init
        self._reported = self._reported[:shape]
        return self

    def write_port(self):
        """What is written is forgotten."""
        return SimpleNamespace(en=Signal(), addr=Signal(8), data=Signal(STATE_BITS))

    def read_port(self):
        """Any word."""
        return SimpleNamespace(addr=Signal(8), data=self._reported)

    def elaborate(self, platform):
        """Nothing."""
        return Module()


@holds("sequencer.arrivals", {"num_ports": 3}, {"num_ports": 2})
def arrivals(bench, *, num_ports):
    """No message that is in is lost, however many come at once."""
    m = bench.m
    config = Config(
        num_ports=num_ports,
        num_flows=1,
        max_children=2,
        num_classes=1,
        memory_queue_flits=4,
        address_width=4,
    )
    m.submodules.block = block = ReductionSequencer(config)
    queues = [_Counted(config) for _ in range(num_ports)]
    rest = iter(queues)
    bench.replace(
        "multitree.nic.reduce.sequencer.Checked", lambda *_, depth, **__: next(rest).of(depth)
    )
    # What is known of a flow may be anything: so many flows there are.
    bench.replace("multitree.nic.reduce.sequencer.Memory", _AnyState(bench).of)
    limit = config.memory_queue_flits + 2 * config.num_vcs - SPARED
    free_outputs(bench, "in", block.phase, block.drains.ready)
    drained = block.drains.valid & block.drains.ready
    for number, (reservation, arrival) in enumerate(
        zip(block.reservations, block.arrivals, strict=True)
    ):
        free_outputs(bench, f"claim_{number}", reservation.valid, reservation.order[:1])
        free_outputs(bench, f"arrival_{number}", arrival.valid, arrival.order[:1], arrival.staged)
        stood = bench.past(reservation.valid & ~reservation.answered)
        bench.assume(
            ~stood | (reservation.valid & (reservation.order == bench.past(reservation.order)))
        )
        # Between claim and arrival; at port 0 those of staging, which has one in hand.
        under_way = Signal(range(2 * limit), name=f"under_way_{number}")
        opens = reservation.answered & (reservation.verdict.as_value() != Verdict.TWICE.value)
        more = drained if number == 0 else 0
        m.d.sync += under_way.eq(under_way + opens + more - arrival.valid)
        bench.assume(~arrival.valid | (under_way != 0))
        bench.assume(~reservation.valid | stood | (under_way < limit))
        if number == 0:
            bench.assume(~more | ((under_way + reservation.valid) <= limit))
        bench.check(~queues[number].lost)
        bench.cover(f"full_{number}", under_way == limit)
