"""Properties of a switch: who gets a channel, what goes through, what waits."""

from amaranth import Cat, Const, Mux, Signal

from multitree.hw.arbiter import Ages, OldestFirst
from multitree.hw.link.link import Kind
from multitree.hw.switch.fabric import SwitchFabric
from tests.formal.bench import Watch, holds, plain, sets, transfer

SIZES = sets("num_ports num_vcs", (3, 2), (2, 2), (2, 4))
FLIT_BYTES = 6
LAYOUT = {"sequence_offset": 0, "step_offset": 8, "route_offset": 24, "num_hops": 2}
"""Bits of a payload: sequence, step and route, the next hop lowest; the rest is content."""
ROUTE, END, NUMBER = 24, 36, 42
"""Where the route begins and ends, and the number of the input, by which flits are known."""


@holds("switch.oldest", {"count": 2}, {"count": 4}, {"count": 6})
def oldest(m, *, count):
    """A grant goes to an oldest; each that is not older passes a standing request once at most."""
    m.submodules.block = block = OldestFirst(count=count)
    requests, advance, waiter = block.requests, block.advance, m.one_of(count, "waiter")
    age = m.constant("age", 2)
    m.drive(requests, advance)
    # The others may be of any age in any cycle; a message that waits has one age.
    ages = [Mux(waiter == k, age, m.free(f"age_{k}", 2)) for k in range(count)]
    for k in range(count):
        m.d.comb += block.older[k].eq(Cat(ages[other] < ages[k] for other in range(count)))
    granted = Signal(2)
    for k in range(count):
        with m.If(block.grant == k):
            m.d.comb += granted.eq(ages[k])
        m.check(~block.valid | ~requests[k] | (granted <= ages[k]))
    m.check(block.valid == requests.any())
    m.check(~block.valid | requests.bit_select(block.grant, 1))
    stands, moves = requests.bit_select(waiter, 1), block.valid & advance
    goes = moves & (block.grant == waiter)
    passed = _in_turns(m, count, stands, goes, age, (moves & ~goes, block.grant, granted))
    m.cover("passed", passed)
    m.cover("older", stands & moves & ~goes & (granted < age))


def _in_turns(m, count, stands, goes, age, other):
    """Check that what stands is passed by none that is younger, and, since an older one passed, by
    each of its age once at most; returns whether some have. `other` is whether another one passes,
    its number of `count`, its age.
    """
    passes, number, others_age = other
    passed = Signal(count)
    with m.If(~stands | goes | (passes & (others_age < age))):
        m.d.sync += passed.eq(0)
    with m.Elif(passes):
        m.d.sync += passed.eq(passed | (1 << number))
    m.check(~(stands & passes) | (others_age <= age))
    m.check(~(stands & passes & (others_age == age)) | ~passed.bit_select(number, 1))
    return stands & passed.any()


@holds("switch.ages", {"count": 2}, {"count": 3})
def ages(m, *, count):
    """Within half of all sequence numbers older is earlier; no two are older than each other."""
    m.submodules.block = block = Ages(count=count)
    base, distances, steps = m.constant("base", 8), [], []
    for k in range(count):
        distances.append(m.free(f"distance_{k}", 8))
        steps.append(m.free(f"step_{k}", 16))
        sequence = (base + distances[k])[:8]
        m.d.comb += [block.ages[k].sequence.eq(sequence), block.ages[k].step.eq(steps[k])]
    near = Cat(distance < 128 for distance in distances).all()
    for a in range(count):
        m.check(~block.older[a][a])
        for b in range(count):
            earlier = Cat(steps[b], distances[b]) < Cat(steps[a], distances[a])
            m.check(~near | (block.older[a][b] == earlier))
            m.check(~(block.older[a][b] & block.older[b][a]))
    m.cover("wraps", near & (base > 250) & block.older[1][0])


def _is_first(kind):
    return (kind == Kind.HEAD) | (kind == Kind.SINGLE)


def _is_last(kind):
    return (kind == Kind.TAIL) | (kind == Kind.SINGLE)


