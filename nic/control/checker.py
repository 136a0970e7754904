"""The checker: reads a whole table before it may run, and finds what is illegal."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.component import is_synthesised
from multitree.hw.crc import CRC32_INIT, crc32_step
from multitree.nic.driver.config import MODES, Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import NO_PORT, OP_GATHER, OP_NOP, UNKNOWN
from multitree.nic.layouts import (
    FLOW_ENTRY,
    SHARED_FLOW,
    lane_types,
    register_layout,
    register_view,
    row_layout,
)

__all__ = [
    "Checker",
    "FlowCheck",
    "RowCheck",
    "SettingsCheck",
    "SharedFlowCheck",
    "flow_check",
]


class RowCheck(wiring.Component):
    """Is a row legal for this interface? Combinational.

    Members
    -------
    row, previous_step : In(row_layout(config)), In(16)
        The row; step of the row before.
    num_flows : In(17)
        Flows in use.
    code : Out(8)
        `FaultCode`, or 0.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "row": In(row_layout(config)),
                "previous_step": In(16),
                "num_flows": In(17),
                "code": Out(8),
            }
        )

    def elaborate(self, platform):
        """A NOP needs neither port nor flow; everything else is checked in every row."""
        m = Module()
        row = self.row
        moves = (row.port < self.config.num_ports) & (row.flow < self.num_flows)
        legal = (row.op == OP_NOP) | ((row.op <= OP_GATHER) & moves)
        unused = row.reserved != 0
        if self.config.shared:
            unused |= (row.unused != 0) | (row.vc_class >= self.config.num_classes)
        # Steps must not fall: the step counter and freedom from deadlock rest on the order of rows.
        with m.If(~legal | unused | (row.step < self.previous_step)):
            m.d.comb += self.code.eq(FaultCode.ROW_ILLEGAL)
        with m.Elif((row.stage >> self.config.wave_width) != 0):
            m.d.comb += self.code.eq(FaultCode.ITERATIONS)
        return m


class FlowCheck(wiring.Component):
    """Is a flow's entry legal, and how many messages of it come in? Combinational.

    Members
    -------
    entry : In(FLOW_ENTRY)
    window_flits : In(address_width)
        Length of the buffer in flits: no entry may reach beyond it.
    code : Out(8)
        `FaultCode`, or 0.
    num_arrivals : Out(4)
        Children and parent.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "entry": In(FLOW_ENTRY),
                "window_flits": In(config.address_width),
                "code": Out(8),
                "num_arrivals": Out(4),
            }
        )

    def elaborate(self, platform):
        """Ports exist or are none, the chunk lies in the window, no single wave has a stride."""
        m = Module()
        entry = self.entry
        children = [entry.children[k] for k in range(8)]
        ports = [*children, entry.parent]
        present = Cat(port != NO_PORT for port in ports)
        wrong = Cat((port != NO_PORT) & (port >= self.config.num_ports) for port in ports)
        # A child waits for the one before it: it would wait for ever for none or for itself.
        gap = Cat(present[k + 1] & ~present[k] for k in range(7))
        pairs = [(a, b) for k, a in enumerate(children) for b in children[k + 1 :]]
        twice = Cat((a == b) & (a != NO_PORT) for a, b in pairs)
        # The sum has 33 bits: a chunk cannot wrap around into the window. Where there are more
        # waves, those behind the first are the memory guard's.
        outside = (entry.base + entry.size) > self.window_flits
        unused = entry.reserved != 0
        if self.config.wave_width:
            # What an address does not hold would be left out.
            unused |= (entry.stride >> self.config.address_width) != 0
        else:
            unused |= entry.stride != 0
        m.d.comb += self.num_arrivals.eq(sum(bit for bit in present))
        with m.If(wrong.any() | gap.any() | twice.any() | outside | unused):
            m.d.comb += self.code.eq(FaultCode.FLOW_ILLEGAL)
        return m


class SharedFlowCheck(wiring.Component):
    """Is a flow's entry legal on shared links, and how many messages come in? Combinational.

    Members
    -------
    entry : In(FLOW_ENTRY)
        The entry, to be read as `SHARED_FLOW`.
    window_flits : In(address_width)
        Length of buffer and slots in flits: no chunk may reach beyond it.
    code, num_arrivals : Out(8)
        As of `FlowCheck`.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "entry": In(FLOW_ENTRY),
                "window_flits": In(config.address_width),
                "code": Out(8),
                "num_arrivals": Out(8),
            }
        )

    def elaborate(self, platform):
        """Children must be as many as there is room for, chunk and slots begin in the window."""
        # Whether every slot lies in the window is not checked here: no access outside it is made,
        # whatever an entry says (`MemoryGuard`).
        m = Module()
        entry = data.View(SHARED_FLOW, self.entry.as_value())
        outside = (entry.base + entry.size) > self.window_flits
        outside |= entry.staging > self.window_flits
        too_many = entry.num_children > self.config.max_children
        m.d.comb += self.num_arrivals.eq(entry.num_children + entry.parent)
        with m.If(outside | too_many | (entry.reserved != 0) | (entry.stride != 0)):
            m.d.comb += self.code.eq(FaultCode.FLOW_ILLEGAL)
        return m


def flow_check(config: Config) -> "FlowCheck | SharedFlowCheck":
    return SharedFlowCheck(config) if config.shared else FlowCheck(config)


