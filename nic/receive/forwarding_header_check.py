"""Header check that forwards: beginnings are reported, operands asked for."""

from amaranth import Cat, Const, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Out

from multitree.nic.config import (
    NO_PORT,
    OP_GATHER,
    UNKNOWN,
    job_layout,
)
from multitree.nic.forward.positions import beginning_layout, position_width
from multitree.nic.receive.header_check import HeaderCheck
from multitree.nic.signatures import ReportSignature

__all__ = ["ForwardingHeaderCheck"]


class ForwardingHeaderCheck(HeaderCheck):
    """A `HeaderCheck` that passes payload on at once, and says ahead what it is added to.

    Contributions need not wait here for the sibling before them: what they are added to comes
    flit by flit to the reducer. A message that is what it should be is reported, with the position
    of its first flit; one without payload once the siblings before it are in.

    Parameters
    ----------
    config : Config

    Members
    -------
    port : In(4)
        Number of this port.
    flits : In(stream)
        From the link's buffer.
    run : In(RunSignature)
        The collective that runs.
    lookup : Out(LookupSignature)
        Question to the flow memory.
    items : Out(stream)
        Flits for the reducer (`item_layout`).
    drained : In(1)
        The reducer is idle.
    empty : Out(ArrivalSignature)
        A message without payload is in.
    fault : Out(8)
        `FaultCode`, a strobe.
    wait : Out(WaitSignature)
        What is awaited in the middle of a message; its flow is that of a fault, too.
    jobs : Out(stream)
        Of each message, in order, the one before it at its addresses (`job_layout`): for a
        contribution what it is added to, `base` a memory address, for a GATHER what it replaces.
    report : Out(ReportSignature)
        A message has begun to come in.
    """

    @staticmethod
    def _more(config):
        return {
            "jobs": Out(stream.Signature(job_layout(config))),
            "report": Out(ReportSignature(beginning_layout(config).size)),
        }

    def _gate(self, m, message):
        """Flits may pass with the job of the message in hand, or behind it."""
        self._pending, self._accepted = Signal(), Signal()
        self._op, self._needs, self._before = Signal(), Signal(), Signal(4)
        passed, job = Signal(position_width(self.config)), self.jobs.payload
        accepted = self._accepted
        if self.config.wave_width:
            # Its address moves on in the next cycle, and may be refused then.
            accepted = Signal()
            m.d.sync += accepted.eq(self._accepted)
        m.d.sync += [
            passed.eq(passed + (self.items.valid & self.items.ready)),
            self.report.valid.eq((accepted & ~self.fault.any()) | self.empty.valid),
        ]
        with m.If(self.jobs.valid & self.jobs.ready):
            m.d.sync += self._pending.eq(0)
        with m.If(~self.run.running):
            m.d.sync += [passed.eq(0), self._pending.eq(0)]
        m.d.comb += [
            job.row.eq(UNKNOWN),
            job.flow.eq(message.flow),
            job.op.eq(self._op),
            job.base.eq(self.items.payload.address),
            job.size.eq(message.left),
            job.wave.eq(message.wave),
            job.needs.eq(self._needs),
            job.need_port.eq(self._before),
            self.report.op.eq(message.op),
            self.report.flow.eq(message.flow),
            self.report.count.eq(Cat(passed, Const(1, 1), message.wave)),
        ]
        return ~self._pending | self.jobs.ready

    def _expect(self, m, message, single, expectation):
        """A message is right: its job has to go; what has payload is reported."""
        children, last_child = self.lookup.entry.children, Signal(4, init=NO_PORT)
        m.d.comb += [self._accepted.eq(~single), last_child.eq(NO_PORT)]
        # Later assignments win: the list has no gaps (`FlowCheck`), so that the last child is left.
        for k in range(8):
            with m.If(children[k] != NO_PORT):
                m.d.comb += last_child.eq(children[k])
        # A message without payload writes nothing: it only waits for those before it.
        m.d.sync += [self._pending.eq(1), self._op.eq(message.op & ~single)]
        with m.If(message.op == OP_GATHER):
            m.d.sync += [self._needs.eq(last_child != NO_PORT), self._before.eq(last_child)]
        with m.Else():
            m.d.sync += [self._needs.eq(expectation.after), self._before.eq(expectation.sibling)]

    def _ask(self, m, after):
        """Offer the job of the message in hand."""
        m.d.comb += self.jobs.valid.eq(self._pending & self.run.running)

    def _await_sibling(self, m, gate):
        """Siblings are awaited where flits are added, not here."""
