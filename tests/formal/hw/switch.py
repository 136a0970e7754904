"""Properties of a switch: who gets a channel, what goes through, what waits."""

from amaranth import Cat, Const, Mux, Signal

from multitree.hw.arbiter import Ages, OldestFirst
from multitree.hw.link.link import Kind
from multitree.hw.switch.fabric import SwitchFabric
from tests.formal.bench import Watch, holds

SIZES = (
    {"num_ports": 3, "num_vcs": 2},
    {"num_ports": 2, "num_vcs": 2},
    {"num_ports": 2, "num_vcs": 4},
    {"num_ports": 3, "num_vcs": 4},
)

FLIT_BYTES = 2
LAYOUT = {"sequence_offset": 0, "step_offset": 0, "route_offset": 0, "num_hops": 1}
"""Ages and routes share their bits: the solver need not distinguish them."""
CONTENT = 9
"""Bit of a payload that is compared; above it is the number of its input, below it the route."""


@holds("switch.oldest", {"count": 2}, {"count": 4}, {"count": 6})
def oldest(bench, *, count):
    """A grant goes to an oldest; each that is not older passes a standing request once at most."""
    m = bench.m
    m.submodules.block = block = OldestFirst(count=count)
    requests, advance = bench.free("requests", count), bench.free("advance")
    waiter = bench.constant("waiter", range(count))
    age = bench.constant("age", 2)
    bench.assume(waiter < count)
    # The others may be of any age in any cycle; a message that waits has one age.
    ages = [Mux(waiter == k, age, bench.free(f"age_{k}", 2)) for k in range(count)]
    m.d.comb += [block.requests.eq(requests), block.advance.eq(advance)]
    for k in range(count):
        m.d.comb += block.older[k].eq(Cat(ages[other] < ages[k] for other in range(count)))
    granted = Signal(2)
    for k in range(count):
        with m.If(block.grant == k):
            m.d.comb += granted.eq(ages[k])
        bench.check(~block.valid | ~requests[k] | (granted <= ages[k]))
    bench.check(block.valid == requests.any())
    bench.check(~block.valid | requests.bit_select(block.grant, 1))
    stands = requests.bit_select(waiter, 1)
    passed, moves = Signal(count), block.valid & advance
    other = moves & (block.grant != waiter)
    with m.If(~stands | (moves & ~other) | (other & (granted < age))):
        m.d.sync += passed.eq(0)
    with m.Elif(other):
        m.d.sync += passed.eq(passed | (1 << block.grant))
    bench.check(~(stands & other & (granted == age)) | ~passed.bit_select(block.grant, 1))
    bench.cover("passed", stands & (passed != 0))
    bench.cover("older", stands & other & (granted < age))


@holds("switch.ages", {"count": 2}, {"count": 3})
def ages(bench, *, count):
    """Within half of all sequence numbers older is earlier; no two are older than each other."""
    m = bench.m
    m.submodules.block = block = Ages(count=count)
    base, distances, steps = bench.constant("base", 8), [], []
    for k in range(count):
        distances.append(bench.free(f"distance_{k}", 8))
        steps.append(bench.free(f"step_{k}", 16))
        sequence = (base + distances[k])[:8]
        m.d.comb += [block.ages[k].sequence.eq(sequence), block.ages[k].step.eq(steps[k])]
    near = Cat(distance < 128 for distance in distances).all()
    for a in range(count):
        bench.check(~block.older[a][a])
        for b in range(count):
            earlier = Cat(steps[b], distances[b]) < Cat(steps[a], distances[a])
            bench.check(~near | (block.older[a][b] == earlier))
            bench.check(~(block.older[a][b] & block.older[b][a]))
    bench.cover("wraps", near & (base > 250) & block.older[1][0])


def _is_first(kind):
    return (kind == Kind.HEAD) | (kind == Kind.SINGLE)


def _is_last(kind):
    return (kind == Kind.TAIL) | (kind == Kind.SINGLE)


