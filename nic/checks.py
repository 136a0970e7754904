"""What a table must satisfy in hardware: legal rows, and flows inside the window."""

from amaranth import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.config import Config
from multitree.nic.faults import FaultCode
from multitree.nic.layouts import FLOW_ENTRY, NO_PORT, ROW

__all__ = ["FlowCheck", "RowCheck"]

_OP_GATHER = 1
_OP_NOP = 2


class RowCheck(wiring.Component):
    """Is a row legal for this interface? Combinational.

    Members
    -------
    row : In(ROW)
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
            {"row": In(ROW), "previous_step": In(16), "num_flows": In(17), "code": Out(8)}
        )

    def elaborate(self, platform):
        """A NOP needs neither port nor flow; everything else is checked in every row."""
        m = Module()
        row = self.row
        moves = (row.port < self._config.num_ports) & (row.flow < self.num_flows)
        legal = (row.op == _OP_NOP) | ((row.op <= _OP_GATHER) & moves)
        with m.If(~legal | (row.reserved != 0) | (row.step < self.previous_step)):
            m.d.comb += self.code.eq(FaultCode.ROW_ILLEGAL)
        with m.Elif(row.stage != 0):
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
        """Ports must exist or be none, the chunk lie in the window, no wave have a stride."""
        m = Module()
        entry = self.entry
        ports = [entry.children[k] for k in range(8)] + [entry.parent]
        present = Cat(port != NO_PORT for port in ports)
        wrong = Cat((port != NO_PORT) & (port >= self._config.num_ports) for port in ports)
        outside = (entry.base + entry.size) > self.window_flits
        m.d.comb += self.num_arrivals.eq(sum(bit for bit in present))
        with m.If(wrong.any() | outside | (entry.reserved != 0) | (entry.stride != 0)):
            m.d.comb += self.code.eq(FaultCode.FLOW_ILLEGAL)
        return m
