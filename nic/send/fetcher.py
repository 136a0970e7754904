"""The fetcher: hands a committed table's rows to the ports, one after the other."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.control.checker import RowCheck, flow_check
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import OP_NOP
from multitree.nic.layouts import job_layout, row_layout
from multitree.nic.send.rows import StepCounter, WaveOffset, job_of, shared_job_of
from multitree.nic.signatures import LookupSignature, RunSignature

__all__ = ["Fetcher"]


class _Hand:
    """The row in hand: its index, and the job it became."""

    def __init__(self, config):
        # 17 bits: it gets as far as the number of rows, at most 65 536.
        self.index = Signal(17)
        self.run = Signal(config.run_width)
        self.wave = Signal(config.wave_width)
        self.job = Signal(job_layout(config))
        self.row = Signal(row_layout(config))
        self.code = Signal(8)
        self.nop = Signal()
        self.taken = Signal()


class Fetcher(wiring.Component):
    """Reads the table in order, checks every row and its flow once more, and queues jobs.

    On `start` the rows are read, each once, or in a periodic table once per run, and each is given
    to its port, for the wave that it is at in this run, with the dependency that its flow's entry
    implies: a REDUCE and a root's GATHER wait for the flow's last child,
    another GATHER for the flow's parent. A row or flow that is illegal, or not as it was
    written when it is taken over, ends in a fault with its index, and no job is made of it. Six
    cycles per row, seven where tables are repeated, four where a row has no wave in a run.

    Members
    -------
    run : In(RunSignature)
    start : In(1)
        Begin.
    address, row, row_intact : Out(16), In(row_layout(config)), In(1)
        Row to read; that row, two cycles later; it is as it was written.
    lookup : Out(LookupSignature)
    jobs : Out(stream), one per port
        Checked rows (`job_layout`).
    busy : Out(1)
        Not all rows are queued.
    step : Out(16)
        The step reached.
    fault, fault_index, fault_of_flow : Out(8), Out(16), Out(1)
        `FaultCode`, a strobe; row or flow of the fault; it is a flow.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "run": In(RunSignature(config)),
                "start": In(1),
                "address": Out(16),
                "row": In(row_layout(config)),
                "row_intact": In(1),
                "lookup": Out(LookupSignature()),
                "jobs": Out(stream.Signature(job_layout(config))).array(config.num_ports),
                "busy": Out(1),
                "step": Out(16),
                "fault": Out(8),
                "fault_index": Out(16),
                "fault_of_flow": Out(1),
            }
        )

    def elaborate(self, platform):
        """One state machine: READ_ROW, ASK_ROW for its flow, CAPTURE that, PUSH the job."""
        m = Module()
        m.submodules.row_check = row_check = RowCheck(self.config)
        m.submodules.flow_check = flows = flow_check(self.config)
        m.submodules.steps = steps = StepCounter(self.config)
        hand = _Hand(self.config)
        self._connect(m, row_check, flows, steps, hand)
        # What was found wrong is reported a cycle after row or flow were taken over, before the
        # job; `faulted` follows an own fault only a cycle later.
        stop = self.fault.any() | self.run.faulted
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += [hand.index.eq(0), row_check.previous_step.eq(0), hand.run.eq(0)]
                with m.If(self.start):
                    m.next = "READ_ROW"
            self._take_rows(m, row_check, flows, steps, hand, stop)
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        return m

    def _take_rows(self, m, row_check, flows, steps, hand, stop):
        """States that read a row, look its flow up, and push the job to its port."""
        run = self.run
        is_nop = (self.row.op == OP_NOP) | self._has_no_wave(m, hand)
        flipped = FaultCode.TABLE_PARITY
        with m.State("READ_ROW"):
            m.next = "AWAIT_ROW"
            with m.If(hand.index == run.num_rows):
                m.next = "IDLE"
                # The later `m.next` wins: it begins the next run.
                self._repeat(m, row_check, hand)
        # The row comes two cycles after its address, and stays as long as `index` does.
        with m.State("AWAIT_ROW"):
            m.next = "ASK_ROW"
        with m.State("ASK_ROW"):
            # Asked for a row without a flow, too: the arbiter must not wait for what the row is.
            m.d.comb += [self.lookup.valid.eq(1), self.lookup.flow.eq(self.row.flow)]
            m.d.sync += [hand.row.eq(self.row), hand.nop.eq(is_nop)]
            m.d.sync += hand.code.eq(Mux(self.row_intact, row_check.code, flipped))
            with m.If(run.faulted):
                m.next = "IDLE"
            with m.Elif(is_nop):
                m.next = "PUSH"
            with m.Elif(self.lookup.granted):
                m.next = "AWAIT_FLOW"
        # The entry comes two cycles after the grant.
        with m.State("AWAIT_FLOW"):
            m.d.comb += self.fault.eq(hand.code)
            m.next = "CAPTURE"
            with m.If(stop):
                m.next = "IDLE"
        with m.State("CAPTURE"):
            m.d.sync += hand.code.eq(Mux(self.lookup.intact, flows.code, flipped))
            m.d.sync += hand.job.eq(self._job(m, hand))
            m.next = "MOVE" if self.config.wave_width else "PUSH"
        self._move(m, hand)
        self._push(m, row_check, steps, hand, stop)

    def _push(self, m, row_check, steps, hand, stop):
        """The state in which a job goes to its port, once its step begins, or to a fault."""
        with m.State("PUSH"):
            m.d.comb += [
                self.fault.eq(hand.code),
                self.fault_of_flow.eq(~hand.nop),
                self.fault_index.eq(Mux(hand.nop, hand.index, hand.row.flow)),
                steps.row_valid.eq(~hand.code.any()),
            ]
            with m.If(stop):
                m.next = "IDLE"
            with m.Elif(steps.go & (hand.nop | hand.taken)):
                m.d.sync += [
                    hand.index.eq(hand.index + 1),
                    row_check.previous_step.eq(hand.row.step),
                ]
                m.next = "READ_ROW"

    def _move(self, m, hand):
        """The state in which a job's chunk moves on to that of its wave, if that is an address."""
        if not self.config.wave_width:
            return
        m.submodules.offset = offset = WaveOffset(self.config)
        m.d.comb += [offset.wave.eq(hand.wave), offset.stride.eq(self.lookup.entry.stride)]
        m.d.comb += offset.base.eq(hand.job.base)
        with m.State("MOVE"):
            # The product is of the stride in CAPTURE, where alone the entry is valid. Where the sum
            # is an address, the memory guard holds it against the window.
            m.d.sync += hand.job.base.eq(offset.address)
            with m.If(offset.beyond & ~hand.code.any()):
                m.d.sync += hand.code.eq(FaultCode.OUT_OF_WINDOW)
            m.next = "PUSH"

    def _has_no_wave(self, m, hand):
        """Whether the row that was read has none in this run; if it has, it is noted."""
        if not self.config.wave_width:
            return 0
        wave = Signal(self.config.run_width)
        m.d.comb += wave.eq(hand.run - self.row.stage)
        m.d.sync += hand.wave.eq(wave)
        # Rows of a later stage than there were runs, too: less than none is beyond all waves.
        return wave > self.run.last_wave

    def _repeat(self, m, row_check, hand):
        """Begin another run of the table behind its last row, unless that was the last one."""
        if not self.config.wave_width:
            return
        with m.If(hand.run != self.run.last_run):
            m.d.sync += [hand.run.eq(hand.run + 1), hand.index.eq(0)]
            m.d.sync += row_check.previous_step.eq(0)
            m.next = "READ_ROW"

    def _connect(self, m, row_check, flows, steps, hand):
        m.d.comb += [
            self.address.eq(hand.index),
            self.fault_index.eq(hand.index),
            row_check.row.eq(self.row),
            row_check.num_flows.eq(self.run.num_flows),
            flows.entry.eq(self.lookup.entry),
            flows.window_flits.eq(self.run.window_flits),
            steps.start.eq(self.start),
            steps.row_step.eq(hand.row.step),
            steps.nop.eq(hand.nop),
            self.step.eq(steps.step),
        ]
        wiring.connect(m, wiring.flipped(self.run), steps.run)
        for number, jobs in enumerate(self.jobs):
            mine = hand.row.port == number
            m.d.comb += [
                jobs.payload.eq(hand.job),
                jobs.valid.eq(steps.row_valid & steps.go & ~hand.nop & mine & ~self.run.faulted),
            ]
            with m.If(mine):
                m.d.comb += hand.taken.eq(jobs.ready)

    def _job(self, m, hand):
        given = {"index": hand.index, "row": hand.row, "entry": self.lookup.entry}
        if self.config.shared:
            return shared_job_of(m, self.config, **given, header_only=self.run.header_only)
        return job_of(m, self.config, **given, wave=hand.wave)
