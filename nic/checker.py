"""The checker: reads a whole table before it may be run, and judges it."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.crc import CRC32_INIT, crc32_step
from multitree.nic.checks import RowCheck, flow_check
from multitree.nic.config import Config
from multitree.nic.faults import FaultCode
from multitree.nic.layouts import FLOW_ENTRY, UNKNOWN, row_layout

__all__ = ["Checker"]


class Checker(wiring.Component):
    """Reads all rows, then all flows of the shadow bank, checks each, and the CRC of them all.

    The CRC-32 (as `zlib.crc32`) is over the words in use, least significant byte first: rows in
    order, then flows. The first row or flow that is illegal or not as it was written ends the
    check, a wrong CRC does at its end; the messages that will come in are counted beside it.
    Three cycles and one per word: five or seven per row, eight per flow. What was found stays
    until the next check.

    Parameters
    ----------
    config : Config

    Members
    -------
    start : In(1)
        Begin.
    num_rows, num_flows : In(32)
        Rows and flows in use; with `window_flits` and `crc` stable while busy.
    window_flits : In(address_width)
        Length of the buffer, which no flow may reach beyond.
    crc : In(32)
        The CRC that the host expects.
    row_address, flow_address : Out(16)
        Row and flow to read.
    row : In(row_layout(config))
        The row at the address two cycles before.
    entry : In(FLOW_ENTRY)
        The flow at the address two cycles before.
    row_intact, entry_intact : In(1)
        They are as they were written.
    busy : Out(1)
        The check is not over.
    num_arrivals : Out(20)
        Messages that come in, of one wave.
    last_stage : Out(wave_width)
        The highest stage of a row.
    code : Out(8)
        `FaultCode`, or 0.
    index : Out(16)
        Row or flow of the fault; unknown for a wrong CRC.
    of_flow : Out(1)
        It is a flow.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "start": In(1),
                "num_rows": In(32),
                "num_flows": In(32),
                "window_flits": In(config.address_width),
                "crc": In(32),
                "row_address": Out(16),
                "flow_address": Out(16),
                "row": In(row_layout(config)),
                "entry": In(FLOW_ENTRY),
                "row_intact": In(1),
                "entry_intact": In(1),
                "busy": Out(1),
                "num_arrivals": Out(20),
                "last_stage": Out(config.wave_width),
                "code": Out(8),
                "index": Out(16),
                "of_flow": Out(1),
            }
        )

    def elaborate(self, platform):
        """One state machine, rows then flows: READ one, WAIT, TEST its words, JUDGE; COMPARE."""
        m = Module()
        at, word, state = Signal(17), Signal(3), Signal(32)
        count, too_many = Signal(32), Signal(8)
        of_flow = flow_check(self._config)
        wrong, taken, arrivals = Signal(8), Signal(32), Signal(len(of_flow.num_arrivals))
        last_word, previous_step = Signal(3), Signal(16)
        # What was found of a word is used a cycle later.
        found, summed, summing = Signal(8), Signal(32), Signal()
        m.d.sync += [summed.eq(taken), summing.eq(0)]
        with m.If(summing):
            m.d.sync += state.eq(crc32_step(state, summed))
        self._choose(m, word, count, too_many, taken, last_word)
        self._judge(m, of_flow, wrong, arrivals, previous_step)
        m.d.comb += [self.row_address.eq(at), self.flow_address.eq(at), self.index.eq(at)]
        with m.FSM() as fsm:
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += [at.eq(0), word.eq(0), self.of_flow.eq(0), previous_step.eq(0)]
                m.d.sync += [state.eq(CRC32_INIT), self.num_arrivals.eq(0), self.code.eq(0)]
                m.d.sync += self.last_stage.eq(0)
                m.next = "READ"
            with m.State("READ"):
                m.next = "WAIT"
                with m.If(too_many.any()):
                    m.d.sync += self.code.eq(too_many)
                    m.next = "IDLE"
                with m.Elif((at == count) & ~self.of_flow):
                    m.d.sync += [at.eq(0), self.of_flow.eq(1)]
                    m.next = "READ"
                with m.Elif(at == count):
                    m.next = "COMPARE"
            with m.State("WAIT"):
                m.d.sync += found.eq(0)
                m.next = "TEST"
            with m.State("TEST"):
                m.d.sync += [summing.eq(1), word.eq(word + 1)]
                with m.If(wrong.any()):
                    m.d.sync += found.eq(wrong)
                with m.If(word == last_word):
                    m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += [word.eq(0), previous_step.eq(self.row.step)]
                with m.If(found.any()):
                    m.d.sync += self.code.eq(found)
                    m.next = "IDLE"
                with m.Else():
                    m.d.sync += at.eq(at + 1)
                    m.d.sync += self.num_arrivals.eq(self.num_arrivals + arrivals)
                    with m.If(~self.of_flow & (self.row.stage > self.last_stage)):
                        m.d.sync += self.last_stage.eq(self.row.stage)
                    m.next = "READ"
            with m.State("COMPARE"):
                with m.If(~state != self.crc):
                    m.d.sync += [self.code.eq(FaultCode.TABLE_CRC)]
                    m.d.sync += [at.eq(UNKNOWN), self.of_flow.eq(0)]
                m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        return m

    def _choose(self, m, word, count, too_many, taken, last_word):
        """What differs between rows and flows: how many, their words, and which is the last."""
        num_words = row_layout(self._config).size // 32
        words_width = (num_words - 1).bit_length()
        with m.If(self.of_flow):
            m.d.comb += [
                count.eq(self.num_flows),
                too_many.eq(Mux(count > self._config.num_flows, FaultCode.FLOW_ILLEGAL, 0)),
                taken.eq(self.entry.as_value().word_select(word, 32)),
                last_word.eq(FLOW_ENTRY.size // 32 - 1),
            ]
        with m.Else():
            m.d.comb += [
                count.eq(self.num_rows),
                too_many.eq(Mux(count > self._config.table_depth, FaultCode.ROW_ILLEGAL, 0)),
                taken.eq(self.row.as_value().word_select(word[:words_width], 32)),
                last_word.eq(num_words - 1),
            ]

    def _judge(self, m, of_flow, wrong, arrivals, previous_step):
        """Hold what was read against check bits and rules, in each cycle in which it is used."""
        m.submodules.row_check = row_check = RowCheck(self._config)
        m.submodules.flow_check = of_flow
        m.d.comb += [
            row_check.row.eq(self.row),
            row_check.previous_step.eq(previous_step),
            row_check.num_flows.eq(self.num_flows),
            of_flow.entry.eq(self.entry),
            of_flow.window_flits.eq(self.window_flits),
            wrong.eq(Mux(self.of_flow, of_flow.code, row_check.code)),
            arrivals.eq(Mux(self.of_flow, of_flow.num_arrivals, 0)),
        ]
        with m.If(~Mux(self.of_flow, self.entry_intact, self.row_intact)):
            m.d.comb += wrong.eq(FaultCode.TABLE_PARITY)
