"""A fetcher that hands out a row per cycle, for interfaces that forward."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked
from multitree.hw.codes import FETCHED_ROWS
from multitree.hw.stream import QuickFifo
from multitree.nic.control.checker import RowCheck, flow_check
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import OP_NOP
from multitree.nic.layouts import job_layout, row_layout
from multitree.nic.send.rows import StepCounter, WaveOffset, job_of
from multitree.nic.signatures import LookupSignature, RunSignature

__all__ = ["PipelinedFetcher"]


class PipelinedFetcher(wiring.Component):
    """Does what `Fetcher` does, a row per cycle, on private links.

    Rows are read one behind the other, while there is room for what becomes of them: a queue of
    jobs, each with what is wrong with its row or flow. What is wrong is reported when it is its
    turn. Its flow memory must have no other reader. Latency from `start` to the first job: 7
    cycles, 8 where tables are repeated.

    Members
    -------
    run, start, address, row, row_intact, jobs, busy, step : In, Out
    fault, fault_index, fault_of_flow : Out
        As of `Fetcher`.
    lookup : Out(LookupSignature)
        Granted at once.
    state_error : Out(num_ports)
        Strobe per port: bits of a job for it have flipped; of one that goes nowhere, at port 0.
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
                "state_error": Out(config.num_ports),
            }
        )

    def elaborate(self, platform):
        """Rows on their way: asked for, read, with their flow's entry, queued, handed out."""
        m = Module()
        config = self.config
        shape = data.StructLayout(
            {"job": job_layout(config), "port": 4, "step": 16, "nop": 1, "code": 8, "of_flow": 1}
        )
        m.submodules.queue = queue = Checked(QuickFifo, shape=shape, depth=FETCHED_ROWS)
        gone, room = Signal(), Signal(range(FETCHED_ROWS + 1), init=FETCHED_ROWS)
        asks, index, number = self._ask(m, room)
        m.d.sync += room.eq(room - asks + gone)
        came, row = self._delay(m, asks, Cat(index, number), 2)
        found, read = self._read(m, came, row[:17], row[17:])
        self._check(m, queue.i, found, read)
        self._hand_out(m, queue.o, gone)
        m.d.comb += self.address.eq(index)
        self._blame(m, queue)
        return m

    def _delay(self, m, valid, value, cycles):
        for _ in range(cycles):
            was_valid, was = Signal(), Signal(len(value), reset_less=True)
            m.d.sync += [was_valid.eq(valid), was.eq(value)]
            valid, value = was_valid, was
        return valid, value

    def _ask(self, m, room):
        """Ask for all rows, once per run: whether one is asked for, its index and its run."""
        run = self.run
        # 17 bits: it gets as far as the number of rows, at most 65 536.
        index, number = Signal(17), Signal(self.config.run_width)
        asks, ended = Signal(), Signal()
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += [index.eq(0), number.eq(0)]
                with m.If(self.start):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += [ended.eq(index == run.num_rows), asks.eq((room != 0) & ~ended)]
                with m.If(asks):
                    m.d.sync += index.eq(index + 1)
                    if self.config.wave_width:
                        with m.If((index + 1 == run.num_rows) & (number != self.run.last_run)):
                            m.d.sync += [index.eq(0), number.eq(number + 1)]
                # `faulted` follows an own fault only a cycle later.
                with m.If(run.faulted | self.fault.any() | (ended & (room == FETCHED_ROWS))):
                    m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        return asks, index, number

    def _read(self, m, came, index, number):
        """Check the row that is read in this cycle and ask for its entry: both, 2 cycles later."""
        row, nop, wave = self.row, Signal(), Signal(self.config.run_width)
        m.submodules.row_check = check = RowCheck(self.config)
        previous, code = Signal(16), Signal(8)
        with m.If(came):
            m.d.sync += previous.eq(row.step)
        m.d.comb += [
            check.row.eq(row),
            check.num_flows.eq(self.run.num_flows),
            check.previous_step.eq(Mux(index == 0, 0, previous)),
            code.eq(Mux(self.row_intact, check.code, FaultCode.TABLE_PARITY)),
            nop.eq(row.op == OP_NOP),
            self.lookup.flow.eq(row.flow),
            self.lookup.valid.eq(came & ~nop),
        ]
        if self.config.wave_width:
            m.d.comb += wave.eq(number - row.stage)
            # Rows of a later stage than there were runs, too: less than none is beyond all waves.
            with m.If(wave > self.run.last_wave):
                m.d.comb += nop.eq(1)
        shape = data.StructLayout(
            {"row": self.row.shape(), "index": 16, "wave": len(wave), "nop": 1, "code": 8}
        )
        read = Cat(row.as_value(), index[:16], wave, nop, code)
        found, read = self._delay(m, came, read, 2)
        return found, data.View(shape, read)

    def _check(self, m, queued, found, read):
        """The job of a row whose entry is there, and what is wrong with it, to the queue."""
        config, entry = self.config, self.lookup.entry
        m.submodules.flow_check = check = flow_check(config)
        m.d.comb += [check.entry.eq(entry), check.window_flits.eq(self.run.window_flits)]
        of_flow, wrong = ~read.code.any() & ~read.nop, Signal(8)
        m.d.comb += wrong.eq(Mux(self.lookup.intact, check.code, FaultCode.TABLE_PARITY))
        wave = read.wave[: config.wave_width]
        job = job_of(m, config, index=read.index, row=read.row, entry=entry, wave=wave)
        item = Signal(queued.payload.shape())
        m.d.sync += [
            queued.valid.eq(found),
            item.job.eq(job),
            item.port.eq(read.row.port),
            item.step.eq(read.row.step),
            item.nop.eq(read.nop),
            item.of_flow.eq(of_flow),
            item.code.eq(Mux(of_flow, wrong, read.code)),
        ]
        m.d.comb += queued.payload.eq(item)
        if config.wave_width:
            m.submodules.offset = offset = WaveOffset(config)
            # The product is ready with the job.
            m.d.comb += [offset.wave.eq(wave), offset.stride.eq(entry.stride)]
            m.d.comb += [offset.base.eq(item.job.base), queued.payload.job.base.eq(offset.address)]
            with m.If(offset.beyond & item.of_flow & ~item.code.any()):
                m.d.comb += queued.payload.code.eq(FaultCode.OUT_OF_WINDOW)

    def _hand_out(self, m, queued, gone):
        """The row in front goes to its port once its step begins, or to a fault."""
        row, taken = queued.payload, Signal()
        m.submodules.steps = steps = StepCounter(self.config)
        wiring.connect(m, wiring.flipped(self.run), steps.run)
        runs = queued.valid & self.busy & ~self.run.faulted
        m.d.comb += [
            steps.start.eq(self.start),
            steps.row_step.eq(row.step),
            steps.nop.eq(row.nop),
            steps.row_valid.eq(runs & ~row.code.any()),
            self.step.eq(steps.step),
            self.fault.eq(Mux(runs, row.code, 0)),
            self.fault_of_flow.eq(row.of_flow),
            self.fault_index.eq(Mux(row.of_flow, row.job.flow, row.job.row)),
            gone.eq(steps.row_valid & steps.go & (row.nop | taken)),
            queued.ready.eq(gone),
        ]
        for number, jobs in enumerate(self.jobs):
            mine = row.port == number
            m.d.comb += jobs.payload.eq(row.job)
            m.d.comb += jobs.valid.eq(steps.row_valid & steps.go & ~row.nop & mine)
            with m.If(mine):
                m.d.comb += taken.eq(jobs.ready)

    def _blame(self, m, queue):
        port = Signal(4)
        m.d.sync += port.eq(queue.o.payload.port)
        known = Mux(port < self.config.num_ports, port, 0)
        m.d.comb += self.state_error.eq(Mux(queue.state_error, 1 << known, 0))
