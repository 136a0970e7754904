"""Table rows on the way to a port: step, address of a wave, what the port does."""

from functools import reduce
from operator import or_

from amaranth import Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import NO_PORT, OP_GATHER
from multitree.nic.layouts import SHARED_FLOW, job_layout
from multitree.nic.signatures import RunSignature

__all__ = ["StepCounter", "WaveOffset", "job_of", "last_child_of", "shared_job_of"]


def last_child_of(m: Module, entry: data.View) -> Signal:
    """The port of a flow's last child in the order of summation, or `NO_PORT`; combinational."""
    children = [entry.children[k] for k in range(8)]
    there = [child != NO_PORT for child in children]
    # The list has no gaps (`FlowCheck`): one child at most has none behind it.
    ends = [a & ~b for a, b in zip(there, [*there[1:], Const(0)], strict=True)]
    chosen = [Mux(end, child, 0) for end, child in zip(ends, children, strict=True)]
    last_child = Signal(4)
    m.d.comb += last_child.eq(reduce(or_, chosen, Mux(there[0], 0, NO_PORT)))
    return last_child


def job_of(m: Module, config: Config, *, index: Value, row, entry, wave: Value) -> data.View:
    """The job (`job_layout`) of a row on private links, with the dependency that its flow's entry
    implies; its chunk is that of the flow's first wave.
    """
    last_child = last_child_of(m, entry)
    from_parent = (row.op == OP_GATHER) & (entry.parent != NO_PORT)
    job = Signal(job_layout(config))
    m.d.comb += [
        job.row.eq(index),
        job.flow.eq(row.flow),
        job.op.eq(row.op),
        job.base.eq(entry.base),
        job.size.eq(entry.size),
        job.wave.eq(wave),
        job.needs.eq(from_parent | (last_child != NO_PORT)),
        job.need_port.eq(Mux(from_parent, entry.parent, last_child)),
        job.need_op.eq(from_parent),
    ]
    return data.View(job_layout(config), job.as_value())


def shared_job_of(
    m: Module, config: Config, *, index: Value, row, entry, header_only: Value
) -> data.View:
    """The same of a `SHARED_ROW`: a sum is whole, or a result in, wherever it came from.
    `header_only`, by op, makes messages heads without payload.
    """
    entry = data.View(SHARED_FLOW, entry.as_value())
    from_parent = (row.op == OP_GATHER) & entry.parent
    job = Signal(job_layout(config))
    m.d.comb += [
        job.row.eq(index),
        job.flow.eq(row.flow),
        job.op.eq(row.op),
        job.base.eq(entry.base),
        job.size.eq(Mux(header_only.bit_select(row.op[0], 1), 0, entry.size)),
        job.needs.eq(from_parent | (entry.num_children != 0)),
        # The tracker has one count per sum or result here, all at port 0.
        job.need_port.eq(0),
        job.need_op.eq(from_parent),
    ]
    m.d.comb += [job[name].eq(row[name]) for name in ("order", "vc_class", "step", "route")]
    return data.View(job_layout(config), job.as_value())


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
    start : In(1)
        A collective begins.
    row_valid, row_step, nop : In(1), In(16), In(1)
        There is a row in hand; its step; it is a NOP.
    go, step : Out(1), Out(16)
        It may go; the step reached.
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


class WaveOffset(wiring.Component):
    """Multiplies a wave's number by its flow's stride: a cycle later, once per cycle.

    A product or a sum that no address holds is reported, since it would wrap around into the window
    of another wave, where no memory guard finds it.

    Members
    -------
    wave : In(wave_width)
        The wave's number.
    stride : In(32)
        Flits from one wave of the flow to the next; `FlowCheck` passes none beyond an address.
    base : In(address_width)
        Where the flow's first wave begins, one cycle later.
    address, beyond : Out(address_width), Out(1)
        Where this one begins, in that cycle; that is beyond all addresses.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "wave": In(config.wave_width),
                "stride": In(32),
                "base": In(config.address_width),
                "address": Out(config.address_width),
                "beyond": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = len(self.base)
        # A register behind the multiplier, as blocks of FPGAs have them.
        product = Signal(width + len(self.wave), reset_less=True)
        m.d.sync += product.eq(self.wave * self.stride[:width])
        place = Signal(len(product) + 1)
        m.d.comb += [
            place.eq(self.base + product),
            self.address.eq(place),
            self.beyond.eq(place[width:].any()),
        ]
        return m
