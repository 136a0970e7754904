"""Property of the sequencer's queues: no message that is in is lost."""

from types import SimpleNamespace

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.stream import Fifo
from multitree.nic.layouts import mark_layout
from multitree.nic.reduce.sequencer import ReductionSequencer
from multitree.nic.signatures import Verdict
from tests.formal.bench import holds, transfer
from tests.formal.path.sequencer import small_config

SEQUENCER = "multitree.nic.reduce.sequencer"
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
        streams = {"i": In(incoming), "o": Out(incoming)}
        super().__init__(streams | {"lost": Out(1), "state_error": Out(1)})

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

    def __init__(self, m):
        self._reported = m.free("state", STATE_BITS)

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
def arrivals(m, *, num_ports):
    """No message that is in is lost, however many come at once."""
    config = small_config(num_ports, num_flows=1, max_children=2)
    m.submodules.block = block = ReductionSequencer(config)
    queues = [_Counted(config) for _ in range(num_ports)]
    rest = iter(queues)
    m.replace(f"{SEQUENCER}.Checked", lambda *_, depth, **__: next(rest).of(depth))
    # What is known of a flow may be anything: so many flows there are.
    m.replace(f"{SEQUENCER}.Memory", _AnyState(m).of)
    limit = config.memory_queue_flits + 2 * config.num_vcs - SPARED
    m.drive(block.phase, block.drains.ready)
    drained = transfer(block.drains)
    for number, reservation in enumerate(block.reservations):
        arrival, order = block.arrivals[number], reservation.order
        m.drive(reservation.valid, order[:1])
        m.drive(arrival.valid, arrival.order[:1], arrival.staged)
        m.assume(m.stays(reservation.valid, reservation.answered, order))
        stood = m.past(reservation.valid & ~reservation.answered)
        # Between claim and arrival; at port 0 those of staging, which has one in hand.
        under_way = Signal(range(2 * limit), name=f"under_way_{number}")
        opens = reservation.answered & (reservation.verdict.as_value() != Verdict.TWICE.value)
        more = drained if number == 0 else 0
        m.d.sync += under_way.eq(under_way + opens + more - arrival.valid)
        m.assume(~arrival.valid | (under_way != 0))
        m.assume(~reservation.valid | stood | (under_way < limit))
        if number == 0:
            m.assume(~more | ((under_way + reservation.valid) <= limit))
        m.check(~queues[number].lost)
        m.cover(f"full_{number}", under_way == limit)
