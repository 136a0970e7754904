"""Faults of a switch: the first is kept, named and sent to its neighbours."""

import enum

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import check_integer
from multitree.hw.link.link import fault_record_width

__all__ = ["SWITCH_FAULT", "SwitchFault", "SwitchFaults"]

_NOBODY = 15
_UNKNOWN = 0xFFFFFFFF


class SwitchFault(enum.IntEnum):
    """Why a switch stopped being trustworthy; an interface's fault of one name has one number."""

    NONE = 0
    FRAMING = 6
    LINK_SEQUENCE = 9
    BUFFER_OVERFLOW = 10
    CREDIT_OVERFLOW = 11
    STATE_PARITY = 19
    LINK_CHECK = 20
    LINK_EPOCH = 22
    PEER_RESET = 23
    PEER_FAULT = 24
    ROUTE = 25


SWITCH_FAULT = data.StructLayout({"code": 8, "port": 8})
"""A `SwitchFault` and the port that it concerns."""


class SwitchFaults(wiring.Component):
    """Keeps the first fault until reset, and sends each neighbour one FAULT flit of it.

    A fault of the switch's own is reported on every port, and again whenever a link comes up while
    it lasts. One that a neighbour reports is passed on, as it came, on all other ports whose links
    are up, and not again. As a fault is kept once, the flood ends, and every node that can be
    reached receives one. Of the faults of one cycle it keeps that of the lowest port.

    What is reported is laid out as an interface's, from bit 0: number of the switch (16 bits), code
    (8), nothing (8), the word of row and flow, both unknown (32), and, as far as they fit a flit,
    code (8), nothing (4), no port (4), and the port it concerns (8). Latency 2 cycles from a
    strobe to `send_fault`.


    Members
    -------
    number : In(16)
        The switch's, sent with its own faults.
    faults : In(8), one per port
        `SwitchFault` of its own that concerns this port, a strobe.
    fault_received, received_fault : In(num_ports), In, one per port
        Strobe per port: a FAULT flit came in; what it reports.
    up, fault_sent : In(num_ports)
        Per port: its link is up; strobe: it has sent its record.
    send_fault, fault_record : Out(num_ports), Out
        Per port: send this record.
    fault : Out(SWITCH_FAULT)
        The first fault; its code is 0 while there is none.
    origin : Out(32)
        The number of who began it, its code there, and bit 24, from the cycle behind the fault on.
    """

    def __init__(self, *, num_ports: int, flit_bytes: int):
        self.num_ports = check_integer("Ports", num_ports, least=1)
        self._width = fault_record_width(check_integer("Flit bytes", flit_bytes, least=1))
        self.flit_bytes = flit_bytes
        super().__init__(
            {
                "number": In(16),
                "faults": In(8).array(num_ports),
                "fault_received": In(num_ports),
                "received_fault": In(self._width).array(num_ports),
                "up": In(num_ports),
                "fault_sent": In(num_ports),
                "send_fault": Out(num_ports),
                "fault_record": Out(self._width),
                "fault": Out(SWITCH_FAULT),
                "origin": Out(32),
            }
        )

    def elaborate(self, platform):
        """Keep the first one and what came with it; per port one bit that it is to be reported."""
        m = Module()
        fault, seen = self.fault, Signal(SWITCH_FAULT)
        own, known = Signal(), Signal()
        came = Signal(self._width, reset_less=True)
        pending = Signal(self.num_ports)
        word = Cat(fault.code, Const(0, 4), Const(_NOBODY, 4), fault.port, Const(0, 8))
        sent = Cat(self.number, fault.code, Const(0, 8), Const(_UNKNOWN, 32), word)
        m.d.comb += [
            own.eq(fault.code != SwitchFault.PEER_FAULT),
            self.fault_record.eq(Mux(own, sent[: self._width], came)),
            self.send_fault.eq(pending & self.up),
        ]
        # Later assignments win: the lowest port, and there its own fault before a neighbour's.
        for port in reversed(range(self.num_ports)):
            with m.If(self.fault_received[port]):
                m.d.comb += [seen.code.eq(SwitchFault.PEER_FAULT), seen.port.eq(port)]
            with m.If(self.faults[port].any()):
                m.d.comb += [seen.code.eq(self.faults[port]), seen.port.eq(port)]
        faulted = fault.code.any()
        m.d.sync += [
            known.eq(faulted),
            self.origin.eq(Mux(known, Cat(self.fault_record[:24], 1), 0)),
        ]
        with m.If(~faulted):
            m.d.sync += fault.eq(seen)
        for port in reversed(range(self.num_ports)):
            # Of several records the lowest port's is kept, which is the port that `fault` names.
            with m.If(~faulted & self.fault_received[port]):
                m.d.sync += came.eq(self.received_fault[port])
            # The first cycle of a fault: it goes to everyone but the neighbour that reported it.
            with m.If(faulted & ~known):
                m.d.sync += pending[port].eq(own | (fault.port != port))
            # Only an own fault is owed again when the link comes back: two neighbours that are
            # reset one after the other would return a received one to each other for ever.
            with m.Elif(~self.up[port]):
                m.d.sync += pending[port].eq(faulted & own)
            with m.Elif(self.fault_sent[port]):
                m.d.sync += pending[port].eq(0)
        return m
