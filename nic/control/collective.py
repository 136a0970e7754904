"""The control: commit, start, done, and the cycles between."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import sequence_width

__all__ = ["Control"]


class Control(wiring.Component):
    """Takes commits and starts, also while a collective runs, and carries each out in turn.

    A commit has the shadow bank checked at once; when that is over and no collective runs, the
    banks are swapped, or the fault that was found is reported. A start runs the active bank's table
    once, or for all its waves: as often as there are waves, and once more for every stage. One that
    comes with a commit, before its swap, or while a collective runs is remembered until then. A
    start without a committed table, with illegal settings or with more waves than there are numbers
    for is a fault. Done means: all rows are queued, all senders are idle (so all reads have
    returned) and every expected message, of several waves the last one's, is in memory,
    acknowledged. The sequence number begins behind a reset with that which was set, and moves on
    when a collective is done. Each collective that is done asks for an acknowledgement of its own,
    of which up to three are counted. From done to the launch of what was remembered: two cycles.

    Members
    -------
    commit, start, acknowledge : In(1)
        Commands, strobes; no commit while `locked`, no start while `start_waits`.
    locked, start_waits : Out(1)
        A commit or a start waits: what it goes by must stay as it is written; a start waits.
    legal : In(1)
        The settings are such as the interface can run.
    iterations, last_stage, last_run : In(32), In(wave_width), Out(run_width)
        Waves beyond the first; the highest stage in the table that was checked; number of the last
        run of the table.
    first_sequence, sequence : In, Out(sequence_width(config))
        Number of the first collective behind a reset; of the one that runs or is next, one cycle
        after a reset.
    faulted : In(1)
        There is a fault; what was remembered is forgotten.
    check : Out(1)
        To the checker, the tracker and the duplicate filters: a table is committed.
    checking, clearing : In(1)
        Checker busy; counts or marks of the shadow bank being cleared.
    refused, refuse : In(1), Out(1)
        The checker found a fault; that is to be reported, a strobe in place of `swap`.
    swap, bank : Out(1)
        Strobe: the shadow bank becomes the active one; the active bank.
    launch : Out(1)
        To the fetcher: run.
    fetching, sending : In(1)
        Fetcher busy, a sender not idle.
    num_arrivals, arrived, missing : In(20), In(num_ports), Out(20)
        Messages that come in with the table that was checked; one came in, per port; those that
        have not come in yet.
    held, running : Out(1)
        A collective runs, or has a fault in this cycle; one runs and there is no fault.
    busy : Out(1)
        Something runs, is checked or waits.
    committed : Out(1)
        The active bank holds a table.
    done, irq : Out(1)
        A collective is done and not acknowledged; one is, or there is a fault.
    cycles : Out(32)
        Cycles of the last collective, start to done.
    fault : Out(8)
        `FaultCode`, a strobe.
    """

    def __init__(self, config: Config):
        self._wave_width = config.wave_width
        inputs = ("commit", "start", "acknowledge", "legal", "faulted", "checking", "clearing")
        inputs += ("refused", "fetching", "sending")
        outputs = ("locked", "start_waits", "check", "swap", "refuse", "bank", "launch")
        outputs += ("held", "running", "busy", "committed", "done", "irq")
        self.config = config
        super().__init__(
            {name: In(1) for name in inputs}
            | {name: Out(1) for name in outputs}
            | {
                "iterations": In(32),
                "last_stage": In(config.wave_width),
                "last_run": Out(config.run_width),
                "num_arrivals": In(20),
                "arrived": In(config.num_ports),
                "missing": Out(20),
                "first_sequence": In(sequence_width(config)),
                "sequence": Out(sequence_width(config)),
                "cycles": Out(32),
                "fault": Out(8),
            }
        )

    def elaborate(self, platform):
        """One state machine: IDLE or RUN a collective; a commit is checked in parallel."""
        m = Module()
        commit_waits, settled, finished = Signal(), Signal(), Signal()
        expected = Signal(20)
        last_stage = Signal.like(self.last_stage)
        start = self.start | self.start_waits
        # Remembered until a later assignment wins: at launch, refusal or a fault.
        m.d.sync += self.start_waits.eq(start)
        # `commit_waits`, `checking` and `clearing` all rise in the next cycle: no swap is early.
        m.d.comb += self.check.eq(self.commit & ~commit_waits & ~self.faulted)
        with m.If(self.check):
            m.d.sync += commit_waits.eq(1)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(self.faulted):
                    m.d.sync += [commit_waits.eq(0), self.start_waits.eq(0)]
                with m.Elif(commit_waits & ~self.checking & ~self.clearing):
                    m.d.comb += [self.swap.eq(~self.refused), self.refuse.eq(self.refused)]
                    m.d.sync += commit_waits.eq(0)
                    with m.If(self.swap):
                        m.d.sync += [self.bank.eq(~self.bank), self.committed.eq(1)]
                        # Kept for this table: the checker counts those of the next one meanwhile.
                        m.d.sync += expected.eq(self.num_arrivals)
                        m.d.sync += last_stage.eq(self.last_stage)
                # Settings follow their registers with a cycle's delay when a collective is over.
                with m.Elif(start & ~commit_waits & ~self.check & settled):
                    m.d.sync += self.start_waits.eq(0)
                    self._refuse_start(m)
                    with m.If(self.fault == 0):
                        m.d.comb += self.launch.eq(1)
                        m.d.sync += [self.missing.eq(expected), self.cycles.eq(0)]
                        m.d.sync += self.last_run.eq(self.iterations + last_stage)
                        m.next = "RUN"
            with m.State("RUN"):
                arrived = sum(bit for bit in self.arrived)
                m.d.sync += [self.missing.eq(self.missing - arrived)]
                m.d.sync += self.cycles.eq(self.cycles + 1)
                # No gap: a row is `fetching` until its port's queue has it, then `sending`.
                over = (self.missing == 0) & ~self.fetching & ~self.sending
                m.d.comb += finished.eq(over & ~self.faulted)
                with m.If(finished):
                    m.d.sync += self.sequence.eq(self.sequence + 1)
                with m.If(self.faulted | finished):
                    m.next = "IDLE"
        reset = Signal(init=1)
        m.d.sync += reset.eq(0)
        # RESET_SEQUENCE is kept outside of this reset, and taken over in the first cycle after it.
        with m.If(reset):
            m.d.sync += self.sequence.eq(self.first_sequence)
        self._interrupt(m, finished)
        m.d.sync += settled.eq(~self.held)
        m.d.comb += [
            self.held.eq(fsm.ongoing("RUN")),
            self.running.eq(self.held & ~self.faulted),
            self.locked.eq(commit_waits | self.start_waits),
            self.busy.eq(self.held | self.locked | self.checking),
        ]
        return m

    def _refuse_start(self, m):
        """Name what a start cannot run with."""
        with m.If(~self.committed):
            m.d.comb += self.fault.eq(FaultCode.NOT_COMMITTED)
        with m.Elif(~self.legal):
            m.d.comb += self.fault.eq(FaultCode.SETTINGS_ILLEGAL)
        with m.Elif((self.iterations >> self._wave_width) != 0):
            m.d.comb += self.fault.eq(FaultCode.ITERATIONS)

    def _interrupt(self, m, finished):
        """Count what is done and not acknowledged; a start does not know what it came after."""
        unread, left = Signal(2), Signal(2)
        m.d.comb += left.eq(unread - (self.acknowledge & unread.any()))
        # Stops at 3: a fourth one must not wrap around to none.
        m.d.sync += unread.eq(left + (finished & ~left.all()))
        m.d.sync += self.irq.eq(self.faulted | left.any())
        m.d.comb += self.done.eq(unread.any())
