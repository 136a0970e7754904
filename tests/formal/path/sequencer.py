"""Properties of the sequencer: sums in order, each contribution once, in time."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.driver.config import Config
from multitree.nic.layouts import mark_layout
from multitree.nic.reduce.sequencer import ReductionSequencer
from multitree.nic.signatures import Verdict
from tests.formal.bench import holds, sets, transfer
from tests.formal.stand_ins import hand_out

__all__ = ["small_config"]

REDUCE, GATHER = 0, 1
EVENT_CYCLES = 4
"""Cycles that a claim takes, or a message that is in."""


class _Passing(wiring.Component):
    """In the place of a queue: what comes in stays outside until it is asked for.

    A queue keeps its order whatever it holds (`stream.fifo`), and a message may be in memory at any
    time; so any order of arrivals is one that queues of some length would show.
    """

    def __init__(self, config):
        incoming = stream.Signature(mark_layout(config))
        super().__init__({"i": In(incoming), "o": Out(incoming), "state_error": Out(1)})

    def elaborate(self, platform):
        """Wires."""
        m = Module()
        wiring.connect(m, wiring.flipped(self.i), wiring.flipped(self.o))
        return m


class _Flow:
    """One arbitrary flow of the collective that runs: what its contributions have done so far.

    Members, a bit per contribution but for `gathered`: `locked`; `began`, it may be added from
    then on; `staged`, it has to go to its slot; `lies`, it is there; `waits`, it has to
    wait for its turn; `added`.
    """

    def __init__(self, m, num_children):
        self.gathered, self.result = Signal(), Signal()
        names = ("locked", "began", "staged", "lies", "waits", "added")
        for name in names:
            setattr(self, name, Signal(num_children, name=name))
        self.every = [getattr(self, name) for name in names] + [self.gathered, self.result]


def small_config(num_ports, num_flows, max_children):
    """An interface on shared links, with the shortest queues."""
    sizes = {"num_ports": num_ports, "num_flows": num_flows, "max_children": max_children}
    return Config(**sizes, num_classes=1, memory_queue_flits=4, address_width=4)


class _Bench:
    """The sequencer, and all that ports, staging and control may do as far as one flow sees it."""

    def __init__(self, m, *, num_ports, num_flows, max_children):
        self.m = m
        self.config = config = small_config(num_ports, num_flows, max_children)
        m.submodules.block = self.block = block = ReductionSequencer(config)
        self.queues = [_Passing(config) for _ in range(num_ports)]
        hand_out(m, "multitree.nic.reduce.sequencer.Checked", *self.queues)
        self.children = m.one_of(max_children + 1, "children")
        self.key = m.one_of(num_flows, "key")
        self.flow = _Flow(m, max_children)
        m.drive(block.drains)
        for number in range(num_ports):
            self._reservation(number)
            self._arrival(number)

    def _reservation(self, number):
        """A claim of any message, held until it is answered."""
        m, reservation = self.m, self.block.reservations[number]
        flow, order = reservation.flow, reservation.order
        fields = Cat(reservation.op, flow, order, reservation.empty, reservation.last)
        m.drive(reservation.valid, reservation.op, reservation.empty)
        m.drive(flow[: len(self.key)], order[:3])
        m.d.comb += reservation.last.eq(self.children - 1)
        m.assume(m.stays(reservation.valid, reservation.answered, fields))
        m.assume((flow < self.config.num_flows) & (order < self.config.max_children))
        # The header lookup lets no contribution pass that its flow does not have.
        reduces = reservation.valid & (flow == self.key) & (reservation.op == REDUCE)
        m.assume(~reduces | (order < self.children))

    def _arrival(self, number):
        """Any message is in at any time, if it may be."""
        m, arrival = self.m, self.block.arrivals[number]
        m.drive(arrival.valid, arrival.op, arrival.staged)
        m.drive(arrival.flow[: len(self.key)], arrival.order[:3])
        m.d.comb += arrival.final.eq(arrival.order == (self.children - 1)[:6])
        m.assume(arrival.flow < self.config.num_flows)
        m.assume(arrival.order < self.config.max_children)
        mine = arrival.valid & (arrival.flow == self.key)
        flow, place = self.flow, arrival.order
        may_stage = (flow.staged & ~flow.lies).bit_select(place, 1)
        may_add = (flow.began & ~flow.added).bit_select(place, 1)
        may = Mux(arrival.staged, may_stage, may_add)
        gathers = flow.gathered & ~flow.result & ~arrival.staged
        m.assume(~mine | Mux(arrival.op == GATHER, gathers, may))

    def taken(self):
        """The message that is in and of the flow, whose event begins: (whether, its mark)."""
        came, mark = Signal(), Signal(mark_layout(self.config))
        for queue in self.queues:
            with self.m.If(transfer(queue.i) & (queue.i.payload.flow == self.key)):
                self.m.d.comb += [came.eq(1), mark.eq(queue.i.payload)]
        return came, mark

    def answered(self):
        """The claim of the flow that is answered: (whether, its op, order, empty, verdict)."""
        hit, op, order, empty = Signal(), Signal(), Signal(6), Signal()
        for reservation in self.block.reservations:
            with self.m.If(reservation.answered & (reservation.flow == self.key)):
                self.m.d.comb += [hit.eq(1), op.eq(reservation.op)]
                self.m.d.comb += [order.eq(reservation.order), empty.eq(reservation.empty)]
        return hit, op, order, empty, self.block.reservations[0].verdict.as_value()

    def follow(self):
        """Note what the flow's contributions do, from answers, turns and arrivals."""
        m, flow = self.m, self.flow
        hit, op, order, empty, verdict = self.answered()
        came, mark = self.taken()
        place, in_place = (Signal(len(flow.locked)) for _ in range(2))
        m.d.comb += [place.eq(1 << order), in_place.eq(1 << mark.order)]
        fresh = hit & (verdict != Verdict.TWICE.value)
        with m.If(fresh & (op == GATHER)):
            m.d.sync += [flow.gathered.eq(1), flow.result.eq(empty)]
        with m.If(fresh & (op == REDUCE)):
            m.d.sync += flow.locked.eq(flow.locked | place)
            with m.If(empty):
                m.d.sync += [flow.began.eq(flow.began | place), flow.added.eq(flow.added | place)]
            with m.Elif(verdict == Verdict.DIRECT.value):
                m.d.sync += flow.began.eq(flow.began | place)
            with m.Elif(verdict == Verdict.STAGED.value):
                m.d.sync += flow.staged.eq(flow.staged | place)
            with m.Else():
                m.d.sync += flow.waits.eq(flow.waits | place)
        with m.If(came & (mark.op == GATHER)):
            m.d.sync += flow.result.eq(1)
        with m.Elif(came & mark.staged):
            m.d.sync += flow.lies.eq(flow.lies | in_place)
        with m.Elif(came):
            m.d.sync += flow.added.eq(flow.added | in_place)
        drain, turn = self.begins()
        # Turns and drains come with an event of the same flow, answers with another one.
        with m.If((drain | turn).any()):
            m.d.sync += flow.began.eq(flow.began | drain | turn)
        return hit, op, order, empty, verdict, came

    def begins(self):
        """Contributions of the flow whose turn comes in this cycle: drained ones, waiting ones."""
        m, block, flow = self.m, self.block, self.flow
        drain, turn = (Signal(len(flow.locked), name=name) for name in ("drain", "turn"))
        job = block.drains.payload
        with m.If(transfer(block.drains) & (job.flow == self.key)):
            m.d.comb += drain.eq(1 << job.order)
        with m.If(block.turn.valid & (block.turn.flow == self.key)):
            m.d.comb += turn.eq((1 << block.turn.order) & flow.waits & ~flow.began)
        return drain, turn

    def settled(self, came):
        """Nothing of the flow is being judged."""
        m, block = self.m, self.block
        age = Signal(range(EVENT_CYCLES + 1), init=EVENT_CYCLES)
        with m.If(came):
            m.d.sync += age.eq(1)
        with m.Elif((age != EVENT_CYCLES) & ~(block.drains.valid & ~block.drains.ready)):
            m.d.sync += age.eq(age + 1)
        return age == EVENT_CYCLES

    def asked(self):
        """A claim of the flow waits."""
        return Cat(r.valid & (r.flow == self.key) for r in self.block.reservations).any()


