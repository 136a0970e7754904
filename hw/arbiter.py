"""Fair choice among requests."""

from amaranth import Module, Mux, Signal
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

    Combinational from `requests` to `grant` and `valid`; one grant per cycle.

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
                "grant": Out(range(count)),
                "valid": Out(1),
            }
        )

    def elaborate(self, platform):
        """Two priority searches: among the requests behind the last one, else among all."""
        m = Module()
        behind = Signal(self.count)
        # After reset `behind` is empty: the first search is over all requests, from request 0 on.
        first = self.requests & behind
        chosen = Signal(self.count)
        m.d.comb += [
            chosen.eq(Mux(first.any(), first, self.requests)),
            self.valid.eq(self.requests.any()),
        ]
        # The lowest bit that is set. The conditions exclude each other; request 0 is the default.
        for number in reversed(range(1, self.count)):
            with m.If(chosen[: number + 1] == 1 << number):
                m.d.comb += self.grant.eq(number)
        # Without a request `grant` is 0: request 0 would be passed over without a grant.
        with m.If(self.advance & self.valid):
            # All ones above the granted bit: what -2 << grant keeps in `count` bits.
            m.d.sync += behind.eq((-2 << self.grant)[: self.count])
        return m
