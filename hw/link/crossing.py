"""The crossing of a link from the interface's clock to a link's own and back."""

from functools import reduce
from operator import or_

from amaranth import Module, Signal
from amaranth.lib import data, fifo, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import check_integer
from multitree.hw.link.link import LinkSignature

__all__ = ["LEAST_CROSSING_DEPTH", "LINK_DOMAIN", "LinkCrossing", "crossing_depth"]

LINK_DOMAIN = "link"
"""Clock domain of the far side; the near side is in `sync`."""
LEAST_CROSSING_DEPTH = 16
"""Places that hide the crossing's own round trip."""


def crossing_depth(*, buffer_flits: int, num_vcs: int = 1) -> int:
    """Places with which a crossing never overflows, for every ratio of its clocks from 1:10 on."""
    # In flight are at most a flit per credit, and a credit per flit of the other direction, each of
    # them alone in its word; flits without credit are rarer than one in ten cycles.
    credits = check_integer("Buffer flits", buffer_flits, least=1)
    words = 2 * credits * check_integer("VCs", num_vcs, least=1)
    return max(LEAST_CROSSING_DEPTH, 1 << (words - 1).bit_length())


class LinkCrossing(wiring.Component):
    """Carries both directions of a link between the interface's clock, `sync`, and its own, `link`.

    A flit and the credits that leave in one cycle are one word of a queue, and whatever leaves
    later is a later word: all arrive in the order in which they were sent, none twice, the credits
    of each virtual channel as its own. The clocks may have any ratio and phase.

    Latency 3 cycles of the clock it comes out in, less the phase between the edges. A word per
    cycle of the slower clock. A link has no ready: when the side that reads is slower, words pile
    up until credits run out. `crossing_depth` places never overflow, `LEAST_CROSSING_DEPTH` are
    enough for a direction in which words come no faster than they are read. A word that finds no
    place is lost whole, and the interface that misses it faults. All outputs are registers.

    A reset of the side that writes empties its queue; both domains are to be reset together.

    Parameters
    ----------
    flit_bytes, num_vcs : int
        As of `LinkSignature`.
    depth : int
        Words in each direction, a power of two, at least 16.

    Members
    -------
    tx, rx : In, Out(LinkSignature)
        The interface's outgoing and incoming link.
    link_tx, link_rx : Out, In(LinkSignature)
        The same in the link's clock.
    tx_lost, link_rx_lost : Out(1)
        Strobe in `sync`, in `link`: a word found no place in the cycle before.

    References
    ----------
    C. E. Cummings, "Simulation and Synthesis Techniques for Asynchronous FIFO Design", SNUG 2002.
    """

    def __init__(self, *, flit_bytes: int, depth: int, num_vcs: int = 1):
        self.depth = check_integer("Depth", depth, least=LEAST_CROSSING_DEPTH)
        if depth & (depth - 1):
            raise ValueError(f"Depth must be a power of two, not {depth!r}")
        link = LinkSignature(flit_bytes=flit_bytes, num_vcs=num_vcs)
        # Whatever travels with a flit, so that a link may have more of it than this block knows.
        self._word = data.StructLayout(
            {name: member.shape for name, member in link.members.items()}
        )
        self.flit_bytes, self.num_vcs = flit_bytes, num_vcs
        super().__init__(
            {
                "tx": In(link),
                "rx": Out(link),
                "link_tx": Out(link),
                "link_rx": In(link),
                "tx_lost": Out(1),
                "link_rx_lost": Out(1),
            }
        )

    def elaborate(self, platform):
        """One queue per direction; the credits of a direction belong to the other one's flits."""
        m = Module()
        # Each pair is the link whose flits are carried, then the one whose credits go with them.
        near, far = (self.tx, self.rx), (self.link_tx, self.link_rx)
        m.submodules.outward = self._carry(m, "sync", near, LINK_DOMAIN, far, self.tx_lost)
        near, far = (self.rx, self.tx), (self.link_rx, self.link_tx)
        m.submodules.inward = self._carry(m, LINK_DOMAIN, far, "sync", near, self.link_rx_lost)
        return m

    def _carry(self, m, domain, source, target_domain, target, lost):
        """Queue (flits, credit's link) of the source's domain and register them in the target's."""
        queue = fifo.AsyncFIFO(
            width=self._word.size, depth=self.depth, w_domain=domain, r_domain=target_domain
        )
        word, taken = Signal(self._word), Signal(self._word)
        m.d.comb += [word[name].eq(getattr(source[0], name)) for name in self._flit_fields()]
        m.d.comb += [
            # One word for both: a credit must not come later than a flit that was sent after it.
            word.valid.eq(source[0].valid),
            word.credit.eq(source[1].credit),
            queue.w_data.eq(word),
            queue.w_en.eq(reduce(or_, word.credit, word.valid)),
            # A link has no ready: a word is taken in the cycle in which it can be read.
            queue.r_en.eq(1),
            taken.eq(queue.r_data),
        ]
        m.d[domain] += lost.eq(queue.w_en & ~queue.w_rdy)
        # An empty queue's data mean nothing: without `r_rdy` neither flit nor credit counts.
        m.d[target_domain] += [
            target[0].valid.eq(queue.r_rdy & taken.valid),
            target[1].credit.eq(queue.r_rdy.replicate(len(taken.credit)) & taken.credit),
        ]
        with m.If(queue.r_rdy & taken.valid):
            m.d[target_domain] += [
                getattr(target[0], name).eq(taken[name]) for name in self._flit_fields()
            ]
        return queue

    def _flit_fields(self):
        return [name for name, _ in self._word if name not in ("valid", "credit")]