def _all_before(bits, place):
    """Whether all bits below this place are set, `place` being one bit."""
    before = place - 1
    return (bits & before) == before[: len(bits)]


def _control(test, settled, expects_result):
    """Collectives that end when all of the flow is in; tables whose bank was cleared before."""
    m, flow, block = test.m, test.flow, test.block
    every = (1 << test.children) - 1
    fresh = ~Cat(flow.locked, flow.gathered).any()
    whole = (flow.added == every[: len(flow.added)]) & (flow.result == expects_result)
    ends, swaps, clear = (m.free(name) for name in ("ends", "swaps", "clear"))
    phase, bank = Signal(), Signal()
    dirty = Array(Signal(name=f"dirty_{k}") for k in range(2))
    m.d.comb += [block.phase.eq(phase), block.bank.eq(bank), block.clear.eq(clear)]
    m.d.sync += [phase.eq(phase ^ ends), bank.eq(bank ^ swaps)]
    m.assume(~ends | (whole & settled & ~test.asked()))
    m.assume(~swaps | (fresh & settled & ~test.asked() & ~block.clearing & ~clear & ~ends))
    m.assume(~swaps | ~dirty[~bank])
    m.assume(~clear | ~block.clearing)
    with m.If(m.past(block.clearing) & ~block.clearing):
        m.d.sync += dirty[~bank].eq(0)
    # What a mark says of this bank is only forgotten by a sweep.
    with m.If(~fresh):
        m.d.sync += dirty[bank].eq(1)
    with m.If(ends):
        m.d.sync += [signal.eq(0) for signal in flow.every]
    return ends, swaps