class _Fabric:
    """A fabric, and what its inputs bring: any flits, each with the number of its input.

    Knows which message each input has in hand: from the grant of its head to its tail's leaving.
    """

    def __init__(self, m, num_ports, num_vcs, *, few_ages=False):
        self.num_ports, self.num_vcs = num_ports, num_vcs
        sizes = {"num_ports": num_ports, "num_vcs": num_vcs, "flit_bytes": FLIT_BYTES}
        m.submodules.block = self.block = block = SwitchFabric(**sizes, **LAYOUT)
        self.ends = block._inputs
        self.in_hand, self.places, self.ages, self.heads = [], [], [], []
        # Two collectives and two steps: that all bits of an age are compared is `switch.ages`.
        self.base, self.steps = m.constant("base", 8), m.constant("steps", 15)
        m.drive(*block.may_send)
        for number, i in enumerate(block.i):
            m.drive(i.valid, plain(i.payload.kind)[:2])
            said = m.free(f"payload_{number}", NUMBER)
            if few_ages:
                sequence = (self.base + m.free(f"later_{number}"))[:8]
                step = Cat(m.free(f"step_{number}"), self.steps)
                said = Cat(sequence, step, m.free(f"payload_{number}", NUMBER - ROUTE))
            said = Cat(said, Const(number, 8 * FLIT_BYTES - NUMBER))
            m.d.comb += i.payload.payload.eq(said)
            self._follow(m, number)

    def _follow(self, m, number):
        end = self.ends[number]
        in_hand, place = Signal(name=f"in_hand_{number}"), Signal(7, name=f"place_{number}")
        left = transfer(end.o) & _is_last(end.o.payload.kind)
        age, payload = Signal(2, name=f"age_{number}"), end.i.payload.payload
        head = Cat(payload[8], payload[:8] != self.base)
        with m.If(end.request & end.granted):
            m.d.sync += age.eq(head)
            shown = Cat(end.to_vc, Const(0, 2 - len(end.to_vc)), end.to_port)
            m.d.sync += [in_hand.eq(1), place.eq(shown)]
        with m.Elif(left | end.drops):
            m.d.sync += in_hand.eq(0)
        self.in_hand.append(in_hand)
        self.places.append(place)
        self.ages.append(age)
        self.heads.append(head)

    def sends(self, source):
        """A flit of this input leaves: whether, and (port, flit) for each port that has it."""
        pairs = []
        for port in range(self.num_ports):
            flit = self.block.flits[port]
            mine = self.block.take[port] & (flit.payload[NUMBER:] == source)
            pairs.append((port, mine, flit))
        return pairs


