"""What hardware must find satisfied: legal rows, flows in the window, settings."""

from amaranth import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.config import Config
from multitree.nic.faults import FaultCode
from multitree.nic.layouts import FLOW_ENTRY, NO_PORT, SHARED_FLOW, row_layout

__all__ = ["FlowCheck", "RowCheck", "SettingsCheck", "SharedFlowCheck", "flow_check"]

_OP_GATHER = 1
_OP_NOP = 2


class RowCheck(wiring.Component):
    """Is a row legal for this interface? Combinational.

    Members
    -------
    row : In(row_layout(config))
        The row.
    previous_step : In(16)
        Step of the row before.
    num_flows : In(17)
        Flows in use.
    code : Out(8)
        `FaultCode`, or 0.
    """

    def __init__(self, config: Config):
        self._config = config
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
        moves = (row.port < self._config.num_ports) & (row.flow < self.num_flows)
        legal = (row.op == _OP_NOP) | ((row.op <= _OP_GATHER) & moves)
        unused = row.reserved != 0
        if self._config.shared:
            unused |= (row.unused != 0) | (row.vc_class >= self._config.num_classes)
        with m.If(~legal | unused | (row.step < self.previous_step)):
            m.d.comb += self.code.eq(FaultCode.ROW_ILLEGAL)
        with m.Elif((row.stage >> self._config.wave_width) != 0):
            m.d.comb += self.code.eq(FaultCode.ITERATIONS)
        return m


class FlowCheck(wiring.Component):
    """Is a flow's entry legal, and how many messages of it come in? Combinational.

    Members
    -------
    entry : In(FLOW_ENTRY)
        The entry.
    window_flits : In(address_width)
        Length of the buffer in flits: no entry may reach beyond it.
    code : Out(8)
        `FaultCode`, or 0.
    num_arrivals : Out(4)
        Children and parent.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "entry": In(FLOW_ENTRY),
                "window_flits": In(config.address_width),
                "code": Out(8),
                "num_arrivals": Out(4),
            }
        )

    def elaborate(self, platform):
        """Ports must exist or be none, the chunk lie in the window, no single wave have a stride.

        Where there are more waves, those behind the first are the memory guard's.
        """
        m = Module()
        entry = self.entry
        children = [entry.children[k] for k in range(8)]
        ports = [*children, entry.parent]
        present = Cat(port != NO_PORT for port in ports)
        wrong = Cat((port != NO_PORT) & (port >= self._config.num_ports) for port in ports)
        # A child waits for the one before it: it would wait for ever for none or for itself.
        gap = Cat(present[k + 1] & ~present[k] for k in range(7))
        pairs = [(a, b) for k, a in enumerate(children) for b in children[k + 1 :]]
        twice = Cat((a == b) & (a != NO_PORT) for a, b in pairs)
        outside = (entry.base + entry.size) > self.window_flits
        unused = entry.reserved != 0
        if self._config.wave_width:
            # What an address does not hold would be left out.
            unused |= (entry.stride >> self._config.address_width) != 0
        else:
            unused |= entry.stride != 0
        m.d.comb += self.num_arrivals.eq(sum(bit for bit in present))
        with m.If(wrong.any() | gap.any() | twice.any() | outside | unused):
            m.d.comb += self.code.eq(FaultCode.FLOW_ILLEGAL)
        return m


class SharedFlowCheck(wiring.Component):
    """Is a flow's entry legal on shared links, and how many messages come in? Combinational.

    Whether every slot lies in the window is not checked here: no access outside it is made,
    whatever an entry says (`MemoryGuard`).

    Members
    -------
    entry : In(FLOW_ENTRY)
        The entry, to be read as `SHARED_FLOW`.
    window_flits : In(address_width)
        Length of buffer and slots in flits: no chunk may reach beyond it.
    code : Out(8)
        `FaultCode`, or 0.
    num_arrivals : Out(8)
        Children and parent.
    """

    def __init__(self, config: Config):
        self._config = config
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
        m = Module()
        entry = data.View(SHARED_FLOW, self.entry.as_value())
        outside = (entry.base + entry.size) > self.window_flits
        outside |= entry.staging > self.window_flits
        too_many = entry.num_children > self._config.max_children
        m.d.comb += self.num_arrivals.eq(entry.num_children + entry.parent)
        with m.If(outside | too_many | (entry.reserved != 0) | (entry.stride != 0)):
            m.d.comb += self.code.eq(FaultCode.FLOW_ILLEGAL)
        return m


def flow_check(config: Config) -> "FlowCheck | SharedFlowCheck":
    """The check of this interface's flows."""
    return SharedFlowCheck(config) if config.shared else FlowCheck(config)


class SettingsCheck(wiring.Component):
    """Can the interface do what the registers say? Combinational.

    Registers have 32 bits and the interface uses fewer of them: what it would leave out must be 0,
    or it would run something else than what was written.

    Members
    -------
    mode, window_base, window_flits, iterations : In(32)
        The registers.
    committed_flits : In(32)
        The length of the buffer that the table was checked for.
    legal : Out(1)
        The type of the elements is built, and the buffer lies in the memory's address range and
        has the length that the table was checked for.
    """

    def __init__(self, config: Config):
        self._config = config
        names = ("mode", "window_base", "window_flits", "committed_flits", "iterations")
        super().__init__({**{name: In(32) for name in names}, "legal": Out(1)})

    def elaborate(self, platform):
        """Sizes of tables were held against their depths by the checker."""
        m = Module()
        end = 1 << self._config.address_width
        built = Cat(self.mode[:2] == kind.value for kind in self._config.lane_types).any()
        known = built & (self.mode[6:] == 0)
        if self._config.wave_width:
            # Steps of a periodic table begin anew with every run.
            known &= ~(self.mode[2] & self.iterations.any())
        if self._config.shared:
            # Only whole messages: what has begun must never wait, and has one head with a route.
            known = built & (self.mode[8:] == 0) & (self.mode[3:5] == 0)
        inside = (self.window_flits < end) & (self.window_base + self.window_flits <= end)
        checked = self.window_flits == self.committed_flits
        m.d.comb += self.legal.eq(known & inside & checked)
        return m
