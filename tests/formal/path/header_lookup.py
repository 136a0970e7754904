"""Properties of the header lookup: each head is refused by name or gets one place."""

from amaranth import Array, Cat, Mux, Signal
from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.layouts import FLOW_ENTRY, SHARED_FLOW, head_layout
from multitree.nic.receive.header_lookup import HeaderLookup
from multitree.nic.signatures import Verdict
from tests.formal.bench import holds

_SIZES = ({"num_classes": 2, "address_width": 4}, {"num_classes": 1, "address_width": 6})

GATHER = 1
HEAD_CYCLES = 7
"""Cycles that a head takes at most while nobody is before it."""


class _Bench:
    """The block with any heads, any entry, and a flow memory and a sequencer that answer.

    Members: `head`, what was taken last, as a layout; `vc`, `kind`, its own; `taken`, one is taken
    in this cycle; `entry`, `intact`, what the flow memory holds of it.
    """

    def __init__(self, bench, *, num_classes, address_width):
        self.bench, m = bench, bench.m
        self.config = config = Config(
            num_classes=num_classes, address_width=address_width, num_flows=2, max_children=4
        )
        m.submodules.block = self.block = block = HeaderLookup(config)
        self.layout = head_layout(config)
        faulted = Signal()
        m.d.sync += faulted.eq(faulted | block.fault.any() | bench.free("fault_elsewhere"))
        self.running = Signal()
        m.d.comb += [
            self.running.eq(bench.free("running") & ~faulted),
            block.run.running.eq(self.running),
            block.run.faulted.eq(faulted),
            block.run.sequence.eq(bench.free("sequence", 8)),
            block.run.num_flows.eq(bench.constant("num_flows", 17)),
            block.run.window_base.eq(bench.constant("window_base", address_width)),
            block.run.header_only.eq(bench.constant("header_only", 2)),
            block.lookup.granted.eq(block.lookup.valid & bench.free("granted")),
            block.lookup.intact.eq(bench.free("intact")),
            block.reservation.answered.eq(block.reservation.valid & bench.free("answered")),
            block.reservation.verdict.eq(bench.free("verdict", 2)),
        ]
        self.offered_entry = data.View(SHARED_FLOW, bench.free("entry", FLOW_ENTRY.size))
        m.d.comb += block.lookup.entry.eq(data.View(FLOW_ENTRY, self.offered_entry.as_value()))
        self._heads()
        self.answered = bench.past(bench.past(block.lookup.granted))
        self.entry, self.intact = Signal(SHARED_FLOW), Signal()
        with m.If(self.answered):
            m.d.sync += [self.entry.eq(self.offered_entry), self.intact.eq(block.lookup.intact)]

    def _heads(self):
        """Anything in front of each channel; what is taken is kept."""
        bench, block, m = self.bench, self.block, self.bench.m
        self.head, self.kind = Signal(self.layout), Signal(2)
        self.vc, self.taken = Signal(range(self.config.num_vcs)), Signal()
        self.several = Signal()
        ready = Cat(heads.valid & heads.ready for heads in block.heads)
        m.d.comb += [
            self.taken.eq(ready.any()),
            self.several.eq((ready & (ready - 1)[: len(ready)]).any()),
        ]
        for vc, heads in enumerate(block.heads):
            payload = bench.free(f"head_{vc}", self.layout.size)
            m.d.comb += [
                heads.valid.eq(bench.free(f"valid_{vc}")),
                heads.payload.kind.eq(bench.free(f"kind_{vc}", 2)),
                heads.payload.payload.eq(payload),
            ]
            with m.If(heads.valid & heads.ready):
                m.d.sync += [self.head.eq(payload), self.vc.eq(vc)]
                m.d.sync += self.kind.eq(heads.payload.kind.as_value())
        bench.check(~self.several)

    def comes(self, entry):
        """The flow expects a message of the head's op and order."""
        head = self.head
        return Mux(head.op == GATHER, entry.parent, head.order < entry.num_children)

    def follow(self):
        """Stages of the head in hand, one bit each: asks, reads, its entry is read, reserves."""
        m, block = self.bench.m, self.block
        asks, reads, known, reservations = (Signal(name=f"stage_{k}") for k in range(4))
        refused, granted = block.fault.any(), block.lookup.granted
        m.d.sync += [
            asks.eq(self.taken | (asks & ~granted & ~refused)),
            reads.eq(granted),
            known.eq(reads),
            reservations.eq((known & ~refused) | (reservations & ~block.reservation.answered)),
        ]
        return asks, reads, known, reservations


def _first_wrong(reasons):
    """The code of the first reason that holds, or 0."""
    code = 0
    for condition, name in reversed(reasons):
        code = Mux(condition, name.value, code)
    return code