@holds("switch.messages", *SIZES)
def messages(m, *, num_ports, num_vcs):
    """Flits leave once, in order, unchanged but for the hop a head has gone, on the channel their
    route names, head to tail.
    """
    fabric = _Fabric(m, num_ports, num_vcs)
    source, bit = m.one_of(num_ports * num_vcs, "source"), m.one_of(8 * FLIT_BYTES, "bit")
    puts, wanted, values = [], [], []
    for number, i in enumerate(fabric.block.i):
        kind, inside, good = i.payload.kind, Signal(), Signal()
        payload, (own, vc) = i.payload.payload, divmod(number, num_vcs)
        route = payload[ROUTE:END]
        legal = (route[:5] < num_ports) & (route[:5] != own) & (route[5] < num_vcs // 2)
        m.assume(~i.valid | (_is_first(kind) == ~inside))
        end = fabric.ends[number]
        # What waits has a reason: it asks for a channel, or a flit before it waits for a credit.
        m.check(~i.valid | i.ready | end.request | end.o.valid)
        m.check(end.route_error == (transfer(i) & _is_first(kind) & ~legal))
        m.check(~end.framing_error & ~end.message_lost & ~end.drops)
        place, moves = Signal(8), transfer(i)
        with m.If(moves):
            m.d.sync += inside.eq(~_is_last(kind))
            with m.If(_is_first(kind)):
                m.d.sync += [good.eq(legal), place.eq(Cat(Const(vc % 2, 1), route[5], route[:5]))]
        puts.append(moves & Mux(inside, good, legal))
        wanted.append(place)
        # A head leaves without the hop that it goes.
        gone = Cat(payload[:ROUTE], route[6:], Const(0, 6), payload[END:])
        leaves = Mux(_is_first(kind), gone, payload)
        values.append(Cat(kind, leaves.bit_select(bit, 1)))
    leaving = fabric.sends(source)
    value_in, value_out, goes_to = Signal.like(values[0]), Signal.like(values[0]), Signal(8)
    for number, value in enumerate(values):
        with m.If(source == number):
            m.d.comb += [value_in.eq(value), goes_to.eq(wanted[number])]
    for port, mine, flit in leaving:
        with m.If(mine):
            m.d.comb += value_out.eq(Cat(flit.kind, flit.payload.bit_select(bit, 1)))
        vc = Cat(flit.vc, Const(0, 2 - len(flit.vc)))
        m.check(~mine | (goes_to == Cat(vc, Const(port, 5))))
    taken = Cat(mine for _, mine, _ in leaving)
    m.check((taken & (taken - 1)[: len(taken)]) == 0)
    Watch(m, (Cat(puts).bit_select(source, 1), value_in), (taken.any(), value_out), capacity=1)
    _one_message_at_a_time(m, fabric)


def _one_message_at_a_time(m, fabric):
    """On an arbitrary channel of an arbitrary output: head to tail, all of one input."""
    port, vc = m.one_of(fabric.num_ports, "port"), m.one_of(fabric.num_vcs, "vc")
    inside, owner = Signal(), Signal(6)
    for number in range(fabric.num_ports):
        flit = fabric.block.flits[number]
        mine = fabric.block.take[number] & (flit.vc == vc) & (port == number)
        tag = flit.payload[NUMBER:]
        with m.If(mine):
            m.d.sync += [inside.eq(~_is_last(flit.kind)), owner.eq(tag)]
        m.check(~mine | (_is_first(flit.kind) == ~inside))
        m.check(~mine | ~inside | (tag == owner))
    m.cover("inside", inside)


# With four channels an attempt at a proof takes longer than its limit.
@holds("switch.channels", *SIZES[:2])
def channels(m, *, num_ports, num_vcs):
    """Losses in any cycle: one message per channel, of the oldest, equals in turns; none waits for
    what others wait for.

    Links lost and flits out of place in any cycle: nothing waits for what is not there.
    """
    fabric = _Fabric(m, num_ports, num_vcs, few_ages=True)
    m.drive(fabric.block.lost, fabric.block.gone)
    port, vc = m.one_of(num_ports, "port"), m.one_of(num_vcs, "vc")
    parts = vc, Const(0, 2 - len(vc)), port
    place = Cat(*parts, Const(0, 7 - sum(map(len, parts))))
    owned, asks = [], []
    for number, end in enumerate(fabric.ends):
        shown = Cat(end.to_vc, Const(0, 2 - len(end.to_vc)), end.to_port)
        owned.append(fabric.in_hand[number] & (fabric.places[number] == place))
        asks.append(end.request & (shown == place))
    held, asked = Cat(owned), Cat(asks)
    m.check((held & (held - 1)[: len(held)]) == 0)
    granted = Cat(ask & end.granted for ask, end in zip(asks, fabric.ends, strict=True))
    # A channel that nobody has is granted in that very cycle, whatever else is stuck.
    m.check(held.any() | ~asked.any() | granted.any())
    m.check(~(held.any() & ~(held & _leaving(fabric)).any()) | ~granted.any())
    m.check((granted & (granted - 1)[: len(granted)]) == 0)
    _oldest_head(m, fabric, asked, granted)
    _oldest_leaves(m, fabric, port, vc, held)
    for number, end in enumerate(fabric.ends):
        _named(m, end, fabric.in_hand[number])


def _named(m, end, in_hand):
    """No message is dropped, whole or in part, without a fault."""
    strobe = end.route_error | end.framing_error | end.message_lost
    moves, first = transfer(end.i), _is_first(end.i.payload.kind)
    reported = Signal()
    m.d.sync += reported.eq(strobe | (reported & ~(end.i.valid & first)))
    m.check(~end.drops | strobe)
    m.check(~moves | in_hand | (end.request & end.granted) | strobe | (reported & ~first))


def _leaving(fabric):
    """Inputs whose message's tail leaves."""
    return Cat(transfer(end.o) & _is_last(end.o.payload.kind) for end in fabric.ends)


def _oldest_head(m, fabric, asked, granted):
    """A channel is given to the oldest head that asks for it, in turns among equals."""
    waiter = m.one_of(len(asked), "waiter")
    number, age, winner = Signal(range(len(asked))), Signal(2), Signal(2)
    for each, head in enumerate(fabric.heads):
        with m.If(waiter == each):
            m.d.comb += age.eq(head)
        with m.If(granted[each]):
            m.d.comb += [number.eq(each), winner.eq(head)]
    stands, goes = (bits.bit_select(waiter, 1) for bits in (asked, granted))
    other = granted.any() & ~goes, number, winner
    passed = _in_turns(m, len(asked), stands, goes, age, other)
    # With two ports of two channels one input alone may ask for each.
    if len(asked) > 4:
        m.cover("equal_heads", passed)


def _oldest_leaves(m, fabric, port, vc, held):
    """At an output: a flit whose channel has a credit leaves, unless an older message's does, or
    one as old whose turn it is.
    """
    ready, passes, winner, mine = Signal(), Signal(), Signal(2), Signal(2)
    other = Signal(2)
    for number, may_send in enumerate(fabric.block.may_send):
        with m.If(port == number):
            m.d.comb += ready.eq(may_send.bit_select(vc, 1))
    for number, (end, age) in enumerate(zip(fabric.ends, fabric.ages, strict=True)):
        here = fabric.in_hand[number] & (fabric.places[number][2:] == port)
        with m.If(here & transfer(end.o)):
            m.d.comb += [passes.eq(~held[number]), winner.eq(age)]
            m.d.comb += other.eq(fabric.places[number])
        with m.If(held[number]):
            m.d.comb += mine.eq(age)
    valid = (held & Cat(end.o.valid for end in fabric.ends)).any()
    taken = (held & Cat(transfer(end.o) for end in fabric.ends)).any()
    m.check(~taken | ready)
    waits = valid & ready & ~taken
    m.check(~waits | passes)
    m.cover("waits", waits)
    stands = valid & ready
    passed = _in_turns(m, fabric.num_vcs, stands, taken, mine, (passes, other, winner))
    m.cover("equal_flits", passed)
