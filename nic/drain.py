"""A reset that lasts until memory has answered all that it was asked."""

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.config import Config

__all__ = ["Drain"]

CHANNELS_PER_PORT = 3
"""The sender's reads, the receiver's reads, the receiver's writes."""


class Drain(wiring.Component):
    """Holds a reset until every memory request is answered.

    What is asked for before a reset is answered after it: an answer that found the interface
    running again would be taken for one to the next collective's first request, and everything
    would be off by one flit. The reset lasts at least two cycles; it begins in the cycle after
    the command. It must not be reset itself.

    Parameters
    ----------
    config : Config

    Members
    -------
    command : In(1)
        Reset, a strobe.
    requested : In(3 * num_ports)
        Strobe per channel: a request was taken.
    answered : In(3 * num_ports)
        Strobe per channel: data or an acknowledgement came.
    reset : Out(1)
        Reset of all that asks; a register.
    """

    def __init__(self, config: Config):
        self._config = config
        channels = CHANNELS_PER_PORT * config.num_ports
        super().__init__(
            {
                "command": In(1),
                "requested": In(channels),
                "answered": In(channels),
                "reset": Out(1),
            }
        )

    def elaborate(self, platform):
        """A count per channel; in its first cycle a reset still lets requests through."""
        m = Module()
        waiting = []
        for requested, answered in zip(self.requested, self.answered, strict=True):
            # Room is reserved for every answer, so that there are never more.
            outstanding = Signal(range(self._config.most_reads + 1))
            m.d.sync += outstanding.eq(outstanding + requested - answered)
            waiting.append(outstanding != 0)
        lasts = Signal()
        m.d.sync += lasts.eq(self.reset)
        with m.If(self.command):
            m.d.sync += self.reset.eq(1)
        with m.Elif(lasts & ~Cat(waiting).any()):
            m.d.sync += self.reset.eq(0)
        return m
