"""Watchdog, fault register, and the faults of neighbours."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.link.link import fault_record_width
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.formats import NO_PORT, UNKNOWN
from multitree.nic.layouts import register_layout
from multitree.nic.signatures import WaitSignature

__all__ = [
    "FAULT",
    "FaultMonitor",
    "FaultRelay",
    "Watchdog",
]

FAULT = register_layout("FAULT", "FAULT_ROW")
"""What is kept of a fault: two registers of 32 bits.

`at_port` is the port that waits or faulted, `port` and `op` say what it awaited; `row` and `flow`
are 0xFFFF, ports 15, where they are unknown.
"""

_UNKNOWN = {"op": 0, "port": NO_PORT, "at_port": NO_PORT, "row": UNKNOWN, "flow": UNKNOWN}
# What a receiver finds wrong with a message: only with these its `wait` names the flow.
_OF_A_MESSAGE = (
    FaultCode.FRAMING,
    FaultCode.UNEXPECTED_MESSAGE,
    FaultCode.STALE_SEQUENCE,
    FaultCode.TABLE_PARITY,
    FaultCode.DUPLICATE_MESSAGE,
    FaultCode.LENGTH,
)


class Watchdog(wiring.Component):
    """Counts the cycles in which a running collective makes no progress.

    Until the first message of the collective came in, the longer `first_arrival_cycles` holds:
    the other ranks may start later. A limit of 0 switches it off. `code` is combinational on
    registers.

    Members
    -------
    running : In(1)
        A collective runs; low clears the count.
    progress : In(1)
        Something moved.
    arrived : In(1)
        A message of this collective came in, which is progress, too.
    watchdog_cycles, first_arrival_cycles : In(32)
        Limits in cycles.
    code : Out(8)
        `FaultCode` when a limit is reached, else 0.
    """

    def __init__(self):
        super().__init__(
            {
                "running": In(1),
                "progress": In(1),
                "arrived": In(1),
                "watchdog_cycles": In(32),
                "first_arrival_cycles": In(32),
                "code": Out(8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Cycles waited by the end of this one; what moves in it leaves none.
        waited, seen, limit, late = Signal(32, init=1), Signal(), Signal(32), Signal()
        m.d.comb += limit.eq(Mux(seen, self.watchdog_cycles, self.first_arrival_cycles))
        m.d.sync += late.eq(self.running & ~self.progress & (limit != 0) & (waited >= limit))
        with m.If(~self.running):
            m.d.sync += [waited.eq(1), seen.eq(0)]
        with m.Else():
            m.d.sync += [waited.eq(Mux(self.progress, 1, waited + 1)), seen.eq(seen | self.arrived)]
            with m.If(late):
                m.d.comb += self.code.eq(Mux(seen, FaultCode.WATCHDOG, FaultCode.FIRST_ARRIVAL))
        return m


class FaultMonitor(wiring.Component):
    """Latches the first fault with what it concerns, until reset.

    In one cycle the order is: control, table, ports by number, watchdog. For the watchdog it
    names what the lowest waiting sender waited for in the cycle before, else the lowest receiver in
    the middle of a message, else that arrivals are missing. Latency 1 cycle from a strobe to
    `faulted`.

    Members
    -------
    control, watchdog : In(8)
        `FaultCode` of the control, a strobe; of the watchdog.
    table, table_index, table_of_flow : In(8), In(16), In(1)
        `FaultCode` of checker or fetcher, a strobe; row or flow of that; it is a flow.
    ports, ports_awaited : In(8), In(3), one per port
        `FaultCode` of a receiver, a link or memory, a strobe; with one of memory, `Awaited`.
    waits : In(WaitSignature), senders then receivers
        What each waits for.
    faulted : Out(1)
        There is a fault.
    fault : Out(FAULT)
        The first one.
    wave : Out(17)
        Where tables are repeated: its wave, and above that whether it is known.
    """

    def __init__(self, config: Config):
        self._num_ports = config.num_ports
        self._reported_wave = Signal(17 if config.wave_width else 0)
        self.config = config
        super().__init__(
            {
                "control": In(8),
                "table": In(8),
                "table_index": In(16),
                "table_of_flow": In(1),
                "ports": In(8).array(config.num_ports),
                "ports_awaited": In(3).array(config.num_ports),
                "watchdog": In(8),
                "waits": In(WaitSignature(config)).array(2 * config.num_ports),
                "faulted": Out(1),
                "fault": Out(FAULT),
                "wave": Out(len(self._reported_wave)),
            }
        )

    def elaborate(self, platform):
        """Later assignments win, so the sources come in ascending order of precedence."""
        m = Module()
        seen = Signal(FAULT)
        stuck, stuck_wave = self._stuck(m)
        with m.If(self.watchdog.any()):
            m.d.comb += [seen.eq(stuck), seen.code.eq(self.watchdog)]
            if len(self.wave):
                m.d.comb += self._reported_wave.eq(stuck_wave)
        for port in reversed(range(self._num_ports)):
            code, wait = self.ports[port], self.waits[self._num_ports + port]
            with m.If(code.any()):
                known = Cat(code == kind for kind in _OF_A_MESSAGE).any()
                flow = Mux(known, wait.flow, UNKNOWN)
                awaited = self.ports_awaited[port]
                m.d.comb += self._report(seen, code, awaited=awaited, at_port=port, flow=flow)
                if len(self.wave):
                    m.d.comb += self._reported_wave.eq(Cat(wait.wave, flow != UNKNOWN))
        with m.If(self.table.any()):
            row = Mux(self.table_of_flow, UNKNOWN, self.table_index)
            flow = Mux(self.table_of_flow, self.table_index, UNKNOWN)
            m.d.comb += self._report(seen, self.table, row=row, flow=flow)
        with m.If(self.control.any()):
            m.d.comb += self._report(seen, self.control)
        # Whether there is a fault settles late: it is among the data, which are 0 without one.
        with m.If(~self.faulted):
            m.d.sync += [self.faulted.eq(seen.code.any()), self.fault.eq(seen)]
            if len(self.wave):
                m.d.sync += self.wave.eq(self._reported_wave)
        return m

    def _report(self, seen, code, *, awaited=Awaited.NOTHING, **places):
        """Set every field, so that nothing is left of a source that another one outranks."""
        fields = _UNKNOWN | places | {"code": code, "awaited": awaited}
        no_wave = [self._reported_wave.eq(0)] if len(self.wave) else []
        return [seen[name].eq(value) for name, value in fields.items()] + no_wave

    def _stuck(self, m):
        """What a watchdog would report, and its wave: registers, as nothing moves when it bites."""
        stuck, wave = Signal(FAULT), Signal.like(self._reported_wave)
        places = _UNKNOWN | {"code": 0, "awaited": Awaited.ARRIVALS}
        m.d.sync += [stuck[name].eq(value) for name, value in places.items()] + [wave.eq(0)]
        # Later assignments win: senders, which have the lower numbers, before receivers.
        for index in reversed(range(2 * self._num_ports)):
            wait = self.waits[index]
            with m.If(wait.awaited != Awaited.NOTHING):
                m.d.sync += [
                    stuck.awaited.eq(wait.awaited),
                    stuck.at_port.eq(index % self._num_ports),
                    stuck.op.eq(wait.op),
                    stuck.port.eq(wait.port),
                    stuck.row.eq(wait.row if index < self._num_ports else UNKNOWN),
                    stuck.flow.eq(wait.flow),
                ]
                if len(wave):
                    m.d.sync += wave.eq(Cat(wait.wave, 1))
        return stuck, wave


class FaultRelay(wiring.Component):
    """Sends each neighbour one FAULT flit per fault, with the rank where it began.

    A fault of a cause of its own is reported on every port, and again whenever a link comes up
    while it lasts. A fault that a neighbour reports is passed on, as it came, on all other ports
    whose links are up, and not again. As a fault is latched once, the flood ends.

    What is reported, from bit 0: rank (16 bits), code (8), nothing (8), then the words FAULT_ROW
    and FAULT, as far as they fit a flit. Latency 2 cycles from `faulted` to `send_fault`.

    Members
    -------
    rank : In(16)
        This interface's.
    faulted, fault : In(1), In(FAULT)
        There is this fault.
    fault_received, received_fault, up, fault_sent, send_fault, fault_record : In, Out
        As of `SwitchFaults`.
    origin : Out(32)
        The register FAULT_ORIGIN.
    """

    def __init__(self, config: Config):
        self._num_ports = config.num_ports
        self._width = fault_record_width(config.flit_bytes)
        self.config = config
        super().__init__(
            {
                "rank": In(16),
                "faulted": In(1),
                "fault": In(FAULT),
                "fault_received": In(self._num_ports),
                "received_fault": In(self._width).array(self._num_ports),
                "up": In(self._num_ports),
                "fault_sent": In(self._num_ports),
                "send_fault": Out(self._num_ports),
                "fault_record": Out(self._width),
                "origin": Out(32),
            }
        )

    def connect(self, m, ports, monitor, rank):
        m.d.comb += [self.rank.eq(rank), self.faulted.eq(monitor.faulted)]
        m.d.comb += self.fault.eq(monitor.fault)
        for number, port in enumerate(ports):
            for name in ("fault_received", "received_fault", "up", "fault_sent"):
                m.d.comb += getattr(self, name)[number].eq(getattr(port, name))
            m.d.comb += [
                port.send_fault.eq(self.send_fault[number]),
                port.fault_record.eq(self.fault_record),
            ]

    def elaborate(self, platform):
        """Keep what came with the fault; per port one bit that it is still to be reported."""
        m = Module()
        fault = self.fault.as_value()
        known, own = Signal(), Signal()
        came = Signal(self._width, reset_less=True)
        pending = Signal(self._num_ports)
        sent = Cat(self.rank, self.fault.code, Const(0, 8), fault[32:64], fault[:32])
        m.d.comb += [
            own.eq(self.fault.code != FaultCode.PEER_FAULT),
            self.fault_record.eq(Mux(own, sent[: self._width], came)),
            self.send_fault.eq(pending & self.up),
            self.origin.eq(Mux(known, Cat(self.fault_record[:24], 1), 0)),
        ]
        m.d.sync += known.eq(self.faulted)
        for port in range(self._num_ports):
            # The first cycle of a fault: it goes to everyone but the neighbour that reported it.
            with m.If(self.faulted & ~known):
                m.d.sync += pending[port].eq(own | (self.fault.at_port != port))
            # Owed again when the link comes back, unless it is a neighbour's: else two neighbours
            # that are reset one after the other would report it to each other for ever.
            with m.Elif(~self.up[port]):
                m.d.sync += pending[port].eq(self.faulted & own)
            with m.Elif(self.fault_sent[port]):
                m.d.sync += pending[port].eq(0)
        # The lowest port wins, as in the monitor.
        with m.If(~self.faulted):
            for port in reversed(range(self._num_ports)):
                with m.If(self.fault_received[port]):
                    m.d.sync += came.eq(self.received_fault[port])
        return m
