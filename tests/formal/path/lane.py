"""Properties of a lane: payload to its message's place, no sooner than it may."""

from amaranth import Cat, Signal
from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.receive.header_lookup import place_layout
from multitree.nic.receive.shared_lane import SharedLane
from tests.formal.bench import Watch, holds

AHEAD_FLITS = 3
"""Places of the queue of payload, in the place of 16: its length decides when, not what."""
STILL_CYCLES = 2
"""Cycles in which payload and its place may be there and nothing is offered or reported."""


class _Bench:
    """The block with any flits, and a header lookup that gives the head it took a place.

    Members: `place`, the last answer of the header lookup; `opened`, it does so; `taken`, a head is
    taken.
    """

    def __init__(self, bench, *, address_width, unwritten_width, faults):
        self.bench, m = bench, bench.m
        self.config = config = Config(num_classes=1, address_width=address_width)
        bench.replace("multitree.nic.receive.shared_lane.AHEAD_FLITS", AHEAD_FLITS)
        m.submodules.block = self.block = block = SharedLane(
            config, unwritten_width=unwritten_width
        )
        self.layout = place_layout(config)
        faulted = Signal()
        m.d.sync += faulted.eq(faulted | (bench.free("faults") & faults))
        self.place = data.View(self.layout, bench.free("place", self.layout.size))
        self.opened, self.kind = bench.free("opened"), block.flits.payload.kind.as_value()
        m.d.comb += [
            block.flits.valid.eq(bench.free("flits_valid")),
            self.kind.eq(bench.free("flits_kind", 2)),
            block.flits.payload.payload.eq(bench.free("flits_payload", 2)),
            block.run.running.eq(bench.free("running") & ~faulted),
            block.run.faulted.eq(faulted),
            block.head.ready.eq(bench.free("head_ready") & block.head.valid),
            block.opened.eq(self.opened),
            block.place.eq(self.place),
            block.unwritten.eq(bench.free("unwritten", unwritten_width)),
            block.items.ready.eq(bench.free("items_ready")),
        ]
        for name in ("turn", "following"):
            signature = getattr(block, name)
            m.d.comb += [
                signature.valid.eq(bench.free(f"{name}_valid")),
                signature.flow.eq(bench.free(f"{name}_flow", 1)),
                signature.order.eq(bench.free(f"{name}_order", 2)),
            ]
        stood = bench.past(block.flits.valid & ~block.flits.ready)
        shown = block.flits.payload.as_value()[:4]
        bench.assume(~stood | (block.flits.valid & (shown == bench.past(shown))))
        self._header_lookup()

    def _header_lookup(self):
        """A place for a head that was taken, once; none for a message without payload."""
        bench, block, m = self.bench, self.block, self.bench.m
        owed, place = Signal(), self.place
        self.taken = block.head.valid & block.head.ready
        with m.If(self.taken):
            m.d.sync += owed.eq(self.kind == Kind.HEAD.value)
        with m.Elif(self.opened):
            m.d.sync += owed.eq(0)
        bench.assume(~self.opened | owed)
        bench.assume(~block.head.ready | ~owed)
        # What is opened has payload; what waits is a contribution that is added, and no first one.
        bench.assume(~self.opened | (place.size != 0))
        bench.assume(~(self.opened & place.waits) | (place.adds & (place.order != 0)))
        bench.assume(~self.opened | ((place.flow < 2) & (place.order < 4)))

    def moved(self):
        """A flit goes to the reducer."""
        return self.block.items.valid & self.block.items.ready


@holds("lane.places", {"address_width": 4}, {"address_width": 6})
def places(bench, *, address_width):
    """Each message goes to the place that it was given, flit by flit, one after the other."""
    m = bench.m
    test = _Bench(bench, address_width=address_width, unwritten_width=3, faults=True)
    block, moved = test.block, test.moved()
    item, run = block.items.payload, block.run
    mark = item.mark
    # At most one place is in hand and one behind it: the second place may be any time later.
    first, second = Signal(test.layout), Signal(test.layout)
    count = Signal(range(4))
    done = Signal(address_width)
    ends = moved & (done + 1 == first.size)
    bench.check(~(test.opened & (count == 2) & ~ends & ~run.faulted))
    with m.If(run.faulted):
        m.d.sync += [count.eq(0), done.eq(0)]
    with m.Else():
        m.d.sync += count.eq(count + test.opened - ends)
        with m.If(moved):
            m.d.sync += done.eq(done + 1)
        with m.If(ends):
            m.d.sync += [first.eq(second), done.eq(0)]
        with m.If(test.opened):
            with m.If((count - ends) == 0):
                m.d.sync += first.eq(test.place)
            with m.Else():
                m.d.sync += second.eq(test.place)
    offers = block.items.valid
    bench.check(~offers | ((count != 0) & run.running))
    said = Cat(
        item.address == (first.address + done)[:address_width],
        item.replace == ~first.adds,
        item.end == (done + 1 == first.size),
        mark.op == first.op,
        mark.flow == first.flow,
        mark.order == first.order,
        mark.staged == first.staged,
        mark.final == first.final,
        mark.count == 1,
        mark.last,
    ).all()
    bench.check(~offers | said)
    bench.check(~(block.awaited != 0) | (count != 0))
    bench.check(~run.faulted | block.flits.ready)
    bench.cover("second", moved & item.end & (first.size == 3) & (count == 2))
    bench.cover("stopped", run.faulted & bench.past(offers))