@holds(
    "sequencer.order",
    *sets("num_ports num_flows max_children", (1, 1, 2), (2, 2, 2), (1, 1, 3)),
    quick_depth=20,
)
def order(m, *, num_ports, num_flows, max_children):
    """Contributions begin one by one, in order, once; each message counted once; no table's, no
    collective's state meets another's.
    """
    test = _Bench(m, num_ports=num_ports, num_flows=num_flows, max_children=max_children)
    flow, block = test.flow, test.block
    hit, op, place_number, empty, verdict, came = test.follow()
    settled = test.settled(came)
    expects_result, empties = m.constant("expects_result"), m.constant("empties", 2)
    for reservation in block.reservations:
        mine = reservation.valid & (reservation.flow == test.key)
        m.assume(~mine | (reservation.empty == empties.bit_select(reservation.op, 1)))
        m.assume(~mine | (reservation.op == REDUCE) | expects_result)
    place = Signal(max_children)
    m.d.comb += place.eq(1 << place_number)
    # Verdicts: what came before is refused, and who may begin is granted.
    reduces, known = hit & (op == REDUCE), (flow.locked & place).any()
    before, reserved_before = _all_before(flow.added, place), _all_before(flow.locked, place)
    late = Mux(reserved_before, Verdict.WAITS.value, Verdict.STAGED.value)
    granted = Mux(before, Verdict.DIRECT.value, late)
    # What has no payload has nothing to be staged, nor to be added to.
    fresh = Mux(empty, Verdict.DIRECT.value, granted)
    m.check(~reduces | (verdict == Mux(known, Verdict.TWICE.value, fresh)))
    gathers = hit & (op == GATHER)
    m.check(~gathers | (verdict == Mux(flow.gathered, Verdict.TWICE.value, Verdict.DIRECT.value)))
    # Turns: one at a time, in order, once, of what lies in its slot or waits.
    drain, turn = test.begins()
    for begins, ready in ((drain, flow.lies), (turn, flow.waits)):
        m.check(~begins.any() | ((begins & ready & ~flow.began) == begins))
        m.check(~begins.any() | _all_before(flow.added, begins))
    m.check(~(drain.any() & turn.any()))
    due = (flow.lies | flow.waits) & ~flow.began
    next_place = (flow.added + 1)[:max_children]
    m.check(~settled | ~(due & next_place).any())
    _reports(test, settled, expects_result)
    _control(test, settled, expects_result)
    again, whole = Signal(), (flow.added == (1 << max_children) - 1)
    m.d.sync += again.eq(again | (whole & block.bank))
    m.cover("staged", whole & flow.staged[max_children - 1])
    m.cover("waits", whole & flow.waits[max_children - 1])
    m.cover("twice", hit & (verdict == Verdict.TWICE.value))
    m.cover("another", again & ~block.bank & flow.staged[max_children - 1])


