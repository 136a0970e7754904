"""Properties of the header lookup: each head is refused by name or gets one place."""

from amaranth import Array, Cat, Mux, Signal
from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.layouts import SHARED_FLOW, head_layout
from multitree.nic.receive.header_lookup import HeaderLookup
from multitree.nic.signatures import Verdict
from tests.formal.bench import alike, holds, plain, sets, transfer

_SIZES = sets("num_classes address_width", (2, 4), (1, 6))
GATHER = 1


class _Bench:
    """The block with any heads, any entry, and a flow memory and a sequencer that answer.

    Members: `head`, what was taken last, as a layout; `vc`, `kind`, its own; `taken`, one is taken
    in this cycle; `entry`, what the flow memory holds of it.
    """

    def __init__(self, m, *, num_classes, address_width):
        sizes = {"num_classes": num_classes, "address_width": address_width}
        self.m, self.config = m, Config(**sizes, num_flows=2, max_children=4)
        m.submodules.block = self.block = block = HeaderLookup(self.config)
        self.layout = head_layout(self.config)
        faulted = m.ever(block.fault.any() | m.free("fault_elsewhere"))
        self.running = block.run.running
        m.drive(block.run.sequence, block.lookup.intact, block.reservation.verdict)
        m.fix(block.run.num_flows, block.run.window_base, block.run.header_only)
        m.d.comb += [
            self.running.eq(m.free("running") & ~faulted),
            block.run.faulted.eq(faulted),
            block.lookup.granted.eq(block.lookup.valid & m.free("granted")),
            block.reservation.answered.eq(block.reservation.valid & m.free("answered")),
        ]
        self.offered_entry = data.View(SHARED_FLOW, block.lookup.entry.as_value())
        m.drive(self.offered_entry)
        self._heads()
        self.answered = m.past(block.lookup.granted, 2)
        self.entry = m.latch(self.answered, self.offered_entry)

    def _heads(self):
        """Anything in front of each channel; what is taken is kept."""
        m, block = self.m, self.block
        self.head, self.kind = Signal(self.layout), Signal(2)
        self.vc, self.taken = Signal(range(self.config.num_vcs)), Signal()
        ready = Cat(transfer(heads) for heads in block.heads)
        m.d.comb += self.taken.eq(ready.any())
        m.check((ready & (ready - 1)[: len(ready)]) == 0)
        for vc, heads in enumerate(block.heads):
            payload, kind = heads.payload.payload[: self.layout.size], plain(heads.payload.kind)
            m.drive(heads.valid, payload, kind[:2])
            with m.If(transfer(heads)):
                m.d.sync += [self.head.eq(payload), self.vc.eq(vc), self.kind.eq(kind)]

    def comes(self, entry):
        """The flow expects a message of the head's op and order."""
        head = self.head
        return Mux(head.op == GATHER, entry.parent, head.order < entry.num_children)

    def follow(self):
        """Stages of the head in hand, one bit each: asks, reads, its entry is read, reserves."""
        m, block = self.m, self.block
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
def outcome(m, *, num_classes, address_width):
    """Each head is looked up and ends in one fault that names why, or in one claim; opened on its
    own channel, of this collective also when its claim is answered late.
    """
    test = _Bench(m, num_classes=num_classes, address_width=address_width)
    block, head, run = test.block, test.head, test.block.run
    asks, reads, known, reservations = test.follow()
    busy = asks | reads | known | reservations
    m.check(sum((asks, reads, known, reservations)) <= 1)
    # A head is taken only when there is none in hand, of a running collective's parity.
    m.check(~test.taken | (~busy & test.running))
    offers = Cat(heads.valid & (run.sequence[0] == vc % 2) for vc, heads in enumerate(block.heads))
    takes = Cat(transfer(heads) for heads in block.heads)
    m.check((takes & ~offers) == 0)
    m.check(busy | ~test.running | ~offers.any() | test.taken)
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
    m.check(block.fault == wrong)
    m.check(block.lookup.valid == (asks & (first == 0)))
    m.check(~block.lookup.valid | (block.lookup.flow == head.flow))
    m.check(block.reservation.valid == reservations)
    reservation = block.reservation
    named = alike(reservation, head, "op flow order") & (reservation.empty == single)
    m.check(~reservation.valid | named)
    m.check(~reservation.valid | (reservation.last == (test.entry.num_children - 1)[:6]))
    opens = answered & (last == 0) & ~single
    m.check(block.opened == Mux(opens, 1 << test.vc, 0))
    m.check(~busy | (block.flow == head.flow))
    m.cover("opened", block.opened[2] if num_classes > 1 else block.opened[0])
    m.cover("late", answered & stale & ~twice)
    m.cover("single", answered & single & (block.fault == 0))
    m.cover("broken", known & (block.fault == FaultCode.TABLE_PARITY))


@holds("header_lookup.place", {"num_classes": 2, "address_width": 4}, quick_depth=16)
def place(m, *, num_classes, address_width):
    """An opened message's place is its chunk, or its slot exactly if it is staged."""
    test = _Bench(m, num_classes=num_classes, address_width=address_width)
    block, head, entry, place = test.block, test.head, test.entry, test.block.place
    # The sequencer answers in the fourth cycle (`sequencer.answers`).
    asked = block.reservation.valid
    for _ in range(3):
        asked = m.past(asked) & block.reservation.valid
    m.assume(~block.reservation.answered | asked)
    verdict = block.reservation.verdict.as_value()
    staged = verdict == Verdict.STAGED.value
    base = block.run.window_base
    chunk = (base + entry.base)[:address_width]
    slot = (base + entry.staging + head.order * entry.size[:address_width])[:address_width]
    right = Cat(
        alike(place, head, "op flow order"),
        place.address == Mux(staged, slot, chunk),
        place.size == entry.size[:address_width],
        place.adds == ((head.op != GATHER) & ~staged),
        place.staged == staged,
        place.waits == (verdict == Verdict.WAITS.value),
        place.final == (head.order == (entry.num_children - 1)[:6]),
    ).all()
    m.check(~block.opened.any() | right)
    # What passes has as many flits as its head says: none is left out by a narrow address.
    m.check(~block.opened.any() | (head.size == entry.size))
    m.cover("slot", block.opened.any() & staged & (head.order == 3) & (entry.size == 3))


@holds("header_lookup.turns", *_SIZES)
def turns(m, *, num_classes, address_width):
    """A head that waits is passed over once by each other channel of its parity at most."""
    test = _Bench(m, num_classes=num_classes, address_width=address_width)
    waiter = m.constant("waiter", range(test.config.num_vcs))
    heads = Array(test.block.heads)[waiter]
    stands = heads.valid & test.running & (test.block.run.sequence[0] == waiter[0])
    passed = Signal(range(num_classes + 1))
    with m.If(~stands | heads.ready):
        m.d.sync += passed.eq(0)
    with m.Elif(test.taken):
        m.d.sync += passed.eq(passed + 1)
    m.check(passed < num_classes)
    m.cover("passed", stands & (passed == num_classes - 1) & ~test.taken)