@holds("lane.flits", {"address_width": 4})
def flits(bench, *, address_width):
    """Payload goes once, in order, heads to the lookup; what is not of its place's length is
    reported and goes nowhere; nothing else stands that has place and turn.
    """
    m = bench.m
    test = _Bench(bench, address_width=address_width, unwritten_width=3, faults=False)
    block, moved, kind = test.block, test.moved(), test.kind
    taken = block.flits.valid & block.flits.ready
    inside = Signal()
    goes = taken & inside
    with m.If(test.taken):
        m.d.sync += inside.eq(kind == Kind.HEAD.value)
    with m.Elif(goes & (kind == Kind.TAIL.value)):
        m.d.sync += inside.eq(0)
    # What is not behind a head goes to the header lookup, whatever it is, and nowhere else.
    bench.check((taken & ~inside) == test.taken)
    bench.check(
        ~block.head.valid | (block.head.payload.as_value() == block.flits.payload.as_value())
    )
    Watch(
        bench,
        put=goes,
        take=moved,
        value_in=block.flits.payload.payload[:2],
        value_out=block.items.payload.payload[:2],
        capacity=AHEAD_FLITS + 1,
    )
    # Kinds as they went in, kept by a queue of its own: a tail ends a place and nothing else does.
    kinds, held = Signal(2 * (AHEAD_FLITS + 2)), Signal(range(AHEAD_FLITS + 3))
    after = Signal.like(kinds)
    m.d.comb += after.eq(kinds >> (2 * moved))
    m.d.sync += [kinds.eq(after), held.eq(held - moved + goes)]
    with m.If(goes):
        m.d.sync += kinds.eq(after | (kind << (2 * (held - moved)).as_unsigned()))
    front, end = kinds[:2], block.items.payload.end
    wanted = (front == Kind.TAIL.value) & end | (front == Kind.BODY.value) & ~end
    bench.check(~block.items.valid | (wanted & (held != 0)))
    bench.check(~block.wrong_kind | ~block.items.valid)
    bench.check(~(block.wrong_kind & (held != 0)) | ~wanted)
    _nothing_stands(bench, test, held)
    steady_run = block.run.running & bench.past(block.run.running)
    waits = bench.past(block.items.valid & ~block.items.ready) & steady_run
    shown = Cat(block.items.payload.payload[:2], block.items.payload.address, end)
    bench.check(~waits | (block.items.valid & (shown == bench.past(shown))))
    bench.cover("wrong", block.wrong_kind)
    bench.cover("tail", moved & end & (held == 2))


def _nothing_stands(bench, test, held):
    """Payload whose message has its place and its turn goes, or is reported to be out of place."""
    m, block, place = bench.m, test.block, test.place
    flow, order, count = Signal(), Signal(2), Signal(2)
    ends = test.moved() & block.items.payload.end
    m.d.sync += count.eq(count + test.opened - ends)
    with m.If(test.opened):
        m.d.sync += [flow.eq(place.flow), order.eq(place.order)]
    following = block.following
    named = following.valid & (following.flow[0] == flow) & (following.order[:2] == order)
    due = block.run.running & (block.unwritten == 0) & named & (held != 0) & (count != 0)
    still = Signal(3)
    with m.If(due & ~block.items.valid & ~block.wrong_kind):
        m.d.sync += still.eq(still + ~still.all())
    with m.Else():
        m.d.sync += still.eq(0)
    bench.check(still <= STILL_CYCLES)