def _reports(test, settled, expects_result):
    """Each message is counted once; a whole sum and a result are reported once, when they are."""
    m, flow, block = test.m, test.flow, test.block
    mine = block.arrival.flow == test.key
    sums, results = (block.arrival.valid & mine & (block.arrival.op == op) for op in (0, 1))
    every = ((1 << test.children) - 1)[: len(flow.added)]
    reported, ended, counted, seen = Signal(), Signal(), Signal(4), Signal(4)
    flow.every += [reported, ended, counted]
    m.d.comb += seen.eq(sum(flow.added) + flow.result)
    with m.If(sums):
        m.d.sync += reported.eq(1)
    with m.If(results):
        m.d.sync += ended.eq(1)
    with m.If(block.counted & mine):
        m.d.sync += counted.eq(counted + 1)
    whole = Signal()
    m.d.comb += whole.eq((flow.added == every) & (test.children != 0))
    hit, op, _, empty, _ = test.answered()
    last = hit & (op == REDUCE) & empty
    m.check(~(sums & reported) & ~(results & ended))
    m.check(~sums | whole | last)
    m.check(~results | flow.result | (hit & (op == GATHER) & empty))
    m.check(~settled | ((counted == seen) & (reported == whole) & (ended == flow.result)))
    m.cover("sum", reported & ended & expects_result)


@holds("sequencer.answers", {"num_ports": 2, "num_flows": 2}, {"num_ports": 3, "num_flows": 2})
def answers(m, *, num_ports, num_flows):
    """A claim is answered once each other port's and each message that is in was judged, four
    cycles each, and in its fourth cycle at the earliest.
    """
    test = _Bench(m, num_ports=num_ports, num_flows=num_flows, max_children=2)
    block = test.block
    m.drive(block.phase)
    m.fix(block.bank)
    # What staging makes it wait for is staging's (`staging.progress`).
    m.assume(~block.drains.valid | block.drains.ready)
    waiter = m.constant("waiter", range(max(num_ports, 2)))
    m.assume(waiter < num_ports)
    asks = Array(reservation.valid for reservation in block.reservations)[waiter]
    mine = Array(reservation.answered for reservation in block.reservations)[waiter]
    answered = Cat(reservation.answered for reservation in block.reservations)
    came = Cat(transfer(queue.i) for queue in test.queues)
    for events in (answered, came):
        m.check((events & (events - 1)[: len(events)]) == 0)
    for reservation in block.reservations:
        # No sooner than the header lookup has found the slot (`header_lookup.place`).
        stood = reservation.valid
        for _ in range(EVENT_CYCLES - 1):
            stood = m.past(stood) & reservation.valid
        m.check(~reservation.answered | stood)
    passed, owed = Signal(range(num_ports + 1)), Signal(range(4 * EVENT_CYCLES))
    with m.If(~asks | mine):
        m.d.sync += [passed.eq(0), owed.eq(0)]
    with m.Else():
        m.d.sync += passed.eq(passed + (answered.any() & ~mine))
        # Each event that is before it buys the time that an event takes.
        event = answered.any() | came.any()
        m.d.sync += owed.eq(Mux(event, Mux(owed > 2, owed - 3, 0), owed + 1))
    m.check(passed < num_ports)
    m.check(owed < 2 * EVENT_CYCLES)
    behind = Signal()
    m.d.sync += behind.eq(asks & ~mine & (behind | came.any()))
    m.cover("passed", mine & behind & (passed == num_ports - 1))
