"""The control: commit, start, done, and the cycles between."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.config import Config
from multitree.nic.faults import FaultCode

__all__ = ["Control"]


class Control(wiring.Component):
    """Takes commands one at a time: commit checks the table, start runs it once.

    A start with a commit, or while a table is checked, is remembered until it is. A start without
    a committed table, with illegal settings or with iterations is a fault; none may come while a
    collective runs. Done means: all rows are queued, all senders are idle (so all reads have
    returned) and every expected message is in memory, acknowledged. The sequence number moves on
    when a collective is done; `irq` is high from done until acknowledged or the next start, and
    while there is a fault.

    Parameters
    ----------
    config : Config

    Members
    -------
    commit, start, acknowledge : In(1)
        Commands, strobes.
    invalidate : In(1)
        Table, flows or sizes were written: the commit is void.
    legal : In(1)
        The settings are such as the interface can run.
    iterations : In(32)
        Extra runs of the table; must be 0.
    faulted : In(1)
        There is a fault.
    check, launch : Out(1)
        To the fetcher: begin to check, to run.
    fetching, clearing, sending : In(1)
        Fetcher busy, tracker clearing, a sender not idle.
    num_arrivals : In(20)
        Messages that come in.
    arrived : In(num_ports)
        A message came in, per port.
    missing : Out(20)
        Messages that have not come in yet.
    running, busy, committed, done : Out(1)
        State.
    sequence : Out(8)
        Number of the collective that runs or is next.
    cycles : Out(32)
        Cycles of the last collective, start to done.
    irq : Out(1)
        Interrupt, level.
    fault : Out(8)
        `FaultCode`, a strobe.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "commit": In(1),
                "start": In(1),
                "acknowledge": In(1),
                "invalidate": In(1),
                "legal": In(1),
                "iterations": In(32),
                "faulted": In(1),
                "check": Out(1),
                "launch": Out(1),
                "fetching": In(1),
                "clearing": In(1),
                "sending": In(1),
                "num_arrivals": In(20),
                "arrived": In(config.num_ports),
                "missing": Out(20),
                "running": Out(1),
                "busy": Out(1),
                "committed": Out(1),
                "done": Out(1),
                "sequence": Out(8),
                "cycles": Out(32),
                "irq": Out(1),
                "fault": Out(8),
            }
        )

    def elaborate(self, platform):
        """One state machine: IDLE, CHECK a table, RUN a collective."""
        m = Module()
        arrived = sum(bit for bit in self.arrived)
        m.d.sync += [self.irq.eq(self.faulted | (self.done & ~self.launch))]
        with m.If(self.acknowledge | self.start):
            m.d.sync += [self.done.eq(0), self.irq.eq(self.faulted)]
        with m.If(self.invalidate):
            m.d.sync += self.committed.eq(0)
        pending = Signal()
        start = self.start | pending
        m.d.sync += pending.eq(0)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(self.faulted):
                    m.next = "IDLE"
                with m.Elif(self.commit):
                    m.d.comb += self.check.eq(1)
                    m.d.sync += [self.committed.eq(0), pending.eq(start)]
                    m.next = "CHECK"
                with m.Elif(start & ~self.committed):
                    m.d.comb += self.fault.eq(FaultCode.NOT_COMMITTED)
                with m.Elif(start & ~self.legal):
                    m.d.comb += self.fault.eq(FaultCode.SETTINGS_ILLEGAL)
                with m.Elif(start & (self.iterations != 0)):
                    m.d.comb += self.fault.eq(FaultCode.ITERATIONS)
                with m.Elif(start):
                    m.d.comb += self.launch.eq(1)
                    m.d.sync += [
                        self.missing.eq(self.num_arrivals),
                        self.cycles.eq(0),
                        self.done.eq(0),
                    ]
                    m.next = "RUN"
            with m.State("CHECK"):
                m.d.sync += pending.eq(start)
                with m.If(~self.fetching & ~self.clearing):
                    m.d.sync += self.committed.eq(~self.faulted)
                    m.next = "IDLE"
            with m.State("RUN"):
                m.d.sync += [
                    self.missing.eq(self.missing - arrived),
                    self.cycles.eq(self.cycles + 1),
                ]
                with m.If(self.faulted):
                    m.next = "IDLE"
                with m.Elif((self.missing == 0) & ~self.fetching & ~self.sending):
                    m.d.sync += [self.done.eq(1), self.sequence.eq(self.sequence + 1)]
                    m.next = "IDLE"
        m.d.comb += [
            self.running.eq(fsm.ongoing("RUN") & ~self.faulted),
            self.busy.eq(~fsm.ongoing("IDLE")),
        ]
        return m
