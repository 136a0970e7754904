"""Fair choice among requests."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arguments import check_integer

__all__ = ["RoundRobin", "stay"]


def stay(m, choice, offered, taken):
    """The choice of who offers, kept while what is offered is not taken.

    Parameters
    ----------
    m : Module
    choice : Value
        Who would offer in this cycle.
    offered, taken : Value
        Something is offered; it is taken.

    Returns
    -------
    Signal
        Who does offer; combinational.
    """
    waits = Signal()
    kept, chosen = Signal(len(choice)), Signal(len(choice))
    m.d.comb += chosen.eq(Mux(waits, kept, choice))
    # While something waits, its choice is fed back: `choice` cannot replace it.
    m.d.sync += [waits.eq(offered & ~taken), kept.eq(chosen)]
    return chosen


class RoundRobin(wiring.Component):
    """Grants one of several requests, starting its search behind the one granted last.

    In a cycle with `advance` the granted request becomes the last one; without `advance` the
    search starts at the same place in the next cycle, so that a requester in front may take the
    grant over. Fair: a request that stays high is granted before any other is granted twice with
    `advance`. After reset the search starts at request 0.

    Combinational from `requests` to `granted`, `grant` and `valid`; one grant per cycle.

    Parameters
    ----------
    count : int
        Number of requests, at least 1.

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

    Raises
    ------
    TypeError
        If `count` is not an integer.
    ValueError
        If `count` is less than 1.
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
        """Two priority searches side by side: among the requests behind the last one, and all."""
        m = Module()
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
