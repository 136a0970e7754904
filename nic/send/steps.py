"""The step counter of the lockstep mode."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.config import Config
from multitree.nic.signatures import RunSignature

__all__ = ["StepCounter"]


class StepCounter(wiring.Component):
    """Counts lockstep steps: each lasts its estimated serialisation time on a down counter.

    There are no synchronisation messages. In lockstep a row goes out when its step is reached,
    and a step lasts exactly `run.step_cycles` (0 is taken as 1) unless one of its rows goes later
    than that: then it ends when the first row of a later step is in hand. A NOP waits until its
    step's time has passed and ends the step with it, so that a rank that sends nothing in a step
    does not run ahead. Without lockstep rows go when they come and the step is the row's. `go` is
    combinational, `step` a register.

    Members
    -------
    run : In(RunSignature)
        Mode, and the time of a step.
    start : In(1)
        A collective begins.
    row_step : In(16)
        Step of the row in hand.
    row_valid : In(1)
        There is one.
    nop : In(1)
        It is a NOP.
    go : Out(1)
        It may go.
    step : Out(16)
        The step reached.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "run": In(RunSignature(config)),
                "start": In(1),
                "row_step": In(16),
                "row_valid": In(1),
                "nop": In(1),
                "go": Out(1),
                "step": Out(16),
            }
        )

    def elaborate(self, platform):
        """A down counter that is loaded when a step begins."""
        m = Module()
        left = Signal(32)
        # At most 1, not equal to it: a step of 0 cycles counts as one of 1.
        over = left <= 1
        reached = self.row_step <= self.step
        m.d.comb += self.go.eq(Mux(self.run.lockstep, reached & (~self.nop | over), 1))
        with m.If(~over):
            m.d.sync += left.eq(left - 1)
        with m.If(self.start):
            m.d.sync += [self.step.eq(0), left.eq(self.run.step_cycles)]
        with m.Elif(self.row_valid & ~self.run.lockstep):
            m.d.sync += self.step.eq(self.row_step)
        # A step ends for a row of a later one, or for its own NOP, and not before its time is over.
        with m.Elif(self.row_valid & over & (~reached | (self.nop & (self.row_step == self.step)))):
            m.d.sync += [self.step.eq(self.step + 1), left.eq(self.run.step_cycles)]
        return m