class SettingsCheck(wiring.Component):
    """Can the interface do what the registers say? Known a cycle later.

    Registers have 32 bits and the interface uses fewer of them: what it would leave out must be 0,
    or it would run something else than what was written.

    Members
    -------
    mode, window_base, window_flits, iterations : In(32)
        The registers.
    committed_flits, swap : In(32), In(1)
        The length of the buffer that the table was checked for; from the next cycle on, that is
        `window_flits`.
    legal : Out(1)
        The type of the elements was built, and the buffer lay in the memory's address range and
        had the length that the table was checked for.
    """

    def __init__(self, config: Config):
        self.config = config
        names = ("mode", "window_base", "window_flits", "committed_flits", "iterations")
        super().__init__({**{name: In(32) for name in names}, "swap": In(1), "legal": Out(1)})

    def elaborate(self, platform):
        m = Module()
        end = 1 << self.config.address_width
        mode, header_only = register_view("MODE", self.mode), register_layout("MODE")["header_only"]
        built = Cat(mode.dtype == kind.value for kind in lane_types(self.config)).any()
        known = built & (self.mode[header_only.offset :] == 0)
        if self.config.wave_width:
            # Steps of a periodic table begin anew with every run.
            known &= ~(mode.lockstep & self.iterations.any())
        if self.config.shared:
            # Only whole messages: what has begun must never wait, and has one head with a route.
            above = header_only.offset + header_only.width
            whole = Cat(mode.cut_through, mode.packets) == 0
            known = built & (self.mode[above:] == 0) & whole
        for name in MODES:
            if name not in self.config.modes:
                known &= ~mode[name]
        # A length of all addresses does not fit `address_width` bits: it would be used as 0.
        inside = (self.window_flits < end) & (self.window_base + self.window_flits <= end)
        fits, checked = Signal(), Signal()
        m.d.sync += fits.eq(known & inside)
        m.d.sync += checked.eq((self.window_flits == self.committed_flits) | self.swap)
        m.d.comb += self.legal.eq(fits & checked)
        return m


class Checker(wiring.Component):
    """Reads all rows, then all flows of the shadow bank, checks each, and the CRC of them all.

    The CRC-32 (as `zlib.crc32`) is over the words in use, least significant byte first: rows in
    order, then flows. The first row or flow that is illegal or not as it was written ends the
    check, a wrong CRC does at its end; the messages that will come in are counted meanwhile.
    Three cycles and one per word: five or seven per row, eight per flow. What was found stays
    until the next check.

    Members
    -------
    start : In(1)
        Begin.
    num_rows, num_flows, window_flits, crc : In
        Rows and flows in use; length of the buffer, which no flow may reach beyond; the CRC that
        the host expects. All stable while busy.
    row_address, flow_address : Out(16)
        Row and flow to read.
    row, entry, row_intact, entry_intact : In
        The row and the flow at the address two cycles before; they are as they were written.
    busy : Out(1)
        The check is not over.
    num_arrivals, last_stage : Out(20), Out(wave_width)
        Messages that come in, of one wave; the highest stage of a row.
    code : Out(8)
    index, of_flow : Out(16), Out(1)
        Row or flow of the fault, unknown for a wrong CRC; it is a flow.
    """

    def __init__(self, config: Config):
        self.config = config
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
        of_flow = flow_check(self.config)
        wrong, taken, arrivals = Signal(8), Signal(32), Signal(len(of_flow.num_arrivals))
        last_word, previous_step = Signal(3), Signal(16)
        # What was found of a word is used a cycle later.
        found, summed, summing = Signal(8), Signal(32), Signal()
        m.d.sync += [summed.eq(taken), summing.eq(0)]
        after = crc32_step(state, summed, sums=m if is_synthesised(platform) else None)
        with m.If(summing):
            m.d.sync += state.eq(after)
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
            # JUDGE and READ came after the last word, so that the CRC includes it.
            with m.State("COMPARE"):
                with m.If(~state != self.crc):
                    m.d.sync += [self.code.eq(FaultCode.TABLE_CRC)]
                    m.d.sync += [at.eq(UNKNOWN), self.of_flow.eq(0)]
                m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        return m

    def _choose(self, m, word, count, too_many, taken, last_word):
        """What differs between rows and flows: how many, their words, and which is the last."""
        num_words = row_layout(self.config).size // 32
        words_width = (num_words - 1).bit_length()
        with m.If(self.of_flow):
            m.d.comb += [
                count.eq(self.num_flows),
                # Known before the first read: `at` never leaves the memory.
                too_many.eq(Mux(count > self.config.num_flows, FaultCode.FLOW_ILLEGAL, 0)),
                taken.eq(self.entry.as_value().word_select(word, 32)),
                last_word.eq(FLOW_ENTRY.size // 32 - 1),
            ]
        with m.Else():
            m.d.comb += [
                count.eq(self.num_rows),
                too_many.eq(Mux(count > self.config.table_depth, FaultCode.ROW_ILLEGAL, 0)),
                taken.eq(self.row.as_value().word_select(word[:words_width], 32)),
                last_word.eq(num_words - 1),
            ]

    def _judge(self, m, of_flow, wrong, arrivals, previous_step):
        """Hold what was read against check bits and rules, in each cycle in which it is used."""
        m.submodules.row_check = row_check = RowCheck(self.config)
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
        # The later assignment wins: a word that flipped is named so, whatever rule it breaks.
        with m.If(~Mux(self.of_flow, self.entry_intact, self.row_intact)):
            m.d.comb += wrong.eq(FaultCode.TABLE_PARITY)
