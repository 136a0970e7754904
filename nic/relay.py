"""Tells neighbours of a fault, and passes on what a neighbour told."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.link import news_width
from multitree.nic.config import Config
from multitree.nic.faults import FaultCode
from multitree.nic.monitor import FAULT

__all__ = ["FaultRelay"]


class FaultRelay(wiring.Component):
    """Sends each neighbour one FAULT flit per fault, with the rank where it began.

    A fault of a cause of its own is told on every port, and again whenever a link comes up while
    it lasts. A fault that a neighbour told of is passed on, as it came, on all other ports whose
    links are up, and not again: else two neighbours that are reset one after the other would tell
    each other of the same fault for ever. As a fault is latched once, the flood ends.

    What is told, from bit 0: rank (16 bits), code (8), nothing (8), then the words FAULT_ROW and
    FAULT, as far as they fit a flit. Latency 2 cycles from `faulted` to `tell`.

    Parameters
    ----------
    config : Config

    Members
    -------
    rank : In(16)
        This interface's.
    faulted : In(1)
        There is a fault.
    fault : In(FAULT)
        It.
    heard : In(num_ports)
        Strobe per port: a FAULT flit came in.
    news : In, one per port
        What it tells.
    up, told : In(num_ports)
        Per port: its link is up; strobe: it has sent what it had to tell.
    tell : Out(num_ports)
        Per port: send `notice`.
    notice : Out
        What to tell.
    origin : Out(32)
        The register FAULT_ORIGIN.
    """

    def __init__(self, config: Config):
        self._num_ports = config.num_ports
        self._width = news_width(config.flit_bytes)
        super().__init__(
            {
                "rank": In(16),
                "faulted": In(1),
                "fault": In(FAULT),
                "heard": In(self._num_ports),
                "news": In(self._width).array(self._num_ports),
                "up": In(self._num_ports),
                "told": In(self._num_ports),
                "tell": Out(self._num_ports),
                "notice": Out(self._width),
                "origin": Out(32),
            }
        )

    def connect(self, m, ports, monitor, rank):
        """Wire it to a monitor and to the ports that it speaks through."""
        m.d.comb += [self.rank.eq(rank), self.faulted.eq(monitor.faulted)]
        m.d.comb += self.fault.eq(monitor.fault)
        for number, port in enumerate(ports):
            for name in ("heard", "news", "up", "told"):
                m.d.comb += getattr(self, name)[number].eq(getattr(port, name))
            m.d.comb += [port.tell.eq(self.tell[number]), port.notice.eq(self.notice)]

    def elaborate(self, platform):
        """Keep what came with the fault; per port one bit that it is still to be told."""
        m = Module()
        fault = self.fault.as_value()
        known, own = Signal(), Signal()
        came = Signal(self._width, reset_less=True)
        pending = Signal(self._num_ports)
        told = Cat(self.rank, self.fault.code, Const(0, 8), fault[32:64], fault[:32])
        m.d.comb += [
            own.eq(self.fault.code != FaultCode.PEER_FAULT),
            self.notice.eq(Mux(own, told[: self._width], came)),
            self.tell.eq(pending & self.up),
            self.origin.eq(Mux(known, Cat(self.notice[:24], 1), 0)),
        ]
        m.d.sync += known.eq(self.faulted)
        for port in range(self._num_ports):
            with m.If(self.faulted & ~known):
                m.d.sync += pending[port].eq(own | (self.fault.at_port != port))
            with m.Elif(~self.up[port]):
                m.d.sync += pending[port].eq(self.faulted & own)
            with m.Elif(self.told[port]):
                m.d.sync += pending[port].eq(0)
        # The lowest port wins, as in the monitor.
        with m.If(~self.faulted):
            for port in reversed(range(self._num_ports)):
                with m.If(self.heard[port]):
                    m.d.sync += came.eq(self.news[port])
        return m