@holds("header_lookup.outcome", *_SIZES)
def outcome(bench, *, num_classes, address_width):
    """Each head is looked up and ends in one fault that names why, or in one claim; opened on its
    own channel, of this collective also when its claim is answered late.
    """
    test = _Bench(bench, num_classes=num_classes, address_width=address_width)
    block, head, run = test.block, test.head, test.block.run
    asks, reads, known, reservations = test.follow()
    busy = asks | reads | known | reservations
    bench.check(sum((asks, reads, known, reservations)) <= 1)
    # A head is taken only when there is none in hand, of a running collective's parity.
    bench.check(~test.taken | (~busy & test.running))
    offers = Cat(heads.valid & (run.sequence[0] == vc % 2) for vc, heads in enumerate(block.heads))
    takes = Cat(heads.valid & heads.ready for heads in block.heads)
    bench.check((takes & ~offers) == 0)
    bench.check(busy | ~test.running | ~offers.any() | test.taken)
    stale = head.sequence != run.sequence
    is_head = (test.kind == Kind.HEAD.value) | (test.kind == Kind.SINGLE.value)
    single = test.kind == Kind.SINGLE.value
    first = _first_wrong(
        (
            (~is_head, FaultCode.FRAMING),
            (stale, FaultCode.STALE_SEQUENCE),
            (head.flow >= run.num_flows, FaultCode.UNEXPECTED_MESSAGE),
        )
    )
    entry = test.offered_entry
    header_only = run.header_only.bit_select(head.op, 1) | (entry.size == 0)
    second = _first_wrong(
        (
            (~block.lookup.intact, FaultCode.TABLE_PARITY),
            (~test.comes(entry) | (single != header_only), FaultCode.UNEXPECTED_MESSAGE),
            (~single & (head.size != entry.size), FaultCode.LENGTH),
        )
    )
    twice = block.reservation.verdict.as_value() == Verdict.TWICE.value
    last = _first_wrong(((twice, FaultCode.DUPLICATE_MESSAGE), (stale, FaultCode.STALE_SEQUENCE)))
    answered = reservations & block.reservation.answered
    wrong = Mux(asks, first, Mux(known, second, Mux(answered, last, 0)))
    bench.check(block.fault == wrong)
    bench.check(block.lookup.valid == (asks & (first == 0)))
    bench.check(~block.lookup.valid | (block.lookup.flow == head.flow))
    bench.check(block.reservation.valid == reservations)
    reservation = block.reservation
    named = Cat(
        reservation.op == head.op,
        reservation.flow == head.flow,
        reservation.order == head.order,
        reservation.empty == single,
        reservation.last == (test.entry.num_children - 1)[:6],
    ).all()
    bench.check(~reservation.valid | named)
    opens = answered & (last == 0) & ~single
    bench.check(block.opened == Mux(opens, 1 << test.vc, 0))
    bench.check(~busy | (block.flow == head.flow))
    bench.cover("opened", block.opened[2] if num_classes > 1 else block.opened[0])
    bench.cover("late", answered & stale & ~twice)
    bench.cover("single", answered & single & (block.fault == 0))
    bench.cover("broken", known & (block.fault == FaultCode.TABLE_PARITY))


@holds("header_lookup.place", {"num_classes": 2, "address_width": 4}, quick_depth=16)
def place(bench, *, num_classes, address_width):
    """An opened message's place is its chunk, or its slot exactly if it is staged."""
    test = _Bench(bench, num_classes=num_classes, address_width=address_width)
    block, head, entry, place = test.block, test.head, test.entry, test.block.place
    # The sequencer answers in the fourth cycle (`sequencer.answers`).
    asked = block.reservation.valid
    for _ in range(3):
        asked = bench.past(asked) & block.reservation.valid
    bench.assume(~block.reservation.answered | asked)
    verdict = block.reservation.verdict.as_value()
    staged = verdict == Verdict.STAGED.value
    base = block.run.window_base
    chunk = (base + entry.base)[:address_width]
    slot = (base + entry.staging + head.order * entry.size[:address_width])[:address_width]
    right = Cat(
        place.address == Mux(staged, slot, chunk),
        place.size == entry.size[:address_width],
        place.op == head.op,
        place.flow == head.flow,
        place.order == head.order,
        place.adds == ((head.op != GATHER) & ~staged),
        place.staged == staged,
        place.waits == (verdict == Verdict.WAITS.value),
        place.final == (head.order == (entry.num_children - 1)[:6]),
    ).all()
    bench.check(~block.opened.any() | right)
    # What passes has as many flits as its head says: none is left out by a narrow address.
    bench.check(~block.opened.any() | (head.size == entry.size))
    bench.cover("slot", block.opened.any() & staged & (head.order == 3) & (entry.size == 3))


@holds("header_lookup.turns", *_SIZES)
def turns(bench, *, num_classes, address_width):
    """A head that waits is passed over once by each other channel of its parity at most."""
    m = bench.m
    test = _Bench(bench, num_classes=num_classes, address_width=address_width)
    waiter = bench.constant("waiter", range(test.config.num_vcs))
    heads = Array(test.block.heads)[waiter]
    stands = heads.valid & test.running & (test.block.run.sequence[0] == waiter[0])
    passed = Signal(range(num_classes + 1))
    with m.If(~stands | heads.ready):
        m.d.sync += passed.eq(0)
    with m.Elif(test.taken):
        m.d.sync += passed.eq(passed + 1)
    bench.check(passed < num_classes)
    bench.cover("passed", stands & (passed == num_classes - 1) & ~test.taken)
