"""Fair choice among requests: in turns, or the oldest message first."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import check_integer

__all__ = ["AGE", "Ages", "OldestFirst", "RoundRobin", "stay"]


def stay(m, choice, offered, taken):
    """Who offers in this cycle: `choice`, kept from the cycle before while what is `offered` is not
    `taken`; combinational.
    """
    waits = Signal()
    kept, chosen = Signal(len(choice)), Signal(len(choice))
    m.d.comb += chosen.eq(Mux(waits, kept, choice))
    # While something waits, its choice is fed back: `choice` cannot replace it.
    m.d.sync += [waits.eq(offered & ~taken), kept.eq(chosen)]
    return chosen


class RoundRobin(wiring.Component):
    """Grants one of `count` requests, starting its search behind the one granted last.

    In a cycle with `advance` the granted request becomes the last one; without `advance` the search
    starts at the same place in the next cycle, so that a requester in front may take the grant
    over. Fair: a request that stays high is granted before any other is granted twice with
    `advance`. After reset the search starts at request 0.

    Combinational from `requests` to `granted`, `grant` and `valid`; one grant per cycle.

    Members
    -------
    requests : In(count)
        One bit per requester.
    advance : In(1)
        Move on past the granted request; ignored while there is none.
    granted : Out(count)
        The granted request's bit alone; sooner known than its number.
    grant : Out(range(count))
        Number of the granted request; 0 while there is none.
    valid : Out(1)
        There is a request.
    """

    def __init__(self, *, count: int):
        self.count = check_integer("Count", count, least=1)
        super().__init__(
            {
                "requests": In(count),
                "advance": In(1),
                "granted": Out(count),
                "grant": Out(range(count)),
                "valid": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Two searches side by side, among the requests behind the last one and among all: a
        # search that wrapped around would be a combinational loop.
        behind = Signal(self.count)
        # After reset `behind` is empty: the first search is over all requests, from request 0 on.
        first = self.requests & behind
        numbers = [Mux(one, number, 0) for number, one in enumerate(self.granted)]
        m.d.comb += [
            self.granted.eq(Mux(first.any(), _lowest(first), _lowest(self.requests))),
            # One bit at most is set. Without a request `grant` is 0.
            self.grant.eq(reduce(or_, numbers)),
            self.valid.eq(self.requests.any()),
        ]
        with m.If(self.advance & self.valid):
            m.d.sync += behind.eq(Cat(self.granted[:number].any() for number in range(self.count)))
        return m


def _lowest(bits):
    """The lowest bit that is set, alone."""
    return Cat(bit & ~bits[:number].any() for number, bit in enumerate(bits))


AGE = data.StructLayout({"sequence": 8, "step": 16})
"""When a message was due: number of its collective, modulo 256, and step."""


class Ages(wiring.Component):
    """Compares the age of each of `count` messages with every other's; combinational.

    Of two messages the older one has the lower sequence number, counted within the nearer half of
    the 256 that there are; among those of one sequence it is the one of the lower step. Neither is
    older where both are equal. At a distance of just 128 the one with the lower index is older: no
    two are older than each other.

    Members
    -------
    ages : In(AGE), one per message
        What is compared.
    older : Out(count), one per message
        The messages that are older than this one.
    """

    def __init__(self, *, count: int):
        self.count = check_integer("Count", count, least=1)
        super().__init__({"ages": In(AGE).array(count), "older": Out(count).array(count)})

    def elaborate(self, platform):
        m = Module()
        for low in range(self.count):
            for high in range(low + 1, self.count):
                a, b = self.ages[low], self.ages[high]
                # One subtraction per pair: at a distance of 128 both would have bit 7 set.
                distance, before = Signal(8), Signal()
                m.d.comb += [
                    distance.eq(a.sequence - b.sequence),
                    before.eq(distance[7] | ((distance == 0) & (a.step < b.step))),
                    self.older[high][low].eq(before),
                    self.older[low][high].eq(~before & ((distance != 0) | (a.step != b.step))),
                ]
        return m


class OldestFirst(wiring.Component):
    """Grants one of `count` requests to which none is older, in turns among equals.

    Where every request has an older one, which sequence numbers more than 127 apart can lead to,
    all are equals. A request that stays high is passed over by each request that is not older than
    it at most once after every grant to an older one: it waits for at most `count - 1` grants more
    than those to older ones, and these are finitely many where the messages of a step are.

    Combinational from `requests` and `older` to `grant` and `valid`; one grant per cycle.

    Members
    -------
    requests : In(count)
        One bit per requester.
    older : In(count), one per request
        The messages that are older than its.
    advance, grant, valid : In(1), Out(range(count)), Out(1)
        As of `RoundRobin`.

    References
    ----------
    D. Abts, D. Weisser, "Age-Based Packet Arbitration in Large-Radix k-ary n-cubes", SC 2007.
    """

    def __init__(self, *, count: int):
        self.count = check_integer("Count", count, least=1)
        super().__init__(
            {
                "requests": In(count),
                "older": In(count).array(count),
                "advance": In(1),
                "grant": Out(range(count)),
                "valid": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.turns = turns = RoundRobin(count=self.count)
        oldest = Signal(self.count)
        m.d.comb += [
            oldest.eq(self.requests & Cat(~(self.requests & older).any() for older in self.older)),
            # Numbers more than half their range apart can form a cycle, which has no oldest.
            turns.requests.eq(Mux(oldest.any(), oldest, self.requests)),
            turns.advance.eq(self.advance),
            self.grant.eq(turns.grant),
            self.valid.eq(turns.valid),
        ]
        return m
