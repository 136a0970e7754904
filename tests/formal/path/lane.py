"""Properties of a lane: payload to its message's place, no sooner than it may."""

from amaranth import Cat, Signal

from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.receive.shared_lane import SharedLane
from tests.formal.bench import Watch, alike, holds, plain, sets, transfer

AHEAD_FLITS = 3
"""Places of the queue of payload, in the place of 16: its length decides when, not what."""
STILL_CYCLES = 2
"""Cycles in which payload and its place may be there and nothing is offered or reported."""


class _Bench:
    """The block with any flits, and a header lookup that gives the head it took a place.

    Members: `place`, the last answer of the header lookup; `opened`, it does so; `taken`, a head is
    taken.
    """

    def __init__(self, m, *, address_width, unwritten_width, faults):
        self.m = m
        self.config = config = Config(num_classes=1, address_width=address_width)
        m.replace("multitree.nic.receive.shared_lane.AHEAD_FLITS", AHEAD_FLITS)
        self.block = block = SharedLane(config, unwritten_width=unwritten_width)
        m.submodules.block = block
        flits, faulted = block.flits, m.ever(m.free("faults") & faults)
        self.place, self.opened, self.kind = block.place, block.opened, plain(flits.payload.kind)
        m.drive(flits.valid, self.kind[:2], flits.payload.payload[:2], block.items.ready)
        m.drive(self.opened, self.place, block.unwritten)
        m.d.comb += [
            block.run.running.eq(m.free("running") & ~faulted),
            block.run.faulted.eq(faulted),
        ]
        m.d.comb += block.head.ready.eq(m.free("head_ready") & block.head.valid)
        for told in (block.turn, block.following):
            m.drive(told.valid, told.flow[:1], told.order[:2])
        m.assume(m.stays(flits.valid, flits.ready, plain(flits.payload)[:4]))
        self._header_lookup()

    def _header_lookup(self):
        """A place for a head that was taken, once; none for a message without payload."""
        m, block = self.m, self.block
        owed, place = Signal(), self.place
        self.taken = transfer(block.head)
        with m.If(self.taken):
            m.d.sync += owed.eq(self.kind == Kind.HEAD.value)
        with m.Elif(self.opened):
            m.d.sync += owed.eq(0)
        m.assume(~self.opened | owed)
        m.assume(~block.head.ready | ~owed)
        # What is opened has payload; what waits is a contribution that is added, and no first one.
        m.assume(~self.opened | (place.size != 0))
        m.assume(~(self.opened & place.waits) | (place.adds & (place.order != 0)))
        m.assume(~self.opened | ((place.flow < 2) & (place.order < 4)))

    def moved(self):
        """A flit goes to the reducer."""
        return transfer(self.block.items)


@holds("lane.places", {"address_width": 4}, {"address_width": 6})
def places(m, *, address_width):
    """Each message goes to the place that it was given, flit by flit, one after the other."""
    test = _Bench(m, address_width=address_width, unwritten_width=3, faults=True)
    block, moved, run = test.block, test.moved(), test.block.run
    item, mark = block.items.payload, block.items.payload.mark
    # At most one place is in hand and one behind it: the second place may be any time later.
    first, second = (Signal(test.place.shape()) for _ in range(2))
    count, done = Signal(range(4)), Signal(address_width)
    ends = moved & (done + 1 == first.size)
    m.check(~(test.opened & (count == 2) & ~ends & ~run.faulted))
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
    m.check(~offers | ((count != 0) & run.running))
    said = Cat(
        item.address == (first.address + done)[:address_width],
        item.replace == ~first.adds,
        item.end == (done + 1 == first.size),
        alike(mark, first, "op flow order staged final"),
        mark.count == 1,
        mark.last,
    ).all()
    m.check(~offers | said)
    m.check(~(block.awaited != 0) | (count != 0))
    m.check(~run.faulted | block.flits.ready)
    m.cover("second", moved & item.end & (first.size == 3) & (count == 2))
    m.cover("stopped", run.faulted & m.past(offers))


@holds("lane.flits", {"address_width": 4})
def flits(m, *, address_width):
    """Payload goes once, in order, heads to the lookup; what is not of its place's length is
    reported and goes nowhere; nothing else stands that has place and turn.
    """
    test = _Bench(m, address_width=address_width, unwritten_width=3, faults=False)
    block, moved, kind = test.block, test.moved(), test.kind
    taken, inside = transfer(block.flits), Signal()
    goes = taken & inside
    with m.If(test.taken):
        m.d.sync += inside.eq(kind == Kind.HEAD.value)
    with m.Elif(goes & (kind == Kind.TAIL.value)):
        m.d.sync += inside.eq(0)
    # What is not behind a head goes to the header lookup, whatever it is, and nowhere else.
    m.check((taken & ~inside) == test.taken)
    m.check(~block.head.valid | (block.head.payload.as_value() == block.flits.payload.as_value()))
    item, came = block.items.payload, block.flits.payload.payload[:2]
    Watch(m, (goes, came), (moved, item.payload[:2]), capacity=AHEAD_FLITS + 1)
    # Kinds as they went in, kept by a queue of its own: a tail ends a place and nothing else does.
    kinds, held = Signal(2 * (AHEAD_FLITS + 2)), Signal(range(AHEAD_FLITS + 3))
    after = Signal.like(kinds)
    m.d.comb += after.eq(kinds >> (2 * moved))
    m.d.sync += [kinds.eq(after), held.eq(held - moved + goes)]
    with m.If(goes):
        m.d.sync += kinds.eq(after | (kind << (2 * (held - moved)).as_unsigned()))
    front, end = kinds[:2], item.end
    wanted = (front == Kind.TAIL.value) & end | (front == Kind.BODY.value) & ~end
    m.check(~block.items.valid | (wanted & (held != 0)))
    m.check(~block.wrong_kind | ~block.items.valid)
    m.check(~(block.wrong_kind & (held != 0)) | ~wanted)
    _nothing_stands(m, test, held)
    steady_run = block.run.running & m.past(block.run.running)
    shown = Cat(item.payload[:2], item.address, end)
    m.check(m.stays(block.items.valid, block.items.ready, shown, during=steady_run))
    m.cover("wrong", block.wrong_kind)
    m.cover("tail", moved & end & (held == 2))