class _Fabric:
    """A fabric, and what its inputs bring: any flits, each with the number of its input.

    Knows which message each input has in hand: from the grant of its head to its tail's leaving.
    """

    def __init__(self, bench, num_ports, num_vcs):
        m, self.num_ports, self.num_vcs = bench.m, num_ports, num_vcs
        self.bench = bench
        sizes = {"num_ports": num_ports, "num_vcs": num_vcs, "flit_bytes": FLIT_BYTES}
        m.submodules.block = self.block = block = SwitchFabric(**sizes, **LAYOUT)
        self.ends = block._inputs
        self.in_hand, self.places, self.ages = [], [], []
        for port, may_send in enumerate(block.may_send):
            m.d.comb += may_send.eq(bench.free(f"may_send_{port}", num_vcs))
        for number, i in enumerate(block.i):
            route, content = bench.free(f"route_{number}", 6), bench.free(f"content_{number}")
            m.d.comb += [
                i.valid.eq(bench.free(f"valid_{number}")),
                i.payload.kind.eq(bench.free(f"kind_{number}", 2)),
                i.payload.payload.eq(Cat(route, Const(0, CONTENT - 6), content, Const(number, 6))),
            ]
            self._follow(m, number)

    def _follow(self, m, number):
        end = self.ends[number]
        in_hand, place = Signal(name=f"in_hand_{number}"), Signal(7, name=f"place_{number}")
        left = end.o.valid & end.o.ready & _is_last(end.o.payload.kind)
        age, head = Signal(24, name=f"age_{number}"), end.i.payload.payload
        with m.If(end.request & end.granted):
            m.d.sync += age.eq(Cat(head[:16], head[:8]))
            shown = Cat(end.to_vc, Const(0, 2 - len(end.to_vc)), end.to_port)
            m.d.sync += [in_hand.eq(1), place.eq(shown)]
        with m.Elif(left | end.drops):
            m.d.sync += in_hand.eq(0)
        self.in_hand.append(in_hand)
        self.places.append(place)
        self.ages.append(age)

    def sends(self, source):
        """A flit of this input leaves: whether, and (port, flit) for each port that has it."""
        pairs = []
        for port in range(self.num_ports):
            flit = self.block.flits[port]
            mine = self.block.take[port] & (flit.payload[CONTENT + 1 :] == source)
            pairs.append((port, mine, flit))
        return pairs