class _Waiter:
    """One arbitrary contribution that has to wait, and the one before it, wherever that is.

    The one before it is the message that this lane had before, or it is sent by another lane or
    from staging: then the environment says when its last flit was taken.

    Members: `offers`, a flit of it is offered; `turn_came`; `ended`, the last flit of the
    one before it was taken by this port's reducer; `since`, flits that it took afterwards.
    """

    def __init__(self, bench, test):
        m, block = bench.m, test.block
        item, moved, place = block.items.payload, test.moved(), test.place
        width = test.config.address_width
        seen, self.size, self.done = Signal(), Signal(width), Signal(width)
        flow, order = Signal(), Signal(2)
        last, last_adds = Signal(3), Signal()
        name = Cat(place.flow[:1], place.order[:2])
        chosen = test.opened & place.waits & bench.free("pick") & ~seen
        with m.If(test.opened):
            m.d.sync += [last.eq(name), last_adds.eq(place.adds)]
        with m.If(chosen):
            m.d.sync += [seen.eq(1), self.size.eq(place.size)]
            m.d.sync += [flow.eq(name[0]), order.eq(name[1:])]
        # No two contributions are one: the sequencer refuses what came before.
        bench.assume(~(test.opened & seen & place.adds) | (name != Cat(flow, order)))
        bench.assume(~(chosen & last_adds) | (name != last))
        mine = (item.mark.flow[0] == flow) & (item.mark.order[:2] == order) & ~item.replace
        self.offers = block.items.valid & seen & mine
        with m.If(moved & self.offers):
            m.d.sync += self.done.eq(self.done + 1)
        self._follow(bench, test, (seen, chosen, flow, order, last, last_adds))

    def _follow(self, bench, test, known):
        """When the one before it is taken as a whole, and what is taken afterwards."""
        m, block, moved = bench.m, test.block, test.moved()
        seen, chosen, flow, order, last, last_adds = known
        item, place = block.items.payload, test.place
        self.turn_came, self.ended, self.since = Signal(), Signal(), Signal(6)
        own, elsewhere = Signal(), bench.free("elsewhere")
        before = Cat(place.flow[:1], (place.order - 1)[:2])
        with m.If(chosen):
            m.d.sync += own.eq(last_adds & (last == before))
        is_before = (item.mark.flow[0] == flow) & (item.mark.order[:2] + 1 == order)
        ends = moved & item.end & is_before & ~item.replace & own & seen
        bench.assume(~elsewhere | (seen & ~own & ~self.ended & ~self.turn_came))
        named = (block.turn.flow[0] == flow) & (block.turn.order[:2] == order)
        with m.If(seen & block.turn.valid & named):
            m.d.sync += self.turn_came.eq(1)
        follows = (block.following.flow[0] == flow) & (block.following.order[:2] == order)
        bench.assume(~(block.following.valid & follows & seen) | self.ended)
        bench.assume(~(test.opened & block.following.valid & place.waits))
        # Others' flits are taken in cycles in which none of this lane is.
        other = bench.free("other") | elsewhere
        bench.assume(~(other & block.items.valid & block.items.ready))
        self.taken = moved | other
        with m.If(ends | elsewhere):
            m.d.sync += [self.ended.eq(1), self.since.eq(0)]
        with m.Elif(self.taken & ~self.since.all()):
            m.d.sync += self.since.eq(self.since + 1)


@holds(
    "lane.turn",
    {"address_width": 4, "unwritten_width": 3},
    {"address_width": 4, "unwritten_width": 5},
)
def turn(bench, *, address_width, unwritten_width):
    """What waits goes no sooner than its turn, or than each flit that it is added to is
    acknowledged.
    """
    m = bench.m
    sizes = {"address_width": address_width, "unwritten_width": unwritten_width}
    test = _Bench(bench, **sizes, faults=False)
    waiter, block = _Waiter(bench, test), test.block
    ack, unwritten = bench.free("ack"), block.unwritten
    count = Signal(unwritten_width)
    m.d.sync += count.eq(count + waiter.taken - ack)
    bench.assume(unwritten == count)
    bench.assume(~ack | (count != 0))
    bench.assume(~(count.all() & waiter.taken))
    first = waiter.offers & ~bench.past(waiter.offers & ~block.items.ready)
    bench.check(~waiter.offers | waiter.turn_came | waiter.ended)
    # The flit that it is added to is so many behind the one that was taken last.
    behind = (waiter.size - waiter.done).as_unsigned() + waiter.since
    bench.check(~first | waiter.turn_came | (count < behind))
    bench.cover("reported", waiter.offers & ~waiter.ended & (waiter.done == 2))
    bench.cover("behind", waiter.offers & ~waiter.turn_came & (waiter.done == 2) & (count != 0))