def _nothing_stands(m, test, held):
    """Payload whose message has its place and its turn goes, or is reported to be out of place."""
    block, place = test.block, test.place
    count = Signal(2)
    m.d.sync += count.eq(count + test.opened - (test.moved() & block.items.payload.end))
    named = block.following.valid & (_name(block.following) == m.latch(test.opened, _name(place)))
    due = block.run.running & (block.unwritten == 0) & named & (held != 0) & (count != 0)
    m.lasts(due & ~block.items.valid & ~block.wrong_kind, STILL_CYCLES)


def _name(told):
    """Which contribution it is: what is free of its flow and its order."""
    return Cat(told.flow[:1], told.order[:2])


class _Waiter:
    """One arbitrary contribution that has to wait, and the one before it, wherever that is.

    The one before it is the message that this lane had before, or it is sent by another lane or
    from staging: then the environment says when its last flit was taken.

    Members: `offers`, a flit of it is offered; `turn_came`; `ended`, the last flit of the
    one before it was taken by this port's reducer; `since`, flits that it took afterwards.
    """

    def __init__(self, m, test):
        block = test.block
        item, moved, place = block.items.payload, test.moved(), test.place
        width = test.config.address_width
        seen, self.size, self.done = Signal(), Signal(width), Signal(width)
        name, mine = _name(place), Signal(3)
        last, last_adds = m.latch(test.opened, name), m.latch(test.opened, place.adds)
        chosen = test.opened & place.waits & m.free("pick") & ~seen
        with m.If(chosen):
            m.d.sync += [seen.eq(1), self.size.eq(place.size), mine.eq(name)]
        # No two contributions are one: the sequencer refuses what came before.
        m.assume(~(test.opened & seen & place.adds) | (name != mine))
        m.assume(~(chosen & last_adds) | (name != last))
        self.offers = block.items.valid & seen & (_name(item.mark) == mine) & ~item.replace
        with m.If(moved & self.offers):
            m.d.sync += self.done.eq(self.done + 1)
        self._follow(m, test, (seen, chosen, mine, last, last_adds))

    def _follow(self, m, test, known):
        """When the one before it is taken as a whole, and what is taken afterwards."""
        block, moved = test.block, test.moved()
        seen, chosen, mine, last, last_adds = known
        item, place = block.items.payload, test.place
        self.ended, self.since, elsewhere = Signal(), Signal(6), m.free("elsewhere")
        before = Cat(place.flow[:1], (place.order - 1)[:2])
        own = m.latch(chosen, last_adds & (last == before))
        is_before = (item.mark.flow[0] == mine[0]) & (item.mark.order[:2] + 1 == mine[1:])
        ends = moved & item.end & is_before & ~item.replace & own & seen
        self.turn_came = m.ever(seen & block.turn.valid & (_name(block.turn) == mine))
        m.assume(~elsewhere | (seen & ~own & ~self.ended & ~self.turn_came))
        follows = _name(block.following) == mine
        m.assume(~(block.following.valid & follows & seen) | self.ended)
        m.assume(~(test.opened & block.following.valid & place.waits))
        # Others' flits are taken in cycles in which none of this lane is.
        other = m.free("other") | elsewhere
        m.assume(~(other & moved))
        self.taken = moved | other
        with m.If(ends | elsewhere):
            m.d.sync += [self.ended.eq(1), self.since.eq(0)]
        with m.Elif(self.taken & ~self.since.all()):
            m.d.sync += self.since.eq(self.since + 1)


@holds("lane.turn", *sets("address_width unwritten_width", (4, 3), (4, 5)))
def turn(m, *, address_width, unwritten_width):
    """What waits goes no sooner than its turn, or than each flit that it is added to is
    acknowledged.
    """
    test = _Bench(m, address_width=address_width, unwritten_width=unwritten_width, faults=False)
    waiter, block = _Waiter(m, test), test.block
    ack, unwritten = m.free("ack"), block.unwritten
    count = Signal(unwritten_width)
    m.d.sync += count.eq(count + waiter.taken - ack)
    m.assume(unwritten == count)
    m.assume(~ack | (count != 0))
    m.assume(~(count.all() & waiter.taken))
    first = waiter.offers & ~m.past(waiter.offers & ~block.items.ready)
    m.check(~waiter.offers | waiter.turn_came | waiter.ended)
    # The flit that it is added to is so many behind the one that was taken last.
    behind = (waiter.size - waiter.done).as_unsigned() + waiter.since
    m.check(~first | waiter.turn_came | (count < behind))
    m.cover("reported", waiter.offers & ~waiter.ended & (waiter.done == 2))
    m.cover("behind", waiter.offers & ~waiter.turn_came & (waiter.done == 2) & (count != 0))