@holds("switch.messages", *SIZES)
def messages(bench, *, num_ports, num_vcs):
    """Flits leave once, in order, unchanged, on the channel their route names, head to tail."""
    m, fabric = bench.m, _Fabric(bench, num_ports, num_vcs)
    source = bench.constant("source", range(num_ports * num_vcs))
    bench.assume(source < num_ports * num_vcs)
    puts, wanted = [], []
    for number, i in enumerate(fabric.block.i):
        kind, inside, good = i.payload.kind, Signal(), Signal()
        route, (own, vc) = i.payload.payload[:6], divmod(number, num_vcs)
        legal = (route[:5] < num_ports) & (route[:5] != own) & (route[5] < num_vcs // 2)
        bench.assume(~i.valid | (_is_first(kind) == ~inside))
        end = fabric.ends[number]
        # What waits has a reason: it asks for a channel, or a flit before it waits for a credit.
        bench.check(~i.valid | i.ready | end.request | end.o.valid)
        bench.check(end.route_error == (i.valid & i.ready & _is_first(kind) & ~legal))
        bench.check(~end.framing_error & ~end.message_lost & ~end.drops)
        place, moves = Signal(8), i.valid & i.ready
        with m.If(moves):
            m.d.sync += inside.eq(~_is_last(kind))
            with m.If(_is_first(kind)):
                m.d.sync += [good.eq(legal), place.eq(Cat(Const(vc % 2, 1), route[5], route[:5]))]
        puts.append(moves & Mux(inside, good, legal))
        wanted.append(place)
    values = [Cat(i.payload.kind, i.payload.payload[CONTENT]) for i in fabric.block.i]
    leaving = fabric.sends(source)
    value_in, value_out, goes_to = Signal(3), Signal(3), Signal(8)
    for number, value in enumerate(values):
        with m.If(source == number):
            m.d.comb += [value_in.eq(value), goes_to.eq(wanted[number])]
    for port, mine, flit in leaving:
        with m.If(mine):
            m.d.comb += value_out.eq(Cat(flit.kind, flit.payload[CONTENT]))
        vc = Cat(flit.vc, Const(0, 2 - len(flit.vc)))
        bench.check(~mine | (goes_to == Cat(vc, Const(port, 5))))
    taken = Cat(mine for _, mine, _ in leaving)
    bench.check((taken & (taken - 1)[: len(taken)]) == 0)
    put = Cat(puts).bit_select(source, 1)
    Watch(
        bench,
        put=put,
        take=taken.any(),
        value_in=value_in,
        value_out=value_out,
        capacity=1,
    )
    _one_message_at_a_time(bench, fabric)


def _one_message_at_a_time(bench, fabric):
    """On an arbitrary channel of an arbitrary output: head to tail, all of one input."""
    m = bench.m
    port = bench.constant("port", range(fabric.num_ports))
    vc = bench.constant("vc", range(fabric.num_vcs))
    inside, owner = Signal(), Signal(6)
    for number in range(fabric.num_ports):
        flit = fabric.block.flits[number]
        mine = fabric.block.take[number] & (flit.vc == vc) & (port == number)
        tag = flit.payload[CONTENT + 1 :]
        with m.If(mine):
            m.d.sync += [inside.eq(~_is_last(flit.kind)), owner.eq(tag)]
        bench.check(~mine | (_is_first(flit.kind) == ~inside))
        bench.check(~mine | ~inside | (tag == owner))
    bench.cover("inside", inside)


@holds("switch.channels", *SIZES)
def channels(bench, *, num_ports, num_vcs):
    """Losses in any cycle: one message per channel; none waits for what others wait for.

    Links lost and flits out of place in any cycle: nothing waits for what is not there.
    """
    m, fabric = bench.m, _Fabric(bench, num_ports, num_vcs)
    m.d.comb += fabric.block.lost.eq(bench.free("lost", num_ports))
    m.d.comb += fabric.block.gone.eq(bench.free("gone", num_ports))
    port = bench.constant("port", range(num_ports))
    vc = bench.constant("vc", range(num_vcs))
    bench.assume(port < num_ports)
    bench.assume(vc < num_vcs)
    parts = vc, Const(0, 2 - len(vc)), port
    place = Cat(*parts, Const(0, 7 - sum(map(len, parts))))
    holds, asks = [], []
    for number, end in enumerate(fabric.ends):
        shown = Cat(end.to_vc, Const(0, 2 - len(end.to_vc)), end.to_port)
        holds.append(fabric.in_hand[number] & (fabric.places[number] == place))
        asks.append(end.request & (shown == place))
    held, asked = Cat(holds), Cat(asks)
    bench.check((held & (held - 1)[: len(held)]) == 0)
    granted = Cat(ask & end.granted for ask, end in zip(asks, fabric.ends, strict=True))
    # A channel that nobody has is granted in that very cycle, whatever else is stuck.
    bench.check(held.any() | ~asked.any() | granted.any())
    bench.check(~(held.any() & ~(held & _leaving(fabric)).any()) | ~granted.any())
    bench.check((granted & (granted - 1)[: len(granted)]) == 0)
    _oldest_leaves(bench, fabric, port, vc, held)
    for number, end in enumerate(fabric.ends):
        _named(bench, end, fabric.in_hand[number])


def _named(bench, end, in_hand):
    """No message is dropped, whole or in part, without a fault."""
    strobe = end.route_error | end.framing_error | end.message_lost
    moves, first = end.i.valid & end.i.ready, _is_first(end.i.payload.kind)
    reported = Signal()
    bench.m.d.sync += reported.eq(strobe | (reported & ~(end.i.valid & first)))
    bench.check(~end.drops | strobe)
    bench.check(~moves | in_hand | (end.request & end.granted) | strobe | (reported & ~first))


def _leaving(fabric):
    """Inputs whose message's tail leaves."""
    return Cat(end.o.valid & end.o.ready & _is_last(end.o.payload.kind) for end in fabric.ends)


def _oldest_leaves(bench, fabric, port, vc, held):
    """At an output: a flit whose channel has a credit leaves, unless an older message's does."""
    m = bench.m
    ready, goes, winner, mine = Signal(), Signal(), Signal(24), Signal(24)
    for number, may_send in enumerate(fabric.block.may_send):
        with m.If(port == number):
            m.d.comb += ready.eq(may_send.bit_select(vc, 1))
    for number, (end, age) in enumerate(zip(fabric.ends, fabric.ages, strict=True)):
        here = fabric.in_hand[number] & (fabric.places[number][2:] == port)
        with m.If(here & end.o.valid & end.o.ready):
            m.d.comb += [goes.eq(1), winner.eq(age)]
        with m.If(held[number]):
            m.d.comb += mine.eq(age)
    valid = (held & Cat(end.o.valid for end in fabric.ends)).any()
    taken = (held & Cat(end.o.valid & end.o.ready for end in fabric.ends)).any()
    bench.check(~taken | ready)
    waits = valid & ready & ~taken
    bench.check(~waits | (goes & (winner < mine)))
    bench.cover("waits", waits)
